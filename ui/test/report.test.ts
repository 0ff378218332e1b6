import assert from "node:assert/strict";
import { test } from "node:test";
import { rows } from "../src/common/diff.ts";
import { visible } from "../src/common/dom.ts";
import { named, tokens } from "../src/common/source.ts";
import { matchingCases } from "../src/report/cases.ts";
import { sides } from "../src/report/compare.ts";
import { coverageNumbers, hasCoverage, lines } from "../src/report/coverage.ts";
import { short, ticks } from "../src/report/distribution.ts";
import { explains } from "../src/report/explanation.ts";
import { matching } from "../src/report/findings.ts";
import { lintFindings, matchingLint } from "../src/report/lint.ts";
import { nanoseconds, share } from "../src/report/lists.ts";
import { model, severity, tally } from "../src/report/model.ts";
import type { Explanation, Page } from "../src/report/page.ts";
import { link, parse } from "../src/report/route.ts";
import { criteria, quoted, reproduce, rerun } from "../src/report/words.ts";

const page = (command: string, document: unknown): Page => ({
  modgate: "1.2.3",
  command,
  arguments: ["-f", "policies"],
  document,
  policies: [],
  subjects: [
    { group: "", kind: "Pod", namespace: "shop", name: "web", place: "a.yaml:1:1", text: "kind: Pod\n" },
  ],
  omitted: [],
});

test("durations and their scale", () => {
  for (const [nanoseconds, expected] of [
    [7, "7 ns"],
    [999, "999 ns"],
    [1_234, "1.23 µs"],
    [31_249, "31.2 µs"],
    [2_000_000, "2 ms"],
    [123_456_789_012, "123 s"],
  ] as const)
    assert.equal(short(nanoseconds), expected);
  assert.deepEqual(ticks(3, 60), [5, 10, 20, 50]);
  assert.deepEqual(ticks(900, 2e6), [1e3, 1e4, 1e5, 1e6]);
  assert.deepEqual(ticks(6, 7), []);
});

test("a comment begins after a space", () => {
  const kinds = (line: string) => tokens(line).map(({ text, kind }) => `${kind} ${text}`);
  assert.ok(kinds("path: /spec/containers/#0/image").every((it) => !it.startsWith("comment")));
  assert.ok(kinds("a: 1 # one").includes("comment # one"));
  assert.deepEqual(kinds("# all"), ["comment # all"]);
});

const violation = (name: string, action: string, actions?: string[]) => ({
  policy: { kind: "NeedLabel", name: "owner" },
  object: { kind: "Pod", namespace: "shop", name, place: "a.yaml:1:1" },
  enforcementAction: action,
  enforcementActions: actions,
  message: `Pod ${name} has no owner`,
  details: {},
});

test("an audit becomes findings with their objects", () => {
  const violations = [violation("web", "deny"), violation("db", "scoped", ["warn"])];
  const it = model(page("audit", { groups: [{ total: 2, violations }], objects: 5, errors: [] }));
  assert.equal(it.verdict, "2 violations");
  assert.equal(it.isGood, false);
  assert.deepEqual(
    it.findings.map((finding) => [finding.name, finding.severity, finding.action, finding.subject?.text]),
    [
      ["web", "deny", "deny", "kind: Pod\n"],
      ["db", "warn", "warn", undefined],
    ],
  );
  const found = (query: string) => matching(it.findings, new URLSearchParams(query)).map((one) => one.name);
  assert.deepEqual(found("q=OWNER+web"), ["web"]);
  assert.deepEqual(found("effect=warn"), ["db"]);
  assert.deepEqual(found("policy=NeedLabel+owner&namespace=shop"), ["web", "db"]);
  assert.deepEqual(found("namespace="), []);
});

