import { sideBySide } from "../common/diff.ts";
import { fill, h } from "../common/dom.ts";
import { named, source } from "../common/source.ts";
import { tree } from "../report/explanation.ts";
import { link, type Route } from "../report/route.ts";
import { type Api, Refused } from "./api.ts";
import type { View } from "./app.ts";
import { Browse } from "./browse.ts";
import { type Decisions as Answer, type Decision, type DecisionDetails, OUTCOMES } from "./data.ts";
import { badge, duration, facts, time } from "./parts.ts";
import { titleOf } from "./policies.ts";

/** Decisions of the first answer and of each further page. */
const PAGE = 500;
/** Decisions of an answer that only has what is new. */
const NEWER = 100;

/** What is known with what is new, newest first; nothing twice. */
export function merged(known: Decision[], newer: Decision[]): Decision[] {
  const ids = new Set(newer.map((it) => it.id));
  const all = [...newer, ...known.filter((it) => !ids.has(it.id))];
  return all.sort((one, other) => other.id - one.id);
}

/** The object as text with the lines that messages name, or before and after where policies change it. */
function object(details: DecisionDetails): HTMLElement[] {
  const { result, decision } = details;
  if (!result) return [];
  if (result.before !== result.after) {
    return [h("h4", {}, "Changes"), sideBySide(result.before, result.after, ["Before", "After"])];
  }
  const messages = [decision.message, ...decision.policies.map((part) => part.message)];
  const marked = new Set(messages.flatMap((message) => [...named(result.before, message)]));
  return [h("h4", {}, "Object"), source(result.before, marked, "Object")];
}

/** The last decisions, each with its explanation. */
export class Decisions implements View {
  readonly name = "decisions";
  readonly label = "Decisions";
  readonly every = 5_000;
  readonly element: HTMLElement;
  private items: Decision[] = [];
  private next: number | null = null;
  private namespace: string | undefined;
  private api: Api | undefined;
  private readonly older = h("button", { type: "button", class: "small", hidden: true }, "Older decisions");
  private readonly oldest = h("span", { class: "faint" });
  private readonly only = h("input", { type: "search", id: "only-namespace" });
  private readonly browse: Browse<Decision>;

  constructor() {
    this.browse = new Browse<Decision>({
      view: this.name,
      label: "Decisions",
      noun: ["decision", "decisions"],
      columns: ["Outcome", "Object", "Message", "When"],
      cells: (it) => [
        badge(OUTCOMES[it.outcome], it.outcome),
        `${it.operation === "CREATE" ? "" : `${it.operation} `}${titleOf(it)}${it.subResource ? `/${it.subResource}` : ""}`,
        it.message || it.warnings.join("; ") || it.changes.join(", "),
        time(it.time),
      ],
      key: (it) => String(it.id),
      words: (it) =>
        [
          titleOf(it),
          it.uid,
          it.user,
          it.operation,
          it.message,
          ...it.warnings,
          ...it.policies.flatMap((part) => [titleOf(part), part.message]),
        ].join("\n"),
      facets: [
        { key: "outcome", label: "Outcome", of: (it) => it.outcome },
        { key: "kind", label: "Kind", of: (it) => it.kind },
        { key: "webhook", label: "Webhook", of: (it) => it.webhook },
      ],
      detail: (it) => this.detail(it),
      none: "There are no decisions yet.",
      more: h("label", {}, "Namespace", this.only),
    });
    this.only.addEventListener("change", () =>
      this.browse.go({ namespace: this.only.value.trim(), open: undefined }),
    );
    this.older.addEventListener("click", () => void this.loadOlder());
    this.element = h(
      "div",
      {},
      h("h2", {}, "Decisions"),
      this.browse.element,
      h("p", {}, this.older, " ", this.oldest),
    );
  }

  async load(api: Api, { settings }: Route): Promise<void> {
    this.api = api;
    const namespace = settings.get("namespace") ?? undefined;
    const isOther = namespace !== this.namespace;
    const newest = isOther ? undefined : this.items[0]?.id;
    const limit = newest === undefined ? PAGE : NEWER;
    const answer = await api.get<Answer>("decisions", { namespace, limit: String(limit) });
    const last = answer.items.at(-1)?.id;
    if (newest !== undefined && last !== undefined && last > newest && answer.next !== null) {
      // More is new than one answer has: what is known would leave a gap.
      this.items = answer.items;
      this.next = answer.next;
    } else if (newest === undefined) {
      this.items = answer.items;
      this.next = answer.next;
    } else {
      this.items = merged(this.items, answer.items);
    }
    this.namespace = namespace;
    await this.named(api, settings.get("open"), namespace);
    this.oldest.replaceChildren(
      ...(answer.oldest ? ["The oldest that is kept: ", time(answer.oldest), "."] : []),
    );
    this.draw();
  }

