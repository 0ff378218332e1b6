import type { Json, PolicyData } from "./page.ts";

const object = (value: unknown): Json | undefined =>
  value && typeof value === "object" && !Array.isArray(value) ? (value as Json) : undefined;
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const all = (values: unknown[]) => values.map(String).join(", ");

function selector(value: unknown): string {
  const found = object(value);
  if (!found) return "";
  const labels = Object.entries(object(found.matchLabels) ?? {}).map(
    ([key, wanted]) => `${key}=${String(wanted)}`,
  );
  const expressions = list(found.matchExpressions).map((expression) => {
    const { key, operator, values } = object(expression) ?? {};
    return `${String(key)} ${String(operator)} ${all(list(values))}`.trim();
  });
  return [...labels, ...expressions].join(" and ");
}

function kinds(value: unknown): string {
  const each = list(value).map((entry) => {
    const { apiGroups, kinds } = object(entry) ?? {};
    const groups = list(apiGroups).map((group) => (group === "" ? "the core group" : String(group)));
    const anyGroup = groups.length === 0 || groups.includes("*");
    const names =
      list(kinds).includes("*") || list(kinds).length === 0 ? "objects of any kind" : all(list(kinds));
    return anyGroup ? names : `${names} of ${groups.join(", ")}`;
  });
  return each.join("; ");
}

function matchBlock(block: Json): string[] {
  const words: string[] = [];
  const add = (value: string, before: string) => value && words.push(`${before} ${value}`);
  add(kinds(block.kinds), "kinds:");
  add(all(list(block.namespaces)), "only in namespaces:");
  add(all(list(block.excludedNamespaces)), "not in namespaces:");
  add(selector(block.labelSelector), "only objects with labels:");
  add(selector(block.namespaceSelector), "only in namespaces with labels:");
  add(block.scope === undefined || block.scope === "*" ? "" : String(block.scope), "scope:");
  add(block.name === undefined ? "" : String(block.name), "only objects called");
  add(
    block.source === undefined || block.source === "All" ? "" : String(block.source),
    "only objects that are",
  );
  return words;
}

function applyTo(value: unknown): string[] {
  return list(value).map((entry) => {
    const { groups, versions, kinds } = object(entry) ?? {};
    const group = list(groups).map((one) => (one === "" ? "core" : String(one)));
    return `applies to ${all(list(kinds))} of ${group.join(", ")} (${all(list(versions))})`;
  });
}

function rules(constraints: Json): string[] {
  return list(constraints.resourceRules).map((rule) => {
    const { operations, apiGroups, resources } = object(rule) ?? {};
    const groups = list(apiGroups).map((one) => (one === "" ? "core" : String(one)));
    return `${all(list(operations))} of ${all(list(resources))} in ${groups.join(", ")}`;
  });
}

/** What a policy applies to, in short phrases; empty if it has no criteria. */
export function criteria(policy: Pick<PolicyData, "kind" | "object">): string[] {
  const spec = object(policy.object.spec) ?? {};
  if (policy.kind === "ModRule") {
    return list(spec.match).map((item) => {
      const { select, matchValue, matchValues, matchRegex, matchFor, negate } = object(item) ?? {};
      const is = negate === true ? "is not" : "is";
      const test =
        matchValue !== undefined
          ? `${is} ${String(matchValue)}`
          : matchValues !== undefined
            ? `${is} one of ${all(list(matchValues))}`
            : matchRegex !== undefined
              ? `${negate === true ? "does not match" : "matches"} ${String(matchRegex)}`
              : negate === true
                ? "is absent"
                : "is present";
      return `${String(select)} ${test}${matchFor === "All" ? ", for all values" : ""}`;
    });
  }
  const words = applyTo(spec.applyTo);
  const constraints = object(spec.matchConstraints);
  if (constraints) words.push(...rules(constraints), ...conditions(spec.matchConditions));
  const block = object(spec.match);
  if (block) words.push(...matchBlock(block));
  return words;
}

function conditions(value: unknown): string[] {
  return list(value).map((condition) => `only if ${String(object(condition)?.expression)}`);
}

/** What the author says about a policy: its title and description, from the annotations that libraries use, and who owns it. */
export function about(policy: Pick<PolicyData, "object">): {
  title: string;
  description: string;
  owner: string;
} {
  const annotations = object(object(policy.object.metadata)?.annotations) ?? {};
  const text = (key: string) => (typeof annotations[key] === "string" ? (annotations[key] as string) : "");
  return {
    title: text("metadata.gatekeeper.sh/title"),
    description: text("description"),
    owner: text("modgate.sh/owner").trim(),
  };
}

/** An argument as a POSIX shell reads it. */
export function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

/** The command that finds it again: an audit of the object, or the explanation of its review. */
export function reproduce(
  command: string,
  policyArguments: string[],
  subject: { kind: string; group: string; namespace: string; name: string; place: string },
): string {
  const verb = command === "audit" ? "audit" : "explain";
  const path = subject.place.replace(/:\d+:\d+$/, "");
  // A name that begins with a dash would be an option.
  const file = path.startsWith("-") ? `./${path}` : path;
  const run = (from: string) => ["modgate", verb, ...policyArguments, from].map(quoted).join(" ");
  if (file && file !== "<stdin>") return run(file);
  const resource = subject.group ? `${subject.kind}.${subject.group}` : subject.kind;
  const inNamespace = subject.namespace ? ["-n", subject.namespace] : [];
  const get = ["kubectl", "get", resource, subject.name, ...inNamespace, "-o", "yaml"].map(quoted).join(" ");
  return `${get} | ${run("-")}`;
}

/** The command that runs a case of a suite again. */
export function rerun({ suite, test, name }: { suite: string; test: string; name: string }): string {
  const path = suite.startsWith("-") ? `./${suite}` : suite;
  const exactly = (text: string) => `^${text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}$`;
  // Two slashes stand between the names of a test and of a case, and nowhere else.
  const isNamed = name !== "" && !`${test}${name}`.includes("//");
  const filter = isNamed ? ["--run", `${exactly(test)}//${exactly(name)}`] : [];
  return ["modgate", "verify", path, ...filter].map(quoted).join(" ");
}
