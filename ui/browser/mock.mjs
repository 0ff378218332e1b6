// A server with the API of the live page and data that stay the same, for tests and for work on the page:
// `node browser/mock.mjs [PORT]`. What it answers fits crates/modgate-server/src/ui/openapi.json; `live.mjs` checks that.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const page = () => readFileSync(join(root, "crates/modgate-ui/dist/live.html"), "utf8");

/** The token that is accepted where one is needed. */
export const TOKEN = "token-of-ann";

/** The time of the data. */
export const NOW = "2026-09-01T12:00:00Z";
const ago = (seconds) => new Date(Date.parse(NOW) - seconds * 1000).toISOString().replace(".000Z", "Z");

const pod = (index, more = {}) => ({
  name: `modgate-7d9c5b-${"abc"[index]}`,
  ready: true,
  leader: index === 0,
  startedAt: ago(86_400 * 3 + index * 600),
  restarts: 0,
  image: "registry.example/modgate:1.4.0",
  node: `node-${index + 1}`,
  ...more,
});

const lastDenial = (id, seconds, kind, namespace, name, message) => ({
  id,
  time: ago(seconds),
  kind,
  namespace,
  name,
  message,
});

const policy = (kind, name, more = {}) => ({
  group: "constraints.gatekeeper.sh",
  kind,
  namespace: "",
  name,
  title: "",
  description: "",
  action: "deny",
  status: "active",
  inForce: true,
  messages: [],
  demoted: false,
  cost: { evaluations: 18_240, seconds: 0.42, steps: 3_120_000, bytes: 9_400_000 },
  denials: 0,
  warnings: 0,
  lastDenial: null,
  violations: 0,
  ...more,
});

