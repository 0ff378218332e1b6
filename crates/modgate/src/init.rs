//! `modgate init`: new policies and suites, as files to edit.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::exit::Exit;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Write template.yaml and constraint.yaml, and a suite that tests them
  modgate init constraint need-owner
  modgate init suite need-owner
  modgate verify suite.yaml

  # The same with a template in Rego
  modgate init rego need-owner

  # Write policy.yaml and binding.yaml
  modgate init validating-policy need-owner

  # Write rules/modrule.yaml
  modgate init modrule no-latest --dir rules

Exit codes:
  0  the files are written
  2  arguments are not valid, or a file exists already";

/// Arguments of `modgate init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Kind of policy.
    kind: NewKind,
    /// Name of the policy, such as `need-owner`.
    name: String,
    /// Folder to write to.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NewKind {
    /// A ConstraintTemplate in CEL and a constraint: template.yaml and constraint.yaml.
    Constraint,
    /// The same with a ConstraintTemplate in Rego.
    Rego,
    /// A ValidatingAdmissionPolicy and its binding: policy.yaml and binding.yaml.
    ValidatingPolicy,
    /// A MutatingAdmissionPolicy and its binding: policy.yaml and binding.yaml.
    MutatingPolicy,
    /// A ModRule: modrule.yaml.
    Modrule,
    /// A mutator: mutator.yaml.
    Mutator,
    /// A test suite for the constraint: suite.yaml, allowed.yaml and denied.yaml.
    Suite,
}

/// Runs the verb.
pub(crate) fn run(args: &InitArgs) -> Result<Exit> {
    let is_label = |name: &str| {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase());
        name.len() <= 63
            && name.bytes().all(is_inner)
            && is_edge(name.bytes().next())
            && !name.ends_with('-')
    };
    ensure!(
        is_label(&args.name),
        "`{}` is not a name for a policy: use lower-case letters, digits and dashes, such as `need-owner`",
        args.name
    );
    let files = files(args.kind, &args.name);
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot create `{}`", args.dir.display()))?;
    for (name, _) in &files {
        let path = args.dir.join(name);
        ensure!(!path.exists(), "`{}` exists already; remove it, or use `--dir`", path.display());
    }
    for (name, text) in files {
        let path = args.dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        writeln!(io::stdout(), "{}", path.display())?;
    }
    Ok(Exit::Success)
}

/// `need-owner` as `NeedOwner`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}

fn files(kind: NewKind, name: &str) -> Vec<(&'static str, String)> {
    let kind_name = camel(name);
    let lower = kind_name.to_ascii_lowercase();
    let filled = |text: &str| {
        text.replace("KIND", &kind_name).replace("LOWER", &lower).replace("NAME", name)
    };
    match kind {
        NewKind::Constraint => {
            vec![
                ("template.yaml", filled(&[TEMPLATE_HEAD, CEL_CODE].concat())),
                ("constraint.yaml", filled(CONSTRAINT)),
            ]
        }
        NewKind::Rego => {
            vec![
                ("template.yaml", filled(&[TEMPLATE_HEAD, REGO_CODE].concat())),
                ("constraint.yaml", filled(CONSTRAINT)),
            ]
        }
        NewKind::ValidatingPolicy => vec![
            ("policy.yaml", filled(VALIDATING)),
            (
                "binding.yaml",
                filled(BINDING).replace("POLICY", "ValidatingAdmissionPolicy")
                    + "  # Start with `Audit` or `Warn`, and `Deny` once existing objects comply.\n  validationActions: [Warn]\n",
            ),
        ],
        NewKind::MutatingPolicy => vec![
            ("policy.yaml", filled(MUTATING)),
            ("binding.yaml", filled(BINDING).replace("POLICY", "MutatingAdmissionPolicy")),
        ],
        NewKind::Modrule => vec![("modrule.yaml", filled(MODRULE))],
        NewKind::Mutator => vec![("mutator.yaml", filled(MUTATOR))],
        NewKind::Suite => vec![
            ("suite.yaml", filled(SUITE)),
            ("allowed.yaml", ALLOWED.to_owned()),
            ("denied.yaml", DENIED.to_owned()),
        ],
    }
}

/// A template up to its code.
const TEMPLATE_HEAD: &str = "\
# A template defines a kind of constraint, its parameters and its rule.
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: LOWER
  annotations:
    metadata.gatekeeper.sh/title: KIND
    description: Requires labels.
