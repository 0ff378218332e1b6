import { compareVerdict } from "./compare.ts";
import { lintVerdict } from "./lint.ts";
import { benchVerdict, migrateVerdict } from "./lists.ts";
import type { Json, Page, PolicyData, SubjectData } from "./page.ts";
import { about as aboutPolicy } from "./words.ts";

/** How bad a finding is, from the worst. */
export const SEVERITIES = ["deny", "warn", "dryrun"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** One finding: a violation, a rejection, or a case of a suite that failed. */
export interface Finding {
  severity: Severity;
  action: string;
  /** `MemoryCeiling shop-memory`. */
  policy: string;
  kind: string;
  namespace: string;
  name: string;
  place: string;
  message: string;
  details: unknown;
  /** Who owns the policy; empty if it does not say. */
  owner: string;
  /** Whether a baseline has it; empty without a baseline. */
  since: "" | "new" | "known";
  /** The object, if the page has it. */
  subject?: SubjectData;
  /** What is searched, in small letters. */
  words: string;
}

/** One object of `review` with its decision. */
export interface Decision {
  subject: SubjectData;
  allowed: boolean;
  reason: string;
  warnings: string[];
  findings: Finding[];
}

export interface SuiteCase {
  suite: string;
  test: string;
  name: string;
  state: "passed" | "failed" | "skipped";
  seconds: number;
  error: string;
  printed: string;
  trace: string;
  words: string;
}

/** Everything the page shows. */
export interface Model {
  page: Page;
  isGood: boolean;
  verdict: string;
  numbers: [string, number][];
  findings: Finding[];
  decisions: Decision[];
  cases: SuiteCase[];
  /** What a baseline has and the audit does not; nothing without a baseline. */
  fixed?: { policy: string; object: string; message: string }[];
  /** What could not be evaluated. */
  errors: string[];
  policies: PolicyData[];
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});

/** `MemoryCeiling shop-memory`, `ModRule shop/label`. */
export function title(it: { kind?: unknown; namespace?: unknown; name?: unknown }): string {
  const namespace = text(it.namespace);
  return `${text(it.kind)} ${namespace ? `${namespace}/` : ""}${text(it.name)}`;
}

/** The effect of a violation as a severity. */
export function severity(action: string, actions: string[]): Severity {
  const all = actions.length > 0 ? actions : [action];
  if (all.includes("deny") || all.includes("reject")) return "deny";
  if (all.some((one) => ["warn", "patch", "mutate"].includes(one))) return "warn";
  return all.some((one) => ["dryrun", "scoped", "audit"].includes(one)) ? "dryrun" : "deny";
}

type Parts = Omit<Finding, "words" | "owner" | "since"> & { since?: Finding["since"] };

/** Makes findings of a page: the owners of its policies are part of them. */
function finder(page: Page): (parts: Parts) => Finding {
  const owners = owned(page.policies);
  return (parts) => {
    const { policy, kind, namespace, name, message, place } = parts;
    const owner = owners.get(policy) ?? "";
    const words = [policy, kind, namespace, name, message, place, owner].join("\n").toLowerCase();
    return { since: "", ...parts, owner, words };
  };
}

/** The owners of policies, by title: their own, or that of the template of a constraint. */
export function owned(policies: PolicyData[]): Map<string, string> {
  const templates = policies.filter(({ kind }) => kind === "ConstraintTemplate");
  const general = new Map(templates.map((policy) => [policy.name, aboutPolicy(policy).owner]));
  return new Map(
    policies.map((policy) => [
      title(policy),
      aboutPolicy(policy).owner || general.get(policy.kind.toLowerCase()) || "",
    ]),
  );
}

/** Finds the object that a finding is about. */
function index(page: Page): (it: Json) => SubjectData | undefined {
  const key = (it: { kind?: unknown; namespace?: unknown; name?: unknown; place?: unknown }) =>
    [it.kind, it.namespace ?? "", it.name, it.place ?? ""].join("\n");
  const known = new Map(page.subjects.map((subject) => [key(subject), subject]));
  return (it) => known.get(key(it));
}

function audit(page: Page): Partial<Model> {
  const document = object(page.document);
  const subject = index(page);
  const finding = finder(page);
  const baseline = document.baseline === undefined ? undefined : object(document.baseline);
  const findings = list(document.groups).flatMap((group) =>
    list(group.violations).map((violation) => {
      const about = object(violation.object);
      const action = text(violation.enforcementAction);
      const actions = Array.isArray(violation.enforcementActions)
        ? violation.enforcementActions.map(text)
        : [];
      return finding({
        severity: severity(action, actions),
        action: actions.length > 0 ? actions.join(", ") : action,
        policy: title(object(violation.policy)),
        kind: text(about.kind),
        namespace: text(about.namespace),
        name: text(about.name),
        place: text(about.place),
        message: text(violation.message),
        details: violation.details,
        since: baseline ? (violation.new === true ? "new" : "known") : "",
        subject: subject(about),
      });
    }),
  );
  const total = list(document.groups).reduce((sum, group) => sum + Number(group.total ?? 0), 0);
  const errors = list(document.errors).map(
    (error) => `${title(object(error.object))}: ${text(error.message)}`,
  );
  const numbers: [string, number][] = [
    ["objects audited", Number(document.objects ?? 0)],
    ["violations", total],
  ];
  if (baseline) numbers.push(["new", Number(baseline.new ?? 0)], ["fixed", Number(baseline.fixed ?? 0)]);
  const fixed = list(baseline?.fixedViolations).map((violation) => ({
    policy: title(object(violation.policy)),
    object: title(object(violation.object)),
    message: text(violation.message),
  }));
  const verdict =
    total === 0 ? "No violations" : `${total.toLocaleString("en")} violation${total === 1 ? "" : "s"}`;
  return { isGood: total === 0 && errors.length === 0, verdict, numbers, findings, fixed, errors };
}

