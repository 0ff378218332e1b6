import { append, type Child, h } from "../common/dom.ts";
import type {
  ConstraintTrace,
  Explanation,
  MutatingPolicyTrace,
  MutatorTrace,
  PolicyId,
  Resultant,
  RuleTrace,
} from "./page.ts";

/** Longest text shown of one value. */
const SHOWN = 300;

function shorten(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text !== undefined && text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : (text ?? "");
}

function mark(kind: "yes" | "no" | "other", text: string): HTMLElement {
  return h("span", { class: `mark ${kind}` }, text);
}

/** A part of a tree, or what builds it. */
type Part = Child | (() => Child);

/** A node that opens. Its parts are built when it opens first: an explanation can have thousands. */
function node(open: boolean, head: Child[], parts: Part[]): HTMLElement {
  const shown = parts.filter((part) => part !== null && part !== undefined && part !== false);
  if (shown.length === 0) return h("li", {}, h("div", { class: "leaf" }, head));
  const list = h("ul", {});
  const details = h("details", { open }, h("summary", {}, head), list);
  let isBuilt = false;
  const build = () => {
    if (isBuilt || !details.open) return;
    isBuilt = true;
    append(
      list,
      shown.map((part) => (typeof part === "function" ? part() : part)),
    );
  };
  details.addEventListener("toggle", build);
  build();
  return h("li", {}, details);
}

const leaf = (...head: Child[]) => h("li", {}, h("div", { class: "leaf" }, head));

const OUTCOMES: Record<string, ["yes" | "no" | "other", string]> = {
  notEvaluated: ["other", "not evaluated here"],
  excluded: ["other", "does not match"],
  undecided: ["no", "cannot be decided"],
  satisfied: ["yes", "satisfied"],
  violated: ["no", "violated"],
  notCandidate: ["other", "not considered"],
  noMatch: ["other", "no match"],
  matched: ["yes", "matched"],
  patched: ["yes", "matched and patched"],
  rejected: ["no", "matched and rejected"],
  failed: ["no", "failed"],
  conflicting: ["no", "skipped: conflicts with another mutator"],
  notAppliedTo: ["other", "not for this kind or operation"],
  stopped: ["other", "matched, does not apply"],
  unchanged: ["yes", "matched, nothing to change"],
  changed: ["yes", "matched and changed"],
};

function outcome(result: string): HTMLElement {
  const [kind, text] = OUTCOMES[result] ?? ["other", result];
  return mark(kind, text);
}

const RESULTS: Record<string, ["yes" | "no" | "other", string]> = {
  held: ["yes", "held"],
  failed: ["no", "failed"],
  mixed: ["other", "held and failed"],
  value: ["other", "value"],
  error: ["no", "error"],
};

function expression(trace: ConstraintTrace["expressions"][number]): HTMLElement {
  const [kind, text] = RESULTS[trace.result.kind] ?? ["other", trace.result.kind];
  const detail = trace.result.detail;
  const note =
    trace.result.kind === "mixed" && Array.isArray(detail)
      ? `held ${detail[0]} times, failed ${detail[1]} times`
      : detail === undefined
        ? ""
        : shorten(detail);
  const values = trace.values.map(([name, value]) =>
    leaf(h("code", {}, name), " = ", h("code", {}, shorten(value))),
  );
  return node(false, [mark(kind, text), " ", h("code", {}, trace.text), note && ` ${note}`], values);
}

function constraint(trace: ConstraintTrace): HTMLElement {
  const head = [
    outcome(trace.outcome.result),
    ` ${trace.policy.kind} ${trace.policy.name} (${trace.action})`,
  ];
  const cause = trace.outcome.cause as
    | { field?: string; wanted?: unknown; found?: string }
    | string
    | undefined;
  const why =
    typeof cause === "string"
      ? leaf(cause)
      : cause && leaf(h("code", {}, cause.field ?? ""), ` is ${shorten(cause.wanted)}: ${cause.found ?? ""}`);
  const rules = new Map<string, Part[]>();
  for (const each of trace.expressions) {
    const place = each.rule || each.module;
    rules.set(place, [...(rules.get(place) ?? []), () => expression(each)]);
  }
  return node(trace.outcome.result === "violated", head, [
    why,
    ...trace.violations.map((message) => leaf(mark("no", "message"), ` ${message}`)),
    ...[...rules].map(
      ([name, inner]) =>
        () =>
          node(true, [`rule ${name}`], inner),
    ),
    trace.omitted > 0 && leaf(`${trace.omitted} more expressions are not listed`),
  ]);
}

