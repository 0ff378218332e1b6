// Opens what the binary writes in a browser: `node browser/run.mjs BINARY [FOLDER FOR SCREENSHOTS]`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isInstalled, launch, open, program, serious, THEMES, WIDTHS } from "./browser.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const [binary, pictures] = process.argv.slice(2);
if (!binary) throw new Error("usage: node browser/run.mjs BINARY [FOLDER]");
if (!isInstalled) {
  console.log(`SKIPPED: ${program} is not installed`);
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "modgate-pages-"));

/** What a command prints; it may exit with 1. */
function output(...args) {
  try {
    return execFileSync(resolve(binary), args, { cwd: root, maxBuffer: 1 << 28, encoding: "utf8" });
  } catch (error) {
    if (error.status === 1) return error.stdout;
    throw error;
  }
}

function write(name, text) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return pathToFileURL(path).href;
}

/** A page with other data, put in as the binary does. */
function withData(html, data) {
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  return html.replace(
    /(<script type="application\/json" id="data">).*?(<\/script>)/s,
    (_, a, b) => a + text + b,
  );
}

const HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>\u202e";

/** A page of `count` violations whose every text is markup. */
function forged(count) {
  const template = readFileSync(join(root, "crates/modgate-ui/dist/report.html"), "utf8");
  const about = (index) => ({
    group: "",
    kind: "Pod",
    namespace: `team-${index % 40}`,
    name: `${HOSTILE}-${index}`,
  });
  const violations = Array.from({ length: count }, (_, index) => ({
    policy: { group: "g", kind: "NeedLabel", name: `rule-${index % 25}` },
    object: { ...about(index), place: `objects.yaml:${index + 1}:1` },
    enforcementAction: ["deny", "warn", "dryrun"][index % 3],
    message: `object ${index} ${HOSTILE}`,
    details: { text: HOSTILE },
    new: index % 2 === 0,
  }));
  const baseline = { new: count / 2, fixed: count, fixedViolations: violations };
  const first = { ...about(0), place: "objects.yaml:1:1", text: `kind: Pod\nname: "${HOSTILE}"\n` };
  const annotations = { description: HOSTILE, "modgate.sh/owner": HOSTILE };
  const object = { metadata: { annotations }, spec: { match: { name: HOSTILE } } };
  const policy = {
    group: "g",
    kind: "NeedLabel",
    namespace: "",
    name: "rule-0",
    origin: HOSTILE,
    text: HOSTILE,
    object,
  };
  return withData(template.replace("@DATA@", "null"), {
    modgate: HOSTILE,
    command: "audit",
    arguments: ["-f", HOSTILE],
    document: { groups: [{ total: count, violations }], objects: count, errors: [], baseline },
    policies: [policy],
    subjects: [first],
    omitted: [HOSTILE],
  });
}

const examples = {
  audit: ["audit", "-f", "examples/gatekeeper", "examples/gatekeeper/objects", "-o", "html"],
  review: ["review", "-f", "examples/quickstart", "examples/quickstart", "-o", "html"],
  compare: [
    "compare",
    "examples/quickstart",
    "examples/gatekeeper",
    "examples/gatekeeper/objects",
    "-o",
    "html",
  ],
  bench: ["bench", "-f", "examples/gatekeeper", "-e", "rego", "-n", "100", "--top", "5", "-o", "html"],
  verify: ["verify", "examples/gatekeeper/...", "--coverage", "--mutants", "-o", "html"],
  lint: ["lint", "examples/quickstart", "examples/gatekeeper", "-o", "html"],
  migrate: ["migrate", "--check", "examples/quickstart", "examples/gatekeeper", "-o", "html"],
};

const browser = await launch();
const ok = (text) => console.log(`ok   ${text}`);

/** Follows the link to a view and waits for the page to show it: a browser tells the page of its new address later. */
async function show(page, view) {
  await page.locator("nav a", { hasText: view }).click();
  await page.locator("nav a[aria-current=page]", { hasText: view }).waitFor();
}

