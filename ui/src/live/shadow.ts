import { fill, h } from "../common/dom.ts";
import type { Api } from "./api.ts";
import type { View } from "./app.ts";
import { type Shadow as Answer, CLASSES, type Status } from "./data.ts";
import { table, time } from "./parts.ts";
import { titleOf } from "./policies.ts";

const number = (value: number) => value.toLocaleString("en");
const named = (name: string | undefined) => CLASSES[name ?? ""] ?? name ?? "";

function nothing(): HTMLElement[] {
  return [
    h(
      "p",
      {},
      "There is no shadow. With one, modgate decides each request a second time by policies that are not in force, and shows here what would differ:",
    ),
    h("pre", { tabindex: 0 }, "modgate serve --policies policies/ --shadow candidate/"),
  ];
}

function found(shadow: Answer): HTMLElement[] {
  const differ = Object.values(shadow.differences).reduce((sum, count) => sum + count, 0);
  const figures: [string, number][] = [
    ["requests", shadow.requests],
    ["same decision", shadow.same],
    ...Object.entries(shadow.differences).map(([name, count]): [string, number] => [named(name), count]),
    ["no second decision", shadow.failed],
  ];
  const share = differ === 1 ? "1 request is" : `${number(differ)} requests are`;
  const policies = shadow.byPolicy.map((it) => {
    const { kind = "", namespace = "", name = "", operation = "", webhook = "" } = it.last ?? {};
    return [
      it.policy || "(no policy)",
      named(it.class),
      number(it.requests ?? 0),
      kind ? `${operation} ${titleOf({ kind, namespace, name })}`.trim() : "",
      webhook,
      it.last?.time ? time(it.last.time) : "",
    ];
  });
  const namespaces = shadow.byNamespace.map((it) => [
    it.namespace || "(cluster-scoped)",
    named(it.class),
    number(it.requests ?? 0),
  ]);
  return [
    h(
      "p",
      { class: differ === 0 ? "verdict good" : "verdict bad" },
      differ === 0 ? "All requests are decided alike" : `${share} decided differently`,
    ),
    h("p", { class: "faint" }, "Since the candidates were loaded, ", time(shadow.since), "."),
    h(
      "dl",
      { class: "numbers" },
      figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, number(value)))),
    ),
    table(
      "By policy",
      ["Policy", "Difference", "Requests", "Last object", "Webhook", "When"],
      policies,
      "No policy decides differently.",
    ),
    table(
      "By namespace",
      ["Namespace", "Difference", "Requests"],
      namespaces,
      "No request is decided differently.",
    ),
  ];
}

/** Differences between the decisions in force and those of a shadow. */
export class Shadow implements View {
  readonly name = "shadow";
  readonly label = "Shadow";
  readonly every = 10_000;
  readonly element: HTMLElement;
  private readonly body = h("div", {}, h("p", { class: "faint" }, "Loading…"));
  private shown = "";

  constructor() {
    this.element = h("div", {}, h("h2", {}, "Shadow"), this.body);
  }

  async load(api: Api): Promise<void> {
    // Without a shadow there is no such document, and the browser would note a failure.
    const { shadow: isThere } = await api.get<Status>("status");
    const shadow = isThere ? await api.get<Answer>("shadow") : undefined;
    const wanted = JSON.stringify([shadow, Math.floor(Date.now() / 60_000)]);
    if (wanted === this.shown) return;
    this.shown = wanted;
    fill(this.body, ...(shadow ? found(shadow) : nothing()));
  }

  show(): void {}
}
