//! Errors that the API server finds beside those of expressions: names, rules and selectors
//! (`kubernetes/pkg/apis/admissionregistration/validation`, Kubernetes 1.36).

use modgate_api::{
    admissionregistration::{AuditAnnotation, MatchResources, ParamKind, ResourceRule},
    matching::LabelSelector,
    schema::names,
};
use modgate_value::{Str, Value};

use super::Problems;

/// Match conditions of one policy.
const MAX_CONDITIONS: usize = 64;
/// Audit annotations of one policy.
const MAX_ANNOTATIONS: usize = 20;
/// Bytes of the expression of an audit annotation.
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;

/// Literals and operators of CEL: like reserved words, no variable may have such a name.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

impl Problems {
    fn invalid(&mut self, field: impl Into<String>, value: &str, problem: &str) {
        let value = Value::from(value).to_json();
        self.add(field, format!("Invalid value: {value}: {problem}"));
    }

    fn all_invalid(&mut self, field: &str, value: &str, problems: &[String]) {
        problems.iter().for_each(|problem| self.invalid(field, value, problem));
    }

    /// The name and the labels of a policy or binding.
    pub(super) fn metadata(&mut self, object: &Value) {
        let metadata = object.get("metadata");
        let text = |member| metadata.and_then(|it| it.get(member)).and_then(Value::as_str);
        if let Some(name) = text("name").filter(|name| !name.is_empty()) {
            self.all_invalid("metadata.name", name, &names::subdomain(name));
        }
        let labels = metadata.and_then(|it| it.get("labels")).and_then(Value::as_object);
        for error in labels.into_iter().flat_map(|all| names::labels(all, "metadata.labels")) {
            self.add(error.path, error.problem);
        }
    }

    /// The name of a policy in a binding.
    pub(super) fn policy_name(&mut self, name: &str) {
        self.all_invalid("spec.policyName", name, &names::subdomain(name));
    }

    /// Selectors and rules.
    pub(super) fn resources(&mut self, field: &str, wire: &MatchResources) {
        for (member, selector) in [
            ("namespaceSelector", &wire.namespace_selector),
            ("objectSelector", &wire.object_selector),
        ] {
            if let Some(selector) = selector {
                self.selector(&format!("{field}.{member}"), selector);
            }
        }
        for (list, rules) in [
            ("resourceRules", &wire.resource_rules),
            ("excludeResourceRules", &wire.exclude_resource_rules),
        ] {
            for (index, rule) in rules.iter().flatten().enumerate() {
                self.rule(&format!("{field}.{list}[{index}]"), rule);
            }
        }
    }

    pub(super) fn selector(&mut self, field: &str, selector: &LabelSelector) {
        for error in names::selector(selector, field) {
            self.add(error.path, error.problem);
        }
    }

    fn rule(&mut self, field: &str, rule: &ResourceRule) {
        for (member, values, others) in [
            ("operations", &rule.operations, "operations"),
            ("apiGroups", &rule.api_groups, "API groups"),
            ("apiVersions", &rule.api_versions, "API versions"),
        ] {
            let values = values.as_deref().unwrap_or_default();
            if values.len() > 1 && values.iter().any(|value| value == "*") {
                let problem = format!("if '*' is present, must not specify other {others}");
                self.list_invalid(&format!("{field}.{member}"), values, &problem);
            }
        }
        for (index, version) in rule.api_versions.iter().flatten().enumerate() {
            if version.is_empty() {
                self.required(format!("{field}.apiVersions[{index}]"));
            }
        }
        self.resource_names(field, rule.resources.as_deref().unwrap_or_default());
        let named = rule.resource_names.as_deref().unwrap_or_default();
        for (index, name) in named.iter().enumerate() {
            let field = format!("{field}.resourceNames[{index}]");
            if named.iter().take(index).any(|other| other == name) {
                self.add(
                    &field,
                    format!("Duplicate value: {}", Value::from(name.as_str()).to_json()),
                );
            }
            if name == "." || name == ".." {
                self.invalid(&field, name, &format!("may not be '{name}'"));
            }
            for part in ["/", "%"].into_iter().filter(|part| name.contains(*part)) {
                self.invalid(&field, name, &format!("may not contain '{part}'"));
            }
        }
    }

