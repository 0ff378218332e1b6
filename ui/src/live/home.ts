import { counted, fill, h } from "../common/dom.ts";
import { link } from "../report/route.ts";
import type { Api } from "./api.ts";
import type { View } from "./app.ts";
import { type Audit, type Counts, OUTCOMES, type Policies, type Policy, type Status } from "./data.ts";
import { badge, facts, span, table, time, trend } from "./parts.ts";
import { titleOf } from "./policies.ts";

/** Seconds before its end from which a certificate is shown as a warning: a week. */
const SOON = 7 * 86_400;

const number = (value: number) => value.toLocaleString("en");

/** What a reader should look at first, in sentences; none if all is well. */
export function problems(status: Status): string[] {
  const { replica, replicas, certificate, policies, audit } = status;
  const pods = replicas?.items ?? [];
  const down = pods.filter((pod) => !pod.ready);
  const seconds = certificate?.secondsLeft ?? Number.POSITIVE_INFINITY;
  return [
    ...replica.checks
      .filter((check) => !check.ok)
      .map(({ name, message }) => `${name}: ${message || "not ready"}`),
    down.length > 0 && `${counted(down.length, "replica")} of ${pods.length} not ready`,
    pods.length > 0 && replicas?.leader === "" && "no replica leads",
    replicas?.error && replicas.error,
    seconds < 0 && "the certificate has expired",
    seconds >= 0 && seconds < SOON && `the certificate expires in ${span(seconds)}`,
    policies.failed > 0 && `${counted(policies.failed, "policy does", "policies do")} not load`,
    audit && audit.errors > 0 && `the audit could not evaluate ${counted(audit.errors, "object")}`,
  ].filter((problem): problem is string => Boolean(problem));
}

function counts(all: Counts): HTMLElement {
  const entries = Object.entries(all) as [keyof Counts, number][];
  return h(
    "ul",
    { class: "legend" },
    entries.map(([outcome, count]) =>
      h(
        "li",
        {},
        h("a", { href: link("decisions", { outcome }), class: `effect ${OUTCOMES[outcome]}` }, outcome),
        ` ${number(count)}`,
      ),
    ),
  );
}

function audited(audit: Audit | null, source: Status["source"]): HTMLElement {
  if (!audit) {
    const why =
      source === "files"
        ? "A server with policies of files does not audit."
        : "This process has not audited. The replica that leads does.";
    return h("p", { class: "faint" }, why);
  }
  const actions = Object.entries(audit.byAction).filter(([, count]) => count > 0);
  const values = audit.trend.map((point) => point.violations);
  const last = values.at(-1) ?? 0;
  return h("div", {}, [
    facts([
      ["Began", time(audit.time)],
      ["Objects", number(audit.objects)],
      ["Violations", number(audit.violations)],
      ["By action", actions.map(([action, count]) => `${action} ${number(count)}`).join(", ")],
      ["Not evaluated", audit.errors > 0 ? number(audit.errors) : ""],
    ]),
    values.length > 1 &&
      h(
        "p",
        {},
        trend(values, `Violations of the last ${values.length} audits, now ${number(last)}`, [
          0,
          Math.max(1, ...values),
        ]),
        h("span", { class: "faint" }, ` last ${values.length} audits`),
      ),
  ]);
}

function replicas(status: Status): HTMLElement {
  const pods = status.replicas?.items ?? [];
  const rows = pods.map((pod) => [
    h(
      "span",
      {},
      pod.name,
      pod.name === status.replica.name && h("span", { class: "faint" }, " (answers here)"),
    ),
    badge(pod.ready ? "good" : "deny", pod.ready ? "ready" : "not ready"),
    pod.leader ? "leads" : "",
    pod.startedAt ? time(pod.startedAt) : "",
    number(pod.restarts),
    pod.node,
    pod.image,
  ]);
  return table(
    "Replicas",
    ["Pod", "State", "Leader", "Started", "Restarts", "Node", "Image"],
    rows,
    status.source === "files"
      ? "This process has policies of files and is not part of a cluster."
      : "The Pods of the installation are not known.",
  );
}

