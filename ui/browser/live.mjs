// Uses the live page in a browser, with a server whose data stay the same, and with `modgate serve`: `node
// browser/live.mjs BINARY [FOLDER FOR SCREENSHOTS]`.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { request } from "node:https";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { isInstalled, launch, open, program, serious, THEMES, WIDTHS } from "./browser.mjs";
import { data, mock, NOW, TOKEN } from "./mock.mjs";

const root = join(import.meta.dirname, "../..");
const [binary, pictures] = process.argv.slice(2);
if (!binary) throw new Error("usage: node browser/live.mjs BINARY [FOLDER]");
if (!isInstalled) {
  console.log(`SKIPPED: ${program} is not installed`);
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = await launch();
const ok = (text) => console.log(`ok   ${text}`);

/** Where a value does not fit a schema; undefined if it does. Knows what openapi.json uses. */
function misfit(value, schema, schemas, path = "$") {
  if (schema.$ref) return misfit(value, schemas[schema.$ref.split("/").at(-1)], schemas, path);
  if (schema.anyOf) {
    const faults = schema.anyOf.map((each) => misfit(value, each, schemas, path));
    return faults.includes(undefined) ? undefined : faults[0];
  }
  const types = { string: "string", boolean: "boolean", number: "number", object: "object" };
  const is = (type) => {
    if (type === "null") return value === null;
    if (type === "integer") return Number.isInteger(value);
    if (type === "array") return Array.isArray(value);
    return value !== null && !Array.isArray(value) && typeof value === types[type];
  };
  if (schema.type && ![schema.type].flat().some(is))
    return `${path}: not ${schema.type}: ${JSON.stringify(value)}`;
  if (schema.enum && !schema.enum.includes(value)) return `${path}: not one of ${schema.enum}`;
  if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) {
      const fault = misfit(each, schema.items ?? {}, schemas, `${path}[${index}]`);
      if (fault) return fault;
    }
  } else if (value !== null && typeof value === "object" && schema.properties) {
    const lacks = (schema.required ?? []).find((name) => !(name in value));
    if (lacks) return `${path}: has no ${lacks}`;
    for (const [name, each] of Object.entries(value)) {
      if (!schema.properties[name]) return `${path}: ${name} is not in the schema`;
      const fault = misfit(each, schema.properties[name], schemas, `${path}.${name}`);
      if (fault) return fault;
    }
  }
  return undefined;
}

const { paths, components } = JSON.parse(
  readFileSync(join(root, "crates/modgate-server/src/ui/openapi.json"), "utf8"),
);
const schema = (path, method) =>
  paths[`/api/v1/${path}`][method].responses[200].content["application/json"].schema;
const fits = (value, of, what) => assert.equal(misfit(value, of, components.schemas), undefined, what);

/** The data of these tests are what the server's document says. */
async function theDataFit() {
  const server = await mock(data());
  for (const path of ["status", "policies", "namespaces", "decisions", "shadow"]) {
    fits(server.answer(`/api/v1/${path}`)[1], schema(path, "get"), path);
  }
  for (const id of [43, 42, 41, 39, 38]) {
    fits(server.answer(`/api/v1/decisions/${id}`)[1], schema("decisions/{id}", "get"), `decision ${id}`);
  }
  for (const objects of ["a: b\n", "kind: Pod\nmetadata:\n  name: a\n"]) {
    const answer = await fetch(`${server.address}api/v1/try`, {
      method: "POST",
      body: JSON.stringify({ objects }),
    });
    fits(await answer.json(), schema("try", "post"), objects);
  }
  assert.match(misfit({ items: [{}] }, schema("policies", "get"), components.schemas), /has no/);
  server.stop();
  ok("the data of these tests fit the document of the API");
}

/** Opens the page of a state, with the time of its data. */
async function start(state, fragment = "", options = {}) {
  const server = await mock(state);
  const it = await open(browser, { viewport: WIDTHS.wide, ...options }, server.address);
  await it.page.clock.install({ time: new Date(NOW) });
  await it.page.goto(`${server.address}${fragment}`);
  const close = async () => {
    await it.close();
    server.stop();
  };
  return { ...it, address: server.address, close };
}