    /// Resources that others of the same rule cover.
    fn resource_names(&mut self, rule: &str, resources: &[Str]) {
        let field = format!("{rule}.resources");
        for (index, resource) in resources.iter().enumerate() {
            if resource.is_empty() {
                self.required(format!("{field}[{index}]"));
                continue;
            }
            let Some((name, sub)) = resource.split_once('/') else { continue };
            let before = resources.iter().take(index);
            let mut before = before.filter_map(|other| other.split_once('/'));
            let covering = before.find_map(|(other, other_sub)| match (other, other_sub) {
                (other, "*") if other == name => Some(format!("{name}/*")),
                ("*", other_sub) if other_sub == sub => Some(format!("*/{sub}")),
                _ => None,
            });
            if let Some(covering) = covering {
                let problem = format!("if '{covering}' is present, must not specify {resource}");
                self.invalid(format!("{field}[{index}]"), resource, &problem);
            }
        }
        let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
        if resources.len() > 1 && has("*/*") {
            let problem = "if '*/*' is present, must not specify other resources";
            self.list_invalid(&field, resources, problem);
        }
        let is_plain = |resource: &Str| resource != "*" && !resource.contains('/');
        if has("*") && resources.iter().any(is_plain) {
            let problem =
                "if '*' is present, must not specify other resources without subresources";
            self.list_invalid(&field, resources, problem);
        }
    }

    fn list_invalid(&mut self, field: &str, values: &[Str], problem: &str) {
        let values: Value = values.iter().cloned().map(Value::from).collect();
        self.add(field, format!("Invalid value: {}: {problem}", values.to_json()));
    }

    /// The kind of parameters.
    pub(super) fn param_kind(&mut self, kind: &ParamKind) {
        let version = &kind.api_version;
        if version.matches('/').count() > 1 {
            let problem = format!("unexpected GroupVersion string: {version}");
            self.invalid("spec.paramKind.apiVersion", version, &problem);
        } else if !version.is_empty() {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            if !group.is_empty() {
                self.all_invalid("spec.paramKind.apiVersion", group, &names::subdomain(group));
            }
            self.all_invalid("spec.paramKind.apiVersion", version, &names::label_1035(version));
        }
        if !kind.kind.is_empty() {
            let problems = names::label_1035(&kind.kind.to_lowercase());
            let problems: Vec<_> = problems
                .iter()
                .map(|problem| {
                    format!("may have mixed case, but should otherwise match: {problem}")
                })
                .collect();
            self.all_invalid("spec.paramKind.kind", &kind.kind, &problems);
        }
    }

    /// The name of a variable.
    pub(super) fn variable_name(&mut self, index: usize, name: &str) {
        let field = format!("spec.variables[{index}].name");
        let mut characters = name.chars();
        let begins = characters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic());
        let is_identifier = begins && characters.all(|c| c == '_' || c.is_ascii_alphanumeric());
        if name.trim().is_empty() {
            self.required(field);
        } else if !is_identifier || modgate_cel::is_reserved(name) || WORDS.contains(&name) {
            self.invalid(field, name, "must be a valid CEL identifier");
        }
    }

    /// The name of a match condition.
    pub(super) fn condition_name(&mut self, index: usize, name: &str) {
        let field = format!("spec.matchConditions[{index}].name");
        self.all_invalid(&field, name, &names::label_key(name));
    }

    /// How many match conditions there are.
    pub(super) fn condition_count(&mut self, count: usize) {
        if count > MAX_CONDITIONS {
            let problem = format!("Too many: {count}: must have at most {MAX_CONDITIONS} items");
            self.add("spec.matchConditions", problem);
        }
    }

    /// Audit annotations of the policy of this name, beside their expressions.
    pub(super) fn annotation_keys(&mut self, policy: &str, list: &[AuditAnnotation]) {
        if list.len() > MAX_ANNOTATIONS {
            let problem = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
            self.add("spec.auditAnnotations", format!("Invalid value: {}: {problem}", list.len()));
        }
        for (index, annotation) in list.iter().enumerate() {
            let field = format!("spec.auditAnnotations[{index}]");
            if annotation.key.is_empty() {
                self.required(format!("{field}.key"));
            } else {
                let problems = names::label_key(&format!("{policy}/{}", annotation.key));
                self.all_invalid(&format!("{field}.key"), &annotation.key, &problems);
            }
            if annotation.value_expression.len() > MAX_ANNOTATION_EXPRESSION {
                let problem =
                    format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length");
                let field = format!("{field}.valueExpression");
                self.add(field, format!("Too long: {problem}"));
            }
        }
    }
}
