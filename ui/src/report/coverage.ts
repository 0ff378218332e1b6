// What the cases of suites reach of policies, and the changes of policies that no case notices: `verify --coverage` and
// `--mutants`.
import { h, visible } from "../common/dom.ts";
import { tokens } from "../common/source.ts";
import type { Json, Page } from "./page.ts";

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => Number(value ?? 0);

export type State = "covered" | "partly covered" | "not covered";

/** A line of a policy with what no case reached of it. */
export interface Line {
  line: number;
  text: string;
  state: State;
  missing: string[];
  /** How often the place was reached that was reached most. */
  reached: number;
}

/** The lines of a policy that have places, in order. */
export function lines(places: Json[]): Line[] {
  const found = new Map<number, { text: string; reached: number[]; missing: string[]; whole: number }>();
  for (const place of places) {
    const line = number(place.line);
    const it = found.get(line) ?? { text: text(place.text), reached: [], missing: [], whole: 0 };
    it.reached.push(number(place.reached));
    if (text(place.missing)) it.missing.push(text(place.missing));
    else it.whole += 1;
    found.set(line, it);
  }
  const state = (it: { reached: number[]; missing: string[]; whole: number }): State => {
    if (it.missing.length === 0) return "covered";
    return it.whole > 0 || it.reached.some((count) => count > 0) ? "partly covered" : "not covered";
  };
  return [...found]
    .sort(([one], [other]) => one - other)
    .map(([line, it]) => ({
      line,
      text: it.text,
      state: state(it),
      missing: [...new Set(it.missing)],
      reached: Math.max(...it.reached),
    }));
}

/** Whether a page has something for this view. */
export function hasCoverage(page: Page): boolean {
  const { coverage, mutants } = object(page.document);
  return coverage !== undefined || mutants !== undefined;
}

/** The figures of both, for the overview. */
export function coverageNumbers(page: Page): [string, string][] {
  const { coverage, mutants } = object(page.document);
  return [
    ...(coverage ? [["covered", `${number(object(coverage).percent)} %`] as [string, string]] : []),
    ...(mutants ? [["mutants noticed", `${number(object(mutants).percent)} %`] as [string, string]] : []),
  ];
}

function bar(percent: number): HTMLElement {
  const piece = h("span", { class: percent >= 100 ? "full" : "plain" });
  piece.style.width = `${Math.max(0, Math.min(100, percent))}%`;
  return h("div", { class: "bar", "aria-hidden": "true" }, piece);
}

const MARKS: Record<State, "yes" | "other" | "no"> = {
  covered: "yes",
  "partly covered": "other",
  "not covered": "no",
};

/** Code in the colours of a listing. */
function code(line: string): HTMLElement {
  const element = h("code", {});
  for (const token of tokens(line))
    element.append(token.kind ? h("span", { class: `t-${token.kind}` }, token.text) : visible(token.text));
  return element;
}

function listing(places: Json[], label: string): HTMLElement {
  const rows = lines(places).map((line) =>
    h(
      "tr",
      { class: line.state.replace(" ", "-") },
      h("td", { class: "number" }, line.line),
      h("td", { class: "times" }, line.reached > 0 ? `${line.reached.toLocaleString("en")} ×` : ""),
      h("td", {}, h("span", { class: `mark ${MARKS[line.state]}` }, line.state)),
      h(
        "td",
        {},
        code(line.text),
        line.missing.map((missing) => h("div", { class: "missing" }, missing)),
      ),
    ),
  );
  const head = ["Line", "Reached", "State", "Code"].map((column) => h("th", { scope: "col" }, column));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: "coverage" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}

const COLUMNS: [string, string][] = [
  ["Expressions", "expressions"],
  ["Branches", "branches"],
  ["Match", "matchClauses"],
  ["Messages", "messages"],
];

function ratio(value: unknown): string {
  const { covered, total } = object(value);
  return number(total) === 0 ? "-" : `${number(covered)}/${number(total)}`;
}

