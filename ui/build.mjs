// Builds what the binary embeds. `--check` compares with what is committed, `--tests` builds the unit tests.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const flags = new Set(process.argv.slice(2));

/** Largest size of a page without its data, in bytes. */
const LIMIT = 300_000;

async function bundle(entry, options = {}) {
  const result = await build({
    entryPoints: [join(root, entry)],
    bundle: true,
    minify: true,
    write: false,
    target: "es2022",
    format: "iife",
    legalComments: "none",
    charset: "utf8",
    ...options,
  });
  return result.outputFiles[0].text;
}

const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

async function report() {
  // A script element ends at the first `</script`, wherever it stands.
  const script = (await bundle("src/report/main.ts")).trim().replaceAll("</script", "<\\/script");
  const style = (await bundle("src/report/style.css")).trim();
  const template = readFileSync(join(root, "src/report/index.html"), "utf8");
  const parts = { "STYLE-HASH": hash(style), "SCRIPT-HASH": hash(script), STYLE: style, SCRIPT: script };
  return template.replace(/@(STYLE-HASH|SCRIPT-HASH|STYLE|SCRIPT)@/g, (_, name) => parts[name]);
}

async function tests() {
  const folder = join(root, ".tests");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const name of readdirSync(join(root, "test"))) {
    const text = await bundle(`test/${name}`, { platform: "node", format: "esm", minify: false });
    writeFileSync(join(folder, name.replace(/\.ts$/, ".js")), text);
  }
}

function keep(name, text) {
  if (text.length > LIMIT) throw new Error(`${name} has ${text.length} bytes, at most ${LIMIT} are allowed`);
  const path = join(root, "../crates/modgate-ui/dist", name);
  if (flags.has("--check")) {
    if (readFileSync(path, "utf8") !== text)
      throw new Error(`dist/${name} is out of date: run \`npm run build\` in ui/`);
    return;
  }
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  console.log(`dist/${name}: ${text.length} bytes`);
}

if (flags.has("--tests")) {
  await tests();
} else {
  keep("report.html", await report());
}
