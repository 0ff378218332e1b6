// Runs the engine when the page is built, and keeps the memory that it leaves: the tables that are made once are there
// when a browser starts the engine, and it need not compile the functions that make them.

const [CUSTOM, IMPORT, MEMORY, GLOBAL, START, DATA, DATA_COUNT] = [0, 2, 5, 6, 8, 11, 12];
const PAGE = 65536;
/** Zeros between two parts of the memory that are written as one: a part of its own takes some bytes, too. */
const GAP = 64;

/** An unsigned number (LEB128), and where it ends. */
function number(bytes, at) {
  let value = 0;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++];
    value += (byte & 127) * factor;
    if (byte < 128) return [value, at];
  }
}

function written(value) {
  const bytes = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) | 128);
  }
}

/** An `i32.const` of an address. */
function address(value) {
  const bytes = [0x41];
  for (let rest = value | 0; ; rest >>= 7) {
    const isLast = (rest >= 0 && rest < 64) || (rest < 0 && rest >= -64);
    bytes.push(isLast ? rest & 127 : (rest & 127) | 128);
    if (isLast) return bytes;
  }
}

function sections(module) {
  const found = [];
  for (let at = 8; at < module.length; ) {
    const id = module[at];
    const [size, start] = number(module, at + 1);
    found.push({ id, body: module.subarray(start, start + size) });
    at = start + size;
  }
  return found;
}

/** The parts of a memory that are not zero. */
function parts(memory) {
  const found = [];
  let start = -1;
  let end = 0;
  for (let at = 0; at < memory.length; at++) {
    if (memory[at] === 0) continue;
    if (start >= 0 && at - end > GAP) {
      found.push([start, end]);
      start = -1;
    }
    if (start < 0) start = at;
    end = at + 1;
  }
  if (start >= 0) found.push([start, end]);
  return found;
}

/** Fails unless nothing but the memory tells a module that has run from one that has not. */
function check(all) {
  const of = (wanted) => all.find(({ id }) => id === wanted)?.body;
  if (of(IMPORT) || of(START)) throw new Error("the engine imports something, or starts by itself");
  // One global may change: the stack's end, which is where it was when no function runs.
  const globals = of(GLOBAL);
  let [count, at] = number(globals, 0);
  let mutable = 0;
  for (; count > 0; count--) {
    mutable += globals[at + 1];
    const [, end] = number(globals, at + 3);
    if (globals[at + 2] !== 0x41 || globals[end] !== 0x0b) throw new Error("a global is no plain number");
    at = end + 1;
  }
  if (mutable !== 1) throw new Error("the engine has other globals that change than the stack's end");
  if (of(MEMORY)[1] !== 0) throw new Error("the engine's memory has a limit, or is shared");
}

/** What answers requests: a function for an instance of the module. */
function instance(module) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module), {});
  const ask = (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const place = exports.input(bytes.length);
    new Uint8Array(exports.memory.buffer, place, bytes.length).set(bytes);
    const length = exports.run();
    return Buffer.from(exports.memory.buffer, exports.output(), length).toString();
  };
  return { exports, ask };
}

/** The module after it has answered these requests. */
export function ahead(module, requests) {
  const all = sections(module);
  check(all);
  const { exports, ask } = instance(module);
  const answers = requests.map(ask);
  const wrong = answers.find((answer) => !answer.startsWith('{"review"'));
  if (wrong) throw new Error(`the engine answers ${wrong.slice(0, 200)}`);
  exports.tidy();
  const memory = new Uint8Array(exports.memory.buffer);
  const data = parts(memory);
  const segments = data.flatMap(([start, end]) => [
    Buffer.from([0, ...address(start), 0x0b, ...written(end - start)]),
    memory.subarray(start, end),
  ]);
  const bodies = {
    [MEMORY]: Buffer.from([1, 0, ...written(memory.length / PAGE)]),
    [DATA]: Buffer.concat([Buffer.from(written(data.length)), ...segments]),
    [DATA_COUNT]: Buffer.from(written(data.length)),
  };
  // Custom sections have names of functions, which nothing in a browser asks for.
  const kept = all.filter(({ id }) => id !== CUSTOM);
  const out = kept.map(({ id, body }) => {
    const made = bodies[id] ?? body;
    return Buffer.concat([Buffer.from([id, ...written(made.length)]), made]);
  });
  const made = Buffer.concat([module.subarray(0, 8), ...out]);
  const again = instance(made);
  if (requests.some((request, at) => again.ask(request) !== answers[at]))
    throw new Error("the engine answers otherwise than before it was run ahead");
  return made;
}
