// Uses the playground of a binary in a browser: `node browser/playground.mjs BINARY [FOLDER FOR SCREENSHOTS]`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { isInstalled, launch, open, program, serious, THEMES, WIDTHS } from "./browser.mjs";
import { serve } from "./server.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const [binary, pictures] = process.argv.slice(2);
if (!binary) throw new Error("usage: node browser/playground.mjs BINARY [FOLDER]");
if (!isInstalled) {
  console.log(`SKIPPED: ${program} is not installed`);
  process.exit(0);
}
const server = await serve(binary);
if (!server) {
  console.log("SKIPPED: the binary was built without the playground (`cargo xtask playground`)");
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const { address } = server;
const browser = await launch();
const ok = (text) => console.log(`ok   ${text}`);

/** What the result says of each example. */
const EXPECTED = {
  cel: "denied",
  expansion: "allowed",
  map: "allowed, changed",
  modrule: "allowed, changed",
  mutator: "allowed, changed",
  rego: "denied",
  "rego-v0": "denied",
  vap: "denied",
};

const answers = (page) => page.evaluate(() => Number(document.documentElement.dataset.answers ?? 0));

/** Does something and waits for the answer to it. */
async function answered(page, act) {
  const before = await answers(page);
  await act();
  await page.waitForFunction(
    (count) => Number(document.documentElement.dataset.answers ?? 0) > count,
    before,
  );
}

async function goto(page, fragment = "") {
  await page.goto("about:blank");
  await page.goto(`${address}${fragment}`);
  await page.waitForFunction(() => Number(document.documentElement.dataset.answers ?? 0) > 0);
}

const verdict = (page) => page.locator(".verdict .effect").textContent();
const editor = (page, label) => page.getByRole("textbox", { name: label, exact: true });
/** Replaces a text as a person does. */
async function write(page, label, text) {
  await editor(page, label).focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

const tab = (page, name) => page.getByRole("tab", { name, exact: true });

/** Every example and every view, at both widths and in both themes. */
async function everyExample() {
  const names = readdirSync(join(root, "examples/playground"));
  assert.deepEqual(names.sort(), Object.keys(EXPECTED).sort());
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    for (const colorScheme of THEMES) {
      const { page, faults, close } = await open(browser, { viewport, colorScheme }, address);
      for (const name of names) {
        await goto(page, `#example=${name}`);
        assert.equal(await verdict(page), EXPECTED[name], name);
        const marks = await page.locator(".cm-lintRange-error").count();
        // The second object of `modrule` is rejected.
        assert.equal(marks > 0, EXPECTED[name] === "denied" || name === "modrule", name);
        for (const view of ["Decision", "Diff", "Explanation", /^Problems/, "JSON"]) {
          await page.getByRole("tab", { name: view }).click();
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(overflow <= 0, `${name} ${view} is ${overflow} pixels wider than the window (${width})`);
        }
        for (const view of ["Decision", "Diff", "Explanation"]) {
          if (name !== "rego" && name !== "modrule" && name !== "vap") continue;
          await page.getByRole("tab", { name: view }).click();
          assert.deepEqual(await serious(page), [], `${name} ${view} ${width} ${colorScheme}`);
          if (pictures) {
            const path = join(pictures, `playground-${name}-${view}-${width}-${colorScheme}.png`);
            await page.screenshot({ path, fullPage: true });
          }
        }
      }
      assert.deepEqual(faults, [], `${width} ${colorScheme}`);
      await close();
    }
  }
  ok(`${names.length} examples: every view, two widths, two themes`);
}

/** A second visit loads nothing again, and what the page loads has addresses with a version. */
async function caching() {
  const text = async (path, headers) => {
    const response = await fetch(`${address}${path}`, { headers });
    return [
      response.status,
      response.headers.get("cache-control"),
      (await response.arrayBuffer()).byteLength,
    ];
  };
  const tag = (await fetch(address)).headers.get("etag");
  for (const path of ["", "start.js", "main.js", "worker.js", "style.css"]) {
    assert.deepEqual(await text(path, { "if-none-match": tag }), [304, "no-cache", 0], path);
    const [status, , length] = await text(path, { "if-none-match": '"older"' });
    assert.ok(status === 200 && length > 0, path);
  }
  const body = async (path) => (await fetch(`${address}${path}`)).text();
  const named = [await body(""), await body("start.js")].join("\n").matchAll(/[\w.]+\?v=[0-9a-f]{16}/g);
  const addresses = [...named].map(([found]) => found);
  const files = addresses.map((it) => it.replace(/\?.*/, "")).sort();
  assert.deepEqual(files, ["main.js", "modgate.wasm", "start.js", "style.css", "worker.js"]);
  for (const it of addresses) assert.match((await text(it, {}))[1], /immutable/, it);
  assert.equal((await text("modgate.wasm", {}))[1], "no-cache");
  ok("a second visit loads nothing again");
}

/** The marks beside lines follow the object: what it reaches, and what it does not. */
async function reaching() {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  const covered = () =>
    page.waitForFunction(() => {
      const { answers, covered } = document.documentElement.dataset;
      return answers !== undefined && covered === answers;
    });
  const count = (state) => page.locator(`.policies .reach.${state}`).count();
  await goto(page, "#example=rego");
  await covered();
  const summary = page.locator(".reached");
  assert.match(await summary.textContent(), /^\d+ of \d+ places reached$/);
  const before = { all: await count("all"), none: await count("none") };
  assert.ok(before.all > 5, `${before.all} lines are reached`);
  await answered(page, () => write(page, "Object", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"));
  await covered();
  assert.ok(
    (await count("none")) > before.none,
    "no constraint matches, so nothing of the template is reached",
  );
  assert.match(await summary.textContent(), /^\d+ of \d+ places reached$/);
  await answered(page, () => write(page, "Policies", "kind: 'Pod\n"));
  await covered();
  assert.deepEqual([await count("all"), await count("none"), await summary.textContent()], [0, 0, ""]);
  assert.deepEqual(faults, []);
  await close();
  ok("what the object reaches of the policies is marked");
}

/** Typing, squiggles, places that open, the other views. */
async function typing() {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await goto(page, "#example=rego-v0");
  await answered(page, () =>
    write(page, "Object", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"),
  );
  assert.equal(await verdict(page), "allowed");
  await answered(page, () => write(page, "Object", "kind: 'Pod\n"));
  assert.equal(await verdict(page), "not evaluated");
  await page.locator(".input .cm-lintRange-error").waitFor();
  await page.getByRole("tab", { name: "Problems (1)" }).click();
  await page.getByRole("button", { name: "object.yaml:1:7" }).click();
  assert.ok(
    await editor(page, "Object").evaluate((element) => element.getRootNode().activeElement === element),
  );
  await goto(page, "#example=cel");
  await tab(page, "Object").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await tab(page, "Old object").getAttribute("aria-selected"), "true");
  await answered(page, () => page.getByLabel("Operation").selectOption("DELETE"));
  await answered(page, () => page.getByLabel("all", { exact: true }).check());
  await page.getByRole("button", { name: "Dark theme" }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(faults, []);
  await close();
  ok("typing, squiggles, places, keyboard, operation, theme");
}

/** An address carries the texts; the command line prints one that the page reads. */
async function sharing() {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await goto(page, "#example=vap");
  const all = await page.evaluate(() => document.documentElement.dataset.answers);
  assert.equal(all, "1");
  await answered(page, () =>
    editor(page, "Policies")
      .press("Control+End")
      .then(() => page.keyboard.type("# é 🙂\n")),
  );
  await page.getByRole("button", { name: "Share" }).click();
  await page.locator(".notice", { hasText: "address" }).waitFor();
  const sent = new URL(page.url()).hash;
  await goto(page, sent);
  assert.equal(await verdict(page), "denied");
  assert.match(await editor(page, "Policies").textContent(), /# é 🙂/);
  await tab(page, "User").click();
  assert.match(await editor(page, "User").textContent(), /username: ann/);
  const example = join(root, "examples/playground/expansion");
  const printed = execFileSync(
    resolve(binary),
    [
      "explain",
      "-f",
      join(example, "policies.yaml"),
      join(example, "object.yaml"),
      "--playground",
      "--operation",
      "update",
    ],
    { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] },
  );
  await goto(page, new URL(printed.trim()).hash);
  assert.equal(await verdict(page), "allowed");
  assert.equal(await page.getByLabel("Operation").inputValue(), "UPDATE");
  assert.match(await editor(page, "Policies").textContent(), /ExpansionTemplate/);
  for (const broken of ["#s=AAAA", "#s=!!", "#example=none"]) await goto(page, broken);
  assert.deepEqual(faults, []);
  await close();
  ok("share, and `explain --playground`");
}

/** What the dialogs offer runs in a shell. */
async function saving() {
  const { page, faults, close } = await open(
    browser,
    { viewport: WIDTHS.wide, permissions: ["clipboard-read", "clipboard-write"] },
    address,
  );
  const PATH = `${dirname(resolve(binary))}${delimiter}${process.env.PATH}`;
  const run = async (name, button, check) => {
    await goto(page, `#example=${name}`);
    await page.getByRole("button", { name: button }).click();
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await serious(page), [], `${button} of ${name}`);
    await page.getByRole("dialog").getByRole("button", { name: "Copy" }).last().click();
    const script = await page.evaluate(() => navigator.clipboard.readText());
    await page.getByRole("button", { name: "Close" }).click();
    const folder = mkdtempSync(join(tmpdir(), "modgate-playground-"));
    let output = "";
    let status = 0;
    try {
      output = execFileSync("bash", ["-ec", script], {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, PATH, NO_COLOR: "1" },
      });
    } catch (error) {
      status = error.status;
      output = `${error.stdout}${error.stderr}`;
    } finally {
      rmSync(folder, { recursive: true });
    }
    check(status, output, `${button} of ${name}: ${status}: ${output}`);
  };
  for (const [name, expected] of Object.entries(EXPECTED)) {
    await run(name, "Command line", (status, output, what) => {
      assert.equal(status, expected === "denied" || name === "modrule" ? 1 : 0, what);
      assert.match(output, expected === "denied" ? /denied/ : /allowed/, what);
    });
  }
  for (const name of ["rego", "rego-v0", "cel", "mutator", "modrule", "expansion"]) {
    await run(name, "Suite case", (status, output, what) => assert.equal(status, 0, `${what} ${output}`));
  }
  await goto(page, "#example=vap");
  await page.getByRole("button", { name: "Suite case" }).click();
  await page.getByText("Suites test templates").waitFor();
  assert.deepEqual(faults, []);
  await close();
  ok("files and commands of the dialogs run");
}

const ENDLESS = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: endless}
spec:
  crd: {spec: {names: {kind: Endless}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package endless
      violation[{"msg": "x"}] {
        n := numbers.range(1, 3000)
        count({[a, b, c] | a := n[_]; b := n[_]; c := n[_]; a + b + c == 0}) > 0
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Endless
metadata: {name: e}
`;

/** A policy that does not end leaves the page usable. */
async function endless() {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await goto(page, "#example=rego-v0");
  const policies = readFileSync(join(root, "examples/playground/rego-v0/policies.yaml"), "utf8");
  await answered(page, () => write(page, "Policies", ENDLESS));
  const start = performance.now();
  assert.match(await page.locator(".answer").textContent(), /stopped after|budget|limit|too/);
  await answered(page, () => write(page, "Policies", policies));
  const took = performance.now() - start;
  assert.equal(await verdict(page), "denied");
  assert.deepEqual(faults, []);
  await close();
  ok(`a policy that does not end: the next answer after ${took.toFixed(0)} ms`);
}

/** An address with a policy that does not end: there is a sign of work, and within a second an answer. */
async function endlessFirst() {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  const object = readFileSync(join(root, "examples/playground/rego-v0/object.yaml"), "utf8");
  const packed = deflateRawSync(JSON.stringify({ policies: ENDLESS, object })).toString("base64url");
  await page.goto(`${address}#s=${packed}`);
  await page.waitForFunction(() => document.querySelector(".verdict")?.textContent === "evaluating…");
  await page.waitForFunction(() => Number(document.documentElement.dataset.answers ?? 0) > 0);
  assert.match(await page.locator(".answer").textContent(), /stopped after/);
  const took = await page.evaluate(() => {
    const at = (name) => performance.getEntriesByName(name)[0].startTime;
    return at("answer") - at("engine");
  });
  await answered(page, () => page.locator("select[aria-label=Example]").selectOption("rego"));
  assert.deepEqual(faults, []);
  await close();
  ok(
    `an address with a policy that does not end: an answer ${took.toFixed(0)} ms after the engine is loaded`,
  );
}

/** From the engine that is loaded to the first answer, and from the start of the page. */
async function speed() {
  const figures = [];
  for (let time = 0; time < 5; time++) {
    const { page, close } = await open(browser, { viewport: WIDTHS.wide }, address);
    await goto(page);
    figures.push(
      await page.evaluate(() => {
        const at = (name) => performance.getEntriesByName(name)[0].startTime;
        return [at("answer") - at("engine"), at("answer")];
      }),
    );
    await close();
  }
  const median = (index) =>
    figures
      .map((it) => it[index])
      .sort((one, other) => one - other)[2]
      .toFixed(0);
  ok(
    `first answer ${median(0)} ms after the engine is loaded, ${median(1)} ms after the address is opened (median of 5)`,
  );
}

try {
  await everyExample();
  await caching();
  await reaching();
  await typing();
  await sharing();
  await saving();
  await endless();
  await endlessFirst();
  await speed();
} finally {
  await browser.close();
  server.stop();
}