test("owners are those of policies, else of their templates", () => {
  const policy = (kind: string, name: string, owner?: unknown) => ({
    group: "",
    kind,
    namespace: "",
    name,
    origin: "",
    text: "",
    object: owner === undefined ? {} : { metadata: { annotations: { "modgate.sh/owner": owner } } },
  });
  const policies = [
    policy("ConstraintTemplate", "needlabel", "team general"),
    policy("NeedLabel", "owner"),
    policy("NeedLabel", "own", " team own "),
    policy("ImageTag", "tags", 7),
  ];
  const of = (name: string, kind = "NeedLabel") => ({ ...violation(name, "deny"), policy: { kind, name } });
  const violations = [of("owner"), of("own"), of("tags", "ImageTag"), of("gone")];
  const document = { groups: [{ total: 4, violations }], objects: 4, errors: [] };
  const it = model({ ...page("audit", document), policies });
  assert.deepEqual(
    it.findings.map((finding) => finding.owner),
    ["team general", "team own", "", ""],
  );
  const found = (query: string) => matching(it.findings, new URLSearchParams(query)).map((one) => one.policy);
  assert.deepEqual(found("owner=team+own"), ["NeedLabel own"]);
  assert.deepEqual(found("owner="), ["ImageTag tags", "NeedLabel gone"]);
  assert.deepEqual(found("q=general"), ["NeedLabel owner"]);
});

test("a baseline tells what is new and what is fixed", () => {
  const violations = [
    { ...violation("web", "deny"), new: true },
    { ...violation("db", "warn"), new: false },
  ];
  const groups = [{ total: 2, violations }];
  const baseline = { new: 1, fixed: 1, fixedViolations: [violation("old", "deny")] };
  const it = model(page("audit", { groups, objects: 5, errors: [], baseline }));
  assert.deepEqual(it.numbers.slice(2), [
    ["new", 1],
    ["fixed", 1],
  ]);
  assert.deepEqual(it.fixed, [
    { policy: "NeedLabel owner", object: "Pod shop/old", message: "Pod old has no owner" },
  ]);
  const found = matching(it.findings, new URLSearchParams("since=new"));
  assert.deepEqual(
    found.map((one) => one.name),
    ["web"],
  );
  const without = model(page("audit", { groups, objects: 5, errors: [] }));
  assert.deepEqual([without.numbers.length, without.fixed], [2, []]);
  assert.ok(without.findings.every((finding) => finding.since === ""));
});

test("an audit that could not read everything is not good", () => {
  const errors = [{ object: { kind: "Pod", name: "a" }, message: "broken" }];
  const it = model(page("audit", { groups: [], objects: 1, errors }));
  assert.deepEqual([it.isGood, it.errors], [false, ["Pod a: broken"]]);
});

test("a review becomes decisions; a denial without a policy is a finding", () => {
  const it = model(page("review", [{ allowed: false, reason: "overload", violations: [], rejections: [] }]));
  assert.equal(it.verdict, "1 of 1 objects are denied");
  assert.deepEqual(
    it.findings.map((finding) => finding.message),
    ["overload"],
  );
});

test("a rejection names its rule", () => {
  const it = model(page("review", [{ allowed: false, reason: "r", rejections: ['shop/pin: "pin: it"'] }]));
  assert.deepEqual(
    it.findings.map((finding) => [finding.policy, finding.message]),
    [["ModRule shop/pin", '"pin: it"']],
  );
});

test("suites become cases", () => {
  const cases = [
    { name: "good", passed: true },
    { name: "bad", passed: false, error: "got 0 violations" },
  ];
  const tests = [
    { name: "one", cases },
    { name: "two", passed: false, error: "no template", cases: [] },
  ];
  const it = model(page("verify", { passed: false, suites: [{ path: "suite.yaml", tests }] }));
  assert.equal(it.verdict, "2 of 3 cases fail");
  const found = matchingCases(it.cases, new URLSearchParams("state=failed&q=violations"));
  assert.deepEqual(
    found.map((one) => one.name),
    ["bad"],
  );
});

test("effects and their severity", () => {
  const cases: [string, string[], string][] = [
    ["deny", [], "deny"],
    ["reject", [], "deny"],
    ["warn", [], "warn"],
    ["patch", [], "warn"],
    ["dryrun", [], "dryrun"],
    ["audit", [], "dryrun"],
    ["scoped", [], "dryrun"],
    ["scoped", ["warn", "deny"], "deny"],
    ["unheard-of", [], "deny"],
  ];
  for (const [action, actions, wanted] of cases) assert.equal(severity(action, actions), wanted, action);
});

