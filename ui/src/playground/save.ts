import { type Answer, type File, needsReview, references } from "./request.ts";
import { FILES, type State } from "./state.ts";

// What a person takes along: files, and the command that reads them.

export interface Saved {
  files: File[];
  command: string;
  /** What is missing, in a sentence. */
  note?: string;
}

interface Document {
  kind: string;
  group: string;
  name: string;
  text: string;
}

/** The documents of a text, by what their first columns say. */
export function documents(text: string): Document[] {
  const member = (document: string, path: RegExp) =>
    path.exec(document)?.[1]?.replace(/^["']|["'],?$/g, "") ?? "";
  return text
    .split(/^---(?:[ \t].*)?$/m)
    .filter((document) => /^[^\s#]/m.test(document))
    .map((document) => {
      const version = member(document, /^"?apiVersion"?:\s*([^\s#,]+)/m);
      return {
        kind: member(document, /^"?kind"?:\s*([^\s#,]+)/m),
        group: version.includes("/") ? version.replace(/\/[^/]*$/, "") : "",
        name: member(document, /^metadata:(?:\s*\{|(?:\n[ ]+.*)*?\n[ ]+)(?:.*?\b)?name:\s*([^\s#,}]+)/m),
        text: `${document.trim()}\n`,
      };
    });
}

/** The object as the command line reads it: with a user or a stored object, an AdmissionReview. */
function subject(state: State, answer: Answer | undefined): File {
  if (needsReview(state) && answer?.request) return answer.request;
  return { name: FILES.object, text: state.object };
}

/** The files and the command of the same review. */
export function commandLine(state: State, answer: Answer | undefined): Saved {
  const object = subject(state, answer);
  const others = references(state);
  const words = ["modgate", "explain", "-f", FILES.policies];
  for (const { name } of others) words.push("--objects", name);
  if (state.operation !== "CREATE" && object.name === FILES.object)
    words.push("--operation", state.operation);
  if (state.defaulting) words.push("--defaulting");
  if (state.all) words.push("--all");
  words.push(object.name);
  return {
    files: [{ name: FILES.policies, text: state.policies }, ...others, object],
    command: words.join(" "),
  };
}

const quoted = (text: string) => JSON.stringify(text);

/** A word for a regular expression. */
const literal = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

interface Result {
  allowed: boolean;
  rejections: string[];
  violations: { kind: string; constraint: string }[];
  patch: unknown[];
}

/** The decisions about the objects, in their order. */
export function decisions(answer: Answer | undefined): Result[] {
  try {
    const all = JSON.parse(answer?.review ?? "[]") as Result[];
    return Array.isArray(all) ? all.slice(0, answer?.subjects.length) : [];
  } catch {
    return [];
  }
}

const CONSTRAINTS = "constraints.gatekeeper.sh";
const MUTATORS = "mutations.gatekeeper.sh";

interface Case {
  object: File;
  result?: Result;
  /** The object after mutators and ModRules. */
  after: string;
}

/** The objects of the page, each in a file of its own: a suite's case has one. */
function cases(state: State, answer: Answer | undefined): Case[] {
  const results = decisions(answer);
  const after = (index: number) => answer?.subjects[index]?.after ?? "";
  const all = documents(state.object);
  if (needsReview(state) || all.length < 2) {
    return [{ object: subject(state, answer), result: results[0], after: after(0) }];
  }
  return all.map(({ text }, index) => ({
    object: { name: `object-${index + 1}.yaml`, text },
    result: results[index],
    after: after(index),
  }));
}

/** The lines of a case that say what mutators and ModRules do; the file of the object afterwards is added to `files`. */
function changes(it: Case, name: string, files: File[]): string[] {
  const rejection = it.result?.rejections[0];
  if (rejection !== undefined) {
    const message = rejection.replace(/^[^:]*: "?|"$/g, "");
    return [`        rejected: ${quoted(literal(message))}`];
  }
  if (!it.result || it.result.patch.length === 0) return [];
  files.push({ name, text: it.after });
  return [`        expected: ${name}`];
}

/** A suite whose cases are what the page shows now. */
export function suite(state: State, answer: Answer | undefined): Saved {
  const all = documents(state.policies);
  const templates = all.filter((it) => it.kind === "ConstraintTemplate");
  const constraints = all.filter((it) => it.group === CONSTRAINTS);
  const others = references(state);
  const given = cases(state, answer);
  const files: File[] = [];
  const add = (name: string, from: { text: string }[]) => {
    if (from.length > 0) files.push({ name, text: from.map((it) => it.text).join("---\n") });
    return from.length > 0;
  };
  const shared: string[] = [];
  const mutators = all.filter((it) => it.group === MUTATORS);
  if (add("mutators.yaml", mutators)) shared.push("    mutators: [mutators.yaml]");
  const modrules = all.filter((it) => it.kind === "ModRule");
  if (add("modrules.yaml", modrules)) shared.push("    modrules: [modrules.yaml]");
  const expansions = all.filter((it) => it.kind === "ExpansionTemplate");
  if (add("expansion.yaml", expansions)) shared.push("    expansion: expansion.yaml");
  const heads = given.map((it, index) => {
    const lines = [
      `      - name: ${given.length > 1 ? `object ${index + 1}` : "from the playground"}`,
      `        object: ${it.object.name}`,
    ];
    if (others.length > 0) lines.push(`        inventory: [${others.map((other) => other.name).join(", ")}]`);
    if (state.operation !== "CREATE" && !needsReview(state))
      lines.push(`        operation: ${state.operation}`);
    const name = given.length > 1 ? `expected-${index + 1}.yaml` : "expected.yaml";
    return { it, lines: [...lines, ...changes(it, name, files)] };
  });
  const tests: string[] = [];
  constraints.forEach((constraint, index) => {
    const template = templates.find((it) => it.name === constraint.kind.toLowerCase());
    if (!template) return;
    const number = constraints.length === 1 ? "" : `-${index + 1}`;
    add(`template${number}.yaml`, [template]);
    add(`constraint${number}.yaml`, [constraint]);
    const is = (it: { kind: string; constraint: string }) =>
      it.kind === constraint.kind && it.constraint === constraint.name;
    tests.push(
      `  - name: ${quoted(constraint.name || constraint.kind)}`,
      `    template: template${number}.yaml`,
      `    constraint: constraint${number}.yaml`,
      ...shared,
      "    cases:",
      ...heads.flatMap(({ it, lines }) => {
        const count = it.result?.violations.filter(is).length ?? 0;
        return [...lines, "        assertions:", `          - violations: ${count === 0 ? "no" : count}`];
      }),
    );
  });
  const changed = heads.filter(({ lines }) => lines.some((line) => /^ +(expected|rejected):/.test(line)));
  if (tests.length === 0 && shared.length > 0 && changed.length > 0) {
    tests.push("  - name: changes", ...shared, "    cases:", ...changed.flatMap(({ lines }) => lines));
  }
  if (tests.length === 0) {
    const note =
      "Suites test templates with their constraints, mutators and ModRules. The page has none of them that applies.";
    return { files: [], command: "", note };
  }
  const head = [
    "apiVersion: test.gatekeeper.sh/v1alpha1",
    "kind: Suite",
    "metadata:",
    "  name: playground",
    "tests:",
  ];
  const text = `${[...head, ...tests].join("\n")}\n`;
  return {
    files: [{ name: "suite.yaml", text }, ...files, ...given.map((it) => it.object), ...others],
    command: "modgate verify suite.yaml",
  };
}

/** A shell script that writes the files and runs the command. */
export function script(saved: Saved): string {
  const parts = saved.files.map(({ name, text }) => {
    const lines = text.replace(/\n$/, "").split("\n");
    let end = "END";
    while (lines.includes(end)) end += "_";
    return `cat > ${name} <<'${end}'\n${lines.join("\n")}\n${end}\n`;
  });
  return `${parts.join("")}${saved.command}\n`;
}
