import { sideBySide } from "../common/diff.ts";
import { copyButton, counted, fill, h } from "../common/dom.ts";
import { List } from "../common/list.ts";
import { named, source } from "../common/source.ts";
import { explains, tree } from "./explanation.ts";
import { type Finding, type Model, title } from "./model.ts";
import type { SubjectData } from "./page.ts";
import { link, type Route } from "./route.ts";
import { about, reproduce } from "./words.ts";

/** A choice that narrows the list. */
interface Facet {
  key: string;
  label: string;
  of: (finding: Finding) => string;
}

const FACETS: Facet[] = [
  { key: "effect", label: "Effect", of: (finding) => finding.action },
  { key: "policy", label: "Policy", of: (finding) => finding.policy },
  { key: "namespace", label: "Namespace", of: (finding) => finding.namespace },
  { key: "kind", label: "Kind", of: (finding) => finding.kind },
  { key: "owner", label: "Owner", of: (finding) => finding.owner },
  { key: "since", label: "Baseline", of: (finding) => finding.since },
];
/** Facets that are shown only where something has a value. */
const OPTIONAL = new Set(["owner", "since"]);

/** The findings that a search and the facets leave. */
export function matching(findings: Finding[], settings: URLSearchParams): Finding[] {
  const words = (settings.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = FACETS.flatMap((facet) =>
    settings.has(facet.key) ? [[facet, settings.get(facet.key)] as const] : [],
  );
  return findings.filter(
    (finding) =>
      wanted.every(([facet, value]) => facet.of(finding) === value) &&
      words.every((word) => finding.words.includes(word)),
  );
}

/** The list of findings with its search and facets, and the one that is open. */
export class Findings {
  readonly element: HTMLElement;
  private readonly list: List<Finding>;
  private readonly search: HTMLInputElement;
  private readonly selects: [Facet, HTMLSelectElement][];
  private readonly count = h("p", { role: "status", class: "faint" });
  private readonly detail = h("section", { class: "detail", "aria-label": "Finding", tabindex: -1 });
  private shownFor = "";

  constructor(private readonly model: Model) {
    this.list = new List<Finding>({
      label: "Findings",
      columns: ["Effect", "Object", "Message", "Policy"],
      cells: (finding) => [
        h(
          "span",
          {},
          h("span", { class: `effect ${finding.severity}` }, finding.action),
          finding.since === "new" && h("b", { class: "new" }, "new"),
        ),
        title(finding),
        finding.message,
        finding.policy,
      ],
      open: (finding) => this.go({ open: String(model.findings.indexOf(finding)) }),
    });
    this.search = h("input", { type: "search", id: "search", placeholder: "name, message, file" });
    this.search.addEventListener("input", () => this.go({ q: this.search.value, open: undefined }, true));
    const facetsOfPage = FACETS.filter(
      ({ key, of }) => !OPTIONAL.has(key) || model.findings.some((finding) => of(finding) !== ""),
    );
    this.selects = facetsOfPage.map((facet) => [facet, this.select(facet)]);
    const facets = this.selects.map(([facet, select]) => h("label", {}, facet.label, select));
    this.element = h(
      "div",
      {},
      h("h2", {}, "Violations"),
      h("form", { class: "filters", role: "search", submit: (event) => event.preventDefault() }, [
        h("label", {}, "Search", this.search),
        ...facets,
        h("button", { type: "button", class: "small", click: () => this.clear() }, "Clear"),
      ]),
      this.count,
      h("div", { class: "split" }, this.list.element, this.detail),
    );
  }

  private select(facet: Facet): HTMLSelectElement {
    const counts = new Map<string, number>();
    for (const finding of this.model.findings) {
      counts.set(facet.of(finding), (counts.get(facet.of(finding)) ?? 0) + 1);
    }
    const options = [...counts].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
    const select = h("select", {}, h("option", { value: "*" }, "all"));
    for (const [value, count] of options) {
      select.append(h("option", { value: `=${value}` }, `${value || "(none)"} (${count})`));
    }
    select.addEventListener("change", () => {
      const value = select.value === "*" ? undefined : select.value.slice(1);
      this.go({ [facet.key]: value, open: undefined });
    });
    return select;
  }

  private clear(): void {
    location.hash = link("violations");
    this.search.focus();
  }

  /** Changes settings of the address; typing does not fill the history. */
  private go(changes: Record<string, string | undefined>, isTyping = false): void {
    const settings = new URLSearchParams(location.hash.split("?")[1] ?? "");
    for (const [key, value] of Object.entries(changes)) {
      if (value === undefined || (key === "q" && value === "")) settings.delete(key);
      else settings.set(key, value);
    }
    const query = settings.toString();
    const fragment = `#/violations${query ? `?${query}` : ""}`;
    if (isTyping) {
      history.replaceState(null, "", fragment);
      dispatchEvent(new HashChangeEvent("hashchange"));
    } else {
      location.hash = fragment;
    }
  }

  show({ settings }: Route): void {
    const filters = new URLSearchParams(settings);
    filters.delete("open");
    const query = filters.toString();
    if (this.search.value !== (settings.get("q") ?? "")) this.search.value = settings.get("q") ?? "";
    for (const [facet, select] of this.selects) {
      select.value = settings.has(facet.key) ? `=${settings.get(facet.key)}` : "*";
    }
    if (this.shownFor !== `?${query}`) {
      const found = matching(this.model.findings, filters);
      this.list.show(found);
      const all = this.model.findings.length;
      this.count.textContent = `${counted(found.length, "violation")}${found.length < all ? ` of ${all.toLocaleString("en")}` : ""}`;
      this.shownFor = `?${query}`;
    }
    const open = settings.get("open");
    const finding = open === null ? undefined : this.model.findings[Number(open)];
    if (!finding) {
      fill(
        this.detail,
        h("p", { class: "faint" }, "Choose a row to see the object, the policy and the explanation."),
      );
      return;
    }
    fill(this.detail, ...this.details(finding));
    this.detail.focus({ preventScroll: innerWidth > 900 });
  }

  private details(finding: Finding): HTMLElement[] {
    const { model } = this;
    const policy = model.policies.find((one) => title(one) === finding.policy);
    const words = policy && about(policy);
    const since = { "": "", new: "the baseline does not have it", known: "the baseline has it, too" };
    const parameters = (policy?.object.spec as { parameters?: unknown } | undefined)?.parameters;
    const parts: HTMLElement[] = [
      h("h3", {}, title(finding)),
      h("p", { class: `message ${finding.severity}` }, finding.message),
      h("dl", { class: "facts" }, [
        h("dt", {}, "Effect"),
        h("dd", {}, finding.action),
        h("dt", {}, "Policy"),
        h(
          "dd",
          {},
          policy
            ? h("a", { href: link("policies", { open: finding.policy }) }, finding.policy)
            : finding.policy,
        ),
        ...(finding.owner ? [h("dt", {}, "Owner"), h("dd", {}, finding.owner)] : []),
        ...(finding.since ? [h("dt", {}, "Baseline"), h("dd", {}, since[finding.since])] : []),
        ...(words?.title ? [h("dt", {}, "Title"), h("dd", {}, words.title)] : []),
        ...(words?.description ? [h("dt", {}, "Description"), h("dd", {}, words.description)] : []),
        ...(parameters
          ? [h("dt", {}, "Parameters"), h("dd", {}, h("code", {}, JSON.stringify(parameters)))]
          : []),
        ...(finding.place ? [h("dt", {}, "File"), h("dd", {}, h("code", {}, finding.place))] : []),
      ]),
    ];
    if (hasMembers(finding.details)) {
      parts.push(
        h("h4", {}, "Details"),
        source(JSON.stringify(finding.details, null, 2), new Set(), "Details"),
      );
    }
    const { subject } = finding;
    if (subject) {
      parts.push(...command(model, subject), ...object(subject, finding));
    } else {
      parts.push(h("p", { class: "faint" }, "This page does not contain the object."));
    }
    return parts;
  }
}

function hasMembers(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** The command that finds it again, with a button that copies it. */
export function command(model: Model, subject: SubjectData): HTMLElement[] {
  const text = reproduce(model.page.command, model.page.arguments, subject);
  return [
    h("h4", {}, "Reproduce"),
    h(
      "div",
      { class: "command" },
      h("code", {}, text),
      copyButton(() => text),
    ),
  ];
}

/** The lines of an object that a finding is about: those with a name of its message, or a value that a rule matched. */
export function marks(finding: Finding, subject: SubjectData): Set<number> {
  const rules = (subject.explanation?.rules ?? []).filter(
    (rule) =>
      rule.outcome.result === "rejected" && title({ ...rule.policy, kind: "ModRule" }) === finding.policy,
  );
  const criteria = rules
    .flatMap((rule) => rule.criteria)
    .filter((criterion) => criterion.select !== "$.kind");
  return named(
    subject.text,
    finding.message,
    criteria.flatMap((criterion) => criterion.values),
  );
}

function object(subject: SubjectData, finding: Finding): HTMLElement[] {
  const marked = marks(finding, subject);
  const parts: HTMLElement[] = [
    h("h4", {}, "Object"),
    h(
      "p",
      { class: "faint" },
      marked.size > 0 ? "Marked: lines with a name or value of the message or the rule." : "",
    ),
    source(subject.text, marked, "Object"),
  ];
  if (subject.after !== undefined) {
    parts.push(h("h4", {}, "Changes"), sideBySide(subject.text, subject.after, ["Before", "After"]));
  }
  parts.push(h("h4", {}, "Explanation"));
  parts.push(
    subject.explanation && (explains(subject.explanation, finding.policy) || finding.policy === "")
      ? tree(subject.explanation)
      : h("p", { class: "faint" }, "This page does not explain this policy. `modgate explain` does."),
  );
  return parts;
}
