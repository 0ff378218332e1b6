import { fill, h, themeButton } from "../common/dom.ts";
import { Cases } from "./cases.ts";
import { differences } from "./compare.ts";
import { coverageView, hasCoverage } from "./coverage.ts";
import { Findings } from "./findings.ts";
import { LintFindings, lintFindings } from "./lint.ts";
import { figures, fixedView, migration, steps } from "./lists.ts";
import { model } from "./model.ts";
import { Objects } from "./objects.ts";
import { overview } from "./overview.ts";
import type { Page } from "./page.ts";
import { policies } from "./policies.ts";
import { link, parse, type Route } from "./route.ts";

function start(): void {
  const data = document.getElementById("data")?.textContent ?? "";
  const page = JSON.parse(data) as Page;
  const it = model(page);
  document.title = `modgate ${page.command}: ${it.verdict}`;

  const views: [string, string, (route: Route) => HTMLElement][] = [
    ["overview", "Overview", () => overview(it)],
  ];
  if (it.cases.length > 0) {
    const cases = new Cases(it);
    views.push([
      "cases",
      "Cases",
      (route) => {
        cases.show(route);
        return cases.element;
      },
    ]);
  }
  if (it.findings.length > 0) {
    const findings = new Findings(it);
    views.push([
      "violations",
      "Violations",
      (route) => {
        findings.show(route);
        return findings.element;
      },
    ]);
  }
  const fixed = it.fixed ?? [];
  if (fixed.length > 0) views.push(["fixed", "Fixed", () => fixedView(fixed)]);
  if (it.decisions.length > 0) {
    const objects = new Objects(it);
    views.push([
      "objects",
      "Objects",
      (route) => {
        objects.show(route);
        return objects.element;
      },
    ]);
  }
  if (page.command === "migrate") {
    views.push(
      ["installation", "Installation", () => migration(page)],
      ["steps", "Steps", () => steps(page)],
    );
  }
  if (page.command === "lint" && lintFindings(page).found.length > 0) {
    const findings = new LintFindings(it);
    views.push([
      "findings",
      "Findings",
      (route) => {
        findings.show(route);
        return findings.element;
      },
    ]);
  }
  if (hasCoverage(page)) views.push(["coverage", "Coverage", () => coverageView(page)]);
  if (page.command === "compare") {
    views.push(["differences", "Differences", ({ settings }) => differences(page, settings)]);
  }
  if (page.command === "bench") views.push(["figures", "Figures", () => figures(page)]);
  if (it.policies.length > 0) views.push(["policies", "Policies", (route) => policies(it, route)]);

  const links = views.map(([name, label]) => [name, h("a", { href: link(name) }, label)] as const);
  const main = h("main", { id: "main", tabindex: -1 });
  document.body.append(
    h("header", {}, [
      h("h1", {}, "modgate ", h("span", {}, page.command)),
      h(
        "nav",
        { "aria-label": "Views" },
        links.map(([, element]) => element),
      ),
      themeButton(),
    ]),
    main,
    h("footer", {}, `Written by modgate ${page.modgate}. This file contains everything and loads nothing.`),
  );

  let current: HTMLElement | undefined;
  const show = () => {
    const route = parse(location.hash);
    const view = views.find(([name]) => name === route.view) ?? views[0];
    if (!view) return;
    for (const [name, element] of links) {
      if (name === view[0]) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    }
    const next = view[2](route);
    if (next !== current) fill(main, next);
    current = next;
    // A policy that a link names is opened where it stands.
    const open = view[0] === "policies" && route.settings.get("open");
    if (open) document.getElementById(`policy ${open}`)?.scrollIntoView();
  };
  addEventListener("hashchange", show);
  show();
}

start();
