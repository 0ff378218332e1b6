// What the server answers: the schemas of /api/v1/openapi.json with the same names.
import type { Explanation } from "../report/page.ts";

export interface Pod {
  name: string;
  ready: boolean;
  leader: boolean;
  startedAt: string | null;
  restarts: number;
  image: string;
  node: string;
}

export interface TrendPoint {
  time: string;
  violations: number;
}

export interface Audit {
  time: string;
  objects: number;
  errors: number;
  violations: number;
  byAction: Record<string, number>;
  trend: TrendPoint[];
}

/** Decisions by outcome. */
export interface Counts {
  allowed: number;
  patched: number;
  warned: number;
  denied: number;
  undecided: number;
}

export interface Status {
  version: string;
  time: string;
  source: "cluster" | "files";
  user: string | null;
  replica: {
    name: string;
    ready: boolean;
    leader: boolean | null;
    checks: { name: string; ok: boolean; message: string }[];
  };
  replicas: { items: Pod[]; leader: string; error: string } | null;
  certificate: { notAfter: string; secondsLeft: number } | null;
  policies: { inForce: number; failed: number };
  audit: Audit | null;
  decisions: { since: string; counts: Counts; kept: number };
  shadow: boolean;
}

export interface LastDenial {
  id: number;
  time: string;
  kind: string;
  namespace: string;
  name: string;
  message: string;
}

export interface Policy {
  group: string;
  kind: string;
  namespace: string;
  name: string;
  title: string;
  description: string;
  action: string;
  status: "active" | "failed";
  inForce: boolean;
  messages: string[];
  demoted: boolean;
  cost: { evaluations: number; seconds: number; steps: number; bytes: number } | null;
  denials: number;
  warnings: number;
  lastDenial: LastDenial | null;
  violations: number | null;
}

export interface Policies {
  items: Policy[];
  audit: string | null;
}

export interface Namespace {
  name: string;
  decisions: Counts;
  lastDenial: LastDenial | null;
  audit: {
    objects: number;
    violating: number;
    violations: number;
    score: number;
    trend: TrendPoint[];
  } | null;
}

export interface Namespaces {
  items: Namespace[];
  audit: string | null;
}

export interface Decision {
  id: number;
  uid: string;
  time: string;
  webhook: string;
  operation: string;
  group: string;
  version: string;
  kind: string;
  subResource: string;
  namespace: string;
  name: string;
  user: string;
  dryRun: boolean;
  outcome: keyof Counts;
  code: number;
  message: string;
  warnings: string[];
  policies: {
    group: string;
    kind: string;
    namespace: string;
    name: string;
    action: string;
    message: string;
  }[];
  changes: string[];
  microseconds: number;
  secret: boolean;
  explainable: boolean;
}

export interface Decisions {
  items: Decision[];
  next: number | null;
  oldest: string | null;
  newestId: number;
}

/** The evaluation of one object. */
export interface Explained {
  title: string;
  before: string;
  after: string;
  explanation: Explanation & { allowed?: boolean; patch?: unknown[] | null };
}

export interface DecisionDetails {
  decision: Decision;
  result: Explained | null;
  unexplained: string;
  changed: boolean;
}

export interface TryResult {
  results: Explained[];
  findings: {
    level: "error" | "warning" | "note";
    message: string;
    help: string;
    line: number;
    column: number;
  }[];
  notes: string[];
}

export interface Shadow {
  since: string;
  requests: number;
  same: number;
  failed: number;
  differences: Record<string, number>;
  byPolicy: {
    class?: string;
    policy?: string;
    requests?: number;
    last?: {
      time?: string;
      webhook?: string;
      operation?: string;
      kind?: string;
      namespace?: string;
      name?: string;
    };
  }[];
  byNamespace: { class?: string; namespace?: string; requests?: number }[];
}

/** The colour of an outcome. */
export const OUTCOMES: Record<keyof Counts, "good" | "deny" | "warn" | "dryrun"> = {
  allowed: "good",
  patched: "good",
  warned: "warn",
  denied: "deny",
  undecided: "deny",
};

/** The classes of differences in words, as `compare` has them. */
export const CLASSES: Record<string, string> = {
  "allow-to-deny": "allow to deny",
  "deny-to-allow": "deny to allow",
  messages: "other messages",
  patches: "other patches",
};
