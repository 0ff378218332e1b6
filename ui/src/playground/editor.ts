import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, type StringStream, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import {
  Compartment,
  EditorState,
  RangeSet,
  StateEffect,
  StateField,
  type Text,
  type TransactionSpec,
} from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  GutterMarker,
  gutter,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { h, UNSEEN, visible } from "../common/dom.ts";
import { tokens } from "../common/source.ts";
import type { Line } from "./reach.ts";
import type { Mark } from "./request.ts";

interface LineState {
  rest: { text: string; kind: string }[];
}

const TAGS: Record<string, string> = {
  key: "propertyName",
  string: "string",
  number: "number",
  comment: "comment",
  word: "keyword",
};

/** YAML with Rego and CEL in it, in the colours of the report pages. */
const language = StreamLanguage.define<LineState>({
  name: "yaml",
  startState: () => ({ rest: [] }),
  copyState: (state) => ({ rest: [...state.rest] }),
  token(stream: StringStream, state) {
    if (stream.sol()) state.rest = tokens(stream.string);
    const token = state.rest.shift();
    if (!token) {
      stream.skipToEnd();
      return null;
    }
    stream.pos += token.text.length;
    return TAGS[token.kind] ?? null;
  },
  languageData: { commentTokens: { line: "#" } },
});

/** Shows characters that cannot be seen, as pages do. */
const unseen = highlightSpecialChars({
  addSpecialChars: UNSEEN,
  render: (code, description) =>
    h("span", { class: "cm-specialChar", title: description ?? "" }, visible(String.fromCodePoint(code))),
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--t-key)" },
  { tag: tags.string, color: "var(--t-string)" },
  { tag: tags.number, color: "var(--t-number)" },
  { tag: tags.comment, color: "var(--faint)" },
  { tag: tags.keyword, color: "var(--t-word)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--page)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--card)", color: "var(--faint)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--line-fill)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--line-fill)", color: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-reach": { width: "4px" },
  ".cm-reach .cm-gutterElement": { padding: "0" },
  ".reach": { display: "block", width: "4px", height: "100%" },
  ".reach.all": { backgroundColor: "var(--good)" },
  ".reach.some": {
    background: "repeating-linear-gradient(var(--good) 0 3px, var(--warn) 3px 6px)",
  },
  // A line that is not reached differs by its form, too: not everyone sees the colours.
  ".reach.none": { boxSizing: "border-box", border: "1px solid var(--deny)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--card)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    maxWidth: "34em",
  },
  ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", padding: "0.3em 0.7em", whiteSpace: "pre-wrap" },
});

/** The mark beside a line that says what is reached of it. */
class ReachMarker extends GutterMarker {
  constructor(private readonly line: Line) {
    super();
  }

  override eq(other: ReachMarker): boolean {
    return this.line.state === other.line.state && this.line.text === other.line.text;
  }

  override toDOM(): Node {
    return h("span", { class: `reach ${this.line.state}`, title: this.line.text });
  }
}

const setLines = StateEffect.define<Line[]>();

/** The marks, which move with their lines until there are others. */
const reach = StateField.define<RangeSet<GutterMarker>>({
  create: () => RangeSet.empty,
  update(marks, transaction) {
    let now = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setLines)) continue;
      const { doc } = transaction.state;
      const known = effect.value.filter(({ line }) => line >= 1 && line <= doc.lines);
      now = RangeSet.of(known.map((line) => new ReachMarker(line).range(doc.line(line.line).from)));
    }
    return now;
  },
});

const reachGutter = [reach, gutter({ class: "cm-reach", markers: (view) => view.state.field(reach) })];

/**
 * Typing over a selection. Where the browser does it, it copies the styles of what it removes, which the content policy
 * refuses.
 */
const replacing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    if (event.inputType !== "insertText" || event.data === null || view.composing) return false;
    if (state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** The offset of a line and a column, which count from 1, columns in characters. */
export function offset(text: Text, line: number, column: number): number {
  if (line < 1) return 0;
  if (line > text.lines) return text.length;
  const found = text.line(line);
  const before = [...found.text].slice(0, Math.max(0, column - 1)).join("");
  return found.from + before.length;
}

/** A mark as the editor shows it: at least one character wide, within the text. */
function diagnostic(text: Text, mark: Mark): Diagnostic {
  const from = Math.min(offset(text, mark.line, mark.column), text.length);
  let to = Math.min(Math.max(from, offset(text, mark.endLine, mark.endColumn)), text.length);
  if (to === from) to = Math.max(from, text.lineAt(from).to);
  const message = [mark.code && `${mark.code}: `, mark.message, mark.help && `\n${mark.help}`];
  return {
    from,
    to,
    severity: mark.level === "note" ? "info" : mark.level,
    message: message.filter(Boolean).join(""),
  };
}

/** A text with line numbers, colours and squiggles. What is not looked at yet is no part of the page: see `open`. */
export class Editor {
  readonly element: HTMLElement;
  /** The state until there is a view, which has it then. */
  private first: EditorState;
  private view: EditorView | undefined;
  private isSilent = false;

  constructor(label: string, hint: string, changed: () => void) {
    this.element = h("div", { class: "editor" });
    const attributes = new Compartment();
    this.first = EditorState.create({
      extensions: [
        lineNumbers(),
        reachGutter,
        lintGutter(),
        history(),
        unseen,
        drawSelection(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        EditorState.tabSize.of(2),
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        language,
        syntaxHighlighting(colours),
        placeholder(hint),
        theme,
        attributes.of(
          EditorView.contentAttributes.of({
            "aria-label": label,
            spellcheck: "false",
            tabindex: "0",
          }),
        ),
        replacing,
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !this.isSilent) changed();
        }),
      ],
    });
  }

  /** Makes the editor a part of the page, once: most are looked at later, or never. */
  open(): EditorView {
    if (this.view) return this.view;
    // In a shadow root the editor's styles are adopted style sheets, which a strict content policy allows.
    const root = this.element.attachShadow({ mode: "open" });
    this.view = new EditorView({ parent: root, root, state: this.first });
    return this.view;
  }

  private get state(): EditorState {
    return this.view?.state ?? this.first;
  }

  private dispatch(change: TransactionSpec): void {
    if (this.view) this.view.dispatch(change);
    else this.first = this.first.update(change).state;
  }

  get text(): string {
    return this.state.doc.toString();
  }

  /** Replaces the text, without calling `changed`. */
  set text(text: string) {
    if (text === this.text) return;
    this.isSilent = true;
    this.dispatch({ changes: { from: 0, to: this.state.doc.length, insert: text } });
    this.isSilent = false;
  }

  /** Shows findings in place of those before. */
  mark(marks: Mark[]): void {
    const { doc } = this.state;
    const found = marks.map((mark) => diagnostic(doc, mark)).sort((one, other) => one.from - other.from);
    this.dispatch(setDiagnostics(this.state, found));
  }

  /** Shows what is reached of lines, in place of what was before. */
  cover(lines: Line[]): void {
    this.dispatch({ effects: setLines.of(lines) });
  }

  /** Puts the cursor at a place. */
  go(line: number, column: number): void {
    const view = this.open();
    const at = offset(view.state.doc, line, column);
    view.dispatch({
      selection: { anchor: at },
      effects: EditorView.scrollIntoView(at, { y: "center" }),
    });
    view.focus();
  }

  focus(): void {
    this.open().focus();
  }
}