test("policies in words", () => {
  const of = (kind: string, spec: object) => criteria({ kind, object: { spec } });
  const kinds = [{ apiGroups: ["", "apps"], kinds: ["Pod", "Deployment"] }];
  const match = { kinds, excludedNamespaces: ["kube-*"], labelSelector: { matchLabels: { a: "b" } } };
  assert.deepEqual(of("NeedLabel", { match }), [
    "kinds: Pod, Deployment of the core group, apps",
    "not in namespaces: kube-*",
    "only objects with labels: a=b",
  ]);
  assert.deepEqual(of("NeedLabel", {}), []);
  assert.deepEqual(of("Assign", { applyTo: [{ groups: [""], versions: ["v1"], kinds: ["Pod"] }] }), [
    "applies to Pod of core (v1)",
  ]);
  const items = [
    { select: "$.kind", matchValue: "Pod" },
    { select: "$.a", negate: true },
    { select: "$.b", matchRegex: "^x", matchFor: "All" },
    { select: "$.c", matchValues: ["1", "2"], negate: true },
  ];
  assert.deepEqual(of("ModRule", { match: items }), [
    "$.kind is Pod",
    "$.a is absent",
    "$.b matches ^x, for all values",
    "$.c is not one of 1, 2",
  ]);
});

test("commands survive a shell", () => {
  assert.equal(quoted("a b'c"), "'a b'\\''c'");
  assert.equal(quoted("policies/x.yaml"), "policies/x.yaml");
  const subject = { group: "apps", kind: "Deployment", namespace: "$(id)", name: "web", place: "" };
  assert.equal(
    reproduce("audit", ["-f", "my policies"], subject),
    "kubectl get Deployment.apps web -n '$(id)' -o yaml | modgate audit -f 'my policies' -",
  );
  assert.equal(
    reproduce("review", ["-f", "p"], { ...subject, place: "dir/a b.yaml:3:1" }),
    "modgate explain -f p 'dir/a b.yaml'",
  );
  assert.equal(
    reproduce("review", ["-f", "p"], { ...subject, place: "-o html.yaml:1:1" }),
    "modgate explain -f p './-o html.yaml'",
  );
});

test("characters that cannot be seen are shown as escapes", () => {
  for (const [text, expected] of [
    ["exe\u202egnp.x", "exe\\u{202e}gnp.x"],
    ["a\u200bb\ufeffc\u0000", "a\\u{200b}b\\u{feff}c\\u{0}"],
    ["\u2066x\u2069", "\\u{2066}x\\u{2069}"],
    ["tab\tline\nא é 日本 😀", "tab\tline\nא é 日本 😀"],
  ] as const) {
    assert.equal(visible(text), expected);
  }
});

test("lines that a message names", () => {
  const text = "kind: Pod\nmetadata:\n  name: cart\nspec:\n  limit: 4Gi\n  privileged: true\n";
  const lines = (message: string) => [...named(text, message)];
  assert.deepEqual(lines("container `cart` may use 4Gi, at most 1Gi"), [3, 5]);
  assert.deepEqual(lines("a Pod has no owner"), []);
  assert.deepEqual(lines('"privileged" is not allowed'), [6]);
  assert.deepEqual(lines('"pin the image of Pod cart"'), [], "a quoted sentence names nothing");
  assert.deepEqual(lines('missing labels: {"cart", "x"}'), [3]);
  assert.deepEqual([...named(text, "no", ["4Gi"])], [5]);
});

test("tokens keep the text", () => {
  for (const line of [
    '  - name: "a # b" # c',
    "violation[{`x`: msg}] { not 1.5 }",
    "x := input.y",
    "a: &b *c 'd",
    "",
  ]) {
    const text = tokens(line).map((token) => token.text);
    assert.equal(text.join(""), line);
  }
});

