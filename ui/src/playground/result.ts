import { sideBySide } from "../common/diff.ts";
import { copyButton, counted, fill, h } from "../common/dom.ts";
import { source } from "../common/source.ts";
import { tree } from "../report/explanation.ts";
import type { Explanation } from "../report/page.ts";
import type { Result } from "./engine.ts";
import type { Answer, Mark } from "./request.ts";

const VIEWS = ["decision", "diff", "explanation", "problems", "json"] as const;
type View = (typeof VIEWS)[number];

const LABELS: Record<View, string> = {
  decision: "Decision",
  diff: "Diff",
  explanation: "Explanation",
  problems: "Problems",
  json: "JSON",
};

interface Decision {
  allowed: boolean;
  reason: string;
  patch: unknown[];
  rejections: string[];
  warnings: string[];
  failures: { rule: string; failure: string; cause: string }[];
  violations: { kind: string; constraint: string; enforcementAction: string; message: string }[];
  policies: { kind: string; policy: string; message: string }[];
  notEvaluated: { stage: string; reason: string }[];
}

const verdict = (it: Decision) =>
  !it.allowed ? "denied" : it.patch.length > 0 ? "allowed, changed" : "allowed";

const effects: Record<string, string> = { deny: "deny", warn: "warn", dryrun: "dryrun" };

/** The right-hand side: what the engine answered. */
export class Results {
  readonly element: HTMLElement;
  private view: View = "decision";
  private selected = 0;
  private result: Result | undefined;
  private waits: ReturnType<typeof setTimeout> | undefined;
  private readonly tabs = new Map<View, HTMLButtonElement>();
  private readonly verdict = h("p", { class: "verdict", role: "status" });
  private readonly picker = h("select", { "aria-label": "Object" });
  private readonly body = h("div", { class: "answer", role: "tabpanel", id: "answer", tabindex: 0 });

