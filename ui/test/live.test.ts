import assert from "node:assert/strict";
import { test } from "node:test";
import { reason } from "../src/live/api.ts";
import { matching } from "../src/live/browse.ts";
import type { Decision, Policy, Status } from "../src/live/data.ts";
import { merged } from "../src/live/decisions.ts";
import { problems } from "../src/live/home.ts";
import { grade } from "../src/live/namespaces.ts";
import { duration, points, span } from "../src/live/parts.ts";
import { state, titleOf } from "../src/live/policies.ts";
import { answer, offset } from "../src/live/try.ts";

test("why a server refuses", () => {
  assert.equal(reason(403, '{"code": 403, "error": "ann may not"}'), "ann may not");
  assert.equal(reason(502, "bad gateway\nmore"), "bad gateway");
  for (const text of ["", "<html>", '{"error": 1}', "x".repeat(1000)]) {
    if (text === '{"error": 1}') assert.equal(reason(500, text), text);
    else assert.equal(reason(500, text), "the server answers 500", text);
  }
});

test("a list is narrowed by words and facets", () => {
  const options = {
    words: (text: string) => text,
    facets: [{ key: "first", label: "First", of: (text: string) => text[0] ?? "" }],
  };
  const found = (query: string) => matching(["ab c", "Ad", ""], new URLSearchParams(query), options);
  assert.deepEqual(found(""), ["ab c", "Ad", ""]);
  assert.deepEqual(found("q=A+B"), ["ab c"]);
  assert.deepEqual(found("first=A"), ["Ad"]);
  assert.deepEqual(found("first="), [""]);
});

test("new decisions come first, and nothing twice", () => {
  const of = (...ids: number[]) => ids.map((id) => ({ id }) as Decision);
  assert.deepEqual(
    merged(of(3, 2, 1), of(5, 3)).map((it) => it.id),
    [5, 3, 2, 1],
  );
});

const status = (more: Partial<Status>): Status => ({
  version: "1",
  time: "",
  source: "cluster",
  user: null,
  replica: { name: "a", ready: true, leader: true, checks: [{ name: "tracker", ok: true, message: "" }] },
  replicas: null,
  certificate: null,
  policies: { inForce: 1, failed: 0 },
  audit: null,
  decisions: { since: "", counts: { allowed: 0, patched: 0, warned: 0, denied: 0, undecided: 0 }, kept: 0 },
  shadow: false,
  ...more,
});

test("what needs attention", () => {
  assert.deepEqual(problems(status({})), []);
  const pod = { name: "a", leader: false, startedAt: null, restarts: 0, image: "", node: "" };
  const cases: [Partial<Status>, string][] = [
    [{ certificate: { notAfter: "", secondsLeft: -1 } }, "the certificate has expired"],
    [{ certificate: { notAfter: "", secondsLeft: 7200 } }, "the certificate expires in 2 h"],
    [{ policies: { inForce: 1, failed: 2 } }, "2 policies do not load"],
    [{ replicas: { items: [{ ...pod, ready: true }], leader: "", error: "" } }, "no replica leads"],
    [{ replicas: { items: [{ ...pod, ready: false }], leader: "a", error: "" } }, "1 replica of 1 not ready"],
    [{ replicas: { items: [], leader: "", error: "no answer" } }, "no answer"],
    [
      {
        replica: {
          name: "",
          ready: false,
          leader: null,
          checks: [{ name: "tls-check", ok: false, message: "x" }],
        },
      },
      "tls-check: x",
    ],
  ];
  for (const [more, wanted] of cases) assert.deepEqual(problems(status(more)), [wanted]);
});

test("the state of a policy", () => {
  const of = (more: Partial<Policy>) =>
    state({ status: "active", inForce: true, demoted: false, ...more } as Policy);
  assert.equal(of({}), "in force");
  assert.equal(of({ demoted: true }), "slow");
  assert.equal(of({ status: "failed" }), "old version");
  assert.equal(of({ status: "failed", inForce: false }), "failed");
  assert.equal(titleOf({ kind: "ModRule", namespace: "shop", name: "pin" }), "ModRule shop/pin");
});

test("spans, durations, grades and lines", () => {
  assert.deepEqual([0, 59, 60, 7199, 86_400 * 3].map(span), ["0 s", "59 s", "1 min", "1 h", "3 d"]);
  assert.deepEqual([0.00002, 0.0123, 2.5].map(duration), ["20 µs", "12.3 ms", "2.50 s"]);
  assert.deepEqual([100, 99, 80, 79].map(grade), ["good", "warn", "warn", "deny"]);
  assert.equal(points([0, 10], 0, 10), "0.0,26.0 120.0,2.0");
  assert.equal(points([5, 5], 5, 5), "0.0,26.0 120.0,26.0");
});

test("a result of the server is shown as the playground's", () => {
  const explained = {
    title: "Secret a",
    before: "x",
    after: "x",
    explanation: { allowed: true, patch: null },
  };
  const finding = { level: "error" as const, message: "m", help: "", line: 2, column: 3 };
  const it = answer({ results: [explained], findings: [finding], notes: ["n"] });
  assert.deepEqual(JSON.parse(it.review), [{ allowed: true, patch: [] }]);
  assert.deepEqual(
    it.marks.map(({ file, line, column }) => [file, line, column]),
    [["objects", 2, 3]],
  );
  const changed = answer({ results: [{ ...explained, after: "y" }], findings: [], notes: [] });
  assert.equal(JSON.parse(changed.review)[0].patch.length, 1);
});

test("places in a text", () => {
  assert.deepEqual(
    [
      [1, 1],
      [2, 2],
      [2, 3],
      [9, 9],
    ].map(([line, column]) => offset("ab\n🙂c\n", line ?? 0, column ?? 0)),
    [0, 5, 6, 7],
  );
});
