import { h } from "../common/dom.ts";
import type { Answer, Mark } from "../playground/request.ts";
import { Results } from "../playground/result.ts";
import type { Route } from "../report/route.ts";
import { type Api, Refused } from "./api.ts";
import type { View } from "./app.ts";
import type { TryResult } from "./data.ts";

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
spec:
  containers:
  - name: web
    image: nginx
`;

/** The answer of the server as the views of the playground take it. */
export function answer(result: TryResult): Answer {
  const documents = result.results.map((it) => ({
    ...it.explanation,
    // Of a Secret only whether it changes is told.
    patch: it.explanation.patch ?? (it.before === it.after ? [] : [null]),
  }));
  const json = JSON.stringify(documents, null, 2);
  const marks = result.findings.map(
    (finding): Mark => ({
      ...finding,
      file: "objects",
      endLine: finding.line,
      endColumn: finding.column,
      code: "",
    }),
  );
  const subjects = result.results.map(({ title, before, after }) => ({ title, before, after, marks: [] }));
  return { review: json, explain: json, marks, notes: result.notes, subjects, request: null };
}

/** The offset of a line and a column, which count from 1, columns in characters. */
export function offset(text: string, line: number, column: number): number {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const inside = [...(lines[line - 1] ?? "")].slice(0, Math.max(0, column - 1)).join("");
  return Math.min(text.length, before + inside.length);
}

/** Objects to evaluate against the policies in force. Nothing is written. */
export class Try implements View {
  readonly name = "try";
  readonly label = "Try";
  readonly every = 0;
  readonly element: HTMLElement;
  private api: Api | undefined;
  private turn = 0;
  private readonly objects = h("textarea", {
    id: "objects",
    spellcheck: "false",
    autocomplete: "off",
    wrap: "off",
  });
  private readonly operation = h(
    "select",
    { id: "operation" },
    ["CREATE", "UPDATE", "DELETE"].map((operation) => h("option", {}, operation)),
  );
  private readonly namespace = h("input", { id: "namespace", autocomplete: "off", placeholder: "default" });
  private readonly user = h("input", { id: "user", autocomplete: "off" });
  private readonly groups = h("input", { id: "groups", autocomplete: "off", placeholder: "one, two" });
  private readonly all = h("input", { type: "checkbox" });
  private readonly results: Results;
  private readonly place = h("div", { class: "outcome" });

  constructor() {
    this.objects.value = EXAMPLE;
    this.results = new Results((mark) => this.opener(mark), [], "POST /api/v1/try");
    const field = (label: string, input: HTMLElement) => h("label", {}, label, input);
    const form = h(
      "form",
      {
        submit: (event) => {
          event.preventDefault();
          void this.ask();
        },
      },
      h("label", { for: "objects" }, "Objects, or AdmissionReviews, as YAML or JSON"),
      this.objects,
      h("div", { class: "row-of" }, [
        field("Operation", this.operation),
        field("Namespace", this.namespace),
        field("User", this.user),
        field("Groups", this.groups),
      ]),
      h("label", { class: "check" }, this.all, " explain policies that do not match, too"),
      h(
        "p",
        {},
        h("button", { type: "submit" }, "Evaluate"),
        " ",
        h("span", { class: "faint" }, "Ctrl+Enter"),
      ),
    );
    this.objects.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.ask();
    });
    this.place.append(
      h("p", { class: "faint" }, "Evaluate an object to see the decision, the diff and the explanation."),
    );
    this.element = h(
      "div",
      {},
      h("h2", {}, "Try"),
      h("p", {}, "What would the policies in force decide about an object? Nothing is written."),
      h("div", { class: "try" }, form, this.place),
    );
  }

  async load(api: Api): Promise<void> {
    this.api = api;
  }

  show(_: Route): void {}

  private async ask(): Promise<void> {
    if (!this.api) return;
    const turn = ++this.turn;
    const groups = this.groups.value
      .split(",")
      .map((group) => group.trim())
      .filter(Boolean);
    const request = {
      objects: this.objects.value,
      operation: this.operation.value,
      ...(this.user.value.trim() && { user: this.user.value.trim() }),
      ...(groups.length > 0 && { groups }),
      all: this.all.checked,
    };
    const start = performance.now();
    this.place.setAttribute("aria-busy", "true");
    try {
      const namespace = this.namespace.value.trim();
      const query = namespace ? `?${new URLSearchParams({ namespace })}` : "";
      const result = await this.api.post<TryResult>(
        `try${query}`,
        JSON.stringify(request),
        "application/json",
      );
      if (turn === this.turn)
        this.results.show({ answer: answer(result), milliseconds: performance.now() - start });
    } catch (error) {
      if (turn !== this.turn) return;
      if (error instanceof Refused && error.asksForToken)
        dispatchEvent(new CustomEvent("refused", { detail: error }));
      const failure = error instanceof Error ? error.message : String(error);
      this.results.show({ failure, milliseconds: 0 });
    } finally {
      if (turn === this.turn) this.place.removeAttribute("aria-busy");
    }
    if (!this.place.contains(this.results.element)) this.place.replaceChildren(this.results.element);
    // Tests wait for it.
    document.documentElement.dataset.tries = String(Number(document.documentElement.dataset.tries ?? 0) + 1);
  }

  private opener(mark: Mark): (() => void) | undefined {
    if (mark.file !== "objects" || mark.line < 1) return undefined;
    return () => {
      const from = offset(this.objects.value, mark.line, mark.column);
      this.objects.focus();
      this.objects.setSelectionRange(from, from + 1);
    };
  }
}
