// How durations are distributed: a histogram on a logarithmic scale, with the percentiles as lines.
import { h, svg } from "../common/dom.ts";

/** The values from `from` to less than `to` nanoseconds. */
export interface Bin {
  from: number;
  to: number;
  reviews: number;
}

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [640, 210, 8, 24, 34];

/** A duration in the unit that fits it, in three digits: `31.2 µs`. */
export function short(nanoseconds: number): string {
  const units: [string, number][] = [
    ["s", 1e9],
    ["ms", 1e6],
    ["µs", 1e3],
  ];
  const [unit, size] = units.find(([, size]) => nanoseconds >= size) ?? ["ns", 1];
  return `${Number((nanoseconds / size).toPrecision(3))} ${unit}`;
}

/** 1, 2 and 5 times each power of ten between two numbers; of more than eight, the powers alone. */
export function ticks(least: number, most: number): number[] {
  const all: number[] = [];
  for (let power = 1; power <= most; power *= 10) all.push(power, 2 * power, 5 * power);
  const within = all.filter((tick) => tick >= least && tick <= most);
  return within.length <= 8 ? within : within.filter((tick) => Number.isInteger(Math.log10(tick)));
}

function text(attributes: Record<string, string | number>, content: string): SVGElement {
  const element = svg("text", attributes);
  element.textContent = content;
  return element;
}

/** The histogram of durations; `percentiles` by name, in nanoseconds. */
export function histogram(caption: string, bins: Bin[], percentiles: [string, number][]): HTMLElement {
  const least = Math.max(1, bins[0]?.from ?? 1);
  const most = Math.max(least * 1.01, bins.at(-1)?.to ?? 1);
  const highest = Math.max(1, ...bins.map((bin) => bin.reviews));
  const x = (nanoseconds: number) =>
    LEFT +
    ((WIDTH - 2 * LEFT) * Math.log(Math.min(Math.max(nanoseconds, least), most) / least)) /
      Math.log(most / least);
  const height = (reviews: number) => ((HEIGHT - TOP - BOTTOM) * reviews) / highest;
  const bars = bins
    .filter((bin) => bin.reviews > 0)
    .map((bin) => {
      const size = Math.max(1, height(bin.reviews));
      const title = svg("title");
      title.textContent = `${short(bin.from)} to ${short(bin.to)}: ${bin.reviews.toLocaleString("en")}`;
      const width = Math.max(1.5, x(bin.to) - x(bin.from) - 1);
      const place = { x: x(bin.from).toFixed(1), y: (HEIGHT - BOTTOM - size).toFixed(1) };
      return svg("rect", { ...place, width: width.toFixed(1), height: size.toFixed(1) }, title);
    });
  // Names that would stand on each other take turns.
  const lines = percentiles.flatMap(([name, nanoseconds], at) => {
    const place = x(nanoseconds);
    const anchor = place > WIDTH - 60 ? "end" : "start";
    const top = 11 * (at % 3) + 10;
    return [
      svg("line", { x1: place, x2: place, y1: top - 8, y2: HEIGHT - BOTTOM, class: "percentile" }),
      text({ x: place + (anchor === "end" ? -3 : 3), y: top, "text-anchor": anchor }, name),
    ];
  });
  const marks = ticks(least, most).flatMap((tick) => [
    svg("line", { x1: x(tick), x2: x(tick), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
    text({ x: x(tick), y: HEIGHT - 6, "text-anchor": "middle" }, short(tick)),
  ]);
  const all = bins.reduce((sum, bin) => sum + bin.reviews, 0);
  const words = percentiles.map(([name, nanoseconds]) => `${name} ${short(nanoseconds)}`).join(", ");
  const label = `${all.toLocaleString("en")} reviews from ${short(least)} to ${short(most)}: ${words}`;
  const axis = svg("line", { x1: LEFT, x2: WIDTH - LEFT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM });
  return h(
    "figure",
    { class: "card histogram" },
    h("figcaption", {}, caption),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
      ...bars,
      axis,
      ...marks,
      ...lines,
    ),
  );
}
