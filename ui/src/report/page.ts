// What the binary puts into the page. `document` is what the command prints with `-o json`.

export interface Page {
  modgate: string;
  command: string;
  /** Arguments that name the policies, such as `["-f", "policies"]`. */
  arguments: string[];
  document: unknown;
  policies: PolicyData[];
  subjects: SubjectData[];
  /** What the page does not contain, in sentences. */
  omitted: string[];
}

export interface PolicyData {
  group: string;
  kind: string;
  namespace: string;
  name: string;
  origin: string;
  /** The object as YAML. */
  text: string;
  /** The object. */
  object: Json;
  evaluations?: number;
  microseconds?: number;
}

export interface SubjectData {
  group: string;
  kind: string;
  namespace: string;
  name: string;
  place: string;
  /** The object as YAML, before policies change it. */
  text: string;
  /** The object as YAML afterwards, if policies change it. */
  after?: string;
  /** `rules`, `constraints`, `mutators` and `resultants` of `modgate explain -o json`. */
  explanation?: Explanation;
}

export type Json = { [member: string]: unknown };

export interface Position {
  line: number;
  column: number;
}

export interface PolicyId {
  group: string;
  kind: string;
  namespace: string;
  name: string;
}

interface Outcome {
  result: string;
  cause?: unknown;
}

export interface ConstraintTrace {
  policy: PolicyId;
  origin: string;
  position?: Position | null;
  engine: string;
  action: string;
  parameters: unknown;
  outcome: Outcome;
  violations: string[];
  expressions: {
    rule: string;
    module: string;
    text: string;
    result: { kind: string; detail?: unknown };
    values: [string, string][];
  }[];
  omitted: number;
}

export interface RuleTrace {
  policy: PolicyId;
  ruleType: string;
  origin: string;
  tier: number;
  outcome: Outcome;
  criteria: {
    index: number;
    select: string;
    test: string;
    values: string[];
    explanation: string;
    positive: boolean;
  }[];
  operations: {
    index: number;
    op: string;
    path: string;
    value?: unknown;
    before?: unknown;
    effect: string;
  }[];
}

export interface MutatorTrace {
  mutator: string;
  outcome: Outcome;
  notes?: { at: string; effect: string; value?: unknown; before?: unknown; after?: unknown }[];
}

export interface Resultant {
  template: string;
  kind: { group: string; version: string; kind: string };
  name: string;
  mutators: MutatorTrace[][];
  constraints?: ConstraintTrace[];
}

export interface MutatingPolicyTrace {
  policy: PolicyId;
  binding: string;
  again: boolean;
  outcome: string;
  mutations: {
    patchType: string;
    expression: string;
    changes: { path: string; before?: unknown; after?: unknown }[];
    error?: string;
  }[];
}

export interface Explanation {
  mutatingPolicies?: { steps: MutatingPolicyTrace[]; stopped?: string };
  rules?: RuleTrace[];
  constraints?: ConstraintTrace[];
  mutators?: { steps: MutatorTrace[][]; stopped?: string };
  resultants?: { steps: Resultant[]; stopped?: string };
}