const loads = (page) => page.evaluate(() => Number(document.documentElement.dataset.loads ?? 0));
/** Waits until the open view has been loaded, once more than `before`. */
const loaded = (page, before = 0) =>
  page.waitForFunction((count) => Number(document.documentElement.dataset.loads ?? 0) > count, before);

async function show(page, view) {
  const before = await loads(page);
  await page.locator("nav a", { hasText: view }).click();
  await page.locator("nav a[aria-current=page]", { hasText: view }).waitFor();
  await loaded(page, before);
}

/** Lets the page ask the server again. */
async function again(page) {
  const before = await loads(page);
  await page.clock.runFor(11_000);
  await loaded(page, before);
}

/** Every view, at both widths and in both themes. */
async function everyView() {
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    for (const colorScheme of THEMES) {
      const { page, faults, close } = await start(data(), "", { viewport, colorScheme });
      await loaded(page);
      const views = await page.locator("nav a").allTextContents();
      assert.deepEqual(views, ["Home", "Policies", "Namespaces", "Decisions", "Try", "Shadow"]);
      for (const view of views) {
        if (view !== "Home") await show(page, view);
        const row = page.locator(".rows .row").nth(view === "Decisions" ? 2 : 0);
        if ((await page.locator(".rows .row").count()) > 0) {
          await row.click();
          await page.locator(".detail h3").waitFor();
          await page.locator("[aria-busy]").waitFor({ state: "detached" });
        }
        if (view === "Try") {
          await page.getByRole("button", { name: "Evaluate" }).click();
          await page.locator(".results .verdict .effect").waitFor();
        }
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${view} is ${overflow} pixels wider than the window (${width})`);
        assert.deepEqual(await serious(page), [], `${view} ${width} ${colorScheme}`);
        if (pictures) {
          const path = join(pictures, `live-${view}-${width}-${colorScheme}.png`);
          await page.screenshot({ path, fullPage: true });
        }
      }
      assert.deepEqual(faults, [], `${width} ${colorScheme}`);
      await close();
    }
  }
  ok("every view, two widths, two themes");
}

/** From what is wrong on the first view to the policy, the decision and its explanation. */
async function flows() {
  const state = data();
  const { page, faults, address, close } = await start(state);
  await loaded(page);
  await page.getByText("the certificate expires in 4 d").waitFor();
  await page.getByText("1 replica of 3 not ready").waitFor();
  await page.getByRole("link", { name: "NeedLabel probes" }).click();
  await page.getByText("wrong type, expected a list of strings").first().waitFor();
  await page.getByLabel("Kind").selectOption("=NeedLabel");
  assert.equal(await page.locator(".rows .row").count(), 2);
  await page.getByLabel("Search").fill("owner");
  assert.equal(await page.locator(".rows .row").count(), 1);
  await page.getByRole("row").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.locator(".detail h3", { hasText: "NeedLabel need-owner" }).waitFor();
  await page.locator(".detail").getByRole("link", { name: "Deployment shop/cart" }).click();
  await page.locator(".detail h3", { hasText: "Deployment shop/cart" }).waitFor();
  await page.locator(".tree").waitFor();
  const sent = page.url();
  await page.goto("about:blank");
  await page.goto(sent);
  await page.locator(".detail h3", { hasText: "Deployment shop/cart" }).waitFor();
  assert.deepEqual(faults, []);
  await page.goto(`${address}#/decisions?open=39`);
  await page.getByText("requests of Secrets are not kept").waitFor();
  await page.goto(`${address}#/decisions?open=38`);
  await page.getByText("decide otherwise").waitFor();
  assert.ok((await page.locator(".line.marked").count()) > 0, "lines are marked");
  await page.goto(`${address}#/decisions?open=42`);
  await page.locator("table.diff").waitFor();
  assert.deepEqual(faults, []);
  await close();
  ok("from a fault to its policy, to a decision, to its explanation; addresses can be sent");
}

/** New decisions come in; what is open and in view stays. */
async function news() {
  const state = data();
  const { page, faults, close } = await start(state, "#/decisions?open=41");
  await page.locator(".tree").waitFor();
  await page.locator(".tree summary").first().click();
  const heads = async () => (await page.locator(".rows .row").first().textContent()) ?? "";
  assert.match(await heads(), /cart-6f7c9/);
  state.decisions.unshift({ ...state.decisions[0], id: 44, name: "newest" });
  await again(page);
  await page.locator(".rows .row", { hasText: "newest" }).waitFor();
  assert.match(await heads(), /newest/);
  assert.equal(
    await page
      .locator(".tree > li > details")
      .first()
      .evaluate((it) => it.open),
    false,
    "stays closed",
  );
  const view = page.locator(".view");
  await view.evaluate((element) => {
    element.scrollTop = 10 * 36;
  });
  const inView = () =>
    page.evaluate(() => {
      const top = document.querySelector(".view").getBoundingClientRect().top + 40;
      const rows = [...document.querySelectorAll(".rows .row")];
      return rows.find((row) => row.getBoundingClientRect().top >= top)?.children[1].textContent;
    });
  const before = await inView();
  state.decisions.unshift({ ...state.decisions[0], id: 45, name: "newer still" });
  await again(page);
  await page.getByText("38 decisions").waitFor();
  assert.equal(await inView(), before, "the rows in view stay");
  await page.getByRole("button", { name: "Pause" }).click();
  const asked = state.requests.length;
  await page.clock.runFor(60_000);
  assert.equal(state.requests.length, asked, "nothing is asked while paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.waitForFunction(() => document.body.textContent.includes("Pause"));
  // Only one namespace, which the server narrows; and pages.
  state.largest = 20;
  await page.getByLabel("Namespace").fill("pay");
  await page.getByLabel("Namespace").press("Enter");
  await page.getByText("2 decisions").waitFor();
  assert.ok(state.requests.some(({ path }) => path.includes("namespace=pay")));
  await page.getByLabel("Namespace").fill("");
  await page.getByLabel("Namespace").press("Enter");
  await page.getByText("20 decisions").waitFor();
  await page.getByRole("button", { name: "Older decisions" }).click();
  await page.getByText("38 decisions").waitFor();
  assert.equal(await page.getByRole("button", { name: "Older decisions" }).isHidden(), true);
  assert.deepEqual(faults, []);
  await close();
  ok("new decisions, pause, one namespace, older pages");
}

/** Objects to try. */
async function trying() {
  const state = data();
  const { page, faults, close } = await start(state, "#/try");
  await loaded(page);
  const tries = () => page.evaluate(() => Number(document.documentElement.dataset.tries ?? 0));
  const evaluate = async (act) => {
    const before = await tries();
    await act();
    await page.waitForFunction(
      (count) => Number(document.documentElement.dataset.tries ?? 0) > count,
      before,
    );
  };
  const objects = page.getByLabel("Objects, or AdmissionReviews");
  await evaluate(() => page.getByRole("button", { name: "Evaluate" }).click());
  assert.equal(await page.locator(".verdict .effect").textContent(), "denied");
  await page.getByRole("tab", { name: "Explanation" }).click();
  await page.locator(".tree").waitFor();
  await objects.fill("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {owner: x}\n");
  await evaluate(() => objects.press("Control+Enter"));
  assert.equal(await page.locator(".verdict .effect").textContent(), "allowed");
  await page.getByLabel("Namespace").fill("shop");
  await page.getByLabel("User").fill("ann");
  await page.getByLabel("Groups").fill("one, two");
  await objects.fill("a:\n  b: c\n");
  await evaluate(() => objects.press("Control+Enter"));
  assert.equal(await page.locator(".verdict .effect").textContent(), "not evaluated");
  assert.ok(state.requests.at(-1).path.endsWith("/try?namespace=shop"));
  await page.getByRole("tab", { name: /^Problems/ }).click();
  await page.getByRole("button", { name: "objects:2:3" }).click();
  assert.equal(await objects.evaluate((it) => it.selectionStart), 5);
  assert.deepEqual(faults, []);
  state.failure = { status: 429, value: { code: 429, error: "too many requests are in progress" } };
  await evaluate(() => objects.press("Control+Enter"));
  await page.getByText("too many requests are in progress").waitFor();
  await close();
  ok("objects are tried; findings lead to their place");
}

/** What of a failed request a browser prints on its own. */
const isOwnNote = (fault) => /console: Failed to load resource/.test(fault);

/** A token is asked for, sent, and stored nowhere. */
async function tokens() {
  const state = data();
  state.needsToken = true;
  const { page, faults, address, close } = await start(state);
  const field = page.getByRole("textbox", { name: "Token" });
  await field.fill("bad");
  assert.deepEqual(await serious(page), [], "the dialog");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("the cluster does not accept the token").first().waitFor();
  await field.fill(TOKEN);
  await page.getByRole("button", { name: "Continue" }).click();
  await loaded(page);
  await page.getByRole("heading", { name: "This process", exact: true }).waitFor();
  const kept = () =>
    page.evaluate(() =>
      [localStorage.length, sessionStorage.length, document.cookie, location.href].join(" "),
    );
  assert.equal(await kept(), `0 0  ${address}`);
  assert.ok(!(await page.content()).includes(TOKEN), "the token is not in the page");
  await page.reload();
  await field.waitFor();
  await page.goto("about:blank");
  await page.goto(`${address}#token=${TOKEN}`);
  await loaded(page);
  assert.equal(await kept(), `0 0  ${address}`);
  assert.equal(state.requests.at(-1).authorization, `Bearer ${TOKEN}`);
  assert.deepEqual(
    faults.filter((fault) => !isOwnNote(fault)),
    [],
  );
  await close();
  ok("a token is asked for, kept in memory, and taken out of the address");
}

/** A server that refuses or is gone: the page says so and keeps what it knows. */
async function failures() {
  const state = data();
  const { page, faults, close } = await start(state);
  await loaded(page);
  state.failure = { status: 403, value: { code: 403, error: "ann may not get overview of modgate.sh" } };
  await page.clock.runFor(6_000);
  await page.getByRole("alert").getByText("ann may not get overview of modgate.sh").waitFor();
  await page.getByRole("heading", { name: "This process", exact: true }).waitFor();
  state.failure = { status: 503, value: "<html>upstream</html>" };
  await page.clock.runFor(6_000);
  await page.getByRole("alert").getByText("the server answers 503").waitFor();
  state.failure = undefined;
  await again(page);
  assert.equal(await page.locator(".fault").isHidden(), true);
  state.shadow = undefined;
  state.status.shadow = false;
  await show(page, "Shadow");
  await page.getByText("There is no shadow").waitFor();
  assert.deepEqual(
    faults.filter((fault) => !isOwnNote(fault)),
    [],
  );
  await close();
  ok("refusals and failures are shown, and pass");
}

const HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>\u202e";

/** Every text as markup. */
function forged(value) {
  if (Array.isArray(value)) return value.map(forged);
  if (value === null || typeof value !== "object") {
    const isFree = typeof value === "string" && !/^\d{4}-/.test(value);
    return isFree ? `${HOSTILE}${value}` : value;
  }
  const fixed = ["outcome", "status", "source", "operation"];
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name,
      fixed.includes(name) && typeof each === "string" ? each : forged(each),
    ]),
  );
}

