import { counted, h } from "../common/dom.ts";
import { source } from "../common/source.ts";
import { lintFindings } from "./lint.ts";
import { type Model, title } from "./model.ts";
import type { PolicyData } from "./page.ts";
import { link, type Route } from "./route.ts";
import { about, criteria } from "./words.ts";

/** Evaluations and time for people. */
export function cost(policy: PolicyData): string {
  const { evaluations, microseconds } = policy;
  if (!evaluations) return "not evaluated";
  const each = (microseconds ?? 0) / evaluations;
  const times = `${evaluations.toLocaleString("en")} time${evaluations === 1 ? "" : "s"}`;
  return `evaluated ${times}, ${each < 1000 ? `${each.toFixed(0)} µs` : `${(each / 1000).toFixed(1)} ms`} each`;
}

const isCode = (policy: PolicyData) => ["ConstraintTemplate", "ExpansionTemplate"].includes(policy.kind);

/** The template of a constraint. */
function templateOf(model: Model, policy: PolicyData): PolicyData | undefined {
  if (policy.group !== "constraints.gatekeeper.sh") return undefined;
  return model.policies.find(
    (one) => one.kind === "ConstraintTemplate" && one.name === policy.kind.toLowerCase(),
  );
}

/** Commands whose pages have what policies found and cost. */
const EVALUATING = ["audit", "review"];

/** The link to what a policy found, or what `lint` found about it. */
function hits(model: Model, policy: PolicyData): [number, string, string] {
  const name = title(policy);
  if (model.page.command === "lint") {
    const { found } = lintFindings(model.page);
    return [
      found.filter((one) => one.policy === name).length,
      "finding",
      link("findings", { q: name.toLowerCase() }),
    ];
  }
  const found = model.findings.filter((finding) => finding.policy === name).length;
  return [found, "violation", link("violations", { policy: name })];
}

function card(model: Model, policy: PolicyData, isOpen: boolean): HTMLElement {
  const name = title(policy);
  const [count, what, there] = hits(model, policy);
  const isEvaluated = EVALUATING.includes(model.page.command) && !isCode(policy);
  const words = about(policy);
  const template = templateOf(model, policy);
  const described = words.title || words.description ? words : template ? about(template) : words;
  const match = criteria(policy);
  const state = isEvaluated || count > 0 ? counted(count, what) : "";
  const summary = h("summary", {}, h("b", {}, name), " ", h("span", { class: "faint" }, state));
  const inner = [
    count > 0 && h("p", {}, h("a", { href: there }, counted(count, what))),
    described.title && h("p", {}, h("b", {}, described.title)),
    described.description && h("p", {}, described.description),
    h("p", { class: "faint" }, `${policy.origin}${isEvaluated ? ` · ${cost(policy)}` : ""}`),
    match.length > 0 &&
      h(
        "div",
        {},
        h("h4", {}, "Applies to"),
        h(
          "ul",
          {},
          match.map((each) => h("li", {}, each)),
        ),
      ),
    match.length === 0 && !isCode(policy) && h("p", {}, "Applies to every object."),
    source(policy.text, new Set(), `Source of ${name}`),
    template &&
      h(
        "p",
        {},
        "Its code: ",
        h("a", { href: link("policies", { open: title(template) }) }, title(template)),
      ),
  ];
  return h("details", { class: "card policy", open: isOpen, id: `policy ${name}` }, summary, ...inner);
}

/** The policies with their source, what they apply to, what they hit and what they cost. */
export function policies(model: Model, { settings }: Route): HTMLElement {
  const wanted = settings.get("open");
  const known = model.policies.map((policy) => [policy, hits(model, policy)[0]] as const);
  known.sort((a, b) => b[1] - a[1] || (title(a[0]) < title(b[0]) ? -1 : 1));
  const cards = known.map(([policy]) => card(model, policy, title(policy) === wanted));
  return h("div", {}, h("h2", {}, "Policies"), h("div", { class: "stack" }, cards));
}