function review(page: Page): Partial<Model> {
  const finding = finder(page);
  const decisions = list(page.document).map((result, at): Decision => {
    const subject = page.subjects[at] ?? {
      group: "",
      kind: text(result.kind),
      namespace: text(result.namespace),
      name: text(result.name),
      place: text(result.source),
      text: "",
    };
    const of = (policy: string, action: string, actions: string[], message: string, details: unknown) =>
      finding({
        severity: severity(action, actions),
        action,
        policy,
        kind: subject.kind,
        namespace: subject.namespace,
        name: subject.name,
        place: text(result.source),
        message,
        details,
        subject,
      });
    const violations = list(result.violations).map((violation) => {
      const actions = Array.isArray(violation.actions) ? violation.actions.map(text) : [];
      const policy = `${text(violation.kind)} ${text(violation.constraint)}`;
      return of(
        policy,
        text(violation.enforcementAction),
        actions,
        text(violation.message),
        violation.details,
      );
    });
    const rejections = (result.rejections as unknown[] | undefined) ?? [];
    const rejected = rejections.map((rejection) => {
      const [, rule, message] = /^(\S+\/\S+): (.*)$/s.exec(text(rejection)) ?? ["", "", text(rejection)];
      return of(`ModRule ${rule}`.trim(), "reject", [], message ?? "", {});
    });
    const denials = list(result.policies).map((denial) =>
      of(title({ kind: denial.kind, name: denial.policy }), "deny", [], text(denial.message), {}),
    );
    const findings = [...violations, ...rejected, ...denials];
    const allowed = result.allowed === true;
    if (!allowed && findings.every((one) => one.severity !== "deny")) {
      findings.push(of("", "deny", [], text(result.reason), {}));
    }
    const warnings = ((result.warnings as unknown[] | undefined) ?? []).map(text);
    return { subject, allowed, reason: text(result.reason), warnings, findings };
  });
  const denied = decisions.filter((decision) => !decision.allowed).length;
  const changed = decisions.filter((decision) => decision.subject.after !== undefined).length;
  return {
    isGood: denied === 0,
    verdict: denied === 0 ? "All objects are allowed" : `${denied} of ${decisions.length} objects are denied`,
    numbers: [
      ["objects", decisions.length],
      ["denied", denied],
      ["changed", changed],
    ],
    findings: decisions.flatMap((decision) => decision.findings),
    decisions,
  };
}

function verify(page: Page): Partial<Model> {
  const document = object(page.document);
  const cases: SuiteCase[] = [];
  for (const suite of list(document.suites)) {
    for (const test of list(suite.tests)) {
      const add = (it: Json, name: string) => {
        const state = it.skipped === true ? "skipped" : it.passed === true ? "passed" : "failed";
        const parts = { suite: text(suite.path), test: text(test.name), name, error: text(it.error) };
        cases.push({
          ...parts,
          state,
          seconds: Number(it.seconds ?? 0),
          printed: text(it.printed),
          trace: text(it.trace),
          words: Object.values(parts).join("\n").toLowerCase(),
        });
      };
      const inner = list(test.cases);
      if (test.error || inner.length === 0) add(test, "");
      for (const one of inner) add(one, text(one.name));
    }
  }
  const failed = cases.filter((one) => one.state === "failed").length;
  const isGood = document.passed === true;
  return {
    isGood,
    verdict: isGood ? "All cases pass" : `${failed} of ${cases.length} cases fail`,
    numbers: [
      ["suites", list(document.suites).length],
      ["cases", cases.length],
      ["failed", failed],
      ["skipped", cases.filter((one) => one.state === "skipped").length],
    ],
    cases,
  };
}

/** What a page is about. */
export function model(page: Page): Model {
  const nothing: Model = {
    page,
    isGood: false,
    verdict: `this page does not show \`${page.command}\``,
    numbers: [],
    findings: [],
    decisions: [],
    cases: [],
    errors: [],
    policies: page.policies,
  };
  const readers: Record<string, (page: Page) => Partial<Model>> = {
    audit,
    review,
    verify,
    migrate: migrateVerdict,
    bench: benchVerdict,
    compare: compareVerdict,
    lint: lintVerdict,
  };
  return { ...nothing, ...readers[page.command]?.(page) };
}

/** How often each value occurs, most frequent first. */
export function tally<T>(items: T[], of: (item: T) => string): [string, number][] {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(of(item), (counts.get(of(item)) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0], "en", { numeric: true }));
}
