import type { Reach } from "./request.ts";

/** What the objects reach of a line. */
export interface Line {
  line: number;
  state: "all" | "some" | "none";
  /** In words. */
  text: string;
}

const NAMES: Record<Reach["kind"], string> = {
  expression: "expression",
  branch: "branch",
  match: "criterion",
  message: "message",
};

/** What is to be said of a place. */
function words(place: Reach): string {
  const name = NAMES[place.kind];
  if (!place.reached) return `${name}: not reached`;
  if (place.held && place.failed) return `${name}: held and did not hold`;
  if (place.held === null) return `${name}: reached`;
  return `${name}: ${place.held ? "held" : "did not hold"}`;
}

/** The lines that have places, in order. */
export function lines(places: Reach[]): Line[] {
  const byLine = new Map<number, Reach[]>();
  for (const place of places) byLine.set(place.line, [...(byLine.get(place.line) ?? []), place]);
  return [...byLine]
    .sort(([one], [other]) => one - other)
    .map(([line, all]) => {
      const reached = all.filter((place) => place.reached).length;
      const state = reached === all.length ? "all" : reached > 0 ? "some" : "none";
      return { line, state, text: [...new Set(all.map(words))].join("\n") };
    });
}

/** `12 of 15 places reached`; empty without places. */
export function summary(places: Reach[]): string {
  const reached = places.filter((place) => place.reached).length;
  return places.length === 0 ? "" : `${reached} of ${places.length} places reached`;
}