function broken(policies: Policy[]): HTMLElement | undefined {
  const failed = policies.filter((policy) => policy.status === "failed");
  if (failed.length === 0) return undefined;
  const rows = failed.map((policy) => [
    h("a", { href: link("policies", { open: titleOf(policy) }) }, titleOf(policy)),
    policy.inForce ? "an older version" : "no version",
    policy.messages.join(" "),
  ]);
  return table("Policies that do not load", ["Policy", "In force", "Why"], rows, "");
}

/** The first view: whether all is well, and what is not. */
export class Home implements View {
  readonly name = "";
  readonly label = "Home";
  readonly every = 5_000;
  readonly element = h("div", {}, h("p", { class: "faint" }, "Loading…"));
  private shown = "";

  async load(api: Api): Promise<void> {
    const status = await api.get<Status>("status");
    const failed =
      status.policies.failed > 0 ? (await api.get<Policies>("policies")).items : ([] as Policy[]);
    // Times grow older on their own; they are redrawn with the figures, at most once a minute otherwise.
    const { time: _, ...rest } = status;
    const wanted = JSON.stringify([rest, failed, Math.floor(Date.now() / 60_000)]);
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.draw(status, failed);
  }

  show(): void {}

  private draw(status: Status, policies: Policy[]): void {
    const found = problems(status);
    const { replica, certificate } = status;
    const isGood = replica.ready && found.length === 0;
    const left = certificate?.secondsLeft ?? 0;
    fill(
      this.element,
      h(
        "h2",
        { class: isGood ? "verdict good" : "verdict bad" },
        isGood
          ? "All is well"
          : `${counted(Math.max(1, found.length), "thing needs", "things need")} attention`,
      ),
      found.length > 0 &&
        h(
          "ul",
          {},
          found.map((problem) => h("li", {}, problem)),
        ),
      h("div", { class: "cards" }, [
        h(
          "section",
          { class: "card" },
          h("h3", {}, "This process"),
          facts([
            ["Name", replica.name || "(not a Pod)"],
            ["State", badge(replica.ready ? "good" : "deny", replica.ready ? "ready" : "not ready")],
            ["Leads", replica.leader === null ? "" : replica.leader ? "yes" : "no"],
            ["Version", status.version],
            ["Policies from", status.source === "files" ? "files" : "the cluster"],
            ["Since", time(status.decisions.since)],
            ["You are", status.user ?? ""],
            [
              "Certificate",
              certificate
                ? h(
                    "span",
                    {},
                    left < SOON && badge(left < 0 ? "deny" : "warn", left < 0 ? "expired" : "soon"),
                    left < SOON && " ",
                    left < 0 ? "expired " : "expires in ",
                    h(
                      "time",
                      { datetime: certificate.notAfter, title: certificate.notAfter },
                      span(Math.abs(left)),
                    ),
                    left < 0 && " ago",
                  )
                : "none yet",
            ],
          ]),
        ),
        h(
          "section",
          { class: "card" },
          h("h3", {}, "Policies"),
          h("dl", { class: "numbers" }, [
            h(
              "div",
              {},
              h("dt", {}, "in force"),
              h("dd", {}, h("a", { href: link("policies") }, number(status.policies.inForce))),
            ),
            h(
              "div",
              {},
              h("dt", {}, "do not load"),
              h(
                "dd",
                {},
                h("a", { href: link("policies", { status: "failed" }) }, number(status.policies.failed)),
              ),
            ),
          ]),
          h("h3", {}, "Decisions of this process"),
          counts(status.decisions.counts),
          status.shadow &&
            h("p", {}, h("a", { href: link("shadow") }, "A shadow decides these requests a second time.")),
        ),
        h("section", { class: "card" }, h("h3", {}, "Last audit"), audited(status.audit, status.source)),
      ]),
      broken(policies),
      replicas(status),
    );
  }
}
