import { counted, h } from "../common/dom.ts";
import { coverageNumbers } from "./coverage.ts";
import { lintFindings } from "./lint.ts";
import { type Model, SEVERITIES, type Severity, tally } from "./model.ts";
import { link } from "./route.ts";

/** Bars of one chart; the others are summed up. */
const BARS = 20;

/** A table whose numbers are bars, each in parts by severity; a name leads to the findings behind it. */
export function bars<T extends { severity: Severity }>(
  findings: T[],
  caption: string,
  key: string,
  of: (finding: T) => string,
  view = "violations",
  nobody = "cluster-scoped objects",
): HTMLElement {
  const counts = tally(findings, of);
  const most = counts[0]?.[1] ?? 1;
  const rows = counts.slice(0, BARS).map(([name, count]) => {
    const inside = findings.filter((finding) => of(finding) === name);
    const bar = h("div", { class: "bar", "aria-hidden": "true" });
    for (const severity of SEVERITIES) {
      const part = inside.filter((finding) => finding.severity === severity).length;
      if (part === 0) continue;
      const piece = h("span", { class: severity });
      piece.style.width = `${(100 * part) / most}%`;
      bar.append(piece);
    }
    const label = name || nobody;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name ? h("a", { href: link(view, { [key]: name }) }, label) : label),
      h("td", { class: "count" }, count.toLocaleString("en")),
      h("td", { class: "bars" }, bar),
    );
  });
  const rest = counts.slice(BARS);
  if (rest.length > 0) {
    const sum = rest.reduce((total, [, count]) => total + count, 0);
    const name = `${rest.length} more`;
    rows.push(
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", { class: "count" }, sum.toLocaleString("en")),
        h("td"),
      ),
    );
  }
  const head = h(
    "thead",
    { class: "hidden" },
    h(
      "tr",
      {},
      [caption, view === "violations" ? "Violations" : "Findings", "Share"].map((text) =>
        h("th", { scope: "col" }, text),
      ),
    ),
  );
  return h(
    "section",
    { class: "card" },
    h("table", { class: "chart" }, h("caption", {}, caption), head, h("tbody", {}, rows)),
  );
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
    const legend = SEVERITIES.map((severity) => {
      const count = findings.filter((finding) => finding.severity === severity).length;
      return (
        count > 0 &&
        h(
          "li",
          {},
          h("a", { href: link("violations", { severity }), class: `effect ${severity}` }, severity),
          ` ${count.toLocaleString("en")}`,
        )
      );
    });
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
