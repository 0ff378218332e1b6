// Compares views with pictures that people have looked at: `node browser/goldens.mjs [--update]`. The pictures have half
// the size. They depend on fonts and on Chromium, so they are compared only where both are as they were.
import assert from "node:assert/strict";
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
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isInstalled, launch, program, THEMES, WIDTHS } from "./browser.mjs";
import { data, mock, NOW } from "./mock.mjs";
import { samples, withData } from "./samples.mjs";

const folder = join(import.meta.dirname, "goldens");
const machine = join(folder, "machine.json");
const isUpdate = process.argv.includes("--update");
if (!isInstalled) {
  console.log(`SKIPPED: ${program} is not installed`);
  process.exit(0);
}

/** A channel of a pixel may differ by this, of 255, and this share of the pixels by more. */
const CHANNEL = 48;
const SHARE = 0.0005;

const server = await mock(data());
const files = mkdtempSync(join(tmpdir(), "modgate-goldens-"));
const browser = await launch();
/** An empty page, for work on pictures. */
const workshop = await browser.newPage();

function report(name) {
  const path = join(files, `${name}.html`);
  writeFileSync(path, withData(samples[name]()));
  return pathToFileURL(path).href;
}

/** The views: an address, and what is there when a view is complete. */
const VIEWS = {
  "live-home": [`${server.address}`, ".cards"],
  "live-policies": [`${server.address}#/policies?open=NeedLabel+need-owner`, ".detail h3"],
  "live-namespaces": [`${server.address}#/namespaces?open=shop`, ".detail h3"],
  "live-decisions": [`${server.address}#/decisions?open=41`, ".tree"],
  "live-try": [`${server.address}#/try`, ".results .verdict .effect"],
  "live-shadow": [`${server.address}#/shadow`, ".facts-table"],
  "report-audit": [report("audit"), ".chart"],
  "report-violations": [`${report("audit")}#/violations?open=0`, ".tree"],
  "report-lint": [`${report("lint")}#/findings?open=0`, "table.diff"],
};

/** What pictures depend on besides the pages. */
async function fingerprint() {
  const widths = await workshop.evaluate(() => {
    const context = document.createElement("canvas").getContext("2d");
    const text = "The quick brown fox 0123456789 {}[]";
    return ["15px system-ui", "bold 22px system-ui", "13px ui-monospace, monospace"].map((font) => {
      context.font = font;
      return Math.round(context.measureText(text).width * 100) / 100;
    });
  });
  return { chromium: browser.version().split(".")[0], widths };
}

async function picture(address, complete, width, theme) {
  const context = await browser.newContext({
    viewport: WIDTHS[width],
    colorScheme: theme,
    deviceScaleFactor: 0.5,
    locale: "en-GB",
    timezoneId: "UTC",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  await page.clock.setFixedTime(new Date(NOW));
  await page.goto(address);
  if (address.includes("#/try")) await page.getByRole("button", { name: "Evaluate" }).click();
  await page.locator(complete).first().waitFor();
  // How long an answer took is another figure each time.
  await page.evaluate(() => {
    for (const took of document.querySelectorAll(".results .verdict .faint")) took.textContent = " 5 ms";
    scrollTo(0, 0);
    document.activeElement?.blur();
  });
  const taken = await page.screenshot({ animations: "disabled" });
  await context.close();
  return packed(taken);
}

/** A picture in the format in which it is kept. */
async function packed(png) {
  const text = await workshop.evaluate(async (base64) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.85 });
    let binary = "";
    for (const byte of new Uint8Array(await blob.arrayBuffer())) binary += String.fromCharCode(byte);
    return btoa(binary);
  }, png.toString("base64"));
  return Buffer.from(text, "base64");
}

/** The share of pixels in which two pictures differ. */
async function difference(one, other) {
  return await workshop.evaluate(
    async ([pictures, limit]) => {
      const [a, b] = await Promise.all(
        pictures.map(async (text) => {
          const bitmap = await createImageBitmap(
            await (await fetch(`data:image/webp;base64,${text}`)).blob(),
          );
          const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
          const context = canvas.getContext("2d");
          context.drawImage(bitmap, 0, 0);
          return context.getImageData(0, 0, bitmap.width, bitmap.height);
        }),
      );
      if (a.width !== b.width || a.height !== b.height) return 1;
      let differ = 0;
      for (let at = 0; at < a.data.length; at += 4) {
        if ([0, 1, 2].some((channel) => Math.abs(a.data[at + channel] - b.data[at + channel]) > limit))
          differ += 1;
      }
      return differ / (a.width * a.height);
    },
    [[one, other].map((bytes) => bytes.toString("base64")), CHANNEL],
  );
}

try {
  const here = await fingerprint();
  const there = existsSync(machine) ? JSON.parse(readFileSync(machine, "utf8")) : undefined;
  if (!isUpdate && JSON.stringify(here) !== JSON.stringify(there)) {
    console.log("SKIPPED: goldens: fonts or Chromium differ from those of the pictures");
  } else {
    if (isUpdate) rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const faults = [];
    const names = [];
    for (const [view, [address, complete]] of Object.entries(VIEWS)) {
      for (const width of Object.keys(WIDTHS)) {
        for (const theme of THEMES) {
          const name = `${view}-${width}-${theme}.webp`;
          names.push(name);
          const taken = await picture(address, complete, width, theme);
          const path = join(folder, name);
          if (isUpdate) {
            writeFileSync(path, taken);
            continue;
          }
          const share = existsSync(path) ? await difference(readFileSync(path), taken) : 1;
          if (share <= SHARE) continue;
          const kept = join(tmpdir(), `modgate-${name}`);
          writeFileSync(kept, taken);
          faults.push(`${name}: ${(100 * share).toFixed(2)} % of the pixels differ; now ${kept}`);
        }
      }
    }
    if (isUpdate) writeFileSync(machine, `${JSON.stringify(here)}\n`);
    const others = readdirSync(folder).filter((name) => name.endsWith(".webp") && !names.includes(name));
    faults.push(...others.map((name) => `${name}: no view has this picture`));
    const help = "Look at the pictures; `npm run goldens -- --update` takes new ones.";
    assert.deepEqual(faults, [], help);
    console.log(`ok   ${names.length} pictures ${isUpdate ? "taken" : "as they were"}`);
  }
} finally {
  await browser.close();
  server.stop();
  rmSync(files, { recursive: true, force: true });
}
