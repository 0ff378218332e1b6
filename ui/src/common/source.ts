import { h, visible } from "./dom.ts";

/** A part of a line and its class: `key`, `string`, `number`, `comment`, `word` or none. */
export interface Token {
  text: string;
  kind: string;
}

const REGO = /^(package|import|default|not|some|every|in|if|contains|with|as|else|true|false|null)$/;
const YAML_KEY = /^(\s*(?:- )*)([^\s#'"{[&*!|>%@`-][^:#]*|"[^"]*"|'[^']*')(:)(?=\s|$)/;
const PARTS =
  /((?<=^|\s)#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|`[^`]*`)|(-?\b\d[\w.]*\b)|([A-Za-z_]\w*)|([^\w"'`#]+|.)/g;

/** The tokens of a line of YAML, or of Rego and CEL inside YAML. */
export function tokens(line: string): Token[] {
  const found: Token[] = [];
  let rest = line;
  const key = YAML_KEY.exec(line);
  if (key && !/:=/.test(line.slice(0, key[0].length + 1))) {
    found.push(
      { text: key[1] ?? "", kind: "" },
      { text: key[2] ?? "", kind: "key" },
      { text: ":", kind: "" },
    );
    rest = line.slice(key[0].length);
  }
  for (const part of rest.matchAll(PARTS)) {
    const [text, comment, string, number, word] = part;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : "";
    found.push({ text, kind: word && REGO.test(word) ? "word" : kind });
  }
  return found.filter((token) => token.text !== "");
}

/** Lines that are shown at once: more make a browser slow. */
const BLOCK = 2_000;

/** A listing with line numbers; lines of `marked` (from 1) are marked. Buttons show what is before and after a block. */
export function source(text: string, marked: Set<number> = new Set(), label = "Source"): HTMLElement {
  const lines = text.replace(/\n$/, "").split("\n");
  const first = marked.size > 0 ? Math.min(...marked) - 1 : 0;
  const start = first < BLOCK ? 0 : first - 20;
  const end = Math.min(lines.length, start + BLOCK);
  return h("div", { class: "source", tabindex: 0, role: "region", "aria-label": label }, [
    more(lines, marked, Math.max(0, start - BLOCK), start, 0, start),
    ...rows(lines, marked, start, end),
    more(lines, marked, end, Math.min(lines.length, end + BLOCK), end, lines.length),
  ]);
}

/** A button that shows the lines of a range, and another one for the rest of those that are hidden. */
function more(
  lines: string[],
  marked: Set<number>,
  from: number,
  to: number,
  hiddenFrom: number,
  hiddenTo: number,
): HTMLElement | false {
  if (from === to) return false;
  const text = `Show lines ${(from + 1).toLocaleString("en")} to ${to.toLocaleString("en")} of ${lines.length.toLocaleString("en")}`;
  const button = h("button", { type: "button", class: "small" }, text);
  button.addEventListener("click", () => {
    const before = more(lines, marked, Math.max(hiddenFrom, from - BLOCK), from, hiddenFrom, from);
    const after = more(lines, marked, to, Math.min(hiddenTo, to + BLOCK), to, hiddenTo);
    const shown = [before, ...rows(lines, marked, from, to), after];
    button.replaceWith(...shown.filter((it): it is HTMLElement => it !== false));
  });
  return button;
}

/** The lines of a range, with their numbers. */
function rows(lines: string[], marked: Set<number>, from: number, to: number): HTMLElement[] {
  return lines.slice(from, to).map((line, offset) => {
    const index = from + offset;
    const isMarked = marked.has(index + 1);
    const code = h("code", {});
    for (const token of tokens(line)) {
      code.append(token.kind ? h("span", { class: `t-${token.kind}` }, token.text) : visible(token.text));
    }
    return h(
      "div",
      { class: isMarked ? "line marked" : "line" },
      h("span", { class: "number", "aria-hidden": "true" }, index + 1),
      isMarked && h("span", { class: "hidden" }, "marked: "),
      code,
    );
  });
}

/** The scalar at the end of a line of YAML, without quotes. */
function scalar(line: string): string {
  const value = line.replace(/^\s*(?:- )*(?:[^:\s][^:]*:\s+)?/, "").trim();
  return value.replace(/^(["'])(.*)\1$/, "$2");
}

const QUOTED = /"([^"]+)"|'([^']+)'|`([^`]+)`/g;
const LISTED = /<([^<>]+)>|\[([^[\]]+)\]|\{([^{}]+)\}/g;

/** A word that is no prose: an image, a quantity, a path. */
const SPECIAL = /^(?=.*[\d/:._])[\w/:.@-]{2,}$/;

/**
 * The lines (from 1) whose value or key a message names: in quotes or brackets, or as a word that is no prose.
 * Lines with one of `values` count, too.
 */
export function named(text: string, message: string, values: string[] = []): Set<number> {
  const names = new Set<string>(values);
  const add = (name: string) => name.length > 1 && names.add(name);
  for (const match of message.matchAll(QUOTED))
    add(match.slice(1).find((group) => group !== undefined) ?? "");
  for (const match of message.matchAll(LISTED)) {
    const inner = match.slice(1).find((group) => group !== undefined) ?? "";
    for (const name of [inner, ...inner.split(/[\s,"'`]+/)]) add(name);
  }
  for (const word of message.split(/[\s,;()]+/)) {
    const bare = word.replace(/[.:]+$/, "");
    if (SPECIAL.test(bare)) names.add(bare);
  }
  const marked = new Set<number>();
  text.split("\n").forEach((line, index) => {
    const value = scalar(line);
    const key = /^\s*(?:- )*([^:\s]+):(\s|$)/.exec(line)?.[1] ?? "";
    if (names.has(value) || names.has(key)) marked.add(index + 1);
  });
  return marked;
}
