import { h } from "../common/dom.ts";
import { link, type Route } from "../report/route.ts";
import type { Api } from "./api.ts";
import type { View } from "./app.ts";
import { Browse } from "./browse.ts";
import type { Policies as Answer, LastDenial, Policy } from "./data.ts";
import { badge, duration, facts, time } from "./parts.ts";

/** `NeedLabel owner`, `ModRule shop/pin`. */
export function titleOf(it: { kind: string; namespace: string; name: string }): string {
  return `${it.kind} ${it.namespace ? `${it.namespace}/` : ""}${it.name}`;
}

const number = (value: number) => value.toLocaleString("en");

/** The state of a policy in one word. */
export function state(policy: Policy): "in force" | "old version" | "failed" | "slow" {
  if (policy.status === "failed") return policy.inForce ? "old version" : "failed";
  return policy.demoted ? "slow" : "in force";
}

const COLOURS = { "in force": "good", "old version": "warn", failed: "deny", slow: "warn" } as const;

/** The object of a denial, with a link to the decision. */
export function denial(last: LastDenial | null): HTMLElement | string {
  if (!last) return "";
  return h("div", {}, [
    h("a", { href: link("decisions", { open: last.id }) }, titleOf(last)),
    ", ",
    time(last.time),
    h("p", { class: "message deny" }, last.message),
  ]);
}

function detail(policy: Policy): HTMLElement[] {
  const { cost } = policy;
  const name = titleOf(policy);
  return [
    h("h3", {}, name),
    ...(policy.title ? [h("p", {}, h("b", {}, policy.title))] : []),
    ...(policy.description ? [h("p", {}, policy.description)] : []),
    ...policy.messages.map((message) =>
      h("p", { class: `message ${policy.status === "failed" ? "deny" : "warn"}` }, message),
    ),
    facts([
      ["State", badge(COLOURS[state(policy)], state(policy))],
      ["", policy.status === "failed" && policy.inForce && "An older version is in force."],
      ["", policy.demoted && "It used up its time repeatedly and gets a small share for now."],
      ["Group", policy.group || "(core)"],
      ["Action", policy.action],
      ["Denials", number(policy.denials)],
      ["Warnings", number(policy.warnings)],
      ["Violations", policy.violations === null ? "not audited here" : number(policy.violations)],
      ["Evaluations", cost && number(cost.evaluations)],
      ["Time", cost && cost.evaluations > 0 && `${duration(cost.seconds / cost.evaluations)} each`],
      ["All time", cost && cost.evaluations > 0 && duration(cost.seconds)],
      ["Steps", cost && cost.evaluations > 0 && `${number(Math.round(cost.steps / cost.evaluations))} each`],
    ]),
    ...(policy.lastDenial ? [h("h4", {}, "Last denial"), denial(policy.lastDenial) as HTMLElement] : []),
    h(
      "p",
      {},
      h("a", { href: link("decisions", { q: name.toLowerCase() }) }, "Decisions that it has a part in"),
    ),
  ];
}

/** The policies: their state, cost, violations and last denial. */
export class Policies implements View {
  readonly name = "policies";
  readonly label = "Policies";
  readonly every = 10_000;
  readonly element: HTMLElement;
  private readonly browse = new Browse<Policy>({
    view: this.name,
    label: "Policies",
    noun: ["policy", "policies"],
    columns: ["State", "Policy", "Denials, violations, cost", "Last denial"],
    cells: (policy) => [
      badge(COLOURS[state(policy)], state(policy)),
      titleOf(policy),
      [
        `${number(policy.denials)} denied`,
        policy.violations !== null && `${number(policy.violations)} violate`,
        policy.cost && policy.cost.evaluations > 0 && duration(policy.cost.seconds / policy.cost.evaluations),
      ]
        .filter(Boolean)
        .join(" · "),
      policy.lastDenial ? time(policy.lastDenial.time) : "",
    ],
    key: titleOf,
    words: (policy) =>
      [titleOf(policy), policy.title, policy.description, policy.action, ...policy.messages].join("\n"),
    facets: [
      { key: "status", label: "Loads", of: (policy) => policy.status },
      { key: "kind", label: "Kind", of: (policy) => policy.kind },
      { key: "action", label: "Action", of: (policy) => policy.action },
    ],
    detail,
    none: "There are no policies.",
  });

  constructor() {
    this.element = h("div", {}, h("h2", {}, "Policies"), this.browse.element);
  }

  async load(api: Api): Promise<void> {
    this.browse.update((await api.get<Answer>("policies")).items);
  }

  show(route: Route): void {
    this.browse.show(route);
  }
}
