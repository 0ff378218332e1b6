import { copyButton, counted, fill, h } from "../common/dom.ts";
import { List } from "../common/list.ts";
import type { Model, SuiteCase } from "./model.ts";
import { link, type Route } from "./route.ts";
import { rerun } from "./words.ts";

/** The cases that a search and a state leave. */
export function matchingCases(cases: SuiteCase[], settings: URLSearchParams): SuiteCase[] {
  const words = (settings.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const state = settings.get("state");
  return cases.filter(
    (one) => (state === null || one.state === state) && words.every((word) => one.words.includes(word)),
  );
}

/** The cases of suites. */
export class Cases {
  readonly element: HTMLElement;
  private readonly list: List<SuiteCase>;
  private readonly search = h("input", {
    type: "search",
    id: "search-cases",
    placeholder: "name, message, file",
  });
  private readonly state: HTMLSelectElement;
  private readonly count = h("p", { role: "status", class: "faint" });
  private readonly detail = h("section", { class: "detail", "aria-label": "Case", tabindex: -1 });

  constructor(private readonly model: Model) {
    this.list = new List<SuiteCase>({
      label: "Cases",
      columns: ["Result", "Test", "Case", "Suite"],
      cells: (one) => [
        h(
          "span",
          { class: `effect ${{ passed: "good", failed: "deny", skipped: "dryrun" }[one.state]}` },
          one.state,
        ),
        one.test,
        one.name || one.error,
        one.suite,
      ],
      open: (one) => this.go({ open: String(model.cases.indexOf(one)) }),
    });
    const options = ["failed", "passed", "skipped"].map((state) => h("option", { value: state }, state));
    this.state = h("select", {}, h("option", { value: "" }, "all"), options);
    this.state.addEventListener("change", () => this.go({}));
    this.search.addEventListener("input", () => this.go({}));
    this.element = h("div", {}, [
      h("h2", {}, "Cases"),
      h("form", { class: "filters", role: "search", submit: (event) => event.preventDefault() }, [
        h("label", {}, "Search", this.search),
        h("label", {}, "Result", this.state),
      ]),
      this.count,
      h("div", { class: "split" }, this.list.element, this.detail),
    ]);
  }

  private go(more: Record<string, string>): void {
    const state = this.state.value || undefined;
    const q = this.search.value || undefined;
    history.replaceState(null, "", link("cases", { q, state, ...more }));
    dispatchEvent(new HashChangeEvent("hashchange"));
  }

  show({ settings }: Route): void {
    if (this.search.value !== (settings.get("q") ?? "")) this.search.value = settings.get("q") ?? "";
    this.state.value = settings.get("state") ?? "";
    const found = matchingCases(this.model.cases, settings);
    const open = settings.get("open");
    const one = open === null ? undefined : this.model.cases[Number(open)];
    if (!one) this.list.show(found);
    this.count.textContent = counted(found.length, "case");
    if (!one) {
      fill(this.detail, h("p", { class: "faint" }, "Choose a row to see the result."));
      return;
    }
    if (!this.list.element.querySelector("[data-index]")) this.list.show(found);
    const text = (label: string, value: string) =>
      value !== "" && [h("h4", {}, label), h("pre", { tabindex: 0 }, value)];
    fill(
      this.detail,
      h("h3", {}, one.name || one.test),
      h("dl", { class: "facts" }, [
        h("dt", {}, "Suite"),
        h("dd", {}, h("code", {}, one.suite)),
        h("dt", {}, "Test"),
        h("dd", {}, one.test),
        h("dt", {}, "Result"),
        h("dd", {}, `${one.state}, ${one.seconds.toFixed(3)} s`),
      ]),
      text("Why it failed", one.error) || [],
      text("Printed", one.printed) || [],
      text("Trace", one.trace) || [],
      h("h4", {}, "Reproduce"),
      h(
        "div",
        { class: "command" },
        h("code", {}, rerun(one)),
        copyButton(() => rerun(one)),
      ),
    );
  }
}
