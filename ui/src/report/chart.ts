import { h } from "../common/dom.ts";
import { SEVERITIES, type Severity } from "./model.ts";

/** Bars of one chart; the others are summed up. */
const BARS = 20;

/** One bar of a chart, in parts by severity. */
export interface Bar {
  label: string;
  /** Where the label leads. */
  href?: string;
  parts: Partial<Record<Severity, number>>;
}

const count = ({ parts }: Bar): number => Object.values(parts).reduce((sum, part) => sum + part, 0);

/** A table whose numbers are bars, the longest first. */
export function chart(caption: string, unit: string, all: Bar[]): HTMLElement {
  const sorted = [...all].sort((one, other) => count(other) - count(one));
  const most = Math.max(1, ...sorted.slice(0, 1).map(count));
  const rows = sorted.slice(0, BARS).map((one) => {
    const bar = h("div", { class: "bar", "aria-hidden": "true" });
    for (const severity of SEVERITIES) {
      const part = one.parts[severity] ?? 0;
      if (part === 0) continue;
      const piece = h("span", { class: severity });
      piece.style.width = `${(100 * part) / most}%`;
      bar.append(piece);
    }
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, one.href ? h("a", { href: one.href }, one.label) : one.label),
      h("td", { class: "count" }, count(one).toLocaleString("en")),
      h("td", { class: "bars" }, bar),
    );
  });
  const rest = sorted.slice(BARS);
  if (rest.length > 0) {
    const sum = rest.reduce((total, one) => total + count(one), 0);
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
      [caption, unit, "Share"].map((text) => h("th", { scope: "col" }, text)),
    ),
  );
  return h(
    "section",
    { class: "card" },
    h("table", { class: "chart" }, h("caption", {}, caption), head, h("tbody", {}, rows)),
  );
}
