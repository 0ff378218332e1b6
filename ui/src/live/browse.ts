import { counted, fill, h } from "../common/dom.ts";
import { List } from "../common/list.ts";
import { link, type Route } from "../report/route.ts";

/** A choice that narrows a list. */
export interface Facet<T> {
  key: string;
  label: string;
  of: (item: T) => string;
}

/** A list of a view, and how one of its items is shown. */
export interface BrowseOptions<T> {
  /** The name of the view in addresses. */
  view: string;
  label: string;
  /** One item and several, in words. */
  noun: [string, string];
  columns: string[];
  cells: (item: T) => (string | HTMLElement)[];
  /** Identifies an item from one answer to the next. */
  key: (item: T) => string;
  /** What is searched. */
  words: (item: T) => string;
  facets: Facet<T>[];
  detail: (item: T) => HTMLElement[];
  /** What the list says while it is empty. */
  none: string;
  /** Stands beside the search. */
  more?: HTMLElement;
}

/** The items that a search and the facets leave. */
export function matching<T>(
  items: T[],
  settings: URLSearchParams,
  options: Pick<BrowseOptions<T>, "words" | "facets">,
): T[] {
  const words = (settings.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = options.facets.filter(({ key }) => settings.has(key));
  return items.filter((item) => {
    const text = options.words(item).toLowerCase();
    return (
      wanted.every(({ key, of }) => of(item) === settings.get(key)) &&
      words.every((word) => text.includes(word))
    );
  });
}

/** A list with search and facets beside the item that is open. What is open and filtered stays in the address. */
export class Browse<T> {
  readonly element: HTMLElement;
  private items: T[] = [];
  private settings = new URLSearchParams();
  private shown = "";
  private opened = "";
  private isLoaded = false;
  private readonly list: List<T>;
  private readonly search: HTMLInputElement;
  private readonly selects: [Facet<T>, HTMLSelectElement][];
  private readonly count = h("p", { role: "status", class: "faint" });
  private readonly detail: HTMLElement;

  constructor(private readonly options: BrowseOptions<T>) {
    const { label, columns, cells, key, facets } = options;
    this.list = new List<T>({ label, columns, cells, open: (item) => this.go({ open: key(item) }) });
    this.search = h("input", { type: "search", id: `search-${options.view}` });
    this.search.addEventListener("input", () => this.go({ q: this.search.value }, true));
    this.selects = facets.map((facet) => {
      const select = h("select", {});
      select.addEventListener("change", () =>
        this.go({ [facet.key]: select.value === "*" ? undefined : select.value.slice(1) }),
      );
      return [facet, select];
    });
    this.detail = h("section", { class: "detail", "aria-label": "Details", tabindex: -1 });
    this.element = h("div", {}, [
      h("form", { class: "filters", role: "search", submit: (event) => event.preventDefault() }, [
        h("label", {}, "Search", this.search),
        ...this.selects.map(([facet, select]) => h("label", {}, facet.label, select)),
        options.more,
      ]),
      this.count,
      h("div", { class: "split" }, this.list.element, this.detail),
    ]);
    this.fillSelects();
  }

  /** Takes the items of a newer answer. */
  update(items: T[]): void {
    this.items = items;
    this.isLoaded = true;
    this.fillSelects();
    this.draw(true);
  }

  /** Follows the address. */
  show({ settings }: Route): void {
    this.settings = settings;
    this.draw(false);
  }

  /** Changes settings of the address; typing does not fill the history. */
  go(changes: Record<string, string | undefined>, isTyping = false): void {
    const { view } = this.options;
    const kept = { ...Object.fromEntries(this.settings), ...changes };
    const fragment = link(view, kept);
    if (isTyping) {
      history.replaceState(null, "", fragment);
      dispatchEvent(new HashChangeEvent("hashchange"));
    } else {
      location.hash = fragment;
    }
  }

  private fillSelects(): void {
    for (const [facet, select] of this.selects) {
      const counts = new Map<string, number>();
      for (const item of this.items) counts.set(facet.of(item), (counts.get(facet.of(item)) ?? 0) + 1);
      const chosen = this.settings.get(facet.key);
      if (chosen !== null && !counts.has(chosen)) counts.set(chosen, 0);
      const options = [...counts].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
      const texts = options.map(
        ([value, count]) => [`=${value}`, `${value || "(none)"} (${count})`] as const,
      );
      const wanted = JSON.stringify(texts);
      // An open menu stays open.
      if (select.dataset.shown === wanted) continue;
      select.dataset.shown = wanted;
      fill(
        select,
        h("option", { value: "*" }, "all"),
        texts.map(([value, text]) => h("option", { value }, text)),
      );
      select.value = chosen === null ? "*" : `=${chosen}`;
    }
  }

  private draw(isNewer: boolean): void {
    const { settings, options } = this;
    if (this.search.value !== (settings.get("q") ?? "")) this.search.value = settings.get("q") ?? "";
    for (const [facet, select] of this.selects) {
      const chosen = settings.get(facet.key);
      select.value = chosen === null ? "*" : `=${chosen}`;
    }
    const filters = new URLSearchParams(settings);
    filters.delete("open");
    const found = matching(this.items, filters, options);
    if (isNewer && this.shown === filters.toString()) {
      this.list.update(found, (one, other) => options.key(one) === options.key(other));
    } else if (isNewer || this.shown !== filters.toString()) {
      this.list.show(found);
    }
    this.shown = filters.toString();
    const of = found.length < this.items.length ? ` of ${this.items.length.toLocaleString("en")}` : "";
    if (!this.isLoaded) return;
    const text = this.items.length === 0 ? options.none : `${counted(found.length, ...options.noun)}${of}`;
    if (this.count.textContent !== text) this.count.textContent = text;
    this.open(settings.get("open"));
  }

  private open(key: string | null): void {
    const item = key === null ? undefined : this.items.find((one) => this.options.key(one) === key);
    // What is open is drawn again when it changed, so that a selection or an open branch stays.
    const wanted = item === undefined ? `no ${key}` : `${key}\n${JSON.stringify(item)}`;
    if (this.opened === wanted) return;
    const isOther = this.opened.split("\n")[0] !== key;
    this.opened = wanted;
    if (item === undefined) {
      const gone = `This ${this.options.noun[0]} is no longer there.`;
      fill(this.detail, h("p", { class: "faint" }, key === null ? "Choose a row to see more." : gone));
      return;
    }
    fill(this.detail, this.options.detail(item));
    if (isOther) this.detail.focus({ preventScroll: innerWidth > 900 });
  }
}
