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

export interface Answer {
  error?: string;
  review: string;
  explain: string;
  marks: Mark[];
  notes: string[];
  subjects: { title: string; before: string; after: string; marks: Mark[] }[];
  request: File | null;
  policies?: number;
}

const file = (state: State, name: TextName): File => ({ name: FILES[name], text: state[name] });

const isGiven = (text: string) => text.trim() !== "";

/** The files of `--objects`. */
export function references(state: State): File[] {
  return REFERENCES.filter((name) => isGiven(state[name])).map((name) => file(state, name));
}

/** Whether only an AdmissionReview can say what is entered. */
export const needsReview = (state: State) => isGiven(state.oldObject) || isGiven(state.user);

/** The request of a state. */
export function request(state: State): object {
  return {
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
