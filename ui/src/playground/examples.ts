import folders from "examples";
import { request } from "./request.ts";
import { EMPTY, FILES, fromFragment, type State, type TextName } from "./state.ts";

/** The examples by name and title: the first comment of their policies. */
export const examples: { name: string; title: string }[] = Object.entries(folders)
  .map(([name, files]) => ({ name, title: /^# (.+)/.exec(files[FILES.policies] ?? "")?.[1] ?? name }))
  .sort((one, other) => one.title.localeCompare(other.title, "en"));

/** An example. With a stored object, it is an update. */
export function example(name: string): State | undefined {
  const files = folders[name];
  if (!files) return undefined;
  const state: State = { ...EMPTY };
  for (const [part, file] of Object.entries(FILES)) state[part as TextName] = files[file] ?? "";
  if (state.oldObject) state.operation = "UPDATE";
  return state;
}

/** The requests of all examples. */
export const asked = (): object[] => examples.map(({ name }) => request(example(name) ?? EMPTY));

/** The example of an address that names none, and no texts. */
export const DEFAULT = "rego";

/** The name of the example that the fragment of an address has. */
export const nameOf = (fragment: string): string | undefined => /^example=([\w-]+)$/.exec(fragment)?.[1];

/** What the fragment of an address names: an example, or texts, or the default; nothing if there is no such example. */
export async function named(fragment: string): Promise<State | undefined> {
  const name = nameOf(fragment);
  return name ? example(name) : ((await fromFragment(fragment)) ?? example(DEFAULT));
}