const named = (policy: Json) => `${text(policy.kind)} ${text(policy.name)}`;

/** A row for each policy, with its share as a bar. */
function summary(caption: string, columns: string[], rows: [string, number, string[]][]): HTMLElement {
  const head = ["Policy", "Share", "", ...columns].map((column) => h("th", { scope: "col" }, column));
  const body = rows.map(([name, percent, cells]) =>
    h(
      "tr",
      {},
      h("td", {}, name),
      h("td", { class: "count" }, `${percent.toFixed(1)} %`),
      h("td", { class: "bars" }, bar(percent)),
      cells.map((cell) => h("td", {}, cell)),
    ),
  );
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: "facts-table shares" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}

function coverage(document: Json): HTMLElement[] {
  const policies = list(document.policies);
  const row = (name: string, it: Json): [string, number, string[]] => [
    name,
    number(it.percent),
    COLUMNS.map(([, member]) => ratio(it[member])),
  ];
  const rows = [...policies.map((policy) => row(named(policy), policy)), row("all", document)];
  const cards = policies.map((policy) => {
    const percent = number(policy.percent);
    return h(
      "details",
      { class: "card policy", open: percent < 100 },
      h("summary", {}, h("b", {}, named(policy)), h("span", { class: "faint" }, ` ${percent.toFixed(1)} %`)),
      h("p", { class: "faint" }, text(policy.file)),
      listing(list(policy.places), `Lines of ${named(policy)}`),
    );
  });
  return [
    h("h2", {}, "Coverage"),
    h("p", {}, "What the cases of the suites reach. Lines without anything that counts are left out."),
    summary(
      "Coverage by policy",
      COLUMNS.map(([label]) => label),
      rows,
    ),
    h("div", { class: "stack apart" }, cards),
  ];
}

function mutants(document: Json): HTMLElement[] {
  const policies = list(document.policies);
  const row = (name: string, it: Json): [string, number, string[]] => [
    name,
    number(it.percent),
    [`${number(it.killed)}/${number(it.total)}`, String(number(it.notCovered)), String(number(it.notTried))],
  ];
  const rows = [...policies.map((policy) => row(named(policy), policy)), row("all", document)];
  const cards = policies
    .filter((policy) => list(policy.survivors).length > 0)
    .map((policy) => {
      const survivors = list(policy.survivors).map((it) =>
        h(
          "tr",
          {},
          h("td", {}, `${number(it.line)}:${number(it.column)}`),
          h("td", {}, text(it.change), it.covered === false && h("div", { class: "faint" }, "not covered")),
          h("td", { class: "gone" }, code(text(it.before))),
          h("td", { class: "new" }, text(it.after) ? code(text(it.after)) : h("i", {}, "removed")),
        ),
      );
      const head = ["Place", "Change", "Before", "After"].map((column) => h("th", { scope: "col" }, column));
      return h(
        "details",
        { class: "card policy", open: true },
        h(
          "summary",
          {},
          h("b", {}, named(policy)),
          h("span", { class: "faint" }, ` ${survivors.length} not noticed`),
        ),
        h("p", { class: "faint" }, text(policy.file)),
        h(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": `Changes of ${named(policy)}` },
          h(
            "table",
            { class: "facts-table diff" },
            h("thead", {}, h("tr", {}, head)),
            h("tbody", {}, survivors),
          ),
        ),
      );
    });
  return [
    h("h2", {}, "Mutants"),
    h(
      "p",
      {},
      "Small changes of the policies. A change that no case notices shows what the suites do not test.",
    ),
    summary("Mutants by policy", ["Noticed", "Not covered", "Not tried"], rows),
    h("div", { class: "stack apart" }, cards),
  ];
}

/** The view of both, as far as the run measured them. */
export function coverageView(page: Page): HTMLElement {
  const document = object(page.document);
  return h("div", {}, [
    ...(document.coverage ? coverage(object(document.coverage)) : []),
    ...(document.mutants ? mutants(object(document.mutants)) : []),
  ]);
}