/** Texts of a cluster never become elements. */
async function hostile() {
  const state = data();
  const names = ["policies", "namespaces", "decisions", "shadow"];
  for (const name of names) state[name] = forged(state[name]);
  state.status = forged(state.status);
  const { page, faults, close } = await start(state);
  await loaded(page);
  for (const view of await page.locator("nav a").allTextContents()) {
    if (view !== "Home") await show(page, view);
    const rows = page.locator(".rows .row");
    for (let at = 0; at < Math.min(6, await rows.count()); at++) {
      await rows.nth(at).click();
      await page.locator(".detail h3").waitFor();
      await page.locator("[aria-busy]").waitFor({ state: "detached" });
    }
    assert.deepEqual([await page.locator("img").count(), await page.locator("script").count()], [0, 1], view);
    const text = await page.locator("main").textContent();
    assert.ok(text.includes("\\u{202e}") || view === "Try", view);
    assert.ok(!text.includes("\u202e"), `${view}: a text changes its direction`);
  }
  assert.deepEqual(faults, []);
  await close();
  ok("names, messages and users with markup stay text");
}

/** A port that was free a moment ago. */
async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Sends an admission request for an object. */
function admit(port, object) {
  const { kind, metadata } = object;
  const review = {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: crypto.randomUUID(),
      kind: { group: "", version: "v1", kind },
      resource: { group: "", version: "v1", resource: `${kind.toLowerCase()}s` },
      namespace: metadata.namespace,
      name: metadata.name,
      operation: "CREATE",
      userInfo: { username: "ann" },
      object,
    },
  };
  return new Promise((done, fail) => {
    const options = {
      host: "127.0.0.1",
      port,
      path: "/v1/admit",
      method: "POST",
      headers: { "content-type": "application/json" },
      // The certificate is made by the process for itself.
      rejectUnauthorized: false,
    };
    const sent = request(options, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => done(JSON.parse(text)));
    });
    sent.on("error", fail);
    sent.end(JSON.stringify(review));
  });
}

