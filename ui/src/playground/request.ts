import { FILES, REFERENCES, type State, type TextName } from "./state.ts";

// What the engine takes and gives: `Request` and `Answer` of the crate modgate-playground.

export interface File {
  name: string;
  text: string;
}

export interface Mark {
  file: string;
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
  level: "error" | "warning" | "note";
  code: string;
  message: string;
  help: string;
}

/** A place of a policy that the objects reach or not. */
export interface Reach {
  file: string;
  line: number;
  column: number;
  kind: "expression" | "branch" | "match" | "message";
  reached: boolean;
  /** Whether it held, and whether it did not, where it has these two results. */
  held: boolean | null;
  failed: boolean | null;
}

export interface Answer {
  error?: string;
  review: string;
  explain: string;
  marks: Mark[];
  notes: string[];
  subjects: { title: string; before: string; after: string; marks: Mark[] }[];
  request: File | null;
  policies?: number;
  /** In the answer to a request for it, which has nothing else. */
  coverage?: Reach[];
}

const file = (state: State, name: TextName): File => ({ name: FILES[name], text: state[name] });

const isGiven = (text: string) => text.trim() !== "";

/** The files of `--objects`. */
export function references(state: State): File[] {
  return REFERENCES.filter((name) => isGiven(state[name])).map((name) => file(state, name));
}

/** Whether only an AdmissionReview can say what is entered. */
export const needsReview = (state: State) => isGiven(state.oldObject) || isGiven(state.user);

/** The request of a state: for what a command prints, or for what it reaches of the policies. */
export function request(state: State, coverage = false): object {
  return {
    coverage,
    policies: [file(state, "policies")],
    objects: [file(state, "object")],
    references: references(state),
    operation: state.operation,
    defaulting: state.defaulting,
    all: state.all,
    attributes: needsReview(state)
      ? { oldObject: file(state, "oldObject"), userInfo: file(state, "user") }
      : null,
    now: Date.now(),
    seed: crypto.getRandomValues(new Uint32Array(1))[0],
  };
}