test("rows beside one another", () => {
  assert.deepEqual(rows("a\nb\nc\n", "a\nx\ny\nc\n"), [
    { left: "a", right: "a", changed: false },
    { left: "b", right: "x", changed: true },
    { left: undefined, right: "y", changed: true },
    { left: "c", right: "c", changed: false },
  ]);
});

test("addresses", () => {
  const there = link("violations", { q: "a&b=#", open: 3, policy: undefined });
  assert.equal(parse(there).settings.get("q"), "a&b=#");
  assert.equal(parse(there).view, "violations");
  assert.equal(parse("").view, "");
});

test("tallies", () => {
  const counts = tally(["b", "a", "b"], (x) => x);
  assert.deepEqual(counts, [
    ["b", 2],
    ["a", 1],
  ]);
});

test("a migration is good if everything runs", () => {
  const verdict = (document: object) => {
    const it = model(page("migrate", document));
    return [it.isGood, it.verdict];
  };
  assert.deepEqual(verdict({ unchanged: [{}] }), [true, "Everything runs"]);
  assert.deepEqual(verdict({ differs: [{}] }), [true, "Everything runs, 1 object decides differently"]);
  assert.deepEqual(verdict({ lost: [{ weakens: false }], flags: [{ fate: "chart" }] }), [
    true,
    "Everything runs",
  ]);
  assert.deepEqual(verdict({ refused: [{}], flags: [{ fate: "refused" }], unset: [{ weakens: true }] }), [
    false,
    "1 object will not run, 1 flag will be refused, 1 setting will enforce less",
  ]);
});

test("durations of Go", () => {
  const cases: [string, number][] = [
    ["1h1m1.5s", 3_661.5e9],
    ["31.2µs", 31_200],
    ["2ms", 2e6],
    ["7ns", 7],
    ["", 0],
  ];
  for (const [text, wanted] of cases) assert.equal(nanoseconds(text), wanted, text);
});

test("shares of bars", () => {
  assert.equal(share(50, [10, 100], false), 50);
  assert.deepEqual(
    [10, 100, 1000].map((each) => Math.round(share(each, [10, 100, 1000], true))),
    [5, 53, 100],
  );
  assert.equal(share(0, [0, 0], true), 100);
});

test("an explanation is shown for the policies that it has", () => {
  const of = (kind: string, namespace: string, name: string) => ({
    policy: { group: "", kind, namespace, name },
  });
  const explanation = {
    rules: [of("ModRule", "shop", "pin")],
    constraints: [of("NeedLabel", "", "owner")],
    resultants: { steps: [{ constraints: [of("Ceiling", "", "memory")] }] },
  } as unknown as Explanation;
  for (const policy of ["ModRule shop/pin", "NeedLabel owner", "Ceiling memory"]) {
    assert.ok(explains(explanation, policy), policy);
  }
  assert.equal(explains(explanation, "ValidatingAdmissionPolicy replicas"), false);
});

test("a comparison counts what differs", () => {
  const verdict = (document: object) => model(page("compare", document)).verdict;
  assert.equal(verdict({ requests: 9, same: 9 }), "All requests are decided alike");
  assert.equal(verdict({ requests: 9, same: 7 }), "2 of 9 requests are decided differently");
  assert.deepEqual(
    model(page("compare", { requests: 1, same: 0, differences: { "allow-to-deny": 1 } })).numbers,
    [
      ["requests", 1],
      ["allow to deny", 1],
    ],
  );
});

test("what policies say about an object stands in lines, patches in parts", () => {
  assert.equal(sides(["deny: a", "warn: b"]), "deny: a\nwarn: b\n");
  assert.equal(sides(['patch: [{"op":"add"}]']), '[\n  {\n    "op": "add"\n  }\n]\n');
  assert.equal(sides(["patch: of cable"]), "patch: of cable\n");
  assert.equal(sides(undefined), "");
});

