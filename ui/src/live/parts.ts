// Small parts of the views.
import { type Child, h, svg } from "../common/dom.ts";

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** `3 min`, `2 h`: a span of seconds in its largest unit. */
export function span(seconds: number): string {
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return "0 s";
}

/** A time of the server, as `3 min ago` or `in 12 d`, with the whole of it as a title. */
export function time(text: string, now = Date.now()): HTMLElement {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return h("span", {}, text);
  const seconds = (now - at) / 1000;
  const words = seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  return h("time", { datetime: text, title: text }, words);
}

/** Seconds for people: `1.2 ms`. */
export function duration(seconds: number): string {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  return seconds < 1 ? `${(seconds * 1e3).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;
}

/** A word in the colour of its meaning. */
export function badge(kind: "good" | "deny" | "warn" | "dryrun", text: string): HTMLElement {
  return h("span", { class: `effect ${kind}` }, text);
}

/** Facts by name; those without a value are left out. */
export function facts(entries: [string, Child | Child[]][]): HTMLElement {
  const isThere = (value: Child | Child[]) =>
    Array.isArray(value) ? value.length > 0 : value !== "" && value !== undefined && value !== null;
  return h(
    "dl",
    { class: "facts" },
    entries
      .filter(([, value]) => isThere(value))
      .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** A table; a sentence where there are no rows. */
export function table(caption: string, columns: string[], rows: Child[][], none: string): HTMLElement {
  if (rows.length === 0) {
    return h("section", {}, h("h3", {}, caption), h("p", { class: "faint" }, none));
  }
  const head = columns.map((column) => h("th", { scope: "col" }, column));
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      row.map((cell, at) => (at === 0 ? h("th", { scope: "row", class: "plain" }, cell) : h("td", {}, cell))),
    ),
  );
  return h(
    "section",
    {},
    h("h3", {}, caption),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      h("table", { class: "facts-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
    ),
  );
}

const WIDTH = 120;
const HEIGHT = 28;

/** The points of a line through values, the last one at the right. */
export function points(values: number[], least: number, most: number): string {
  const range = most - least || 1;
  const step = values.length > 1 ? WIDTH / (values.length - 1) : 0;
  const at = (value: number) => HEIGHT - 2 - ((value - least) / range) * (HEIGHT - 4);
  return values.map((value, index) => `${(index * step).toFixed(1)},${at(value).toFixed(1)}`).join(" ");
}

/** A small line of values over time; `label` says it in words. */
export function trend(values: number[], label: string, [least, most]: [number, number]): SVGElement {
  const all = values.length === 1 ? [...values, ...values] : values;
  return svg(
    "svg",
    { class: "trend", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    svg("polyline", { points: points(all, least, most) }),
  );
}
