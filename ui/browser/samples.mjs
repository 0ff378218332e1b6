// Reports whose data stay the same, for goldens.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** A page with data, put in as the binary does. */
export function withData(data) {
  const html = readFileSync(join(root, "crates/modgate-ui/dist/report.html"), "utf8");
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  return html.replace("@DATA@", () => text);
}

const TEMPLATE = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: needlabel
spec:
  crd:
    spec:
      names:
        kind: NeedLabel
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package needlabel
      violation[{"msg": msg}] {
        not input.review.object.metadata.labels.owner
        msg := sprintf("label owner is missing on %v", [input.review.object.metadata.name])
      }
`;

const CONSTRAINT = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeedLabel
metadata:
  name: need-owner
spec:
  match:
    kinds:
    - apiGroups: [apps]
      kinds: [Deployment]
`;

const object = (name, image) => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  namespace: shop
spec:
  template:
    spec:
      containers:
      - image: ${image}
        name: ${name}
`;

const policies = [
  {
    group: "templates.gatekeeper.sh",
    kind: "ConstraintTemplate",
    namespace: "",
    name: "needlabel",
    origin: "policies/template.yaml:1:1",
    text: TEMPLATE,
    object: { metadata: { annotations: { "metadata.gatekeeper.sh/title": "Objects have an owner" } } },
  },
  {
    group: "constraints.gatekeeper.sh",
    kind: "NeedLabel",
    namespace: "",
    name: "need-owner",
    origin: "policies/constraint.yaml:1:1",
    text: CONSTRAINT,
    object: { spec: { match: { kinds: [{ apiGroups: ["apps"], kinds: ["Deployment"] }] } } },
    evaluations: 24,
    microseconds: 1680,
  },
];

const base = (command) => ({
  modgate: "1.4.0",
  command,
  arguments: ["-f", "policies/"],
  policies,
  subjects: [],
  omitted: [],
});

function explanation(message) {
  const id = { group: "constraints.gatekeeper.sh", kind: "NeedLabel", namespace: "", name: "need-owner" };
  const held = (text, values = []) => ({
    rule: "violation",
    module: "",
    text,
    result: { kind: "held" },
    values,
  });
  const constraint = {
    policy: id,
    origin: "policies/constraint.yaml",
    engine: "Rego",
    action: "deny",
    parameters: {},
    outcome: { result: "violated" },
    violations: [message],
    expressions: [
      held("not input.review.object.metadata.labels.owner"),
      held('msg := sprintf("label owner is missing on %v", …)', [["msg", JSON.stringify(message)]]),
    ],
    omitted: 0,
  };
  return { rules: [], constraints: [constraint] };
}

function audit() {
  const names = ["cart", "catalogue", "checkout", "front", "ledger", "mail", "queue", "search"];
  const violations = names.map((name, index) => ({
    policy: {
      group: "constraints.gatekeeper.sh",
      kind: index % 3 === 2 ? "ImageTag" : "NeedLabel",
      name: "need-owner",
    },
    object: {
      group: "apps",
      kind: "Deployment",
      namespace: index % 4 === 3 ? "pay" : "shop",
      name,
      place: `manifests/${name}.yaml:1:1`,
    },
    enforcementAction: ["deny", "deny", "warn", "dryrun"][index % 4],
    message: `label owner is missing on ${name}`,
    details: {},
  }));
  const subjects = [
    {
      group: "apps",
      kind: "Deployment",
      namespace: "shop",
      name: "cart",
      place: "manifests/cart.yaml:1:1",
      text: object("cart", "nginx:1.29"),
      explanation: explanation("label owner is missing on cart"),
    },
  ];
  const document = { groups: [{ total: violations.length, violations }], objects: 24, errors: [] };
  return { ...base("audit"), document, subjects };
}

function lint() {
  const finding = (rule, message, file, field) => ({
    rule,
    level: "warning",
    message,
    place: { file, line: 1, column: 1 },
    field,
  });
  const proof = (policy, denials, parts) => ({
    policy,
    denials,
    parts,
    commands: [
      ["modgate", "lint", "-f", "policies/", "--write-witness", "proofs"],
      ["modgate", "explain", "-f", "policies/", "proofs/denied.yaml", "proofs/admitted.yaml"],
    ],
  });
  const rules = [
    {
      id: "bypass-empty-value",
      description: "A policy that looks for a member and not at its value admits an empty one.",
    },
    {
      id: "not-idempotent",
      description: "API servers call webhooks again after another one changed the object.",
    },
  ];
  const findings = [
    finding(
      "bypass-empty-value",
      "NeedLabel need-owner: the policy admits an empty value where it denies a missing one",
      "policies/template.yaml",
      "metadata.labels.owner",
    ),
    finding(
      "not-idempotent",
      "Assign args: a second run changes the object again",
      "policies/assign.yaml",
      "",
    ),
  ];
  const good = object("cart", "nginx:1.29").replace(
    "  namespace: shop\n",
    '  labels:\n    owner: ""\n  namespace: shop\n',
  );
  const once = object("cart", "nginx:1.29").replace(
    "        name: cart\n",
    "        args: [-v]\n        name: cart\n",
  );
  const subjects = [
    proof(
      "NeedLabel need-owner",
      ["label owner is missing on cart"],
      [
        { what: "denied, CREATE", text: object("cart", "nginx:1.29") },
        { what: "admitted, CREATE", text: good },
      ],
    ),
    proof(
      "Assign args",
      [],
      [
        { what: "object", text: object("cart", "nginx:1.29") },
        { what: "after one run", text: once },
        { what: "after two runs", text: once.replace("[-v]", "[-v, -v]") },
      ],
    ),
  ];
  const document = { version: "1.4.0", complete: true, rules, findings, policies: 4, notExamined: 1 };
  return { ...base("lint"), document, subjects };
}

/** The data of a page by name. */
export const samples = { audit, lint };