function modrule(trace: RuleTrace): HTMLElement {
  const { policy } = trace;
  const head = [
    outcome(trace.outcome.result),
    ` ModRule ${policy.namespace}/${policy.name} (tier ${trace.tier})`,
  ];
  const cause = trace.outcome.cause;
  const criteria = trace.criteria.map(
    (criterion) => () =>
      node(
        !criterion.positive,
        [
          mark(criterion.positive ? "yes" : "no", criterion.positive ? "yes" : "no"),
          " ",
          h("code", {}, criterion.select),
          ` ${criterion.test}`,
        ],
        [
          criterion.values.length > 0 && leaf(`saw ${criterion.values.map(shorten).join(", ")}`),
          criterion.explanation && leaf(criterion.explanation),
        ],
      ),
  );
  const operations = trace.operations.map(
    (operation) => () =>
      node(
        false,
        [`${operation.op} `, h("code", {}, operation.path), `: ${operation.effect}`],
        [
          operation.before !== undefined &&
            operation.before !== null &&
            leaf("before: ", shorten(operation.before)),
          operation.value !== undefined &&
            operation.value !== null &&
            leaf("value: ", shorten(operation.value)),
        ],
      ),
  );
  return node(trace.outcome.result === "rejected", head, [
    cause !== undefined && leaf(shorten(cause)),
    ...criteria,
    ...operations,
  ]);
}

function mutator(trace: MutatorTrace): HTMLElement {
  const name = trace.mutator.replace(/^(\w+)\.\S+ \/?/, "$1 ");
  const notes = (trace.notes ?? []).map((note) => {
    const now =
      note.after === undefined ? "" : ` ${shorten(note.before ?? "nothing")} becomes ${shorten(note.after)}`;
    return leaf(h("code", {}, note.at), ` ${note.effect}`, now);
  });
  const cause = trace.outcome.cause;
  return node(
    false,
    [outcome(trace.outcome.result), ` ${name}`],
    [cause !== undefined && leaf(shorten(cause)), ...notes],
  );
}

const isConcerned = (trace: MutatorTrace) => !["notAppliedTo", "noMatch"].includes(trace.outcome.result);

function passes(steps: MutatorTrace[][]): Part[] {
  return steps.flatMap((pass, index) =>
    pass
      .filter(
        (trace) =>
          isConcerned(trace) && (index === 0 || ["changed", "failed"].includes(trace.outcome.result)),
      )
      .map((trace) => () => mutator(trace)),
  );
}

function resultant(it: Resultant): HTMLElement {
  const head = [`${it.kind.kind} ${it.name} (built by ${it.template})`];
  return node(true, head, [
    ...passes(it.mutators),
    ...(it.constraints ?? []).map((trace) => () => constraint(trace)),
  ]);
}

function mutatingPolicy(trace: MutatingPolicyTrace): HTMLElement {
  const pass = trace.again ? ", second pass" : "";
  const head = [
    outcome(trace.outcome),
    ` ${trace.policy.kind} ${trace.policy.name} (${trace.binding}${pass})`,
  ];
  const mutations = trace.mutations.map((mutation) => {
    const changes = mutation.changes.map((change) => {
      const now = change.after === undefined ? "is removed" : `becomes ${shorten(change.after)}`;
      return leaf(
        h("code", {}, change.path),
        change.before === undefined ? "" : ` was ${shorten(change.before)},`,
        ` ${now}`,
      );
    });
    return node(
      true,
      [h("code", {}, shorten(mutation.expression))],
      [mutation.error && leaf(mutation.error), ...changes],
    );
  });
  return node(false, head, mutations);
}

/** Whether an explanation has a policy, such as `MemoryCeiling shop-memory`. */
export function explains(explanation: Explanation, policy: string): boolean {
  const name = (id: PolicyId) => `${id.kind} ${id.namespace ? `${id.namespace}/` : ""}${id.name}`;
  const implied = (explanation.resultants?.steps ?? []).flatMap((it) => it.constraints ?? []);
  const all = [...(explanation.rules ?? []), ...(explanation.constraints ?? []), ...implied];
  return all.some((trace) => name(trace.policy) === policy);
}

/** The explanation of a decision as a tree that opens and closes. */
export function tree(explanation: Explanation): HTMLElement {
  const stages: [string, Part[]][] = [
    [
      "MutatingAdmissionPolicies",
      (explanation.mutatingPolicies?.steps ?? []).map((trace) => () => mutatingPolicy(trace)),
    ],
    ["Mutators", passes(explanation.mutators?.steps ?? [])],
    ["ModRules", (explanation.rules ?? []).map((trace) => () => modrule(trace))],
    [
      "ValidatingAdmissionPolicies and constraints",
      (explanation.constraints ?? []).map((trace) => () => constraint(trace)),
    ],
    ["Expands to", (explanation.resultants?.steps ?? []).map((it) => () => resultant(it))],
  ];
  const shown = stages.filter(([, inner]) => inner.length > 0);
  if (shown.length === 0) return h("p", {}, "No policy applies to this object.");
  return h(
    "ul",
    { class: "tree" },
    shown.map(([name, inner]) => node(true, [h("b", {}, name)], inner)),
  );
}