/** Everything that the server knows; a test may change it. */
export function data() {
  const trend = (...values) =>
    values.map((violations, index) => ({ time: ago((values.length - index) * 60), violations }));
  const owner = lastDenial(41, 95, "Deployment", "shop", "cart", "label owner is missing");
  const memory = lastDenial(38, 610, "Pod", "pay", "ledger-0", "container `ledger` may use 4Gi, at most 1Gi");
  const counts = (allowed, patched, warned, denied, undecided = 0) => ({
    allowed,
    patched,
    warned,
    denied,
    undecided,
  });
  const part = (kind, name, action, message, more = {}) => ({
    group: "constraints.gatekeeper.sh",
    kind,
    namespace: "",
    name,
    action,
    message,
    ...more,
  });
  const decision = (id, seconds, outcome, kind, namespace, name, more = {}) => ({
    id,
    uid: `00000000-0000-4000-8000-${String(id).padStart(12, "0")}`,
    time: ago(seconds),
    webhook: "/v1/admit",
    operation: "CREATE",
    group: kind === "Deployment" ? "apps" : "",
    version: "v1",
    kind,
    subResource: "",
    namespace,
    name,
    user: "system:serviceaccount:shop:deployer",
    dryRun: false,
    outcome,
    code: outcome === "denied" ? 403 : 200,
    message: "",
    warnings: [],
    policies: [],
    changes: [],
    microseconds: 410,
    secret: false,
    explainable: ["denied", "warned", "patched"].includes(outcome),
    ...more,
  });
  const decisions = [
    decision(43, 12, "allowed", "Pod", "shop", "cart-6f7c9"),
    decision(42, 40, "patched", "Pod", "shop", "cart-6f7c8", {
      webhook: "/v1/mutate",
      changes: ["/spec/containers/0/imagePullPolicy", "/metadata/labels/team"],
    }),
    decision(41, 95, "denied", "Deployment", "shop", "cart", {
      message: "[need-owner] label owner is missing",
      policies: [part("NeedLabel", "need-owner", "deny", "label owner is missing")],
    }),
    decision(40, 300, "warned", "Pod", "web", "front", {
      warnings: ["[no-latest] image nginx has no tag"],
      policies: [part("ImageTag", "no-latest", "warn", "image nginx has no tag")],
    }),
    decision(39, 500, "denied", "Secret", "pay", "keys", {
      message: "not shown for a Secret",
      secret: true,
      explainable: false,
      policies: [part("NeedLabel", "need-owner", "deny", "not shown for a Secret")],
    }),
    decision(38, 610, "denied", "Pod", "pay", "ledger-0", {
      operation: "UPDATE",
      user: "ann",
      message: "[pay-memory] container `ledger` may use 4Gi, at most 1Gi",
      policies: [
        part("MemoryCeiling", "pay-memory", "deny", "container `ledger` may use 4Gi, at most 1Gi"),
        part("NeedLabel", "probes", "dryrun", "no readiness probe"),
      ],
    }),
    ...Array.from({ length: 30 }, (_, index) =>
      decision(37 - index, 700 + index * 45, "allowed", "Pod", `team-${index % 6}`, `worker-${index}`),
    ),
  ];
  return {
    /** Whether requests need the token. */
    needsToken: false,
    /** The answer to every request of the API, if set: a status and a text. */
    failure: undefined,
    requests: [],
    status: {
      version: "1.4.0",
      time: NOW,
      source: "cluster",
      user: "ann",
      replica: {
        name: "modgate-7d9c5b-a",
        ready: true,
        leader: true,
        checks: [
          { name: "tracker", ok: true, message: "" },
          { name: "tls-check", ok: true, message: "" },
        ],
      },
      replicas: {
        items: [pod(0), pod(1), pod(2, { ready: false, restarts: 4 })],
        leader: "modgate-7d9c5b-a",
        error: "",
      },
      certificate: { notAfter: ago(-86_400 * 4), secondsLeft: 86_400 * 4 },
      policies: { inForce: 5, failed: 1 },
      audit: {
        time: ago(30),
        objects: 4210,
        errors: 0,
        violations: 37,
        byAction: { deny: 21, warn: 12, dryrun: 4 },
        trend: trend(52, 51, 51, 47, 44, 44, 40, 37),
      },
      decisions: { since: ago(86_400 * 3), counts: counts(18_100, 940, 212, 87), kept: decisions.length },
      shadow: true,
    },
    policies: [
      policy("ImageTag", "no-latest", {
        action: "warn",
        title: "Images have a tag",
        warnings: 212,
        violations: 12,
      }),
      policy("MemoryCeiling", "pay-memory", { denials: 12, lastDenial: memory, violations: 4 }),
      policy("ModRule", "pull-policy", {
        group: "api.kubemod.io",
        namespace: "shop",
        action: "Patch",
        violations: null,
      }),
      policy("NeedLabel", "need-owner", {
        title: "Objects have an owner",
        description: "Every workload names the team that is called when it fails.",
        denials: 75,
        lastDenial: owner,
        violations: 21,
      }),
      policy("NeedLabel", "probes", {
        action: "dryrun",
        status: "failed",
        inForce: false,
        cost: null,
        violations: null,
        messages: ["spec.parameters.labels (line 9, column 5): wrong type, expected a list of strings"],
      }),
      policy("SlowRule", "graph", {
        demoted: true,
        cost: { evaluations: 40, seconds: 38, steps: 9e8, bytes: 4e9 },
      }),
    ],
    namespaces: [
      {
        name: "",
        decisions: counts(310, 0, 0, 0),
        lastDenial: null,
        audit: { objects: 96, violating: 0, violations: 0, score: 100, trend: trend(0, 0, 0) },
      },
      {
        name: "pay",
        decisions: counts(2100, 12, 0, 12),
        lastDenial: memory,
        audit: { objects: 140, violating: 4, violations: 4, score: 97, trend: trend(9, 7, 7, 6, 4) },
      },
      {
        name: "shop",
        decisions: counts(9000, 900, 20, 75),
        lastDenial: owner,
        audit: { objects: 88, violating: 21, violations: 21, score: 76, trend: trend(12, 14, 14, 18, 21) },
      },
      { name: "web", decisions: counts(40, 0, 192, 0), lastDenial: null, audit: null },
    ],
    decisions,
    shadow: {
      since: ago(7200),
      requests: 1240,
      same: 1226,
      failed: 2,
      differences: { "allow-to-deny": 11, "deny-to-allow": 0, messages: 1, patches: 0 },
      byPolicy: [
        {
          class: "allow-to-deny",
          policy: "NeedLabel team",
          requests: 11,
          last: {
            time: ago(95),
            webhook: "/v1/admit",
            operation: "CREATE",
            kind: "Deployment",
            namespace: "shop",
            name: "cart",
          },
        },
        { class: "messages", policy: "NeedLabel need-owner", requests: 1, last: {} },
      ],
      byNamespace: [
        { class: "allow-to-deny", namespace: "shop", requests: 9 },
        { class: "allow-to-deny", namespace: "web", requests: 2 },
        { class: "messages", namespace: "shop", requests: 1 },
      ],
    },
  };
}

