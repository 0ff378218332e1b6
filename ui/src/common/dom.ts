// Elements are built from data here and nowhere else. Text is only ever set as text, so that no name, message or
// annotation of a cluster is read as markup.

export type Child = Node | string | number | null | undefined | false;

type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

/** Attributes that browsers show or read out. */
const SHOWN = new Set(["title", "aria-label", "placeholder", "alt"]);

/** An element with attributes, listeners (functions) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== undefined && value !== false) {
      if (name === "href" && !String(value).startsWith("#")) throw new Error("links stay on the page");
      element.setAttribute(name, SHOWN.has(name) ? visible(String(value)) : String(value));
    }
  }
  append(element, children);
  return element;
}

/** An element of a drawing, with attributes and children. */
export function svg(
  tag: string,
  attributes: Record<string, string | number> = {},
  ...children: Element[]
): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

// Control characters, those without width, and those that change the direction of a text: with them, a person reads
// something else than what is evaluated.
export const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text with an escape such as `\u{202e}` for each character that cannot be seen. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (found) => `\\u{${found.charCodeAt(0).toString(16)}}`);
}

// Browsers take quadratic time to break a long text without spaces.
const LONG_WORD = /\S{200}(?=\S)/g;

/** A text with places where a line may break in the middle of long words. */
export function broken(text: string): (string | Node)[] {
  if (text.length <= 200) return [text];
  const parts: (string | Node)[] = [];
  let at = 0;
  for (const { index } of text.matchAll(LONG_WORD)) {
    parts.push(text.slice(at, index + 200), document.createElement("wbr"));
    at = index + 200;
  }
  return [...parts, text.slice(at)];
}

/** Appends what is there. */
export function append(element: Element, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else element.append(...broken(visible(String(child))));
  }
}

/** Replaces everything inside an element. */
export function fill(element: Element, ...children: (Child | Child[])[]): void {
  element.replaceChildren();
  append(element, children);
}

/** `1 violation`, `2 violations`. */
export function counted(count: number, what: string, plural = `${what}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? what : plural}`;
}

/** A button that copies a text. */
export function copyButton(text: () => string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "small" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text to copy it";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  });
  return button;
}

/** A button that changes between the dark and the light theme. */
export function themeButton(): HTMLButtonElement {
  const root = document.documentElement;
  const isDark = () => {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const label = () => (isDark() ? "Light theme" : "Dark theme");
  const button = h("button", { type: "button", class: "small" }, label());
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    button.textContent = label();
  });
  return button;
}
