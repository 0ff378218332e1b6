// Asks the playground in a browser and the command line for the cases of the recorded suites, and compares their
// JSON byte for byte: `node browser/suites.mjs BINARY [--sample COUNT] [--seed NUMBER] [--only NAME]`. The suites are where
// MODGATE_CONFORMANCE and MODGATE_SUITES say, else in `../shared` beside the project, as for the tests in Rust.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { isInstalled, launch, open, program } from "./browser.mjs";
import { serve } from "./server.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: "string" }, seed: { type: "string", default: "1" }, only: { type: "string" } },
});
const [binary] = positionals;
if (!binary)
  throw new Error("usage: node browser/suites.mjs BINARY [--sample COUNT] [--seed NUMBER] [--only NAME]");

const text = (path) => readFileSync(path, "utf8");
const file = (path, name = basename(path)) => ({ name, text: text(path) });
const shared = resolve(import.meta.dirname, "../../../shared");
const here = (variable, beside, ...path) => join(process.env[variable] ?? join(shared, beside), ...path);

/** Files below a folder with this name. */
function find(folder, name) {
  return readdirSync(folder, { recursive: true })
    .filter((path) => basename(path) === name)
    .map((path) => join(folder, path))
    .sort();
}

/** The cases of Gatekeeper's suites, by the lines of their files. */
function library(folder) {
  const cases = [];
  for (const path of find(folder, "suite.yaml")) {
    const beside = (name) => file(join(dirname(path), name));
    let template;
    let constraint;
    let inventory;
    for (const line of text(path).split("\n")) {
      const [, member, value] = /^[\s-]*(\w+):\s*(\S.*)?$/.exec(line) ?? [];
      const item = /^\s+- (\S+\.yaml)$/.exec(line)?.[1];
      if (member === "template") template = beside(value);
      else if (member === "constraint") constraint = beside(value);
      else if (member === "object") {
        inventory = [];
        const policies = [
          { ...template, name: "template.yaml" },
          { ...constraint, name: "constraint.yaml" },
        ];
        const objects = [{ ...beside(value), name: "object.yaml" }];
        cases.push({ name: `${dirname(path)} ${value}`, policies, objects, references: inventory });
      } else if (item) inventory?.push({ ...beside(item), name: `inventory-${inventory.length + 1}.yaml` });
    }
  }
  return cases;
}

function kubescape(folder) {
  const shared = [file(join(folder, "crd.yaml"))];
  const cases = [];
  for (const path of find(folder, "cases.json")) {
    const policy = file(join(dirname(path), "policy.yaml"));
    for (const it of JSON.parse(text(path))) {
      cases.push({
        name: `${path} ${it.name}`,
        policies: [policy, file(join(folder, it.binding ?? "policy-binding.yaml"), "binding.yaml")],
        objects: [{ name: "object.json", text: JSON.stringify(it.object) }],
        references: [...shared, ...(it.params ? [file(join(folder, it.params), "params.yaml")] : [])],
      });
    }
  }
  return cases;
}

function kat(folder) {
  const cases = [];
  for (const path of find(folder, "policy.yaml")) {
    const tests = join(dirname(path), "tests");
    const groups = new Map();
    for (const name of existsSync(tests) ? readdirSync(tests).sort() : []) {
      const [, test, part] = /^(.*)\.(\w+)\.\w+$/.exec(name) ?? [];
      if (test) groups.set(test, { ...groups.get(test), [part]: file(join(tests, name), `${part}.yaml`) });
    }
    const policies = ["policy.yaml", "binding.yaml"]
      .map((name) => join(dirname(path), name))
      .filter(existsSync);
    for (const [test, parts] of groups) {
      const { object, oldObject, request, gold, message, warnings, annotations, ...others } = parts;
      const subject = object ?? oldObject;
      if (!subject) continue;
      const attributes =
        oldObject || request
          ? { oldObject: oldObject ?? { name: "", text: "" }, userInfo: user(request) }
          : null;
      const operation =
        /^operation: (\w+)/m.exec(request?.text ?? "")?.[1] ??
        (oldObject ? (object ? "UPDATE" : "DELETE") : "CREATE");
      cases.push({
        name: `${path} ${test}`,
        policies: policies.map((it) => file(it)),
        objects: [subject],
        references: Object.values(others),
        attributes,
        operation,
      });
    }
  }
  return cases;
}