/** The page of `modgate serve`: what it answers fits its document, and a denial is explained. */
async function served() {
  const help = execFileSync(resolve(binary), ["serve", "--help"], { encoding: "utf8" });
  if (!help.includes("--ui-address")) {
    console.log("SKIPPED: the binary's `serve` has no live page");
    return;
  }
  const [port, live] = [await freePort(), await freePort()];
  const args = ["serve", "--policies", "examples/gatekeeper", "--address", `127.0.0.1:${port}`];
  const child = spawn(resolve(binary), [...args, "--ui-address", `127.0.0.1:${live}`], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (chunk) => {
    log += chunk;
  });
  const address = `http://127.0.0.1:${live}/`;
  const status = async () => {
    try {
      return (await fetch(`${address}api/v1/status`)).ok;
    } catch {
      return false;
    }
  };
  try {
    for (let tried = 0; !(await status()); tried++) {
      assert.ok(child.exitCode === null && tried < 300, `modgate serve is not ready: ${log}`);
      await new Promise((done) => setTimeout(done, 200));
    }
    const object = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "big", namespace: "shop" },
      spec: { containers: [{ name: "web", image: "nginx:1.29", resources: { limits: { memory: "4Gi" } } }] },
    };
    const { response } = await admit(port, object);
    assert.equal(response.allowed, false, JSON.stringify(response));
    const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
    await page.goto(`${address}#/decisions`);
    await page.locator(".rows .row", { hasText: "Pod shop/big" }).first().click();
    await page.locator(".tree").waitFor();
    await page.getByText("MemoryCeiling shop-memory").first().waitFor();
    await page.locator("nav a", { hasText: "Policies" }).click();
    await page.locator(".rows .row", { hasText: "MemoryCeiling shop-memory" }).click();
    await page.locator(".detail").getByRole("link", { name: "Pod shop/big" }).waitFor();
    await page.locator("nav a", { hasText: "Namespaces" }).click();
    await page.locator(".rows .row", { hasText: "shop" }).click();
    await page.locator("nav a", { hasText: "Try" }).click();
    await page.getByLabel("Objects, or AdmissionReviews").fill(JSON.stringify(object));
    await page.getByRole("button", { name: "Evaluate" }).click();
    await page.locator(".verdict .effect", { hasText: "denied" }).waitFor();
    await page.locator("nav a", { hasText: "Home" }).click();
    await page.getByRole("heading", { name: "This process", exact: true }).waitFor();
    assert.deepEqual(await serious(page), []);
    await page.locator("nav a", { hasText: "Shadow" }).click();
    await page.getByText("There is no shadow").waitFor();
    assert.deepEqual(faults, []);
    await close();
    for (const path of ["status", "policies", "namespaces", "decisions"]) {
      fits(await (await fetch(`${address}api/v1/${path}`)).json(), schema(path, "get"), path);
    }
    const { items } = await (await fetch(`${address}api/v1/decisions`)).json();
    const details = await (await fetch(`${address}api/v1/decisions/${items[0].id}`)).json();
    fits(details, schema("decisions/{id}", "get"), "a decision");
  } finally {
    child.kill();
  }
  ok("`modgate serve`: a denial is shown and explained, an object is tried, answers fit their document");
}

try {
  await theDataFit();
  await everyView();
  await flows();
  await news();
  await trying();
  await tokens();
  await failures();
  await hostile();
  await served();
} finally {
  await browser.close();
}
