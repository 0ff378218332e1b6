// A headless Chromium that reports everything a page must not do.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Chromium as Debian installs it, or another that CHROMIUM names. */
export const program = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const isInstalled = existsSync(program);

export const WIDTHS = { wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 844 } };
export const THEMES = ["light", "dark"];

export async function launch() {
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
}

/** A page, and the list of what went wrong on it: errors, and requests to other places than `origin`. */
export async function open(browser, options, origin) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) {
      faults.push(`request: ${request.url()}`);
    }
  });
  return { page, faults, close: () => context.close() };
}

/** What axe finds that is serious or worse. */
export async function serious(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .flatMap((violation) =>
      violation.nodes.map((node) => `${violation.id}: ${node.target.join(" ")}: ${node.failureSummary}`),
    );
}
