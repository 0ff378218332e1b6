import { copyButton, fill, h, themeButton } from "../common/dom.ts";
import { Editor } from "./editor.ts";
import { Engine, type Result } from "./engine.ts";
import { asked, DEFAULT, example, examples, nameOf } from "./examples.ts";
import { lines, summary } from "./reach.ts";
import { type Answer, type Mark, type Reach, request } from "./request.ts";
import { Results } from "./result.ts";
import { commandLine, type Saved, script, suite } from "./save.ts";
import { EMPTY, FILES, fromFragment, OPERATIONS, type State, type TextName, toFragment } from "./state.ts";

/** How long the page waits after a key, in milliseconds. */
const PAUSE = 40;
/** How long it waits for an answer until it says so. */
const PATIENCE = 150;
/** Largest file that is read into an editor, in bytes. */
const LARGEST = 8 << 20;

const TABS: [TextName, string, string][] = [
  ["object", "Object", "The object under review, or several, or an AdmissionReview"],
  ["oldObject", "Old object", "The stored object of an update"],
  ["namespace", "Namespace", "Namespaces with their labels, and Nodes"],
  ["user", "User", "username: ann\ngroups: [developers]"],
  ["params", "Params", "Parameters of ValidatingAdmissionPolicies and MutatingAdmissionPolicies"],
  ["inventory", "Inventory", "Other objects: data.inventory"],
];

class Playground {
  private readonly editors = new Map<TextName, Editor>();
  private readonly panels = new Map<TextName, HTMLElement>();
  private readonly tabs = new Map<TextName, HTMLButtonElement>();
  private readonly operation = h("select", { "aria-label": "Operation" });
  private readonly defaulting = h("input", { type: "checkbox" });
  private readonly all = h("input", { type: "checkbox" });
  private readonly pick = h("select", { "aria-label": "Example" });
  private readonly share = h("button", { type: "button" }, "Share");
  private readonly notice = h("p", { class: "notice", role: "status" });
  private readonly reached = h("span", { class: "reached", role: "status" });
  private readonly results: Results;
  private readonly dialog = h("dialog", {});
  private timer: ReturnType<typeof setTimeout> | undefined;
  private answer: Answer | undefined;

  constructor(private readonly engine: Engine) {
    this.results = new Results(
      (mark) => this.opener(mark),
      [
        h(
          "label",
          { title: "As an API server stores the object: --defaulting" },
          this.defaulting,
          " defaults",
        ),
        h("label", { title: "Explain policies that do not match, too: --all" }, this.all, " all"),
      ],
    );
    const changed = () => this.changed();
    for (const [name, label, hint] of [["policies", "Policies", "Policies of any kind"] as const, ...TABS]) {
      const editor = new Editor(label, hint, changed);
      this.editors.set(name, editor);
      takesFiles(editor, changed, (text) => this.say(text));
    }
    for (const operation of OPERATIONS) this.operation.append(h("option", {}, operation));
    for (const input of [this.operation, this.defaulting, this.all])
      input.addEventListener("change", changed);
    document.body.append(this.header(), this.main(), this.dialog);
    this.editors.get("policies")?.open();
    this.openTab("object");
  }

  private header(): HTMLElement {
    fill(
      this.pick,
      h("option", { value: "" }, "Examples"),
      examples.map(({ name, title }) => h("option", { value: name }, title)),
    );
    this.pick.addEventListener("change", () => {
      const found = example(this.pick.value);
      if (!found) return;
      history.replaceState(null, "", `#example=${this.pick.value}`);
      this.state = found;
      this.evaluate();
    });
    this.share.addEventListener("click", () => void this.sharing());
    return h(
      "header",
      {},
      h("h1", {}, "modgate ", h("span", {}, "playground")),
      h(
        "div",
        { class: "actions" },
        this.pick,
        this.share,
        h(
          "button",
          { type: "button", click: () => this.saving(commandLine, "Command line") },
          "Command line",
        ),
        h("button", { type: "button", click: () => this.saving(suite, "Suite case") }, "Suite case"),
        themeButton(),
      ),
      this.notice,
    );
  }

