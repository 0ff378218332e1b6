// Measures the playground of a binary: `node browser/speed.mjs BINARY [RUNS]`. Each run is a new browser context, so
// that nothing is cached; a second visit in it finds what the first one has left.
import { readdirSync, readFileSync } from "node:fs";
import { isInstalled, launch, open, program, WIDTHS } from "./browser.mjs";
import { serve } from "./server.mjs";

const [binary, runs = "7"] = process.argv.slice(2);
if (!binary) throw new Error("usage: node browser/speed.mjs BINARY [RUNS]");
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

/**
 * The processor time of pages and their workers so far, in milliseconds: what else the machine does is not in it. NaN
 * where the system does not tell.
 */
async function processor() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  let sum = Number.NaN;
  for (const { id } of processInfo.filter(({ type }) => type === "renderer")) {
    try {
      for (const task of readdirSync(`/proc/${id}/task`)) {
        const of = (file) => readFileSync(`/proc/${id}/task/${task}/${file}`, "utf8").trim();
        if (task !== String(id) && !of("comm").startsWith("DedicatedWorker")) continue;
        sum = (Number.isNaN(sum) ? 0 : sum) + Number(of("schedstat").split(" ")[0]) / 1e6;
      }
    } catch {
      // It has ended.
    }
  }
  return sum;
}

/** How long the second visit waits for the browser to keep what it has compiled, in milliseconds. */
const KEEPING = 3000;

/** Figures of the way to the first answer, in milliseconds. */
const start = (page) =>
  page.evaluate(() => {
    const at = (name) => performance.getEntriesByName(name)[0].startTime;
    const { loadEventEnd } = performance.getEntriesByType("navigation")[0];
    return {
      "the address is opened to the page is loaded": loadEventEnd,
      "the address is opened to the engine is loaded": at("engine"),
      "the address is opened to the first answer is shown": at("answer"),
      "the engine is loaded to the first answer is shown": at("answer") - at("engine"),
      "page and engine are loaded to the first answer is shown":
        at("answer") - Math.max(at("engine"), loadEventEnd),
      "the evaluation in the worker, with what V8 compiles for it":
        performance.getEntriesByName("evaluated")[0].detail,
    };
  });

/** Figures of one visit and a second one, in milliseconds. */
async function visit() {
  const { page, close } = await open(browser, { viewport: WIDTHS.wide }, server.address);
  const answered = (count) =>
    page.waitForFunction((least) => Number(document.documentElement.dataset.answers ?? 0) >= least, count);
  await page.goto(server.address);
  await answered(1);
  const first = await start(page);
  // The other examples are evaluated meanwhile.
  await page.waitForFunction(() => performance.getEntriesByName("evaluated").length > 8);
  // What a person waits for after a change: the pause after a key is part of it.
  await page.getByRole("textbox", { name: "Object", exact: true }).focus();
  await page.keyboard.press("Control+End");
  await page.evaluate(() => {
    addEventListener("keydown", () => performance.mark("key"), { capture: true, once: true });
    new MutationObserver(() => performance.mark("again")).observe(document.documentElement, {
      attributeFilter: ["data-answers"],
    });
  });
  const before = await processor();
  await page.keyboard.press("Enter");
  await answered(2);
  const spent = (await processor()) - before;
  const next = await page.evaluate(() => {
    const at = (name) => performance.getEntriesByName(name)[0].startTime;
    return {
      "then a key to its answer (40 ms of it a pause)": at("again") - at("key"),
      "of that, the evaluation in the worker ": performance.getEntriesByName("evaluated").at(-1).detail,
    };
  });
  const others = { "of that, processor time of page and worker": spent };
  for (const name of ["cel", "modrule"]) {
    others[`then the example ${name} to its answer`] = await page.evaluate(
      (example) =>
        new Promise((done) => {
          const picker = document.querySelector("select[aria-label=Example]");
          const start = performance.now();
          new MutationObserver(() => done(performance.now() - start)).observe(document.documentElement, {
            attributeFilter: ["data-answers"],
          });
          picker.value = example;
          picker.dispatchEvent(new Event("change"));
        }),
      name,
    );
  }
  await page.waitForTimeout(KEEPING);
  await page.goto("about:blank");
  await page.goto(server.address);
  await answered(1);
  const again = Object.entries(await start(page)).map(([name, figure]) => [`second visit: ${name}`, figure]);
  await close();
  return { ...first, ...next, ...others, ...Object.fromEntries(again) };
}

try {
  const visits = [];
  for (let run = 0; run < Number(runs); run++) visits.push(await visit());
  for (const name of Object.keys(visits[0])) {
    const all = visits.map((it) => it[name]).sort((one, other) => one - other);
    const shown = (value) => value.toFixed(1).padStart(8);
    console.log(
      `${shown(all[Math.floor(all.length / 2)])} ms  (${shown(all[0])} to ${shown(all.at(-1))})  ${name}`,
    );
  }
} finally {
  await browser.close();
  server.stop();
}
