/** The addresses of the engine and of what runs it, with their versions. */
declare const ENGINE: string;
declare const WORKER: string;

/**
 * The first worker: it loads the engine and evaluates what the address of the page names while the other scripts are
 * still on their way and the page is built. Hence this is a script of its own, the first of the page.
 */
(globalThis as { engine?: Worker }).engine = new Worker(WORKER, {
  name: JSON.stringify({ address: ENGINE, fragment: location.hash.slice(1) }),
});
