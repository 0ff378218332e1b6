// Documents that are lists of remarks or of figures: `migrate` and `bench`.
import { copyButton, counted, h } from "../common/dom.ts";
import { histogram } from "./distribution.ts";
import { title } from "./model.ts";
import type { Json, Page } from "./page.ts";

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});
const shown = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** Rows that the list of what is fixed has at most. */
const FIXED = 2000;

/** What a baseline has and the audit does not. */
export function fixedView(fixed: { policy: string; object: string; message: string }[]): HTMLElement {
  const rows = fixed.slice(0, FIXED).map((it) => [it.object, it.message, it.policy]);
  const heading = "Violations of the baseline that are no longer there";
  const rest = fixed.length - rows.length;
  return h(
    "div",
    {},
    h("h2", {}, "Fixed"),
    table(heading, ["Object", "Message", "Policy"], rows),
    rest > 0 && h("p", { class: "faint" }, `The JSON document has ${rest.toLocaleString("en")} more.`),
  );
}

/** A table; nothing without rows. */
export function table(
  heading: string,
  columns: string[],
  rows: (string | HTMLElement)[][],
): HTMLElement | undefined {
  if (rows.length === 0) return undefined;
  const head = h(
    "tr",
    {},
    columns.map((column) => h("th", { scope: "col" }, column)),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      row.map((cell) => h("td", {}, cell)),
    ),
  );
  return h(
    "section",
    {},
    h("h3", {}, `${heading} (${rows.length})`),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": heading },
      h("table", { class: "facts-table" }, h("thead", {}, head), h("tbody", {}, body)),
    ),
  );
}

/** Whether an installation needs attention, as the exit code of the command says. */
export function migrateVerdict(page: Page): {
  isGood: boolean;
  verdict: string;
  numbers: [string, number][];
} {
  const document = object(page.document);
  const count = (member: string) => list(document[member]).length;
  const weaker = [...list(document.lost), ...list(document.unset)].filter((it) => it.weakens === true).length;
  const flags = list(document.flags).filter((flag) => flag.fate === "refused").length;
  const faults = [
    count("refused") > 0 && `${counted(count("refused"), "object")} will not run`,
    flags > 0 && `${counted(flags, "flag")} will be refused`,
    weaker > 0 && `${counted(weaker, "setting")} will enforce less`,
  ].filter((fault) => fault !== false);
  const differ = count("differs");
  const rest =
    differ > 0 ? `, ${differ === 1 ? "1 object decides" : `${differ} objects decide`} differently` : "";
  const numbers: [string, number][] = [
    ["run unchanged", count("unchanged")],
    ["decide differently", differ],
    ["do not run", count("refused")],
    ["warnings", count("warnings")],
  ];
  const verdict = faults.length > 0 ? faults.join(", ") : `Everything runs${rest}`;
  return { isGood: faults.length === 0, verdict, numbers };
}

/** Everything `migrate --check` found. */
export function migration(page: Page): HTMLElement {
  const document = object(page.document);
  const remarks = (member: string) =>
    list(document[member]).map((it) => [
      title(object(it.object)),
      shown(it.field ?? ""),
      shown(it.sentence),
      shown(it.place ?? ""),
    ]);
  const columns = ["Object", "Field", "What", "Place"];
  const differs = list(document.differs).map((it) => [
    title(object(it.object)),
    shown(it.decision),
    shown(it.sentence),
    shown(it.place),
  ]);
  const kept = list(document.carried).map((it) => [
    shown(it.value),
    shown(it.is),
    shown(it.default),
    shown(it.place ?? ""),
  ]);
  const flags = list(document.flags).map((it) => {
    const { object: of, flag, fate, ...rest } = it;
    return [shown(flag), title(object(of)), shown(fate), Object.values(rest).map(shown).join("; ")];
  });
  return h("div", {}, [
    h("h2", {}, "Installation"),
    table("Objects that do not run", columns, remarks("refused")),
    table("Settings that cannot be kept", columns, remarks("lost")),
    table("Objects that decide differently", ["Object", "Row of compatibility.md", "What", "Place"], differs),
    table("Warnings", columns, remarks("warnings")),
    table("Settings that values of the chart keep", ["Value", "Is", "Default", "Place"], kept),
    table(
      "Values that would change the installation",
      ["Value", "Is", "Would be"],
      list(document.unset).map((it) => [shown(it.value), shown(it.is), shown(it.given)]),
    ),
    table("Flags", ["Flag", "Deployment", "Result", "Note"], flags),
    table(
      "Objects that run unchanged",
      ["Object", "Place"],
      list(document.unchanged).map((it) => [title(it), shown(it.place ?? "")]),
    ),
  ]);
}

/** The steps of the switch, in order. */
export function steps(page: Page): HTMLElement {
  const items = list(object(page.document).steps).map((step) => {
    const commands = Array.isArray(step.commands) ? step.commands.map(shown) : [];
    const all = commands.map((command) =>
      h(
        "div",
        { class: "command" },
        h("code", {}, command),
        copyButton(() => command),
      ),
    );
    return h("li", {}, h("b", {}, shown(step.title)), h("p", {}, shown(step.why ?? "")), all);
  });
  const none = h(
    "p",
    { class: "faint" },
    "There is nothing to do: the objects have no installation to replace.",
  );
  return h("div", {}, h("h2", {}, "Steps"), items.length > 0 ? h("ol", { class: "steps" }, items) : none);
}