/** Opens the first row of a view that has rows. */
async function openFirstRow(page) {
  const row = page.locator(".rows .row").first();
  if ((await row.count()) > 0) await row.click();
}

/** Every view of every page, at both widths and in both themes. */
async function everyView(address, name) {
  const { page, faults, close } = await open(browser, {}, address);
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    for (const colorScheme of THEMES) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await page.goto("about:blank");
      await page.goto(address);
      const views = await page.locator("nav a").allTextContents();
      assert.ok(views.length > 1, `${name} has views`);
      for (const view of views) {
        await show(page, view);
        await openFirstRow(page);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${name} ${view} is ${overflow} pixels wider than the window (${width})`);
        assert.deepEqual(await serious(page), [], `${name} ${view} ${width} ${colorScheme}`);
        if (pictures) {
          await page.screenshot({
            path: join(pictures, `${name}-${view}-${width}-${colorScheme}.png`),
            fullPage: true,
          });
        }
      }
      assert.deepEqual(faults, [], `${name} ${width} ${colorScheme}`);
    }
  }
  await close();
  ok(`${name}: every view, two widths, two themes`);
}

/** The flows of an audit: bars lead to violations, search narrows, a row opens, its address can be sent. */
async function auditFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await page.goto(address);
  await page.locator(".chart a").first().click();
  await page.waitForURL(/#\/violations\?policy=/);
  await page.getByLabel("Search").fill("nothing has this name");
  assert.equal(await page.locator(".rows .row").count(), 0);
  await page.getByLabel("Search").fill("index");
  assert.ok((await page.locator(".rows .row").count()) > 0);
  await page.getByRole("row").nth(1).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".detail h3").waitFor();
  assert.ok((await page.locator(".line.marked").count()) > 0, "lines are marked");
  assert.ok((await page.locator(".tree details").count()) > 0, "there is an explanation");
  const sent = page.url();
  const heading = await page.locator(".detail h3").textContent();
  await page.goto("about:blank");
  await page.goto(sent);
  assert.equal(await page.locator(".detail h3").textContent(), heading, "an address opens the same row");
  await page.locator(".detail dd a").first().click();
  await page.locator("details.policy[open]").waitFor();
  assert.equal(await page.locator("details.policy[open]").count(), 1, "one policy is open");
  await page.getByRole("button", { name: "Dark theme" }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(faults, []);
  await close();
  ok("audit: bars, search, keyboard, deep links, policy, theme");
}

/** The overview counts violations by what the policies do, in the words of the list, and leads there. */
async function effectFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await page.goto(address);
  const chips = (await page.locator(".legend a").allTextContents()).sort();
  await show(page, "Violations");
  const listed = new Set(await page.locator(".rows .effect").allTextContents());
  assert.deepEqual(chips, [...listed].sort());
  assert.ok(listed.has("patch"), [...listed].join(", "));
  await show(page, "Overview");
  await page.locator(".legend a", { hasText: "patch" }).click();
  await page.waitForURL(/#\/violations\?effect=patch/);
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".rows .effect")].every((it) => it.textContent === "patch"),
  );
  assert.ok((await page.locator(".rows .row").count()) > 0);
  assert.deepEqual(faults, []);
  await close();
  ok("audit: effects of policies, and the violations behind each");
}

/** A comparison: bars lead to the differences of a policy, whose two sides stand beside one another. */
async function differenceFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await page.goto(address);
  const name = await page.locator(".chart a").first().textContent();
  await page.locator(".chart a").first().click();
  await page.waitForURL(/#\/differences\?policy=/);
  await page.locator("details[open]").first().waitFor();
  assert.equal(await page.locator("details[open] summary b").first().textContent(), name);
  assert.equal(await page.locator("details[open] .diff").first().isVisible(), true);
  assert.deepEqual(faults, []);
  await close();
  ok("compare: bars, differences side by side");
}

/** A case of a suite: the command that the page names runs it again, and no other. */
async function caseFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await page.goto(`${address}#/cases`);
  await openFirstRow(page);
  const name = await page.locator(".detail h3").textContent();
  const command = await page.locator(".detail .command code").textContent();
  const [, ...args] = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, one, other]) => one ?? other);
  const { suites } = JSON.parse(output(...args, "-o", "json"));
  const cases = suites.flatMap(({ tests }) => tests.flatMap((it) => it.cases));
  assert.deepEqual(
    cases.filter(({ skipped }) => !skipped).map((it) => it.name),
    [name],
    command,
  );
  assert.deepEqual(faults, []);
  await close();
  ok("verify: the command of a case");
}