  /**
   * `go` opens the place of a mark, if the page has its text. `settings` stand beside the views. `origin` is where
   * the JSON comes from.
   */
  constructor(
    private readonly go: (mark: Mark) => (() => void) | undefined,
    settings: HTMLElement[],
    private readonly origin = "modgate review -o json",
  ) {
    for (const view of VIEWS) {
      const tab = h(
        "button",
        { type: "button", role: "tab", "aria-controls": "answer", click: () => this.open(view) },
        LABELS[view],
      );
      this.tabs.set(view, tab);
    }
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Result" }, [
      ...this.tabs.values(),
    ]);
    list.addEventListener("keydown", (event) => this.key(event));
    this.picker.addEventListener("change", () => {
      this.selected = this.picker.selectedIndex;
      this.draw();
    });
    this.element = h(
      "section",
      { class: "pane results", "aria-label": "Result" },
      h("div", { class: "bar-top" }, h("h2", {}, "Result"), this.verdict, this.picker),
      h("div", { class: "views" }, list, settings),
      this.body,
    );
    this.open("decision");
  }

  /** Says what is done meanwhile: `when` so many milliseconds have passed without an answer. */
  wait(what: string, when: number): void {
    clearTimeout(this.waits);
    const say = () => {
      fill(this.verdict, h("span", { class: "faint" }, what));
      this.element.setAttribute("aria-busy", "true");
    };
    if (when === 0) say();
    else this.waits = setTimeout(say, when);
  }

  show(result: Result): void {
    clearTimeout(this.waits);
    this.element.removeAttribute("aria-busy");
    this.result = result;
    const { answer } = result;
    this.selected = Math.min(this.selected, Math.max(0, (answer?.subjects.length ?? 0) - 1));
    fill(
      this.picker,
      (answer?.subjects ?? []).map((it, index) =>
        h("option", { selected: index === this.selected }, it.title),
      ),
    );
    this.picker.hidden = (answer?.subjects.length ?? 0) < 2;
    this.draw();
  }

  open(view: View): void {
    this.view = view;
    for (const [name, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(name === view));
      tab.tabIndex = name === view ? 0 : -1;
    }
    this.body.setAttribute("aria-label", LABELS[view]);
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = VIEWS[(VIEWS.indexOf(this.view) + step + VIEWS.length) % VIEWS.length] as View;
    this.open(next);
    this.tabs.get(next)?.focus();
  }

  private draw(): void {
    const { result } = this;
    if (!result) return;
    const { answer } = result;
    const problems = this.problems();
    const tab = this.tabs.get("problems");
    if (tab) tab.textContent = problems.length > 0 ? `Problems (${problems.length})` : "Problems";
    if (!answer) {
      this.say("bad", "no answer");
      fill(this.body, h("p", { class: "message deny" }, result.failure ?? "The engine gave no answer."));
      return;
    }
    const decisions = this.decisions(answer);
    const decision = decisions[this.selected];
    if (decision) {
      const time = result.milliseconds < 10 ? result.milliseconds.toFixed(1) : result.milliseconds.toFixed(0);
      const took = `${time} ms${result.isFirst ? " (the browser compiled the engine)" : ""}`;
      this.say(
        decision.allowed ? "good" : "bad",
        verdict(decision),
        answer.policies === undefined ? took : `${counted(answer.policies, "policy", "policies")}, ${took}`,
      );
    } else {
      this.say("bad", "not evaluated");
    }
    const views: Record<View, () => Node> = {
      decision: () => this.decision(answer, decisions),
      diff: () => this.diff(answer),
      explanation: () => this.explanation(answer),
      problems: () => this.list(problems),
      json: () => json(answer, this.origin),
    };
    fill(this.body, views[this.view]() as HTMLElement);
  }

  private say(kind: "good" | "bad", text: string, more = ""): void {
    fill(
      this.verdict,
      h("span", { class: `effect ${kind === "good" ? "good" : "deny"}` }, text),
      more && h("span", { class: "faint" }, ` ${more}`),
    );
  }

  /** The results that are decisions, in the order of the objects. */
  private decisions(answer: Answer): Decision[] {
    const all = JSON.parse(answer.review || "[]") as unknown;
    return Array.isArray(all) ? all.slice(0, answer.subjects.length) : [];
  }

  private problems(): Mark[] {
    const { answer } = this.result ?? {};
    if (!answer) return [];
    const notes = answer.notes.map(
      (note): Mark => ({
        file: "",
        line: 0,
        column: 0,
        endLine: 0,
        endColumn: 0,
        level: "note",
        code: "",
        message: note.replace(/^note: /, ""),
        help: "",
      }),
    );
    return [...answer.marks, ...notes];
  }

  private decision(answer: Answer, decisions: Decision[]): HTMLElement {
    const decision = decisions[this.selected];
    if (!decision) {
      return h(
        "div",
        {},
        h("p", {}, "No object was evaluated, because policies or objects cannot be read:"),
        this.list(answer.marks.filter((mark) => mark.level === "error")),
      );
    }
    const marks = answer.subjects[this.selected]?.marks ?? [];
    const reasons = [
      ...decision.violations.map((it) => ({
        effect: effects[it.enforcementAction] ?? "deny",
        label: it.enforcementAction,
        who: `${it.kind} ${it.constraint}`,
        what: it.message,
      })),
      ...decision.rejections.map((what) => ({ effect: "deny", label: "reject", who: "ModRule", what })),
      ...decision.policies.map((it) => ({
        effect: "deny",
        label: "deny",
        who: `${it.kind} ${it.policy}`,
        what: it.message,
      })),
    ];
    const told = new Set(reasons.map((it) => it.what));
    const warnings = decision.warnings.filter((text) => ![...told].some((known) => text.includes(known)));
    const isUnexplained = !decision.allowed && reasons.length === 0;
    const rows = [
      ...reasons,
      ...(isUnexplained ? [{ effect: "deny", label: "deny", who: "", what: decision.reason }] : []),
      ...warnings.map((what) => ({ effect: "warn", label: "warning", who: "", what })),
      ...decision.failures
        .filter((it) => !decision.warnings.some((text) => text.includes(it.cause)))
        .map((it) => ({ effect: "warn", label: "failed", who: it.rule, what: it.cause })),
    ];
    const list = rows.map((row) => {
      const mark = marks.find((it) => it.message === row.what || row.what.endsWith(it.message));
      const go = mark && this.go(mark);
      return h(
        "li",
        { class: "reason" },
        h("span", { class: `effect ${row.effect}` }, row.label),
        h(
          "div",
          {},
          row.who && h("b", {}, row.who),
          h("p", {}, row.what),
          go &&
            h(
              "button",
              { type: "button", class: "place", click: go },
              `object.yaml:${mark.line}:${mark.column}`,
            ),
        ),
      );
    });
    const skipped = decision.notEvaluated.map((it) =>
      h("p", { class: "faint" }, `${it.stage} not evaluated: ${it.reason}`),
    );
    const isQuiet = list.length === 0;
    return h(
      "div",
      {},
      decisions.length > 1 && this.overview(answer, decisions),
      isQuiet
        ? h(
            "p",
            {},
            decision.patch.length > 0
              ? "Policies change the object; the diff has the changes."
              : "No policy objects, and none changes the object.",
          )
        : h("ul", { class: "reasons" }, list),
      skipped,
    );
  }

  /** A row for each of several objects. */
  private overview(answer: Answer, decisions: Decision[]): HTMLElement {
    const rows = decisions.map((it, index) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            "aria-pressed": index === this.selected ? "true" : "false",
            click: () => {
              this.selected = index;
              this.picker.selectedIndex = index;
              this.draw();
            },
          },
          h("span", { class: `effect ${it.allowed ? "good" : "deny"}` }, verdict(it)),
          ` ${answer.subjects[index]?.title ?? ""}`,
        ),
      ),
    );
    return h("ul", { class: "objects", "aria-label": "Objects" }, rows);
  }

  private diff(answer: Answer): HTMLElement {
    const subject = answer.subjects[this.selected];
    if (!subject) return h("p", {}, "No object was evaluated.");
    if (subject.before === subject.after) return h("p", {}, "No policy changes the object.");
    return sideBySide(subject.before, subject.after, ["before", "after"]);
  }

  private explanation(answer: Answer): HTMLElement {
    // Without subjects it has findings about policies.
    const all = answer.subjects.length > 0 ? (JSON.parse(answer.explain) as Explanation[]) : [];
    const found = all[this.selected];
    return found ? tree(found) : h("p", {}, "No object was evaluated.");
  }

  private list(marks: Mark[]): HTMLElement {
    if (marks.length === 0) return h("p", {}, "No errors, warnings or notes.");
    const rows = marks.map((mark) => {
      const kind = mark.level === "error" ? "deny" : mark.level === "warning" ? "warn" : "dryrun";
      const go = this.go(mark);
      const place = mark.line > 0 ? `${mark.file}:${mark.line}:${mark.column}` : mark.file;
      return h(
        "li",
        { class: "reason" },
        h("span", { class: `effect ${kind}` }, mark.level),
        h(
          "div",
          {},
          mark.code && h("b", {}, mark.code),
          h("p", {}, mark.message),
          mark.help && h("p", { class: "faint" }, mark.help),
          go
            ? h("button", { type: "button", class: "place", click: go }, place)
            : place && h("span", { class: "faint" }, place),
        ),
      );
    });
    return h("ul", { class: "reasons" }, rows);
  }
}

function json(answer: Answer, origin: string): HTMLElement {
  return h(
    "div",
    {},
    h(
      "p",
      { class: "command" },
      h("code", {}, origin),
      copyButton(() => answer.review),
    ),
    source(answer.review, new Set(), `Output of ${origin}`),
  );
}
