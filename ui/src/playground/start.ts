/** The address of the engine, with its version. */
declare const ENGINE: string;

/**
 * The first worker: it loads the engine and evaluates what the address of the page names while this thread still reads
 * its own script and builds the page. Hence this module comes before all others.
 */
export const first = new Worker("worker.js", {
  name: JSON.stringify({ address: ENGINE, fragment: location.hash.slice(1) }),
});
