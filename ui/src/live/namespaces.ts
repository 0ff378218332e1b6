import { h } from "../common/dom.ts";
import { link, type Route } from "../report/route.ts";
import type { Api } from "./api.ts";
import type { View } from "./app.ts";
import { Browse } from "./browse.ts";
import type { Namespaces as Answer, Namespace } from "./data.ts";
import { badge, facts, trend } from "./parts.ts";
import { denial } from "./policies.ts";

const number = (value: number) => value.toLocaleString("en");
const named = (namespace: Namespace) => namespace.name || "(cluster-scoped)";

/** The colour of a share of objects without a violation. */
export function grade(score: number): "good" | "warn" | "deny" {
  if (score === 100) return "good";
  return score >= 80 ? "warn" : "deny";
}

function line(namespace: Namespace): HTMLElement | string {
  const values = namespace.audit?.trend.map((point) => point.violations) ?? [];
  if (values.length < 2) return "";
  const label = `Violations of the last ${values.length} audits: ${values.map(number).join(", ")}`;
  return h("span", {}, trend(values, label, [0, Math.max(1, ...values)]));
}

function detail(namespace: Namespace): HTMLElement[] {
  const { audit, decisions } = namespace;
  const points = (audit?.trend ?? []).slice(-10).reverse();
  return [
    h("h3", {}, named(namespace)),
    facts([
      ["Score", audit && badge(grade(audit.score), `${audit.score} %`)],
      ["Objects", audit && `${number(audit.objects)}, of which ${number(audit.violating)} violate a policy`],
      ["Violations", audit ? number(audit.violations) : "not audited here"],
      ["Denied", number(decisions.denied)],
      ["Warned", number(decisions.warned)],
      ["Changed", number(decisions.patched)],
      ["Allowed", number(decisions.allowed)],
      ["Undecided", decisions.undecided > 0 ? number(decisions.undecided) : ""],
    ]),
    h("p", { class: "faint" }, "The score is the share of objects without a violation in the last audit."),
    ...(points.length > 0
      ? [
          h("h4", {}, "Last audits"),
          h(
            "ul",
            {},
            points.map((point) =>
              h("li", {}, h("code", {}, point.time), ` ${number(point.violations)} violations`),
            ),
          ),
        ]
      : []),
    ...(namespace.lastDenial
      ? [h("h4", {}, "Last denial"), denial(namespace.lastDenial) as HTMLElement]
      : []),
    h(
      "p",
      {},
      h("a", { href: link("decisions", { namespace: namespace.name || undefined }) }, "Its decisions"),
    ),
  ];
}

/** The namespaces with score and trend. */
export class Namespaces implements View {
  readonly name = "namespaces";
  readonly label = "Namespaces";
  readonly every = 10_000;
  readonly element: HTMLElement;
  private readonly browse = new Browse<Namespace>({
    view: this.name,
    label: "Namespaces",
    noun: ["namespace", "namespaces"],
    columns: ["Score", "Namespace", "Violations and denials", "Trend"],
    cells: (namespace) => [
      namespace.audit ? badge(grade(namespace.audit.score), `${namespace.audit.score} %`) : "",
      named(namespace),
      [
        namespace.audit && `${number(namespace.audit.violations)} violations`,
        `${number(namespace.decisions.denied)} denied`,
        namespace.decisions.warned > 0 && `${number(namespace.decisions.warned)} warned`,
      ]
        .filter(Boolean)
        .join(" · "),
      line(namespace),
    ],
    key: (namespace) => namespace.name || "(cluster-scoped)",
    words: named,
    facets: [
      {
        key: "score",
        label: "Score",
        of: ({ audit }) =>
          audit
            ? { good: "100 %", warn: "80 % and more", deny: "below 80 %" }[grade(audit.score)]
            : "not audited",
      },
    ],
    detail,
    none: "There are no decisions and no violations yet.",
  });

  constructor() {
    this.element = h("div", {}, h("h2", {}, "Namespaces"), this.browse.element);
  }

  async load(api: Api): Promise<void> {
    const { items } = await api.get<Answer>("namespaces");
    // The worst first.
    const worth = (it: Namespace) => it.audit?.score ?? 101;
    items.sort((one, other) => worth(one) - worth(other) || (one.name < other.name ? -1 : 1));
    this.browse.update(items);
  }

  show(route: Route): void {
    this.browse.show(route);
  }
}