/** The member `userInfo` of a request, by its indentation. */
function user(request) {
  const lines = /^userInfo:\n((?: +.*\n?)+)/m.exec(request?.text ?? "")?.[1] ?? "";
  return { name: "user.yaml", text: lines.replace(/^ {2}/gm, "") };
}

/** What the command line prints for the same texts. */
function command(it, answer) {
  const folder = mkdtempSync(join(tmpdir(), "modgate-suites-"));
  const args = ["review", "-o", "json"];
  const add = (flag, files) => {
    for (const { name, text } of files) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
      args.push(...flag, name);
    }
  };
  add(["-f"], it.policies);
  add(["--objects"], it.references);
  add([], it.attributes && answer.request ? [answer.request] : it.objects);
  if (it.operation && !it.attributes) args.push("--operation", it.operation);
  return new Promise((done, fail) => {
    const options = { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28 };
    execFile(resolve(binary), args, options, (error, stdout) => {
      rmSync(folder, { recursive: true });
      if (error && ![1, 2].includes(error.code)) fail(error);
      else done(stdout);
    });
  });
}

/** The same choice for the same seed. */
function sample(all, count, seed) {
  let state = BigInt(seed);
  const next = () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    return state >> 33n;
  };
  return all
    .map((it) => [next(), it])
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .slice(0, count)
    .map(([, it]) => it);
}

const folders = [
  ["gatekeeper library", here("MODGATE_CONFORMANCE", "conformance", "gatekeeper-library/library"), library],
  ["kubescape", here("MODGATE_SUITES", "suites", "admission-policies/kubescape"), kubescape],
  ["kat", here("MODGATE_SUITES", "suites", "admission-policies/kat"), kat],
];
if (!isInstalled) {
  console.log(`SKIPPED: ${program} is not installed`);
  process.exit(0);
}
const server = await serve(binary);
if (!server) {
  console.log("SKIPPED: the binary was built without the playground (`cargo xtask playground`)");
  process.exit(0);
}
const browser = await launch();
try {
  for (const [name, folder, read] of folders) {
    if (values.only && values.only !== name) continue;
    if (!existsSync(folder)) {
      const isLost = process.env.CI === "true" && existsSync(shared);
      assert.ok(!isLost, `${name}: ${folder} is not there`);
      console.log(`SKIPPED: ${name}: its files are not there`);
      continue;
    }
    const all = read(folder);
    const chosen = values.sample ? ` (seed ${values.seed})` : "";
    const cases = values.sample ? sample(all, Number(values.sample), values.seed) : all;
    assert.ok(cases.length > 0, name);
    const { page, faults, close } = await open(browser, {}, server.address);
    await page.goto(server.address);
    await page.evaluate(async () => {
      const module = await WebAssembly.compileStreaming(fetch("modgate.wasm"));
      const worker = new Worker("worker.js");
      const heard = () =>
        new Promise((done) => worker.addEventListener("message", (it) => done(it.data), { once: true }));
      worker.postMessage({ module });
      await heard();
      globalThis.ask = (request) => {
        worker.postMessage({ id: 1, request });
        return heard();
      };
    });
    let decided = 0;
    const different = [];
    for (const it of cases) {
      const { name: title, ...texts } = it;
      const reply = await page.evaluate(
        (request) => globalThis.ask(request),
        JSON.stringify({ ...texts, now: Date.now(), seed: 1 }),
      );
      assert.ok(reply.text, `${title}: ${reply.failed}`);
      const answer = JSON.parse(reply.text);
      const printed = await command(it, answer);
      if (answer.review !== printed) different.push([title, answer.review, printed]);
      decided += answer.subjects.length > 0 ? 1 : 0;
    }
    assert.deepEqual(faults, []);
    await close();
    for (const [title] of different) console.log(`different: ${title}`);
    // The first one in full.
    for (const [title, answer, printed] of different) assert.equal(answer, printed, title);
    console.log(
      `ok   ${name}: ${cases.length} of ${all.length} cases equal${chosen}, ${decided} of them with a decision`,
    );
  }
} finally {
  await browser.close();
  server.stop();
}
