// What gets past policies: each finding of `lint` with the objects that prove it.
import { sideBySide } from "../common/diff.ts";
import { copyButton, counted, fill, h } from "../common/dom.ts";
import { List } from "../common/list.ts";
import { source } from "../common/source.ts";
import { type Model, type Severity, title } from "./model.ts";
import type { Json, Page } from "./page.ts";
import { link, type Route } from "./route.ts";
import { quoted } from "./words.ts";

/** The objects of a finding, as the binary puts them into the page. */
interface Proof {
  policy: string;
  denials: string[];
  parts: { what: string; text: string }[];
  commands: string[][];
}

/** A finding with its proof. */
export interface LintFinding extends Proof {
  code: string;
  severity: Severity;
  message: string;
  explanation: string;
  place: string;
  field: string;
  /** What is searched, in small letters. */
  words: string;
}

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value && typeof value === "object" ? (value as Json) : {});
const text = (value: unknown): string => (typeof value === "string" ? value : "");

function place(value: unknown): string {
  const { file, line, column } = object(value);
  return [file, line, column].filter((part) => part !== undefined).join(":");
}

/** The findings of a run: those with a proof, and the messages of the others, which are about the policies. */
export function lintFindings(page: Page): { found: LintFinding[]; remarks: string[] } {
  const document = object(page.document);
  const findings = list(document.findings);
  const proofs = page.subjects as unknown as Proof[];
  const first = findings.length - proofs.length;
  const explanations = new Map(list(document.rules).map((rule) => [rule.id, text(rule.description)]));
  const found = proofs.map((proof, at): LintFinding => {
    const finding = findings[first + at] ?? {};
    const parts = {
      ...proof,
      code: text(finding.rule),
      severity: "warn" as const,
      message: text(finding.message),
      explanation: explanations.get(finding.rule) ?? "",
      place: place(finding.place),
      field: text(finding.field),
    };
    const searched = [parts.policy, parts.code, parts.message, parts.place, ...parts.denials];
    return { ...parts, words: searched.join("\n").toLowerCase() };
  });
  const remarks = findings.slice(0, first).map((finding) => {
    const where = place(finding.place);
    return `${where ? `${where}: ` : ""}${text(finding.message)}`;
  });
  return { found, remarks };
}

/** What a run found, in a sentence and figures. */
export function lintVerdict(page: Page): Partial<Model> {
  const document = object(page.document);
  const { found, remarks } = lintFindings(page);
  const policies = Number(document.policies ?? 0);
  const unknown = Number(document.notExamined ?? 0);
  const isComplete = document.complete !== false;
  let verdict = counted(found.length, "finding");
  if (!isComplete) verdict = "The policies cannot be examined";
  else if (found.length === 0)
    verdict = unknown < policies ? "Nothing gets past the policies" : "Nothing is known about the policies";
  return {
    isGood: isComplete && found.length === 0 && unknown < policies,
    verdict,
    numbers: [
      ["policies", policies],
      ["findings", found.length],
      ["not examined", unknown],
    ],
    errors: remarks,
  };
}

