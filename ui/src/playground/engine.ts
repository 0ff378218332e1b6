import type { Answer } from "./request.ts";

/** The address of what runs the engine, with its version. */
declare const WORKER: string;

/** How long an answer may take, in milliseconds, and how much longer for each kilobyte of input. */
const LIMIT = 900;
const LIMIT_PER_KB = 3;
/**
 * How often a request is tried until there is a first answer: the browser compiles most of the engine meanwhile, and
 * keeps what it has compiled when the worker is ended.
 */
const TRIES = 4;

export interface Result {
  answer?: Answer;
  /** The answer as the engine wrote it. */
  text?: string;
  /** Why there is none. */
  failure?: string;
  /** Processing time in the worker. */
  milliseconds: number;
  /** Whether the browser compiled most of the engine in that time. */
  isFirst?: boolean;
}

interface Task {
  request: string;
  done: (result: Result) => void;
  /** The name under which its time is noted, `evaluated` by default. */
  mark?: string;
}

/** The engine in a worker. Of requests that wait, the newest counts. */
export class Engine {
  private worker: Worker | undefined;
  private module: WebAssembly.Module | undefined;
  private current: (Task & { id: number; timer?: ReturnType<typeof setTimeout> }) | undefined;
  private waiting: Task | undefined;
  /** What is asked once nothing newer waits. */
  private later: Task | undefined;
  /** Requests whose answers are not shown. */
  private spare: string[] = [];
  private id = 0;
  private isReady = false;
  private isUsed = false;
  /** How often the next request that takes too long is tried once more. */
  private triesLeft = TRIES - 1;

  /** `first` loads the engine. `broken` is called if it cannot be loaded, `loaded` once it is. */
  constructor(
    first: Worker,
    private readonly broken: (why: string) => void,
    private readonly loaded: () => void = () => {},
  ) {
    this.use(first);
  }

  /** Whether the engine is there. */
  get isLoaded(): boolean {
    return this.module !== undefined;
  }

  /** Answers a request, or never if a newer one comes before it is its turn. */
  ask(request: string, done: (result: Result) => void): void {
    this.waiting = { request, done };
    this.later = undefined;
    this.next();
  }

  /** Answers a request after those that wait, or never if another one comes before it is its turn. */
  askLater(request: string, done: (result: Result) => void): void {
    this.later = { request, done, mark: "covered" };
    this.next();
  }

  /**
   * Evaluates requests while there is nothing else to do, so that the browser has compiled the code of the engine when
   * it is needed: it compiles each function when it is called first.
   */
  warm(requests: string[]): void {
    this.spare = requests;
    this.next();
  }

  /** Starts another worker with the engine. */
  private start(): void {
    const worker = new Worker(WORKER);
    this.use(worker);
    worker.postMessage({ module: this.module });
  }

  private use(worker: Worker): void {
    this.worker?.terminate();
    this.isReady = false;
    this.isUsed = false;
    this.worker = worker;
    worker.addEventListener("message", (event: MessageEvent) => {
      if (worker === this.worker) this.hear(event.data);
    });
    worker.addEventListener("error", (event) => {
      if (worker !== this.worker) return;
      if (this.module) this.fail(event.message);
      else this.broken(`The engine cannot be loaded: ${event.message}`);
    });
  }

  private hear(data: {
    ready?: boolean;
    /** What the first worker has loaded, and when it was ready. */
    module?: WebAssembly.Module;
    at?: number;
    /** Why it has loaded nothing. */
    broken?: string;
    id: number;
    text?: string;
    failed?: string;
    milliseconds: number;
    isFirst?: boolean;
  }): void {
    if (data.broken !== undefined) {
      this.broken(`The engine cannot be loaded: ${data.broken}`);
      return;
    }
    if (data.ready) {
      this.isReady = true;
      if (!this.module) this.loaded();
      this.module ??= data.module;
      // This thread may hear it later, because it builds the page.
      performance.mark("engine", data.at ? { startTime: Math.max(0, data.at - performance.timeOrigin) } : {});
      if (this.current) this.limit();
      else this.next();
      return;
    }
    if (data.failed !== undefined) {
      this.fail(`The engine failed and was started again: ${data.failed}`);
      return;
    }
    const task = this.current;
    if (!task || task.id !== data.id || data.text === undefined) return;
    clearTimeout(task.timer);
    this.current = undefined;
    const answer = JSON.parse(data.text) as Answer;
    const { text, milliseconds, isFirst } = data;
    performance.mark(task.mark ?? "evaluated", { detail: milliseconds });
    this.triesLeft = 0;
    task.done(
      answer.error ? { failure: answer.error, milliseconds } : { answer, text, milliseconds, isFirst },
    );
    this.next();
  }

  private fail(failure: string): void {
    const task = this.current;
    this.current = undefined;
    if (task) clearTimeout(task.timer);
    // One that fails before it has answered would fail again and again.
    if (this.module && (this.isUsed || task)) this.start();
    task?.done({ failure, milliseconds: 0 });
    this.next();
  }

  private next(): void {
    if (this.current || !this.module || !this.worker) return;
    // A request follows the module without waiting for the worker to say that it has it.
    const task = this.waiting ?? this.later ?? this.warming();
    if (!task) return;
    if (task === this.waiting) this.waiting = undefined;
    else if (task === this.later) this.later = undefined;
    this.isUsed = true;
    const id = ++this.id;
    this.current = { ...task, id };
    this.worker.postMessage({ id, request: task.request });
    if (this.isReady) this.limit();
  }

  private warming(): Task | undefined {
    const request = this.isReady ? this.spare.shift() : undefined;
    return request === undefined ? undefined : { request, done: () => {} };
  }

  /** Ends the worker if it takes too long, from now on. */
  private limit(): void {
    const task = this.current;
    if (!task) return;
    const limit = LIMIT + (LIMIT_PER_KB * task.request.length) / 1024;
    task.timer = setTimeout(() => {
      const seconds = (limit / 1000).toFixed(1);
      const isTriedAgain = this.triesLeft > 0;
      if (isTriedAgain) {
        this.triesLeft -= 1;
        this.waiting ??= { request: task.request, done: task.done, mark: task.mark };
      }
      const then = isTriedAgain
        ? "The browser compiled the engine meanwhile, so it is tried once more."
        : "The command line has the budgets of a webhook and answers.";
      this.fail(`The evaluation was stopped after ${seconds} s. ${then}`);
    }, limit);
  }
}