/** The processor time of a page's own thread so far, in milliseconds: what others do on the machine is not in it. */
async function processor(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1000 * metrics.find(({ name }) => name === "TaskDuration").value;
  };
}

/** How long opening and filtering may take, in milliseconds. */
const QUICK = 1000;

/** Texts of a cluster never become elements, and 10,000 rows stay quick. */
async function hostileFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  const used = await processor(page);
  const measured = async (act) => {
    const [start, before] = [performance.now(), await used()];
    await act();
    return [performance.now() - start, (await used()) - before];
  };
  const opening = await measured(async () => {
    await page.goto(`${address}#/violations`);
    await page.locator(".rows .row").first().waitFor();
  });
  const filtering = await measured(async () => {
    await page.getByLabel("Search").fill("object -9999");
    await page.waitForFunction(() => document.querySelectorAll(".rows .row").length === 1);
  });
  for (const [what, [, own]] of Object.entries({ opening, filtering })) {
    assert.ok(own < QUICK, `${what} took ${own.toFixed(0)} ms of processor time`);
  }
  await page.getByLabel("Search").fill("");
  await page.waitForFunction(() => document.querySelectorAll(".rows .row").length > 1);
  assert.ok((await page.locator(".rows .row").count()) < 100, "only rows in view exist");
  for (const view of await page.locator("nav a").allTextContents()) {
    await show(page, view);
    await openFirstRow(page);
    assert.deepEqual([await page.locator("img").count(), await page.locator("script").count()], [0, 2], view);
    assert.ok(
      !(await page.locator("main").textContent()).includes("\u202e"),
      `${view}: a text changes its direction`,
    );
  }
  assert.deepEqual(faults, []);
  await close();
  const words = ([all, own]) => `in ${all.toFixed(0)} ms (${own.toFixed(0)} ms of processor time)`;
  ok(`10000 violations with markup: opened ${words(opening)}, filtered ${words(filtering)}`);
}

/** Objects that make a browser slow: a text of 250,000 characters without a space, and 60,000 lines. */
function huge() {
  const template = readFileSync(join(root, "crates/modgate-ui/dist/report.html"), "utf8");
  const word = "A".repeat(250_000);
  const lines = Array.from({ length: 60_000 }, (_, index) => `  k${index}: v`).join("\n");
  const about = (name) => ({ group: "", kind: "ConfigMap", namespace: "shop", name });
  const objects = [
    { ...about("word"), place: "o.yaml:1:1", text: `kind: ConfigMap\nmetadata:\n  name: ${word}\n` },
    { ...about("lines"), place: "o.yaml:9:1", text: `kind: ConfigMap\ndata:\n${lines}\n` },
  ];
  const violations = objects.map(({ text, ...object }, index) => ({
    policy: { group: "g", kind: "NeedLabel", name: "rule" },
    object,
    enforcementAction: "deny",
    message: index === 0 ? `the annotation is ${word}` : "`k59999` is not allowed",
    details: { text: index === 0 ? word : "" },
  }));
  return withData(template.replace("@DATA@", "null"), {
    modgate: "",
    command: "audit",
    arguments: ["-f", "p"],
    document: { groups: [{ total: 2, violations }], objects: 2, errors: [] },
    policies: [],
    subjects: objects,
    omitted: [],
  });
}

