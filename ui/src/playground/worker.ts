// Runs the engine. The page ends this worker when an answer takes too long, and starts another one.
//
// The first worker of a page has a name that says where the engine is, and loads it. Others get it from the page.
import { named } from "./examples.ts";
import { request } from "./request.ts";

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  run(): number;
  output(): number;
}

const scope = self as unknown as DedicatedWorkerGlobalScope;

let engine: Exports | undefined;

/** The answer to what the page will ask for first, until it does. */
let ahead: { question: string; text: string; milliseconds: number } | undefined;

function instantiate(module: WebAssembly.Module): Exports {
  return new WebAssembly.Instance(module, {}).exports as unknown as Exports;
}

function answer(request: string): string {
  if (!engine) throw new Error("the engine is not there yet");
  const bytes = new TextEncoder().encode(request);
  // The memory's buffer is another one after each call that makes it larger.
  const place = engine.input(bytes.length);
  new Uint8Array(engine.memory.buffer, place, bytes.length).set(bytes);
  const length = engine.run();
  return new TextDecoder().decode(new Uint8Array(engine.memory.buffer, engine.output(), length));
}

/** A request without the moment at which it was made. */
function question(request: string): string {
  const { now, seed, ...rest } = JSON.parse(request) as Record<string, unknown>;
  return JSON.stringify(rest);
}

const words = (error: unknown) => (error instanceof Error ? error.message : String(error));

scope.addEventListener("message", (event: MessageEvent) => {
  const { module, id, request } = event.data as { module?: WebAssembly.Module; id: number; request: string };
  try {
    if (module) {
      engine = instantiate(module);
      scope.postMessage({ ready: true });
      return;
    }
    const known = ahead;
    ahead = undefined;
    if (known?.question === question(request)) {
      scope.postMessage({ id, text: known.text, milliseconds: known.milliseconds, isFirst: true });
      return;
    }
    const start = performance.now();
    const text = answer(request);
    scope.postMessage({ id, text, milliseconds: performance.now() - start });
  } catch (error) {
    // A panic or a full stack leaves the module in no defined state.
    scope.postMessage({ id, failed: words(error) });
  }
});

/**
 * Loads the engine, and evaluates what the page will ask for. A browser compiles each function of the engine when it is
 * called first, which takes most of the time of the first answer; so it does that while the page is built, and has the
 * answer when the page asks.
 */
async function load(address: string, fragment: string): Promise<void> {
  try {
    const state = named(fragment).catch(() => undefined);
    const module = await WebAssembly.compileStreaming(fetch(address));
    engine = instantiate(module);
    scope.postMessage({ ready: true, module, at: performance.timeOrigin + performance.now() });
    const found = await state;
    if (!found) return;
    try {
      const start = performance.now();
      const asked = JSON.stringify(request(found));
      const text = answer(asked);
      ahead = { question: question(asked), text, milliseconds: performance.now() - start };
    } catch {
      // The page will ask for the same, and hear why it fails.
      engine = instantiate(module);
    }
  } catch (error) {
    scope.postMessage({ broken: words(error) });
  }
}

if (scope.name) {
  const { address, fragment } = JSON.parse(scope.name) as { address: string; fragment: string };
  void load(address, fragment);
}
