// The document of `compare`: what two sets of policies decide differently.
import { sideBySide } from "../common/diff.ts";
import { counted, h } from "../common/dom.ts";
import { source } from "../common/source.ts";
import { type Bar, chart } from "./chart.ts";
import { table } from "./lists.ts";
import { type Severity, title } from "./model.ts";
import type { Json, Page } from "./page.ts";
import { link } from "./route.ts";

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});
const shown = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

const CLASSES: Record<string, string> = {
  "allow-to-deny": "allow to deny",
  "deny-to-allow": "deny to allow",
  messages: "other messages",
  patches: "other patches",
};

const words = (name: unknown): string => CLASSES[shown(name)] ?? shown(name);

/** Groups of requests as rows of a table. */
const rows = (groups: unknown, key: string, nobody: string): string[][] =>
  list(groups).map((it) => [shown(it[key]) || nobody, words(it.class), shown(it.requests)]);

/** How a class is drawn: what is denied now, what is no longer denied, what is said or changed in another way. */
const SEVERITY: Record<string, Severity> = { "allow-to-deny": "deny", "deny-to-allow": "warn" };

/** How many requests two sets of policies decide differently. */
export function compareVerdict(page: Page): {
  isGood: boolean;
  verdict: string;
  numbers: [string, number][];
} {
  const document = object(page.document);
  const requests = Number(document.requests ?? 0);
  const differ = requests - Number(document.same ?? 0);
  const classes = Object.entries(object(document.differences)).map(([name, count]): [string, number] => [
    words(name),
    Number(count),
  ]);
  const verdict =
    differ === 0
      ? "All requests are decided alike"
      : `${differ} of ${counted(requests, "request")} are decided differently`;
  return { isGood: differ === 0, verdict, numbers: [["requests", requests], ...classes] };
}

/** Requests that differ, by policy and by namespace, as bars. */
export function compareCharts(page: Page): HTMLElement[] {
  const document = object(page.document);
  const bars = (member: string, key: string, nobody: string, isLinked: boolean): Bar[] => {
    const found = new Map<string, Bar>();
    for (const group of list(document[member])) {
      const name = shown(group[key]);
      const bar = found.get(name) ?? { label: name || nobody, parts: {} };
      if (isLinked) bar.href = link("differences", { policy: name });
      const severity = SEVERITY[shown(group.class)] ?? "dryrun";
      bar.parts[severity] = (bar.parts[severity] ?? 0) + Number(group.requests ?? 0);
      found.set(name, bar);
    }
    return [...found.values()];
  };
  const policies = bars("byPolicy", "policy", "(no policy)", true);
  if (policies.length === 0) return [];
  const legend = Object.entries(object(document.differences)).map(
    ([name, count]) =>
      Number(count) > 0 &&
      h("li", {}, h("span", { class: `effect ${SEVERITY[name] ?? "dryrun"}` }, words(name))),
  );
  return [
    h("ul", { class: "legend" }, legend),
    h("div", { class: "cards" }, [
      chart("By policy", "Requests", policies),
      chart("By namespace", "Requests", bars("byNamespace", "namespace", "cluster-scoped objects", false)),
    ]),
  ];
}

/** What policies say about an object, a line for each message and for each part of a patch. */
export function sides(texts: unknown): string {
  const all = Array.isArray(texts) ? texts.map(shown) : [];
  return all
    .map((text) => {
      if (!text.startsWith("patch: ")) return `${text}\n`;
      try {
        return `${JSON.stringify(JSON.parse(text.slice("patch: ".length)), null, 2)}\n`;
      } catch {
        return `${text}\n`;
      }
    })
    .join("");
}

/** What differs: by policy with the smallest object, by namespace, and what could not be replayed. */
export function differences(page: Page, settings = new URLSearchParams()): HTMLElement {
  const document = object(page.document);
  const wanted = settings.get("policy");
  const cards = list(document.byPolicy).map((group, at) => {
    const example = object(group.example);
    const name = shown(group.policy) || "(no policy)";
    const which = words(group.class);
    const text = page.subjects[at]?.text ?? "";
    const [before, after] = [sides(example.old), sides(example.new)];
    return h(
      "details",
      { class: "card policy", open: wanted === shown(group.policy) },
      h("summary", {}, h("b", {}, name), ` ${which}: ${counted(Number(group.requests ?? 0), "request")}`),
      h("p", {}, `Such as ${title(example)} (${shown(example.operation)}, ${shown(example.place)})`),
      before !== after &&
        sideBySide(before, after, [`old: ${shown(document.old)}`, `new: ${shown(document.new)}`], {
          isWhole: true,
        }),
      text !== "" && [h("h4", {}, "Object"), source(text, new Set(), `Object of ${name}`)],
    );
  });
  const answers = object(document.answers);
  const known = Number(answers.known ?? 0);
  const reasons = (member: string) =>
    list(document[member]).map((it) => [shown(it.reason), shown(it.events)]);
  return h("div", {}, [
    h("h2", {}, "Differences"),
    h("p", {}, `From ${shown(document.old)} to ${shown(document.new)}`),
    h("div", { class: "stack" }, cards),
    table(
      "By namespace",
      ["Namespace", "Difference", "Requests"],
      rows(document.byNamespace, "namespace", "(none)"),
    ),
    known > 0 &&
      h("p", {}, `${shown(document.old)} gives ${shown(answers.same)} of ${counted(known, "known answer")}.`),
    table(
      "Answered otherwise then",
      ["Policy", "Difference", "Requests"],
      rows(answers.byPolicy, "policy", "(no policy)"),
    ),
    table("Not replayed", ["Reason", "Events"], reasons("notReplayed")),
    table("Replayed in part", ["Reason", "Events"], reasons("replayedInPart")),
  ]);
}