/** Anyone who can write an annotation could freeze the page of the person who looks into it. */
async function hugeFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  const used = await processor(page);
  await page.goto(`${address}#/violations`);
  await page.locator(".rows .row").first().waitFor();
  for (const name of ["word", "lines"]) {
    const before = await used();
    await page.locator(".rows .row", { hasText: name }).click();
    await page.locator(".detail .source").last().waitFor();
    // A layout of everything is part of it.
    await page.locator(".detail").evaluate((element) => element.getBoundingClientRect().height);
    const own = (await used()) - before;
    assert.ok(own < QUICK, `the object \`${name}\` took ${own.toFixed(0)} ms of processor time`);
  }
  const buttons = page.locator(".detail .source button");
  const shown = async () => await page.locator(".detail .source .line").count();
  const [few, more] = [await shown(), await buttons.count()];
  assert.ok(few <= 2_020 && more > 0, `${few} lines, ${more} buttons`);
  assert.equal(await page.locator(".detail .line.marked").count(), 1, "the line at fault is among them");
  await buttons.first().click();
  assert.ok((await shown()) > few);
  assert.deepEqual(faults, []);
  await close();
  ok("an object of 60,000 lines, and one with a word of 250,000 characters");
}

/** An audit of fewer objects, against the audit of all: its page has what is fixed, and owners. */
function comparedAudit() {
  const policies = join(folder, "owned");
  mkdirSync(policies);
  for (const name of ["template.yaml", "constraint.yaml", "expansion.yaml"]) {
    const text = readFileSync(join(root, "examples/gatekeeper", name), "utf8");
    const owned = text.replace(
      /^metadata:\n/gm,
      "metadata:\n  annotations: {modgate.sh/owner: team platform}\n",
    );
    writeFileSync(join(policies, name), owned);
  }
  const objects = join(root, "examples/gatekeeper/objects");
  const [both, fixed, fresh] = readdirSync(objects)
    .sort()
    .map((name) => join(objects, name));
  const before = join(folder, "before.json");
  writeFileSync(before, output("audit", "-f", policies, both, fixed, "-o", "json"));
  return output("audit", "-f", policies, "--baseline", before, both, fresh, "-o", "html");
}

/** The facets of owners and of a baseline. */
async function comparedFlows(address) {
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  await page.goto(`${address}#/violations`);
  const rows = page.locator(".rows .row");
  await rows.first().waitFor();
  const all = await rows.count();
  await page.getByLabel("Owner").selectOption({ index: 1 });
  await page.waitForURL(/owner=team/);
  assert.equal(await rows.count(), all);
  await page.getByLabel("Baseline").selectOption("=new");
  await page.waitForURL(/since=new/);
  await page.waitForFunction((before) => document.querySelectorAll(".rows .row").length < before, all);
  assert.ok((await rows.count()) > 0 && (await page.locator("b.new").count()) > 0, "something is new");
  assert.deepEqual(faults, []);
  await close();
  ok("audit against a baseline: facets of owner and baseline");
}

try {
  const addresses = {};
  for (const [name, args] of Object.entries(examples))
    addresses[name] = write(`${name}.html`, output(...args));
  addresses.baseline = write("baseline.html", comparedAudit());
  for (const [name, address] of Object.entries(addresses)) await everyView(address, name);
  await auditFlows(addresses.audit);
  await comparedFlows(addresses.baseline);
  await effectFlows(
    write(
      "effects.html",
      output("audit", "-f", "examples/repository/policies", "examples/repository/manifests", "-o", "html"),
    ),
  );
  await differenceFlows(addresses.compare);
  await caseFlows(addresses.verify);
  await hostileFlows(write("forged.html", forged(10_000)));
  await hugeFlows(write("huge.html", huge()));
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
