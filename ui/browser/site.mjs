// Uses the site in a browser: `node browser/site.mjs [FOLDER FOR SCREENSHOTS]`, after `cargo xtask site`.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { isInstalled, launch, open, program, serious, THEMES, WIDTHS } from "./browser.mjs";

const site = join(dirname(fileURLToPath(import.meta.url)), "../../target/site");
const [pictures] = process.argv.slice(2);
if (!isInstalled || !existsSync(join(site, "index.html"))) {
  console.log(
    `SKIPPED: ${isInstalled ? "there is no site (`cargo xtask site`)" : `${program} is not installed`}`,
  );
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });

/** Media types of the files of the site. */
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".wasm": "application/wasm",
  ".woff2": "font/woff2",
};

/** A server of static files, as any host of the site is one. */
const server = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
  let file = join(site, path);
  if (existsSync(file) && statSync(file).isDirectory()) file = join(file, "index.html");
  if (!file.startsWith(site) || !existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
  response.end(readFileSync(file));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}/`;
const browser = await launch();
const ok = (text) => console.log(`ok   ${text}`);

/** Every page of the site, below it. */
function pages(folder = "") {
  return readdirSync(join(site, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = `${folder}${entry.name}`;
    if (entry.isDirectory()) return name === "playground" ? [] : pages(`${name}/`);
    // Frames of the contents, for browsers without scripts, and the page for wrong addresses.
    return name.endsWith(".html") && !["toc.html", "404.html"].includes(name) ? [name] : [];
  });
}

/** The pages whose pictures are taken, and which axe examines. */
const EXAMINED = [
  "index",
  "cli",
  "modrules",
  "functions",
  "compatibility",
  "quick-start",
  "examples/gatekeeper",
];

try {
  const all = pages();
  assert.ok(all.length > 60, `only ${all.length} pages`);
  const { page, faults, close } = await open(browser, { viewport: WIDTHS.wide }, address);
  for (const name of all) {
    await page.goto(`${address}${name}`);
    assert.deepEqual(faults, [], name);
  }
  await close();
  ok(`${all.length} pages open without an error and without a request to elsewhere`);

  for (const [width, viewport] of Object.entries(WIDTHS)) {
    for (const theme of THEMES) {
      const { page, faults, close } = await open(browser, { viewport, colorScheme: theme }, address);
      for (const name of EXAMINED) {
        await page.goto(`${address}${name}.html`);
        const picture = join(pictures ?? "", `site-${name.replace("/", "-")}-${width}-${theme}.png`);
        if (pictures) await page.screenshot({ path: picture });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${name}, ${width}: ${overflow} pixels too wide`);
        assert.deepEqual(await serious(page), [], `${name}, ${width}, ${theme}`);
        assert.deepEqual(faults, [], name);
      }
      await close();
      ok(`${width}, ${theme}: ${EXAMINED.length} pages fit, and axe finds nothing serious`);
    }
  }

  const searched = await open(browser, { viewport: WIDTHS.wide }, address);
  await searched.page.goto(`${address}index.html`);
  await searched.page.keyboard.press("s");
  await searched.page.locator("#mdbook-searchbar").pressSequentially("matchRegex");
  await searched.page.locator("#mdbook-searchresults a").first().waitFor();
  const found = await searched.page.locator("#mdbook-searchresults a").allTextContents();
  assert.ok(
    found.some((text) => text.includes("ModRules")),
    found.join(", "),
  );
  ok("the search finds the page of ModRules");

  if (existsSync(join(site, "playground/index.html"))) {
    await searched.page.goto(`${address}constraints.html`);
    await searched.page.getByRole("link", { name: "Run in the playground" }).first().click();
    const verdict = searched.page.locator(".verdict .effect").first();
    await verdict.waitFor();
    assert.equal(await verdict.textContent(), "denied");
    if (pictures) await searched.page.screenshot({ path: join(pictures, "site-run.png") });
    ok("an example of a page runs in the playground");
  }
  assert.deepEqual(searched.faults, []);
  await searched.close();
} finally {
  await browser.close();
  server.close();
}
