// Builds what the binary embeds. `--check` compares with what is committed, `--tests` builds the unit tests.
// `--playground MODULE` builds the playground with that WebAssembly module, which is not committed.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { ahead } from "./ahead.mjs";

const root = dirname(fileURLToPath(import.meta.url));
const flags = new Set(process.argv.slice(2));

/** Largest size of a page without its data, in bytes. */
const LIMIT = 300_000;

/** The largest compressed WebAssembly module, in bytes. */
const MODULE_LIMIT = 3_000_000;

/** The folders of `examples/playground` as a module: the texts of their files by name. */
const examples = {
  name: "examples",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^examples$/ }, () => ({ path: "examples", namespace: "examples" }));
    onLoad({ filter: /.*/, namespace: "examples" }, () => {
      const folder = join(root, "../examples/playground");
      const texts = (name) =>
        readdirSync(join(folder, name))
          .sort()
          .map((file) => [file, readFileSync(join(folder, name, file), "utf8")]);
      const folders = readdirSync(folder)
        .sort()
        .map((name) => [name, Object.fromEntries(texts(name))]);
      return { contents: JSON.stringify(Object.fromEntries(folders)), loader: "json" };
    });
  },
};

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
    plugins: [examples],
    ...options,
  });
  return result.outputFiles[0].text;
}

const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

/** A page in one file. */
async function page(name) {
  // A script element ends at the first `</script`, wherever it stands.
  const script = (await bundle(`src/${name}/main.ts`)).trim().replaceAll("</script", "<\\/script");
  const style = (await bundle(`src/${name}/style.css`)).trim();
  const template = readFileSync(join(root, `src/${name}/index.html`), "utf8");
  const parts = { "STYLE-HASH": hash(style), "SCRIPT-HASH": hash(script), STYLE: style, SCRIPT: script };
  return template.replace(/@(STYLE-HASH|SCRIPT-HASH|STYLE|SCRIPT)@/g, (_, name) => parts[name]);
}

/** What the page asks about its examples. */
async function requests() {
  const text = await bundle("src/playground/examples.ts", { platform: "node", format: "esm" });
  const { asked } = await import(`data:text/javascript;base64,${Buffer.from(text).toString("base64")}`);
  // The module is the same whenever it is built.
  return asked().map((request) => ({ ...request, now: 0, seed: 0 }));
}

/** An address with the version of its file, so that browsers may keep it, and what they compile of it. */
const versioned = (name, content) =>
  `${name}?v=${createHash("sha256").update(content).digest("hex").slice(0, 16)}`;

/** The files of the playground, compressed as they are sent. */
async function playground(module) {
  const folder = join(root, "../crates/modgate-ui/dist/playground");
  const engine = ahead(readFileSync(module), await requests());
  const worker = await bundle("src/playground/worker.ts");
  const define = {
    ENGINE: JSON.stringify(versioned("modgate.wasm", engine)),
    WORKER: JSON.stringify(versioned("worker.js", worker)),
  };
  const parts = {
    "start.js": await bundle("src/playground/start.ts", { define }),
    "main.js": await bundle("src/playground/main.ts", { define }),
    "style.css": await bundle("src/playground/style.css"),
  };
  let index = readFileSync(join(root, "src/playground/index.html"), "utf8");
  for (const [name, content] of Object.entries(parts))
    index = index.replace(`"${name}"`, `"${versioned(name, content)}"`);
  const files = { "index.html": index, ...parts, "worker.js": worker, "modgate.wasm": engine };
  mkdirSync(folder, { recursive: true });
  // What is the same stays as it is: modgate is compiled again when this folder changes.
  for (const name of readdirSync(folder))
    if (!Object.hasOwn(files, name.replace(/\.gz$/, ""))) rmSync(join(folder, name), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    const packed = gzipSync(content, { level: 9 });
    if (name === "modgate.wasm" && packed.length > MODULE_LIMIT)
      throw new Error(`${name} has ${packed.length} bytes compressed, at most ${MODULE_LIMIT} are allowed`);
    const path = join(folder, `${name}.gz`);
    if (!existsSync(path) || !readFileSync(path).equals(packed)) writeFileSync(path, packed);
    console.log(`dist/playground/${name}: ${content.length} bytes, ${packed.length} compressed`);
  }
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

const module = process.argv[process.argv.indexOf("--playground") + 1];
if (flags.has("--tests")) {
  await tests();
} else if (flags.has("--playground")) {
  await playground(module);
} else {
  for (const name of ["report", "live"]) keep(`${name}.html`, await page(name));
}