spec:
  crd:
    spec:
      names:
        kind: KIND
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels:
              type: array
              items:
                type: string
  targets:
  - target: admission.k8s.gatekeeper.sh
";

const CEL_CODE: &str = "    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: >-
            variables.params.labels.all(label,
            has(object.metadata.labels) && label in object.metadata.labels)
          messageExpression: \"'required labels: ' + variables.params.labels.join(', ')\"
";

const REGO_CODE: &str = "    code:
    - engine: Rego
      source:
        version: v1
        rego: |
          package LOWER

          violation contains {\"msg\": msg} if {
            given := {label | some label, _ in object.get(input.review.object.metadata, \"labels\", {})}
            required := {label | some label in input.parameters.labels}
            missing := required - given
            count(missing) > 0
            msg := sprintf(\"required labels: %s\", [concat(\", \", missing)])
          }
";

const VALIDATING: &str = "\
# A policy validates the objects of requests; a binding puts it into force.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: NAME
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [apps]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [deployments]
  validations:
  - expression: has(object.metadata.labels) && 'owner' in object.metadata.labels
    message: 'add the label owner'
";

const MUTATING: &str = "\
# A policy changes the objects of requests; a binding puts it into force.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: NAME
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules:
    - apiGroups: [apps]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [deployments]
  matchConditions:
  - name: no-owner
    expression: \"!has(object.metadata.labels) || !('owner' in object.metadata.labels)\"
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: \"Object{metadata: Object.metadata{labels: {'owner': 'unknown'}}}\"
";

const BINDING: &str = "\
# A binding puts a policy into force.
apiVersion: admissionregistration.k8s.io/v1
kind: POLICYBinding
metadata:
  name: NAME
spec:
  policyName: NAME
";

const CONSTRAINT: &str = "\
# A constraint applies the rule of its template to objects.
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: KIND
metadata:
  name: NAME
  annotations:
    # Denials end with these.
    modgate.sh/owner: team platform
    modgate.sh/remediation: add the missing labels
spec:
  # Start with `dryrun` or `warn`, and deny once existing objects comply.
  enforcementAction: warn
  match:
    kinds:
    - apiGroups: [apps]
      kinds: [Deployment]
    excludedNamespaces: [kube-system]
  parameters:
    labels: [owner]
";

const MODRULE: &str = "\
# A ModRule rejects or patches the objects that all of its criteria select.
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata:
  name: NAME
  # A ModRule applies to objects of its own namespace.
  namespace: default
spec:
  type: Patch
  match:
  - select: $.kind
    matchValue: Deployment
  - select: $.metadata.labels.owner
    negate: true
  patch:
  - op: add
    path: /metadata/labels/owner
    value: unknown
";

const MUTATOR: &str = "\
# A mutator sets a field of the objects that it matches, unless they have it already.
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata:
  name: NAME
spec:
  applyTo:
  - groups: [\"\"]
    versions: [v1]
    kinds: [Pod]
  match:
    excludedNamespaces: [kube-system]
  location: 'spec.containers[name: *].imagePullPolicy'
  parameters:
    pathTests:
    - subPath: 'spec.containers[name: *].imagePullPolicy'
      condition: MustNotExist
    assign:
      value: IfNotPresent
";

const SUITE: &str = "\
# Run it with `modgate verify suite.yaml`.
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
metadata:
  name: NAME
tests:
- name: NAME
  template: template.yaml
  constraint: constraint.yaml
  cases:
  - name: allowed
    object: allowed.yaml
    assertions:
    - violations: no
  - name: denied
    object: denied.yaml
    assertions:
    - violations: 1
      message: owner
";

const ALLOWED: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: allowed
  namespace: default
  labels: {owner: me}
spec:
  selector: {matchLabels: {app: allowed}}
  template:
    metadata: {labels: {app: allowed}}
    spec:
      containers:
      - name: main
        image: registry.example.com/main:1.0
";

const DENIED: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: denied
  namespace: default
spec:
  selector: {matchLabels: {app: denied}}
  template:
    metadata: {labels: {app: denied}}
    spec:
      containers:
      - name: main
        image: registry.example.com/main:1.0
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kinds() {
        for (name, expected) in [("need-owner", "NeedOwner"), ("a", "A"), ("x2-y", "X2Y")] {
            assert_eq!(camel(name), expected);
        }
    }
}