const UNITS: Record<string, number> = { h: 3.6e12, m: 6e10, s: 1e9, ms: 1e6, µs: 1e3, us: 1e3, ns: 1 };

/** A duration as Go prints it (`1m2.5s`, `31.2µs`) in nanoseconds. */
export function nanoseconds(duration: string): number {
  let sum = 0;
  for (const [, number, unit] of duration.matchAll(/([\d.]+)(h|ms|µs|us|ns|m|s)/g)) {
    sum += Number(number) * (UNITS[unit ?? ""] ?? 0);
  }
  return sum;
}

/** The parts of a distribution, in order. */
const LATENCIES = ["min", "p50", "mean", "p95", "p99", "max"];

/** The share of the longest duration, in percent; logarithmic from the shortest one where the scale asks for it. */
export function share(duration: number, all: number[], isLogarithmic: boolean): number {
  const most = Math.max(1, ...all);
  if (!isLogarithmic) return (100 * duration) / most;
  const least = Math.max(1, Math.min(...all));
  if (most <= least) return 100;
  return 5 + (95 * Math.log(Math.max(duration, least) / least)) / Math.log(most / least);
}

/** Durations by name as bars. */
function durations(caption: string, entries: [string, string][], isLogarithmic = false): HTMLElement {
  const all = entries.map(([, duration]) => nanoseconds(duration));
  const rows = entries.map(([name, duration]) => {
    const piece = h("span", { class: "plain" });
    piece.style.width = `${share(nanoseconds(duration), all, isLogarithmic)}%`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", { class: "count" }, duration),
      h("td", { class: "bars" }, h("div", { class: "bar", "aria-hidden": "true" }, piece)),
    );
  });
  return h(
    "section",
    { class: "card" },
    h("table", { class: "chart" }, h("caption", {}, caption), h("tbody", {}, rows)),
  );
}

/** The figures of each engine: the distribution of latencies, the parts of the start, and the dearest constraints. */
export function figures(page: Page): HTMLElement {
  const parts = list(page.document).flatMap((it) => {
    const entries = (member: string) =>
      Object.entries(object(it[member])).map(([name, value]): [string, string] => [name, shown(value)]);
    const known = new Map(entries("latencies"));
    const latencies = LATENCIES.flatMap((name): [string, string][] => {
      const duration = known.get(name);
      return duration === undefined ? [] : [[name, duration]];
    });
    const costs = list(it.policyCosts).map((cost): [string, string] => [
      `${shown(cost.kind)} ${shown(cost.name)}`,
      shown(cost.time),
    ]);
    const bins = list(it.distribution).map((bin) => ({
      from: Number(bin.from ?? 0),
      to: Number(bin.to ?? 0),
      reviews: Number(bin.reviews ?? 0),
    }));
    const percentiles = ["p50", "p95", "p99"].flatMap((name): [string, number][] => {
      const duration = known.get(name);
      return duration === undefined ? [] : [[name, nanoseconds(duration)]];
    });
    const facts = [
      "templateCount",
      "constraintCount",
      "objectCount",
      "iterations",
      "concurrency",
      "violationCount",
    ];
    const skipped = [...list(it.skippedTemplates), ...list(it.skippedConstraints)].map(shown);
    return [
      h(
        "h3",
        {},
        `${shown(it.engine)}: ${Number(it.reviewsPerSecond ?? 0).toLocaleString("en", { maximumFractionDigits: 0 })} reviews per second`,
      ),
      h(
        "dl",
        { class: "numbers" },
        facts.map((fact) =>
          h(
            "div",
            {},
            h("dt", {}, fact.replace("Count", "s")),
            h("dd", {}, Number(it[fact] ?? 0).toLocaleString("en")),
          ),
        ),
      ),
      bins.length > 0
        ? histogram("How long reviews took (logarithmic), and how many", bins, percentiles)
        : undefined,
      h("div", { class: "cards" }, [
        durations("Latency of a review (logarithmic)", latencies, true),
        durations("Start", entries("setupBreakdown")),
        costs.length > 0 && durations("Time by constraint", costs),
      ]),
      skipped.length > 0 ? h("p", { class: "faint" }, `Skipped: ${skipped.join(", ")}`) : undefined,
    ];
  });
  return h("div", {}, h("h2", {}, "Figures"), parts);
}

/** The engines that were measured. */
export function benchVerdict(page: Page): { isGood: boolean; verdict: string; numbers: [string, number][] } {
  const numbers = list(page.document).map((it): [string, number] => [
    `${shown(it.engine)} reviews per second`,
    Math.round(Number(it.reviewsPerSecond ?? 0)),
  ]);
  return { isGood: true, verdict: "Measured", numbers };
}