  /** A decision that an address names may be older than those in the list. */
  private async named(api: Api, open: string | null, namespace: string | undefined): Promise<void> {
    if (open === null || !/^\d+$/.test(open) || this.items.some((it) => String(it.id) === open)) return;
    try {
      const { decision } = await api.get<DecisionDetails>(`decisions/${open}`, { namespace });
      this.items = merged(this.items, [decision]);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
    }
  }

  private async loadOlder(): Promise<void> {
    if (!this.api || this.next === null) return;
    const query = { namespace: this.namespace, limit: String(PAGE), before: String(this.next) };
    try {
      const answer = await this.api.get<Answer>("decisions", query);
      this.items = merged(this.items, answer.items);
      this.next = answer.next;
      this.draw();
    } catch (error) {
      this.oldest.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private draw(): void {
    this.older.hidden = this.next === null;
    this.browse.update(this.items);
  }

  show(route: Route): void {
    const namespace = route.settings.get("namespace") ?? "";
    if (document.activeElement !== this.only) this.only.value = namespace;
    this.browse.show(route);
    const open = route.settings.get("open");
    const isKnown = open === null || this.items.some((it) => String(it.id) === open);
    if (this.api && ((namespace || undefined) !== this.namespace || !isKnown)) {
      dispatchEvent(new CustomEvent("refresh"));
    }
  }

  private detail(it: Decision): HTMLElement[] {
    const explanation = h("div", { "aria-busy": "true" }, h("p", { class: "faint" }, "Explaining…"));
    void this.explain(it, explanation);
    const kind = OUTCOMES[it.outcome];
    return [
      h("h3", {}, titleOf(it)),
      h("p", {}, badge(kind, it.outcome), it.dryRun ? " in a dry run" : ""),
      ...(it.message ? [h("p", { class: `message ${kind}` }, it.message)] : []),
      ...it.warnings.map((warning) => h("p", { class: "message warn" }, warning)),
      facts([
        ["When", h("time", { datetime: it.time }, it.time)],
        [
          "Request",
          `${it.operation}${it.subResource ? ` of ${it.subResource}` : ""} by ${it.user || "(unknown)"}`,
        ],
        ["API", `${it.group ? `${it.group}/` : ""}${it.version}`],
        ["Webhook", h("code", {}, it.webhook)],
        ["Answer", it.code === 200 ? "" : String(it.code)],
        ["Took", duration(it.microseconds / 1e6)],
        ["uid", h("code", {}, it.uid)],
        ["Changes", it.changes.map((path) => h("div", {}, h("code", {}, path)))],
      ]),
      ...(it.policies.length > 0 ? [h("h4", {}, "Policies"), this.parts(it)] : []),
      explanation,
    ];
  }

  private parts(it: Decision): HTMLElement {
    const colour = (action: string) => ({ deny: "deny", reject: "deny", warn: "warn" })[action] ?? "dryrun";
    return h(
      "ul",
      { class: "reasons" },
      it.policies.map((part) =>
        h(
          "li",
          { class: "reason" },
          h("span", { class: `effect ${colour(part.action)}` }, part.action),
          h(
            "div",
            {},
            h("a", { href: link("policies", { open: titleOf(part) }) }, titleOf(part)),
            h("p", {}, part.message),
          ),
        ),
      ),
    );
  }

  /** Asks for the explanation when a decision is opened: the server evaluates the request for it. */
  private async explain(it: Decision, into: HTMLElement): Promise<void> {
    const done = (...parts: (HTMLElement | HTMLElement[] | false)[]) => {
      into.removeAttribute("aria-busy");
      fill(into, ...parts);
    };
    if (!this.api) return;
    try {
      const details = await this.api.get<DecisionDetails>(`decisions/${it.id}`, {
        namespace: this.namespace,
      });
      const { result, unexplained, changed } = details;
      if (!result) {
        done(h("h4", {}, "Explanation"), h("p", { class: "faint" }, unexplained || "It is not explained."));
        return;
      }
      done(
        changed && h("p", { class: "message warn" }, "The policies now in force decide otherwise."),
        object(details),
        h("h4", {}, "Explanation"),
        h("p", { class: "faint" }, "By the policies now in force."),
        tree(result.explanation),
      );
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      done(h("h4", {}, "Explanation"), h("p", { class: "message warn" }, why));
    }
  }
}