  private main(): HTMLElement {
    const policies = h(
      "section",
      { class: "pane policies", "aria-label": "Policies" },
      h("div", { class: "bar-top" }, h("h2", {}, "Policies"), this.reached, this.fileButton("policies")),
      this.editors.get("policies")?.element,
    );
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Input" });
    const input = h("section", { class: "pane input", "aria-label": "Input" });
    for (const [name, label] of TABS) {
      const tab = h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `panel-${name}`,
          click: () => this.openTab(name),
        },
        label,
      );
      this.tabs.set(name, tab);
      list.append(tab);
      const panel = h(
        "div",
        { class: "panel", role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}` },
        this.editors.get(name)?.element,
      );
      this.panels.set(name, panel);
    }
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const names = TABS.map(([name]) => name);
      const at = names.findIndex((name) => this.tabs.get(name) === document.activeElement);
      const next = names[(at + step + names.length) % names.length] as TextName;
      this.openTab(next);
      this.tabs.get(next)?.focus();
    });
    input.append(
      h(
        "div",
        { class: "bar-top" },
        list,
        h("span", { class: "space" }),
        this.operation,
        this.fileButton(undefined),
      ),
      ...this.panels.values(),
    );
    return h("main", {}, policies, input, this.results.element);
  }

  /** A button that reads files into an editor: that of the open tab without a name. */
  private fileButton(name: TextName | undefined): HTMLElement {
    const input = h("input", {
      type: "file",
      multiple: true,
      accept: ".yaml,.yml,.json",
      hidden: true,
      tabindex: -1,
    });
    const label = name ? "Open policies" : "Open into this tab";
    input.addEventListener("change", async () => {
      const editor = this.editors.get(name ?? this.openName());
      if (editor && input.files)
        await read(
          editor,
          input.files,
          () => this.changed(),
          (text) => this.say(text),
        );
      input.value = "";
    });
    const button = h(
      "button",
      { type: "button", class: "small", "aria-label": label, click: () => input.click() },
      "Open…",
    );
    return h("span", {}, button, input);
  }

  private openName(): TextName {
    const found = TABS.find(([name]) => !this.panels.get(name)?.hidden);
    return found?.[0] ?? "object";
  }

  private openTab(name: TextName): void {
    for (const [other, tab] of this.tabs) {
      const isOpen = other === name;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
      const panel = this.panels.get(other);
      if (panel) panel.hidden = !isOpen;
    }
    this.editors.get(name)?.open();
  }

  private text(name: TextName): string {
    return this.editors.get(name)?.text ?? "";
  }

  get state(): State {
    const state: State = { ...EMPTY };
    for (const name of Object.keys(FILES) as TextName[]) state[name] = this.text(name);
    state.operation = this.operation.value;
    state.defaulting = this.defaulting.checked;
    state.all = this.all.checked;
    return state;
  }

  set state(state: State) {
    for (const [name, editor] of this.editors) editor.text = state[name];
    this.operation.value = state.operation;
    this.defaulting.checked = state.defaulting;
    this.all.checked = state.all;
    this.markTabs();
  }

  /** Tabs with a text have a mark. */
  private markTabs(): void {
    for (const [name, tab] of this.tabs) tab.classList.toggle("filled", this.text(name).trim() !== "");
  }

  private changed(): void {
    this.markTabs();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.evaluate(), PAUSE);
  }

  async start(): Promise<void> {
    await this.load();
    addEventListener("hashchange", () => void this.load().then(() => this.evaluate()));
    this.evaluate();
  }

  /** The engine is there, and evaluates. */
  loaded(): void {
    this.results.wait("evaluating…", 0);
  }

  /** Shows why there is no engine. */
  broken(failure: string): void {
    this.results.show({ failure, milliseconds: 0 });
  }

  /** What the address names: texts, an example, or the first example. */
  private async load(): Promise<void> {
    const fragment = location.hash.slice(1);
    const name = nameOf(fragment);
    try {
      const found = name ? example(name) : await fromFragment(fragment);
      this.state = found ?? example(DEFAULT) ?? EMPTY;
      this.pick.value = found && !name ? "" : (name ?? DEFAULT);
      if (name && !found) this.say(`There is no example ${name}.`);
    } catch (error) {
      this.state = EMPTY;
      this.say(`The address cannot be read: ${error instanceof Error ? error.message : error}`);
    }
  }

  private evaluate(): void {
    clearTimeout(this.timer);
    const { state } = this;
    if (!this.engine.isLoaded) this.results.wait("loading the engine…", 0);
    else this.results.wait("evaluating…", PATIENCE);
    this.engine.ask(JSON.stringify(request(state)), (result) => {
      this.show(result);
      // The marks beside lines come after the answer that people wait for. What has no answer has no marks.
      if (!result.answer) this.cover([]);
      else
        this.engine.askLater(JSON.stringify(request(state, true)), ({ answer }) =>
          this.cover(answer?.coverage ?? []),
        );
    });
  }

  /** Shows what the objects reach of the policies. */
  private cover(places: Reach[]): void {
    const ofPolicies = places.filter(({ file }) => file === FILES.policies);
    this.editors.get("policies")?.cover(lines(ofPolicies));
    this.reached.textContent = summary(ofPolicies);
    document.documentElement.dataset.covered = document.documentElement.dataset.answers;
  }

  private show(result: Result): void {
    const isFirst = performance.getEntriesByName("answer").length === 0;
    this.answer = result.answer;
    this.results.show(result);
    if (isFirst) performance.mark("answer");
    const { answer } = result;
    const marks = [...(answer?.marks ?? []), ...(answer?.subjects ?? []).flatMap((it) => it.marks)];
    for (const [name, editor] of this.editors) {
      editor.mark(marks.filter((mark) => mark.file === FILES[name] && mark.line > 0));
    }
    // The examples have every kind of policy.
    if (isFirst) this.engine.warm(asked().map((request) => JSON.stringify(request)));
    // Tests wait for it.
    document.documentElement.dataset.answers = String(
      Number(document.documentElement.dataset.answers ?? 0) + 1,
    );
  }

  private opener(mark: Mark): (() => void) | undefined {
    const name = (Object.keys(FILES) as TextName[]).find((it) => FILES[it] === mark.file);
    const editor = name && this.editors.get(name);
    if (!editor || mark.line === 0) return undefined;
    return () => {
      if (name !== "policies") this.openTab(name);
      editor.go(mark.line, mark.column);
    };
  }

  private async sharing(): Promise<void> {
    history.replaceState(null, "", `#${await toFragment(this.state)}`);
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The address is copied. It contains all texts of this page.");
    } catch {
      this.say("The address of this page contains all its texts now.");
    }
  }

  private saving(make: (state: State, answer: Answer | undefined) => Saved, title: string): void {
    const saved = make(this.state, this.answer);
    const close = h("button", { type: "button", click: () => this.dialog.close() }, "Close");
    const files = saved.files.map((file) =>
      h(
        "details",
        {},
        h("summary", {}, h("code", {}, file.name)),
        h(
          "div",
          { class: "command" },
          h("pre", { tabindex: 0 }, file.text),
          copyButton(() => file.text),
        ),
      ),
    );
    fill(
      this.dialog,
      h("h2", { id: "dialog-title" }, title),
      saved.note && h("p", {}, saved.note),
      saved.command && [
        h("p", {}, "Save the files and run:"),
        h(
          "div",
          { class: "command" },
          h("code", {}, saved.command),
          copyButton(() => saved.command),
        ),
        h("div", { class: "files" }, files),
        h("p", {}, "Or paste everything into a shell:"),
        h(
          "div",
          { class: "command" },
          h("code", {}, "cat > … && …"),
          copyButton(() => script(saved)),
        ),
      ],
      close,
    );
    this.dialog.setAttribute("aria-labelledby", "dialog-title");
    this.dialog.showModal();
  }

  private say(text: string): void {
    this.notice.textContent = text;
  }
}

