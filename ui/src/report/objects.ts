import { sideBySide } from "../common/diff.ts";
import { fill, h } from "../common/dom.ts";
import { List } from "../common/list.ts";
import { source } from "../common/source.ts";
import { tree } from "./explanation.ts";
import { command, marks } from "./findings.ts";
import { type Decision, type Model, title } from "./model.ts";
import { link, type Route } from "./route.ts";

function state(decision: Decision): string {
  if (!decision.allowed) return "denied";
  return decision.subject.after === undefined ? "allowed" : "changed";
}

/** The objects that were reviewed, each with its decision and changes. */
export class Objects {
  readonly element: HTMLElement;
  private readonly list: List<Decision>;
  private readonly detail = h("section", { class: "detail", "aria-label": "Object", tabindex: -1 });

  constructor(private readonly model: Model) {
    this.list = new List<Decision>({
      label: "Objects",
      columns: ["Decision", "Object", "Reason", "File"],
      cells: (decision) => [
        h("span", { class: `effect ${decision.allowed ? "good" : "deny"}` }, state(decision)),
        title(decision.subject),
        decision.allowed ? decision.warnings.join("; ") : decision.reason,
        decision.subject.place,
      ],
      open: (decision) => {
        location.hash = link("objects", { open: model.decisions.indexOf(decision) });
      },
    });
    this.element = h(
      "div",
      {},
      h("h2", {}, "Objects"),
      h("div", { class: "split" }, this.list.element, this.detail),
    );
    this.list.show(model.decisions);
  }

  show({ settings }: Route): void {
    const decision = this.model.decisions[Number(settings.get("open") ?? "0")];
    if (!decision) return;
    const { subject } = decision;
    const reasons = decision.findings.map((finding) =>
      h(
        "p",
        { class: `message ${finding.severity}` },
        finding.policy && h("b", {}, `${finding.policy}: `),
        finding.message,
      ),
    );
    const marked = new Set(decision.findings.flatMap((finding) => [...marks(finding, subject)]));
    fill(
      this.detail,
      h("h3", {}, title(subject)),
      h(
        "p",
        {},
        h("span", { class: `effect ${decision.allowed ? "good" : "deny"}` }, state(decision)),
        ` ${subject.place}`,
      ),
      reasons,
      decision.warnings.map((warning) => h("p", { class: "message warn" }, warning)),
      command(this.model, subject),
      subject.after === undefined
        ? [h("h4", {}, "Object"), source(subject.text, marked, "Object")]
        : [h("h4", {}, "Changes"), sideBySide(subject.text, subject.after, ["Before", "After"])],
      h("h4", {}, "Explanation"),
      subject.explanation
        ? tree(subject.explanation)
        : h("p", { class: "faint" }, "This page does not explain this object. The command above does."),
    );
  }
}
