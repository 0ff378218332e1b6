import { fill, h } from "./dom.ts";

/** How a list shows its rows. */
export interface ListOptions<T> {
  label: string;
  columns: string[];
  /** The texts or elements of a row's cells. */
  cells: (item: T, index: number) => (string | HTMLElement)[];
  /** Called when a row is opened. */
  open: (item: T) => void;
}

/** Height of a row in pixels; the style sheet has the same. */
const ROW = 36;
/** Rows that exist beyond those in view. */
const AROUND = 8;
/** Rows that a printed page has at most. */
const PRINTED = 5000;

/** A table of many rows, of which only those in view exist. Arrow keys move, Enter opens. */
export class List<T> {
  readonly element: HTMLElement;
  private items: T[] = [];
  private active = 0;
  private readonly rows: HTMLElement;
  private readonly view: HTMLElement;
  private readonly table: HTMLElement;
  private isPrinting = false;

  constructor(private readonly options: ListOptions<T>) {
    this.rows = h("div", { role: "rowgroup", class: "rows" });
    const head = options.columns.map((column) => h("div", { role: "columnheader", class: "cell" }, column));
    this.table = h(
      "div",
      { role: "grid", "aria-label": options.label, "aria-colcount": options.columns.length, class: "grid" },
      h("div", { role: "rowgroup" }, h("div", { role: "row", class: "row head", "aria-rowindex": 1 }, head)),
      this.rows,
    );
    this.view = h("div", { class: "view" }, this.table);
    this.element = this.view;
    this.view.addEventListener("scroll", () => this.draw());
    this.view.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.view);
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  show(items: T[]): void {
    this.items = items;
    this.active = 0;
    this.view.scrollTop = 0;
    this.redraw();
  }

  /** Shows newer items; what was in view and active stays so, as far as `same` finds it again. */
  update(items: T[], same: (one: T, other: T) => boolean): void {
    const found = (at: number) => {
      const before = this.items[at];
      return before === undefined ? -1 : items.findIndex((item) => same(before, item));
    };
    const top = this.view.scrollTop;
    const first = Math.floor(top / ROW);
    const [nowFirst, nowActive] = [found(first), found(this.active)];
    this.items = items;
    this.active = Math.max(0, nowActive);
    this.redraw();
    // At the top, new items come into view.
    if (top >= ROW && nowFirst >= 0) this.view.scrollTop = top + (nowFirst - first) * ROW;
  }

  private redraw(): void {
    const { items } = this;
    this.table.setAttribute("aria-rowcount", String(items.length + 1));
    this.draw();
  }

  private print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    this.draw();
  }

  private draw(): void {
    const first = this.isPrinting ? 0 : Math.max(0, Math.floor(this.view.scrollTop / ROW) - AROUND);
    const count = this.isPrinting ? PRINTED : Math.ceil(this.view.clientHeight / ROW) + 2 * AROUND;
    const last = Math.min(this.items.length, first + count);
    const hadFocus = this.rows.contains(document.activeElement);
    this.rows.style.height = this.isPrinting ? "auto" : `${this.items.length * ROW}px`;
    const drawn: HTMLElement[] = [];
    // One row can be reached by Tab, also when the last one that was active is out of view.
    const reachable =
      this.active >= first && this.active < last ? this.active : Math.ceil(this.view.scrollTop / ROW);
    for (let index = first; index < last; index++) drawn.push(this.row(index, index === reachable));
    if (this.isPrinting && last < this.items.length) {
      drawn.push(h("div", {}, `${this.items.length - last} more rows are not printed.`));
    }
    fill(this.rows, drawn);
    if (hadFocus) this.focus();
  }

  private row(index: number, isReachable: boolean): HTMLElement {
    const item = this.items[index] as T;
    const cells = this.options.cells(item, index).map((cell) =>
      // What is cut off stands in full where the pointer is.
      h(
        "div",
        { role: "gridcell", class: "cell", title: typeof cell === "string" && cell ? cell : undefined },
        cell,
      ),
    );
    const row = h(
      "div",
      {
        role: "row",
        class: "row",
        "aria-rowindex": index + 2,
        tabindex: isReachable ? 0 : -1,
        focus: () => {
          this.active = index;
        },
        "data-index": index,
        click: () => {
          this.active = index;
          this.options.open(item);
        },
      },
      cells,
    );
    if (!this.isPrinting) row.style.top = `${index * ROW}px`;
    return row;
  }

  private focus(): void {
    this.rows.querySelector<HTMLElement>(`[data-index="${this.active}"]`)?.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.view.clientHeight / ROW) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -this.items.length,
      End: this.items.length,
    };
    const item = this.items[this.active];
    if (event.key === "Enter" && item !== undefined) {
      event.preventDefault();
      this.options.open(item);
      return;
    }
    const step = steps[event.key];
    if (step === undefined || this.items.length === 0) return;
    event.preventDefault();
    this.active = Math.min(this.items.length - 1, Math.max(0, this.active + step));
    const top = this.active * ROW;
    const height = this.view.clientHeight - 2 * ROW;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    if (top > this.view.scrollTop + height) this.view.scrollTop = top - height;
    this.draw();
    this.focus();
  }
}