/** Puts the texts of files into an editor, one after the other. */
async function read(
  editor: Editor,
  files: FileList,
  changed: () => void,
  say: (text: string) => void,
): Promise<void> {
  const all = [...files];
  if (all.reduce((sum, file) => sum + file.size, 0) > LARGEST) {
    say(`The files have more than ${LARGEST >> 20} MB.`);
    return;
  }
  const texts = await Promise.all(all.map((file) => file.text()));
  editor.text = texts.map((text) => `${text.trimEnd()}\n`).join("---\n");
  changed();
}

/** Files that are dropped on an editor replace its text. */
function takesFiles(editor: Editor, changed: () => void, say: (text: string) => void): void {
  const has = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  editor.element.addEventListener(
    "dragover",
    (event) => {
      if (has(event)) event.preventDefault();
    },
    true,
  );
  editor.element.addEventListener(
    "drop",
    (event) => {
      if (!has(event) || !event.dataTransfer) return;
      event.preventDefault();
      event.stopPropagation();
      void read(editor, event.dataTransfer.files, changed, say);
    },
    true,
  );
}

/** The worker that `start.ts` has started. */
const { engine: first } = globalThis as unknown as { engine: Worker };
const engine = new Engine(
  first,
  (why) => playground.broken(why),
  () => playground.loaded(),
);
const playground = new Playground(engine);
void playground.start();