/** The findings that a search and a code leave. */
export function matchingLint(found: LintFinding[], settings: URLSearchParams): LintFinding[] {
  const words = (settings.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const code = settings.get("code");
  return found.filter(
    (one) => (code === null || one.code === code) && words.every((word) => one.words.includes(word)),
  );
}

/** The objects of a proof: the last two beside one another, and the one from which both come. */
export function comparison(finding: LintFinding): HTMLElement[] {
  const [left, right] = finding.parts.slice(-2);
  const before = finding.parts.length > 2 ? finding.parts[0] : undefined;
  const parts: HTMLElement[] = [];
  if (left && right) {
    parts.push(
      h("h4", {}, "Objects"),
      sideBySide(left.text, right.text, [left.what, right.what], { isWhole: true }),
    );
  } else if (left) {
    parts.push(h("h4", {}, "Object"), source(left.text, new Set(), left.what));
  }
  if (before) parts.push(h("h4", {}, "From"), source(before.text, new Set(), before.what));
  return parts;
}

/** The list of findings with its search, and the one that is open. */
export class LintFindings {
  readonly element: HTMLElement;
  private readonly found: LintFinding[];
  private readonly list: List<LintFinding>;
  private readonly search = h("input", {
    type: "search",
    id: "search-findings",
    placeholder: "policy, message, file",
  });
  private readonly code: HTMLSelectElement;
  private readonly count = h("p", { role: "status", class: "faint" });
  private readonly detail = h("section", { class: "detail", "aria-label": "Finding", tabindex: -1 });
  private shownFor: string | undefined;

  constructor(private readonly model: Model) {
    this.found = lintFindings(model.page).found;
    this.list = new List<LintFinding>({
      label: "Findings",
      columns: ["Policy", "Finding", "Message", "File"],
      cells: (one) => [
        one.policy,
        h("span", { class: "effect warn" }, one.code),
        one.message.replace(`${one.policy}: `, ""),
        one.place,
      ],
      open: (one) => this.go({ open: String(this.found.indexOf(one)) }),
    });
    const codes = [...new Set(this.found.map((one) => one.code))].sort();
    this.code = h(
      "select",
      {},
      h("option", { value: "" }, "all"),
      codes.map((code) => h("option", { value: code }, code)),
    );
    this.code.addEventListener("change", () => this.go({}));
    this.search.addEventListener("input", () => this.go({}));
    this.element = h("div", {}, [
      h("h2", {}, "Findings"),
      h("form", { class: "filters", role: "search", submit: (event) => event.preventDefault() }, [
        h("label", {}, "Search", this.search),
        h("label", {}, "Finding", this.code),
      ]),
      this.count,
      h("div", { class: "split lint" }, this.list.element, this.detail),
    ]);
  }

  private go(more: Record<string, string>): void {
    const code = this.code.value || undefined;
    const q = this.search.value || undefined;
    history.replaceState(null, "", link("findings", { q, code, ...more }));
    dispatchEvent(new HashChangeEvent("hashchange"));
  }

  show({ settings }: Route): void {
    if (this.search.value !== (settings.get("q") ?? "")) this.search.value = settings.get("q") ?? "";
    this.code.value = settings.get("code") ?? "";
    const query = `${settings.get("q") ?? ""}\n${settings.get("code") ?? ""}`;
    if (this.shownFor !== query) {
      const found = matchingLint(this.found, settings);
      this.list.show(found);
      this.count.textContent = counted(found.length, "finding");
      this.shownFor = query;
    }
    const open = settings.get("open");
    const one = open === null ? undefined : this.found[Number(open)];
    if (!one) {
      fill(this.detail, h("p", { class: "faint" }, "Choose a row to see the objects that prove it."));
      return;
    }
    fill(this.detail, this.details(one));
    this.detail.focus({ preventScroll: innerWidth > 900 });
  }

  private details(one: LintFinding): HTMLElement[] {
    const policy = this.model.policies.find((each) => title(each) === one.policy);
    const fact = (label: string, value: string | HTMLElement) =>
      value !== "" ? [h("dt", {}, label), h("dd", {}, value)] : [];
    const named = policy
      ? h("a", { href: link("policies", { open: title(policy) }) }, one.policy)
      : one.policy;
    const commands = one.commands.map((words) => words.map(quoted).join(" "));
    return [
      h("h3", {}, one.message),
      ...(one.explanation ? [h("p", {}, one.explanation)] : []),
      h("dl", { class: "facts" }, [
        ...fact("Finding", h("code", {}, one.code)),
        ...fact("Policy", named),
        ...fact("Offence", one.field && h("code", {}, one.field)),
        ...fact("File", one.place && h("code", {}, one.place)),
      ]),
      ...one.denials.map((message) => h("p", { class: "message deny" }, h("b", {}, "denied: "), message)),
      ...comparison(one),
      h("h4", {}, "Reproduce"),
      ...commands.map((command) =>
        h(
          "div",
          { class: "command spaced" },
          h("code", {}, command),
          copyButton(() => command),
        ),
      ),
    ];
  }
}
