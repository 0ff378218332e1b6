// `modgate playground` for a test.
import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

/** The address of a playground that BINARY serves, and what ends it; nothing if it was built without one. */
export async function serve(binary) {
  const child = spawn(resolve(binary), ["playground", "--port", "0"], { stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) {
    const address = /http:\S+/.exec(line)?.[0];
    if (address) return { address: `${address}/`, stop: () => child.kill() };
  }
  if (!errors.includes("without the playground")) throw new Error(`modgate playground failed: ${errors}`);
  return undefined;
}
