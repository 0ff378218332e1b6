import { counted, h } from "../common/dom.ts";
import { type Bar, chart } from "./chart.ts";
import { compareCharts } from "./compare.ts";
import { coverageNumbers } from "./coverage.ts";
import { lintFindings } from "./lint.ts";
import { type Model, SEVERITIES, type Severity, tally } from "./model.ts";
import { link } from "./route.ts";

/** Findings as bars; a name leads to those behind it. */
export function bars<T extends { severity: Severity }>(
  findings: T[],
  caption: string,
  key: string,
  of: (finding: T) => string,
  view = "violations",
  nobody = "cluster-scoped objects",
): HTMLElement {
  const found = new Map<string, Bar>();
  for (const [name] of tally(findings, of)) {
    const href = name ? link(view, { [key]: name }) : undefined;
    found.set(name, { label: name || nobody, href, parts: {} });
  }
  for (const finding of findings) {
    const parts = found.get(of(finding))?.parts;
    if (parts) parts[finding.severity] = (parts[finding.severity] ?? 0) + 1;
  }
  return chart(caption, view === "violations" ? "Violations" : "Findings", [...found.values()]);
}

/** The first view: the verdict, the numbers, and where the findings are. */
export function overview(model: Model): HTMLElement {
  const { findings, page } = model;
  const parts: HTMLElement[] = [
    h("h2", { class: model.isGood ? "verdict good" : "verdict bad" }, model.verdict),
    h(
      "dl",
      { class: "numbers" },
      model.numbers.map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value.toLocaleString("en"))),
      ),
      coverageNumbers(page).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
  ];
  if (findings.length > 0) {
    const severities = new Map(findings.map(({ action, severity }) => [action, severity]));
    const rank = ([effect]: [string, number]) => SEVERITIES.indexOf(severities.get(effect) ?? "deny");
    // The worst first.
    const effects = tally(findings, (one) => one.action).sort((one, other) => rank(one) - rank(other));
    const legend = effects.map(([effect, many]) =>
      h(
        "li",
        {},
        h(
          "a",
          { href: link("violations", { effect }), class: `effect ${severities.get(effect)}` },
          effect || "deny",
        ),
        ` ${many.toLocaleString("en")}`,
      ),
    );
    parts.push(
      h("ul", { class: "legend" }, legend),
      h("div", { class: "cards" }, [
        bars(findings, "By policy", "policy", (finding) => finding.policy),
        bars(findings, "By namespace", "namespace", (finding) => finding.namespace),
        findings.some(({ owner }) => owner !== "") &&
          bars(findings, "By owner", "owner", (finding) => finding.owner, "violations", "no owner"),
      ]),
    );
  }
  const { found } = page.command === "lint" ? lintFindings(page) : { found: [] };
  if (found.length > 0) {
    parts.push(
      h("div", { class: "cards" }, [
        bars(found, "By finding", "code", (one) => one.code, "findings"),
        bars(found, "By policy", "q", (one) => one.policy, "findings"),
      ]),
    );
  }
  if (page.command === "compare") parts.push(...compareCharts(page));
  const quiet = model.policies.filter((policy) => policy.kind !== "ConstraintTemplate").length;
  if (quiet > 0) {
    parts.push(
      h(
        "p",
        {},
        h("a", { href: link("policies") }, counted(quiet, "policy", "policies")),
        page.command === "lint" ? " read." : " evaluated.",
      ),
    );
  }
  const remarks = [...model.errors, ...page.omitted];
  if (remarks.length > 0) {
    parts.push(
      h("h3", {}, "Remarks"),
      h(
        "ul",
        {},
        remarks.map((text) => h("li", {}, text)),
      ),
    );
  }
  return h("div", {}, parts);
}
