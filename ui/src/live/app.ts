import { fill, h, themeButton } from "../common/dom.ts";
import { link, parse, type Route } from "../report/route.ts";
import { Api, Refused } from "./api.ts";

/** A part of the page. */
export interface View {
  name: string;
  label: string;
  element: HTMLElement;
  /** Milliseconds after which it is loaded again; 0 if never. */
  every: number;
  /** Asks the server for what the view shows, and shows it. */
  load(api: Api, route: Route): Promise<void>;
  /** Follows the address. */
  show(route: Route): void;
}

/** Views with links to them. The open one asks the server again while the page is visible. */
export class App {
  private readonly api = new Api();
  private readonly main = h("main", { id: "main", tabindex: -1 });
  private readonly fault = h("p", { class: "fault", role: "alert", hidden: true });
  private readonly when = h("span", { class: "faint" });
  private readonly pause = h("button", { type: "button", class: "small" }, "Pause");
  private readonly token: HTMLButtonElement;
  private readonly dialog = h("dialog", { "aria-labelledby": "token-title" });
  private readonly links: Map<View, HTMLElement>;
  private current: View | undefined;
  private route: Route = parse("");
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isPaused = false;
  private turn = 0;
  private seen = 0;

  constructor(private readonly views: View[]) {
    this.links = new Map(views.map((view) => [view, h("a", { href: link(view.name) }, view.label)]));
    this.pause.addEventListener("click", () => this.setPaused(!this.isPaused));
    this.token = h(
      "button",
      { type: "button", class: "small", hidden: true, click: () => this.ask() },
      "Token",
    );
    document.body.append(
      h("header", {}, [
        h("h1", {}, "modgate"),
        h("nav", { "aria-label": "Views" }, [...this.links.values()]),
        this.when,
        this.pause,
        this.token,
        themeButton(),
      ]),
      this.fault,
      this.main,
      this.dialog,
    );
    addEventListener("hashchange", () => this.follow());
    // A view that needs another answer at once, or was refused one, says so.
    addEventListener("refresh", () => void this.refresh());
    addEventListener("refused", (event) => this.failed((event as CustomEvent).detail));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.refresh();
    });
    this.takeToken();
    this.follow();
  }

  /** The command that opens the page puts the token behind the `#`: it must not stay in the address. */
  private takeToken(): void {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token === null) return;
    this.api.identify(token);
    history.replaceState(null, "", location.pathname);
    this.token.hidden = false;
  }

  private setPaused(isPaused: boolean): void {
    this.isPaused = isPaused;
    this.pause.textContent = isPaused ? "Resume" : "Pause";
    clearTimeout(this.timer);
    if (!isPaused) void this.refresh();
  }

  private follow(): void {
    this.route = parse(location.hash);
    const view = this.views.find(({ name }) => name === this.route.view) ?? this.views[0];
    if (!view) return;
    for (const [each, element] of this.links) {
      if (each === view) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    }
    document.title = `modgate: ${view.label}`;
    if (view !== this.current) {
      this.current = view;
      fill(this.main, view.element);
      view.show(this.route);
      void this.refresh();
    } else {
      view.show(this.route);
    }
  }

  /** Loads the open view, then again after its time. */
  private async refresh(): Promise<void> {
    const view = this.current;
    if (!view) return;
    clearTimeout(this.timer);
    const turn = ++this.turn;
    try {
      await view.load(this.api, this.route);
      if (turn !== this.turn) return;
      this.seen = Date.now();
      this.fault.hidden = true;
      this.when.textContent = `as of ${new Date(this.seen).toLocaleTimeString("en-GB")}`;
      // Tests wait for it.
      document.documentElement.dataset.loads = String(
        Number(document.documentElement.dataset.loads ?? 0) + 1,
      );
    } catch (error) {
      if (turn !== this.turn) return;
      this.failed(error);
      if (error instanceof Refused && error.asksForToken) return;
    }
    if (view.every > 0 && !this.isPaused && document.visibilityState === "visible") {
      this.timer = setTimeout(() => void this.refresh(), view.every);
    }
  }

  private failed(error: unknown): void {
    const refused = error instanceof Refused ? error : undefined;
    if (refused?.asksForToken) {
      this.token.hidden = false;
      this.ask(this.api.hasToken ? refused.message : "");
    }
    const words = refused?.message ?? `no answer: ${error instanceof Error ? error.message : String(error)}`;
    const old =
      this.seen > 0
        ? ` The page shows what was known at ${new Date(this.seen).toLocaleTimeString("en-GB")}.`
        : "";
    fill(this.fault, `${words}.`.replace(/\.\.$/, "."), old);
    this.fault.hidden = false;
  }

  /** Asks for a token. It is not an input of passwords, which browsers offer to store. */
  private ask(why = ""): void {
    if (this.dialog.open) return;
    const input = h("input", {
      id: "token",
      class: "masked",
      type: "text",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      required: true,
    });
    const form = h(
      "form",
      {
        submit: (event) => {
          event.preventDefault();
          this.api.identify(input.value);
          input.value = "";
          this.dialog.close();
          void this.refresh();
        },
      },
      h("h2", { id: "token-title" }, "Token"),
      why && h("p", { class: "message deny" }, why),
      h(
        "p",
        {},
        "The server asks for a bearer token of the cluster, such as the output of ",
        h("code", {}, "kubectl create token NAME"),
        ". The page keeps it until it is closed or loaded again, and stores it nowhere.",
      ),
      h("label", { for: "token" }, "Token"),
      input,
      h(
        "p",
        {},
        h("button", { type: "submit" }, "Continue"),
        " ",
        h("button", { type: "button", click: () => this.dialog.close() }, "Cancel"),
      ),
    );
    fill(this.dialog, form);
    this.dialog.showModal();
  }
}