/** The explanation of a decision by one constraint. */
function explained(it) {
  const title = `${it.kind} ${it.namespace ? `${it.namespace}/` : ""}${it.name}`;
  const before = `apiVersion: v1\nkind: ${it.kind}\nmetadata:\n  name: ${it.name}\n  namespace: ${it.namespace}\nspec:\n  containers:\n  - image: nginx\n    name: ledger\n    resources:\n      limits:\n        memory: 4Gi\n`;
  const after =
    it.outcome === "patched"
      ? before.replace("image: nginx", "image: nginx\n    imagePullPolicy: Always")
      : before;
  const allowed = it.outcome !== "denied";
  const trace = ({ group, kind, name, action, message }) => ({
    policy: { group, kind, namespace: "", name },
    origin: `${kind.toLowerCase()}.yaml`,
    position: { line: 1, column: 1 },
    engine: "Rego",
    action,
    parameters: {},
    outcome: { result: "violated" },
    violations: [message],
    expressions: [
      {
        rule: "violation",
        module: "",
        text: 'missing := {"owner"} - labels',
        result: { kind: "held" },
        values: [["missing", '{"owner"}']],
      },
    ],
    omitted: 0,
  });
  return {
    title,
    before,
    after,
    explanation: {
      allowed,
      code: it.code,
      reason: it.message,
      policies: [],
      rejections: [],
      warnings: it.warnings,
      failures: [],
      patch: it.changes.map((path) => ({ op: "add", path })),
      object: null,
      violations: it.policies.map((part) => ({
        kind: part.kind,
        constraint: part.name,
        enforcementAction: part.action,
        message: part.message,
      })),
      notEvaluated: [],
      rules: [],
      constraints: it.policies.map(trace),
    },
  };
}

/** What a POST to /try gives: an object without the label `owner` is denied, text without `kind` cannot be read. */
function tried(request, namespace) {
  const kind = /^kind: (\w+)$/m.exec(request.objects)?.[1];
  if (!kind) {
    const help = "give it a kind";
    return {
      results: [],
      findings: [{ level: "error", message: "the document has no `kind`", help, line: 2, column: 3 }],
      notes: [],
    };
  }
  const name = /^ {2}name: (.+)$/m.exec(request.objects)?.[1] ?? "";
  const message = "label owner is missing";
  const isGood = request.objects.includes("owner:");
  const part = {
    group: "constraints.gatekeeper.sh",
    kind: "NeedLabel",
    name: "need-owner",
    action: "deny",
    message,
  };
  const it = {
    kind,
    name,
    namespace: namespace || "default",
    outcome: isGood ? "allowed" : "denied",
    code: isGood ? 200 : 403,
    message: isGood ? "" : `[need-owner] ${message}`,
    warnings: [],
    changes: [],
    policies: isGood ? [] : [part],
  };
  return {
    results: [explained(it)],
    findings: [],
    notes: ["note: Namespace `default` is not among the inputs"],
  };
}

