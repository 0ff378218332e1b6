/** Everything that a person enters: what an address carries. */
export interface State {
  policies: string;
  object: string;
  oldObject: string;
  namespace: string;
  user: string;
  params: string;
  inventory: string;
  operation: string;
  /** Whether objects get the API server's defaults first. */
  defaulting: boolean;
  /** Whether the explanation has policies that do not match. */
  all: boolean;
}

export type TextName = "policies" | "object" | "oldObject" | "namespace" | "user" | "params" | "inventory";

export const EMPTY: State = {
  policies: "",
  object: "",
  oldObject: "",
  namespace: "",
  user: "",
  params: "",
  inventory: "",
  operation: "CREATE",
  defaulting: false,
  all: false,
};

/** The name of the file that a text is saved as; results name it. */
export const FILES: Record<TextName, string> = {
  policies: "policies.yaml",
  object: "object.yaml",
  oldObject: "old-object.yaml",
  namespace: "namespace.yaml",
  user: "user.yaml",
  params: "params.yaml",
  inventory: "inventory.yaml",
};

/** The texts that the command line takes with `--objects`. */
export const REFERENCES: TextName[] = ["namespace", "params", "inventory"];

export const OPERATIONS = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/** Largest text that an address unpacks to, in bytes. */
const LIMIT = 4_000_000;

async function through(bytes: Uint8Array, stream: GenericTransformStream): Promise<Uint8Array> {
  const reader = new Blob([bytes as BlobPart]).stream().pipeThrough(stream).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > LIMIT) throw new Error("the address has more than 4 MB of text");
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The fragment of an address: `s=`, then JSON, deflated, as base64 for addresses. */
export async function toFragment(state: State): Promise<string> {
  const members = Object.entries(state).filter(([name, value]) => value !== EMPTY[name as keyof State]);
  const text = JSON.stringify(Object.fromEntries(members));
  const packed = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  return `s=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** The state of a fragment. Members of other types and of other names are left out. */
export async function fromFragment(fragment: string): Promise<State | undefined> {
  const packed = /(?:^|&)s=([\w-]+)/.exec(fragment)?.[1];
  if (!packed) return undefined;
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (each) => each.charCodeAt(0));
  const text = new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
  const found = JSON.parse(text) as Record<string, unknown>;
  const state = { ...EMPTY } as Record<string, unknown>;
  for (const [name, value] of Object.entries(EMPTY)) {
    if (typeof found[name] === typeof value) state[name] = found[name];
  }
  const read = state as unknown as State;
  return OPERATIONS.includes(read.operation) ? read : { ...read, operation: EMPTY.operation };
}
