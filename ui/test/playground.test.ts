import assert from "node:assert/strict";
import { test } from "node:test";
import { EditorState } from "@codemirror/state";
import { offset } from "../src/playground/editor.ts";
import { example, examples } from "../src/playground/examples.ts";
import { lines, summary } from "../src/playground/reach.ts";
import { type Answer, type Reach, request } from "../src/playground/request.ts";
import { commandLine, documents, script, suite } from "../src/playground/save.ts";
import { EMPTY, fromFragment, toFragment } from "../src/playground/state.ts";

test("an address carries a state", async () => {
  const state = { ...EMPTY, policies: "# é 🙂\n".repeat(5000), operation: "DELETE", all: true };
  const fragment = await toFragment(state);
  assert.ok(fragment.length < 500, `${fragment.length}`);
  assert.deepEqual(await fromFragment(fragment), state);
  assert.equal(await fromFragment(""), undefined);
  await assert.rejects(fromFragment("s=AAAA"));
});

test("an address of others cannot fill the memory, nor set what is no text", async () => {
  await assert.rejects(fromFragment(await toFragment({ ...EMPTY, policies: "a".repeat(5_000_000) })), /4 MB/);
  const forged = { ...EMPTY, policies: 1, operation: "NONE", unknown: "x" } as unknown as typeof EMPTY;
  assert.deepEqual(await fromFragment(await toFragment(forged)), EMPTY);
});

test("a line is reached if all, some or none of its places are", () => {
  const place = (
    line: number,
    reached: boolean,
    held: boolean | null = null,
    failed: boolean | null = null,
  ) => ({ file: "policies.yaml", line, column: 1, kind: "expression", reached, held, failed }) as Reach;
  const places = [
    place(9, false, false, false),
    place(2, true),
    place(2, true, true, true),
    place(4, true, false, true),
    place(4, false, false, false),
  ];
  assert.deepEqual(lines(places), [
    { line: 2, state: "all", text: "expression: reached\nexpression: held and did not hold" },
    { line: 4, state: "some", text: "expression: did not hold\nexpression: not reached" },
    { line: 9, state: "none", text: "expression: not reached" },
  ]);
  assert.equal(summary(places), "3 of 5 places reached");
  assert.deepEqual([lines([]), summary([])], [[], ""]);
});

test("columns count characters", () => {
  const { doc } = EditorState.create({ doc: "a: 🙂b\nc\n" });
  assert.equal(offset(doc, 1, 4), 3);
  assert.equal(offset(doc, 1, 5), 5);
  assert.equal(offset(doc, 2, 1), 7);
  assert.equal(offset(doc, 2, 99), 8);
  assert.equal(offset(doc, 99, 1), doc.length);
});

test("documents are told by what their first columns say", () => {
  const text =
    "# x\napiVersion: a.b/v1\nkind: K\nmetadata:\n  labels: {}\n  name: n\nspec: {kind: Other}\n---\n# nothing\n---\n{a: b}\n";
  assert.deepEqual(
    documents(text).map(({ kind, group, name }) => [kind, group, name]),
    [
      ["K", "a.b", "n"],
      ["", "", ""],
    ],
  );
  assert.equal(documents("kind: K\nmetadata: {labels: {}, name: n}\n")[0]?.name, "n");
});

test("the command line has the files of the page", () => {
  const state = { ...EMPTY, policies: "p\n", object: "o\n", namespace: "n\n", operation: "DELETE" };
  const saved = commandLine(state, undefined);
  assert.equal(
    saved.command,
    "modgate explain -f policies.yaml --objects namespace.yaml --operation DELETE object.yaml",
  );
  assert.equal(
    script({ files: [{ name: "a", text: "END\n" }], command: "x" }),
    "cat > a <<'END_'\nEND\nEND_\nx\n",
  );
  const answer = { request: { name: "request.json", text: "{}" } } as Answer;
  assert.match(commandLine({ ...state, user: "username: a\n" }, answer).command, / request\.json$/);
});

test("examples are complete", () => {
  assert.ok(examples.length >= 8);
  for (const { name, title } of examples) {
    const state = example(name);
    assert.ok(state && title !== name, name);
    assert.ok(state.policies && state.object, name);
    assert.ok("policies" in request(state), name);
  }
  assert.equal(suite({ ...EMPTY, policies: "kind: X\n" }, undefined).command, "");
});