/** The answer to a request of the API: a status and a value. */
function answer(state, method, url, authorization, body) {
  if (state.failure) return [state.failure.status, state.failure.value];
  if (state.needsToken && authorization !== `Bearer ${TOKEN}`) {
    return [
      401,
      { code: 401, error: authorization ? "the cluster does not accept the token" : "a token is needed" },
    ];
  }
  const path = url.pathname.replace("/api/v1/", "");
  const missing = [404, { code: 404, error: `there is no ${path}` }];
  if (method === "POST") {
    return path === "try" ? [200, tried(JSON.parse(body), url.searchParams.get("namespace"))] : missing;
  }
  const id = /^decisions\/(\d+)$/.exec(path)?.[1];
  if (id !== undefined) {
    const decision = state.decisions.find((it) => it.id === Number(id));
    const namespace = url.searchParams.get("namespace");
    if (!decision || (namespace !== null && decision.namespace !== namespace))
      return [404, { code: 404, error: "the decision is not kept any more" }];
    const unexplained = decision.secret
      ? "requests of Secrets are not kept"
      : "allowed requests are not kept";
    return [
      200,
      decision.explainable
        ? { decision, result: explained(decision), unexplained: "", changed: decision.id === 38 }
        : { decision, result: null, unexplained, changed: false },
    ];
  }
  switch (path) {
    case "status":
      return [200, state.status];
    case "policies":
      return [200, { items: state.policies, audit: state.status.audit?.time ?? null }];
    case "namespaces":
      return [200, { items: state.namespaces, audit: state.status.audit?.time ?? null }];
    case "shadow":
      return state.shadow ? [200, state.shadow] : [404, { code: 404, error: "there is no shadow" }];
    case "decisions": {
      const namespace = url.searchParams.get("namespace");
      const before = Number(url.searchParams.get("before") ?? Number.MAX_SAFE_INTEGER);
      const limit = Number(url.searchParams.get("limit") ?? 100);
      const all = state.decisions.filter((it) => namespace === null || it.namespace === namespace);
      const left = all.filter((it) => it.id < before);
      const items = left.slice(0, Math.min(limit, state.largest ?? 500));
      const next = items.length < left.length ? items.at(-1).id : null;
      const newestId = state.decisions[0]?.id ?? 0;
      return [200, { items, next, oldest: state.decisions.at(-1)?.time ?? null, newestId }];
    }
    default:
      return missing;
  }
}

/** Serves the page and the API of a state. */
export async function mock(state, port = 0) {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const parts = [];
    request.on("data", (chunk) => parts.push(chunk));
    request.on("end", () => {
      if (!url.pathname.startsWith("/api/")) {
        const html = page();
        const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1] ?? "";
        response.writeHead(url.pathname === "/" ? 200 : 404, {
          "content-type": "text/html; charset=utf-8",
          "content-security-policy": `${policy}; frame-ancestors 'none'`,
        });
        response.end(url.pathname === "/" ? html : "");
        return;
      }
      const { authorization } = request.headers;
      const [status, value] = answer(
        state,
        request.method,
        url,
        authorization,
        Buffer.concat(parts).toString(),
      );
      state.requests.push({
        method: request.method,
        path: `${url.pathname}${url.search}`,
        authorization,
        status,
      });
      response.writeHead(status, { "content-type": "application/json" });
      response.end(typeof value === "string" ? value : JSON.stringify(value));
    });
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  const { port: taken } = server.address();
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return {
    address: `http://127.0.0.1:${taken}/`,
    stop,
    answer: (path) => answer(state, "GET", new URL(path, "http://localhost"), `Bearer ${TOKEN}`, ""),
  };
}

if (process.argv[1] === import.meta.filename) {
  const { address } = await mock(data(), Number(process.argv[2] ?? 8088));
  console.log(address);
}
