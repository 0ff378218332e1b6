//! Gatekeeper's library as ValidatingAdmissionPolicies, once more under other names where there are not enough.

use std::{collections::BTreeMap, net::SocketAddr, thread, time::Instant};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::constraint::{
    CompiledTemplate, TemplateOptions,
    vap::{self, VapOptions, VapVersion},
};
use modgate_testkit::{cluster::Cluster, gatekeeper::library, rego::library::folder};
use modgate_value::{Object, Str, Value, yaml};

use super::{TIMEOUT, apply};

/// Policies with their bindings and parameters.
pub(super) struct Policies {
    definitions: Vec<Value>,
    params: Vec<Value>,
    pub(super) policies: Vec<Value>,
    pub(super) bindings: Vec<Value>,
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

/// A document whose text at a path has another end.
fn with_end(document: &Value, path: &[&str], end: &str) -> Value {
    let Some((key, rest)) = path.split_first() else {
        return format!("{}{end}", document.as_str().unwrap_or_default()).into();
    };
    let mut members: Object = document.as_object().cloned().unwrap_or_default();
    let inner = members.get(key).cloned().unwrap_or_default();
    members.insert(*key, with_end(&inner, rest, end));
    members.into()
}

impl Policies {
    /// So many policies, with a binding for each sample constraint of theirs. Bindings audit or warn, as the enforcement action
    /// `dryrun` or `warn` says: every Pod is stored, whatever the samples forbid.
    pub(super) fn of_library(count: usize, action: &str) -> Result<Self> {
        let library =
            folder().context("the public library is not here; set MODGATE_CONFORMANCE")?;
        let library::Policies { templates, constraints } = library::policies(&library)?;
        let options = VapOptions { version: VapVersion::V1, ..VapOptions::default() };
        let mut own = BTreeMap::new();
        for template in &templates {
            if let Ok(policy) = vap::policy(template, &options) {
                own.insert(
                    text(&policy.object, &["metadata", "name"]).to_owned(),
                    (template, policy.object),
                );
            }
        }
        ensure!(own.len() == 16, "the library has {} templates in CEL, not 16", own.len());
        let mut all = Self {
            definitions: Vec::new(),
            params: Vec::new(),
            policies: Vec::new(),
            bindings: Vec::new(),
        };
        for number in 0..count {
            let (copy, index) = (number / own.len(), number % own.len());
            let (template, policy) = own.values().nth(index).context("no policy")?;
            let end = if copy == 0 { String::new() } else { format!("-{copy}") };
            all.policies.push(with_end(policy, &["metadata", "name"], &end));
            let kind = text(template, &["spec", "crd", "spec", "names", "kind"]);
            if copy == 0 {
                let compiled = CompiledTemplate::compile(template, &TemplateOptions::default())?;
                all.definitions.push(compiled.schema().crd());
            }
            for constraint in constraints.iter().filter(|it| text(it, &["kind"]) == kind) {
                if copy == 0 {
                    all.params.push(constraint.clone());
                }
                let binding = vap::binding(constraint, &[Str::from(action)], &options)?;
                let binding = with_end(&binding, &["metadata", "name"], &end);
                all.bindings.push(with_end(&binding, &["spec", "policyName"], &end));
            }
        }
        Ok(all)
    }

    /// Evaluations for each Pod, as modgate counts them: one for each binding, so this is the least.
    pub(super) fn least_evaluations(&self) -> f64 {
        super::count(self.policies.len())
    }

    /// Creates everything; bindings are modgate's, or the API server's.
    pub(super) fn install(&self, cluster: &Cluster, for_modgate: bool) -> Result<()> {
        let create = ["create", "-f", "-"];
        apply(cluster, &create, &self.definitions)?;
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        let outcome = cluster.run(wait, "")?;
        ensure!(outcome.success, "{}", outcome.stderr);
        apply(cluster, &create, &self.params)?;
        apply(cluster, &create, &self.policies)?;
        let end = if for_modgate { ".modgate.sh" } else { "" };
        let bindings: Vec<Value> =
            self.bindings.iter().map(|it| with_end(it, &["spec", "policyName"], end)).collect();
        apply(cluster, &create, &bindings)?;
        if for_modgate { Ok(()) } else { until_in_force(cluster) }
    }
}

/// Waits until the API server denies what the last policy denies.
fn until_in_force(cluster: &Cluster) -> Result<()> {
    let documents = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: zz-last}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: 'false', message: in force}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: zz-last}
spec: {policyName: zz-last, validationActions: [Deny]}
";
    let documents: Result<Vec<Value>, _> = documents.split("\n---\n").map(yaml::value).collect();
    apply(cluster, &["create", "-f", "-"], &documents?)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let outcome = cluster.run(["create", "configmap", "last", "--dry-run=server"], "")?;
        if outcome.stderr.contains("in force") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "policies are not in force: {}", outcome.stderr);
        thread::yield_now();
    }
}

/// The webhook configuration that sends Pods to an address.
pub(super) fn webhook(address: SocketAddr, certificate: &str) -> Result<Value> {
    let text = format!(
        "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: \
         {{name: admission-policies.modgate.sh}}, webhooks: [{{name: policies.modgate.sh, clientConfig: {{url: \
         'https://{address}/v1/policies/validate', caBundle: {}}}, rules: [{{apiGroups: [''], apiVersions: \
         [v1], resources: [pods], operations: [CREATE]}}], failurePolicy: Fail, sideEffects: None, \
         admissionReviewVersions: [v1], timeoutSeconds: 10}}]}}",
        STANDARD.encode(certificate)
    );
    Ok(yaml::value(&text)?)
}
