import folders from "examples";
import { EMPTY, FILES, type State, type TextName } from "./state.ts";

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
