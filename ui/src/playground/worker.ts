// Runs the engine. The page ends this worker when an answer takes too long, and starts another one.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  run(): number;
  output(): number;
}

const scope = self as unknown as DedicatedWorkerGlobalScope;

let engine: Exports | undefined;

function answer(request: string): string {
  if (!engine) throw new Error("the engine is not there yet");
  const bytes = new TextEncoder().encode(request);
  // The memory's buffer is another one after each call that makes it larger.
  const place = engine.input(bytes.length);
  new Uint8Array(engine.memory.buffer, place, bytes.length).set(bytes);
  const length = engine.run();
  return new TextDecoder().decode(new Uint8Array(engine.memory.buffer, engine.output(), length));
}

scope.addEventListener("message", (event: MessageEvent) => {
  const { module, id, request } = event.data as { module?: WebAssembly.Module; id: number; request: string };
  try {
    if (module) {
      engine = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
      scope.postMessage({ ready: true });
      return;
    }
    const start = performance.now();
    const text = answer(request);
    scope.postMessage({ id, text, milliseconds: performance.now() - start });
  } catch (error) {
    // A panic or a full stack leaves the module in no defined state.
    scope.postMessage({ id, failed: error instanceof Error ? error.message : String(error) });
  }
});