test("a case of a suite is run again by its names", () => {
  const run = (test: string, name: string, suite = "a/suite.yaml") => rerun({ suite, test, name });
  assert.equal(run("labels", "one"), "modgate verify a/suite.yaml --run '^labels$//^one$'");
  assert.equal(run("a.b", "it's (1)"), "modgate verify a/suite.yaml --run '^a\\.b$//^it'\\''s \\(1\\)$'");
  for (const [test, name] of [
    ["labels", ""],
    ["http://a", "one"],
    ["labels", "a//b"],
  ] as const) {
    assert.equal(run(test, name), "modgate verify a/suite.yaml");
  }
  assert.equal(run("t", "", "-s.yaml"), "modgate verify ./-s.yaml");
});

test("a finding of lint has the objects that prove it", () => {
  const rule = { id: "bypass-null", description: "Why it matters." };
  const findings = [
    { rule: "warning", message: "probably wrong", place: { file: "a.yaml", line: 2, column: 1 } },
    { rule: "bypass-null", message: "NeedLabel owner: admits null", place: { file: "a.yaml", line: 9 } },
  ];
  const document = { complete: true, rules: [rule], findings, policies: 3, notExamined: 1 };
  const parts = [
    { what: "denied, CREATE", text: "a: 1\n" },
    { what: "admitted, CREATE", text: "a: null\n" },
  ];
  const proof = { policy: "NeedLabel owner", denials: ["no owner"], parts, commands: [["modgate", "lint"]] };
  const subjects = [proof] as unknown as Page["subjects"];
  const it = model({ ...page("lint", document), subjects });
  assert.deepEqual([it.isGood, it.verdict, it.errors], [false, "1 finding", ["a.yaml:2:1: probably wrong"]]);
  const { found } = lintFindings(it.page);
  assert.deepEqual(
    found.map((one) => [one.code, one.policy, one.explanation, one.place]),
    [["bypass-null", "NeedLabel owner", "Why it matters.", "a.yaml:9"]],
  );
  const left = (query: string) => matchingLint(found, new URLSearchParams(query)).length;
  assert.deepEqual(
    [left("q=NULL+no"), left("code=bypass-null"), left("code=other"), left("q=zzz")],
    [1, 1, 0, 0],
  );
});

test("lint does not call good what it did not examine", () => {
  const verdict = (document: object) => {
    const it = model({ ...page("lint", document), subjects: [] });
    return [it.isGood, it.verdict];
  };
  const nothing = { complete: true, rules: [], findings: [] };
  assert.deepEqual(verdict({ ...nothing, policies: 2, notExamined: 1 }), [
    true,
    "Nothing gets past the policies",
  ]);
  assert.deepEqual(verdict({ ...nothing, policies: 2, notExamined: 2 }), [
    false,
    "Nothing is known about the policies",
  ]);
  assert.deepEqual(verdict({ ...nothing, complete: false, policies: 0 }), [
    false,
    "The policies cannot be examined",
  ]);
});

test("lines are covered, partly covered or not", () => {
  const place = (line: number, reached: number, missing: string | null) => ({
    line,
    reached,
    missing,
    text: `line ${line}`,
  });
  const places = [
    place(3, 2, "the expression holds in every case"),
    place(1, 4, null),
    place(1, 1, null),
    place(2, 0, "no case reaches the expression"),
    place(2, 0, "no case takes the branch"),
    place(4, 0, "no case takes the branch"),
    place(4, 5, null),
  ];
  assert.deepEqual(
    lines(places).map((it) => [it.line, it.state, it.reached, it.missing.length]),
    [
      [1, "covered", 4, 0],
      [2, "not covered", 0, 2],
      [3, "partly covered", 2, 1],
      [4, "partly covered", 5, 1],
    ],
  );
  const measured = page("verify", { suites: [], coverage: { percent: 82.3 }, mutants: { percent: 50 } });
  assert.deepEqual(coverageNumbers(measured), [
    ["covered", "82.3 %"],
    ["mutants noticed", "50 %"],
  ]);
  assert.deepEqual([hasCoverage(measured), hasCoverage(page("verify", {}))], [true, false]);
});
