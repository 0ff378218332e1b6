import { diffLines } from "diff";
import { h } from "./dom.ts";

/** One row of a comparison: a line on the left, on the right, or on both sides. */
export interface Row {
  left?: string;
  right?: string;
  changed: boolean;
}

/** The rows that show two texts beside one another. */
export function rows(before: string, after: string): Row[] {
  const found: Row[] = [];
  let removed: string[] = [];
  const flush = (added: string[]) => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) {
      found.push({ left: removed[at], right: added[at], changed: true });
    }
    removed = [];
  };
  for (const part of diffLines(before, after)) {
    const lines = part.value.replace(/\n$/, "").split("\n");
    if (part.removed) {
      removed = lines;
    } else if (part.added) {
      flush(lines);
    } else {
      flush([]);
      found.push(...lines.map((line) => ({ left: line, right: line, changed: false })));
    }
  }
  flush([]);
  return found;
}

/** Equal lines that stay visible around a change. */
const CONTEXT = 3;

/** Two texts side by side; long equal parts are left out, unless the whole texts are wanted. */
export function sideBySide(
  before: string,
  after: string,
  titles: [string, string],
  { isWhole = false } = {},
): HTMLElement {
  const all = rows(before, after);
  const near = all.map(() => isWhole);
  all.forEach((row, index) => {
    if (!row.changed) return;
    for (let at = Math.max(0, index - CONTEXT); at <= Math.min(all.length - 1, index + CONTEXT); at++)
      near[at] = true;
  });
  const body = h("tbody");
  let left = 0;
  let right = 0;
  let hidden = 0;
  const skip = () => {
    if (hidden > 0) {
      const text = `${hidden} equal line${hidden === 1 ? "" : "s"}`;
      body.append(h("tr", { class: "skipped" }, h("td", { colspan: 4 }, text)));
    }
    hidden = 0;
  };
  all.forEach((row, index) => {
    if (row.left !== undefined) left += 1;
    if (row.right !== undefined) right += 1;
    if (!near[index]) {
      hidden += 1;
      return;
    }
    skip();
    const cell = (text: string | undefined, kind: string) =>
      h("td", { class: row.changed && text !== undefined ? kind : "" }, h("code", {}, text ?? ""));
    body.append(
      h(
        "tr",
        {},
        h("td", { class: "number" }, row.left === undefined ? "" : left),
        cell(row.left, "gone"),
        h("td", { class: "number" }, row.right === undefined ? "" : right),
        cell(row.right, "new"),
      ),
    );
  });
  skip();
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      titles.flatMap((title) => [h("th", { scope: "col", colspan: 2 }, title)]),
    ),
  );
  const label = `${titles[0]} and ${titles[1]}`;
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: "diff" }, head, body),
  );
}
