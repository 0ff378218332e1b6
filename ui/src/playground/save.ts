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

/** The decision about the first object. */
export function firstResult(answer: Answer | undefined): Result | undefined {
  try {
    const [first] = JSON.parse(answer?.review ?? "null") as Result[];
    return first && "allowed" in first ? first : undefined;
  } catch {
    return undefined;
  }
}

const CONSTRAINTS = "constraints.gatekeeper.sh";
const MUTATORS = "mutations.gatekeeper.sh";

/** A suite whose case is what the page shows now. */
export function suite(state: State, answer: Answer | undefined): Saved {
  const all = documents(state.policies);
  const templates = all.filter((it) => it.kind === "ConstraintTemplate");
  const constraints = all.filter((it) => it.group === CONSTRAINTS);
  const mutators = all.filter((it) => it.group === MUTATORS);
  const modrules = all.filter((it) => it.kind === "ModRule");
  const expansions = all.filter((it) => it.kind === "ExpansionTemplate");
  const result = firstResult(answer);
  const others = references(state);
  const files: File[] = [];
  const add = (name: string, from: { text: string }[]) => {
    if (from.length > 0) files.push({ name, text: from.map((it) => it.text).join("---\n") });
    return from.length > 0;
  };
  const object = subject(state, answer);
  const shared: string[] = [];
  if (add("mutators.yaml", mutators)) shared.push("    mutators: [mutators.yaml]");
  if (add("modrules.yaml", modrules)) shared.push("    modrules: [modrules.yaml]");
  if (add("expansion.yaml", expansions)) shared.push("    expansion: expansion.yaml");
  const common: string[] = [`        object: ${object.name}`];
  if (others.length > 0) common.push(`        inventory: [${others.map((it) => it.name).join(", ")}]`);
  if (state.operation !== "CREATE" && object.name === FILES.object)
    common.push(`        operation: ${state.operation}`);
  const changes: string[] = [];
  const rejection = result?.rejections[0];
  if (rejection !== undefined) {
    changes.push(`        rejected: ${quoted(literal(rejection.replace(/^[^:]*: "?|"$/g, "")))}`);
  } else if (result && result.patch.length > 0 && answer?.subjects[0]) {
    files.push({ name: "expected.yaml", text: answer.subjects[0].after });
    changes.push("        expected: expected.yaml");
  }
  const tests: string[] = [];
  constraints.forEach((constraint, index) => {
    const template = templates.find((it) => it.name === constraint.kind.toLowerCase());
    if (!template) return;
    const names =
      constraints.length === 1
        ? ["template.yaml", "constraint.yaml"]
        : [`template-${index + 1}.yaml`, `constraint-${index + 1}.yaml`];
    add(names[0] as string, [template]);
    add(names[1] as string, [constraint]);
    const is = (it: { kind: string; constraint: string }) =>
      it.kind === constraint.kind && it.constraint === constraint.name;
    const count = result?.violations.filter(is).length ?? 0;
    tests.push(
      `  - name: ${quoted(constraint.name || constraint.kind)}`,
      `    template: ${names[0]}`,
      `    constraint: ${names[1]}`,
      ...shared,
      "    cases:",
      "      - name: from the playground",
      ...common,
      ...changes,
      "        assertions:",
      `          - violations: ${count === 0 ? "no" : count}`,
    );
  });
  if (tests.length === 0 && shared.length > 0 && changes.length > 0) {
    tests.push(
      "  - name: changes",
      ...shared,
      "    cases:",
      "      - name: from the playground",
      ...common,
      ...changes,
    );
  }
  const head = [
    "apiVersion: test.gatekeeper.sh/v1alpha1",
    "kind: Suite",
    "metadata:",
    "  name: playground",
    "tests:",
  ];
  const text = `${[...head, ...tests].join("\n")}\n`;
  const note =
    tests.length === 0
      ? "Suites test templates with their constraints, mutators and ModRules. The page has none of them that applies."
      : state.user.trim() && constraints.length > 0
        ? "The object is an AdmissionReview, because the request has a user."
        : undefined;
  return {
    files: tests.length === 0 ? [] : [{ name: "suite.yaml", text }, ...files, object, ...others],
    command: tests.length === 0 ? "" : "modgate verify suite.yaml",
    note,
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
