//! ValidatingAdmissionPolicies as ConstraintTemplates with constraints.

use std::collections::{BTreeMap, BTreeSet};

use modgate_cel::{free_names, with_input};
use modgate_engine::{
    Change, EngineConfig, OnError, PolicySource, Severity, Snapshot,
    admissionpolicy::selects,
    api::{
        admissionregistration::{
            self as wire, BINDING_KIND, BindingSpec, MUTATING_POLICY_KIND, NamedExpression,
            POLICY_KIND, ParamKind, ParamRef, PolicySpec,
        },
        constraints,
        meta::GroupVersionKind,
        templates::{self, CEL_ENGINE, TARGET},
    },
    matching::Selector,
};
use modgate_value::{Str, Value};

use super::{Conversion, Loss, generated, is_of, matching, name, object, text, unique};

/// Names that templates give to variables of their own.
const TAKEN: [&str; 2] = ["params", "anyObject"];
/// How names of variables and match conditions of templates must not begin.
const RESERVED: &str = "gatekeeper_internal_";
/// The name of a policy's parameters in templates.
const PARAMS: &str = "variables.params";

/// The cluster's own policies among these documents as templates and constraints. Parameters and
/// CustomResourceDefinitions are found among the documents, too.
pub fn policies(documents: &[Value]) -> Vec<Conversion> {
    let mut kinds = BTreeSet::new();
    let own = documents.iter().filter(|it| is_of(it, wire::GROUP));
    own.filter_map(|policy| match text(policy, &["kind"]) {
        POLICY_KIND => Some(of_policy(policy, documents, &mut kinds)),
        MUTATING_POLICY_KIND => Some(Conversion {
            source: format!("{MUTATING_POLICY_KIND} {}", name(policy)),
            originals: vec![policy.clone()],
            objects: Vec::new(),
            losses: vec![Loss::new(
                "spec.mutations",
                "Gatekeeper's mutators assign values to fields; they have no CEL",
            )],
        }),
        _ => None,
    })
    .collect()
}

fn of_policy(policy: &Value, documents: &[Value], kinds: &mut BTreeSet<String>) -> Conversion {
    let is_binding = |it: &&Value| {
        is_of(it, wire::GROUP)
            && text(it, &["kind"]) == BINDING_KIND
            && text(it, &["spec", "policyName"]).trim_end_matches(".modgate.sh") == name(policy)
    };
    let bindings: Vec<&Value> = documents.iter().filter(is_binding).collect();
    let mut conversion = Conversion {
        source: format!("{POLICY_KIND} {}", name(policy)),
        originals: [policy].into_iter().chain(bindings.iter().copied()).cloned().collect(),
        objects: Vec::new(),
        losses: Vec::new(),
    };
    let spec = match PolicySpec::from_value(policy) {
        Ok(spec) => spec,
        Err(error) => {
            conversion.losses.push(Loss::new(error.path, error.message));
            return conversion;
        }
    };
    let mut conversion = if generated::is_generated(&spec) {
        generated::convert(&spec, &bindings, documents, &mut conversion);
        kinds.extend(spec.param_kind.map(|kind| kind.kind.to_lowercase()));
        conversion
    } else {
        let mut work = Work { policy, spec, documents, kinds, conversion };
        work.convert(&bindings);
        work.conversion
    };
    let refused = refused(&conversion.objects);
    conversion.losses.extend(refused);
    conversion.losses.sort();
    conversion.losses.dedup();
    conversion
}

/// Why templates and constraints would not load.
fn refused(objects: &[Value]) -> Vec<Loss> {
    let sources = objects.iter().map(|it| Change::Upsert(PolicySource::of_object(it.clone())));
    let snapshot = Snapshot::new(EngineConfig::default());
    let problems = snapshot.apply(sources.collect(), OnError::Unload).problems.into_iter();
    let errors = problems.filter(|it| it.severity == Severity::Error && !it.is_consequence());
    errors.map(|it| Loss::new(format!("{}: {}", it.policy, it.field), it.message)).collect()
}

struct Work<'a> {
    policy: &'a Value,
    spec: PolicySpec,
    documents: &'a [Value],
    kinds: &'a mut BTreeSet<String>,
    conversion: Conversion,
}

/// A binding as constraints of one template.
struct Bound<'a> {
    binding: &'a Value,
    spec: BindingSpec,
}

impl Work<'_> {
    fn lose(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.conversion.losses.push(Loss::new(field, message));
    }

    fn convert(&mut self, bindings: &[&Value]) {
        if !self.is_possible() {
            return;
        }
        let constraints = self.spec.match_constraints.clone().unwrap_or_default();
        let matched = matching::rules("spec.matchConstraints", &constraints, self.documents);
        self.conversion.losses.extend(matched.losses);
        if matched.is_impossible {
            return;
        }
        self.small_losses();
        // Bindings with rules of their own need a template of their own: a match block has kinds only.
        let (mut plain, mut limited) = (Vec::new(), Vec::new());
        for binding in bindings {
            let spec = match BindingSpec::from_value(binding) {
                Ok(spec) => spec,
                Err(error) => {
                    self.lose(error.path, error.message);
                    continue;
                }
            };
            let resources = spec.match_resources.as_ref();
            let has_rules = resources.is_some_and(|it| {
                it.resource_rules.as_ref().is_some_and(|rules| !rules.is_empty())
                    || it.exclude_resource_rules.as_ref().is_some_and(|rules| !rules.is_empty())
            });
            let list = if has_rules { &mut limited } else { &mut plain };
            list.push(Bound { binding, spec });
        }
        let own = camel(name(self.policy));
        if !plain.is_empty() || limited.is_empty() {
            self.template(&own, &matched.kinds, vec![matched.condition.clone()], &plain);
        }
        for bound in limited {
            let resources = bound.spec.match_resources.clone().unwrap_or_default();
            let field = format!("{BINDING_KIND} {}: spec.matchResources", name(bound.binding));
            let also = matching::rules(&field, &resources, self.documents);
            self.conversion.losses.extend(also.losses);
            if also.is_impossible {
                continue;
            }
            let mut conditions = vec![matched.condition.clone(), also.condition];
            // The kinds of the binding stand in a condition of their own.
            if !also.kinds.is_empty() {
                conditions.push(one_of(&also.kinds));
            }
            let wanted = format!("{own}{}", camel(name(bound.binding)));
            self.template(&wanted, &matched.kinds, conditions, &[bound]);
        }
    }

    /// Whether templates can express the decisions of the policy; reasons become losses.
    fn is_possible(&mut self) -> bool {
        let before = self.conversion.losses.len();
        let spec = self.spec.clone();
        for (field, expression) in expressions(&spec) {
            let Ok(names) = free_names(&expression) else {
                self.lose(field, "the expression does not compile");
                continue;
            };
            if names.contains("authorizer") || names.contains("authorizer.requestResource") {
                self.lose(field, "templates have no `authorizer`");
            }
        }
        for (index, variable) in spec.variables.iter().flatten().enumerate() {
            let field = format!("spec.variables[{index}].name");
            if TAKEN.contains(&variable.name.as_str()) || variable.name.starts_with(RESERVED) {
                self.lose(
                    field,
                    format!("templates keep the name `{}` for themselves", variable.name),
                );
            }
        }
        for (index, condition) in spec.match_conditions.iter().flatten().enumerate() {
            if condition.name.starts_with(RESERVED) {
                let field = format!("spec.matchConditions[{index}].name");
                self.lose(
                    field,
                    format!("templates keep the name `{}` for themselves", condition.name),
                );
            }
        }
        if spec.validations.as_ref().is_none_or(Vec::is_empty) {
            self.lose(
                "spec.validations",
                "there are none, and templates write no audit annotations",
            );
        }
        self.conversion.losses.len() == before
    }

    /// The parts that are lost although the policy is converted.
    fn small_losses(&mut self) {
        let spec = self.spec.clone();
        for (index, _) in spec.audit_annotations.iter().flatten().enumerate() {
            let field = format!("spec.auditAnnotations[{index}]");
            self.lose(field, "templates write no audit annotations");
        }
        for (index, validation) in spec.validations.iter().flatten().enumerate() {
            if validation.reason.as_deref().is_some_and(|reason| reason != "Forbidden") {
                let field = format!("spec.validations[{index}].reason");
                self.lose(field, "a denial by a constraint is Forbidden (403)");
            }
        }
        for (index, condition) in spec.match_conditions.iter().flatten().enumerate() {
            let names = free_names(&condition.expression).unwrap_or_default();
            if names.contains("namespaceObject") {
                let field = format!("spec.matchConditions[{index}].expression");
                let message = "`namespaceObject` is null in match conditions of policies, and the \
                               Namespace in those of templates";
                self.lose(field, message);
            }
        }
    }

    /// Adds a template, and the constraints of its bindings.
    fn template(
        &mut self,
        kind: &str,
        kinds: &[Value],
        conditions: Vec<String>,
        bound: &[Bound<'_>],
    ) {
        let kind = unique(kind, self.kinds);
        let template = object([
            ("apiVersion", Value::from(format!("{}/v1", templates::GROUP))),
            ("kind", templates::KIND.into()),
            ("metadata", object([("name", Value::from(kind.to_lowercase()))])),
            ("spec", object([("crd", self.crd(&kind)), ("targets", self.targets(conditions))])),
        ]);
        self.conversion.objects.push(template);
        for Bound { binding, spec } in bound {
            self.constraints(&kind, kinds, binding, spec);
        }
    }

    fn crd(&self, kind: &str) -> Value {
        let names = object([("kind", Value::from(kind))]);
        let mut members = vec![("names", names)];
        if self.spec.param_kind.is_some() {
            let schema = object([
                ("type", Value::from("object")),
                ("x-kubernetes-preserve-unknown-fields", true.into()),
            ]);
            members.push(("validation", object([("openAPIV3Schema", schema)])));
        }
        object([("spec", object(members))])
    }

    fn targets(&self, conditions: Vec<String>) -> Value {
        let spec = &self.spec;
        let mut source = Vec::new();
        if let Some(policy) = &spec.failure_policy {
            source.push(("failurePolicy", Value::from(policy.clone())));
        }
        let named = |name: &str, expression: &str| {
            object([("name", Value::from(name)), ("expression", expression.into())])
        };
        let own = spec.match_conditions.iter().flatten();
        let taken: BTreeSet<&str> = own.clone().map(|it| it.name.as_str()).collect();
        let mut list: Vec<Value> = Vec::new();
        let rules = conditions.iter().filter(|text| !text.is_empty());
        for (index, condition) in rules.enumerate() {
            let mut name = format!("rules-{index}");
            while taken.contains(name.as_str()) {
                name.push('x');
            }
            list.push(named(&name, condition));
        }
        list.extend(own.map(|it| named(&it.name, &moved(&it.expression))));
        if !list.is_empty() {
            source.push(("matchCondition", list.into()));
        }
        let variables: Vec<Value> = spec
            .variables
            .iter()
            .flatten()
            .map(|NamedExpression { name, expression }| named(name, &moved(expression)))
            .collect();
        if !variables.is_empty() {
            source.push(("variables", variables.into()));
        }
        let validations = spec.validations.iter().flatten().map(validation);
        source.push(("validations", validations.collect()));
        let code = object([("engine", Value::from(CEL_ENGINE)), ("source", object(source))]);
        let code: Value = [code].into_iter().collect();
        let target = object([("target", Value::from(TARGET)), ("code", code)]);
        [target].into_iter().collect()
    }

    fn constraints(&mut self, kind: &str, kinds: &[Value], binding: &Value, spec: &BindingSpec) {
        let field = |member: &str| format!("{BINDING_KIND} {}: spec.{member}", name(binding));
        let has = |action: &str| spec.validation_actions.iter().flatten().any(|it| it == action);
        let action = match (has("Deny"), has("Warn")) {
            (true, _) => "deny",
            (false, true) => "warn",
            (false, false) => "dryrun",
        };
        if has("Audit") {
            let message =
                "constraints write no audit annotations; the audit reports their violations";
            self.lose(field("validationActions"), message);
        }
        let of_policy = self.spec.match_constraints.clone().unwrap_or_default();
        let of_binding = spec.match_resources.clone().unwrap_or_default();
        let mut matched = Vec::new();
        if !kinds.is_empty() {
            matched.push(("kinds", Value::from(kinds.to_vec())));
        }
        let pairs = [
            ("namespaceSelector", &of_policy.namespace_selector, &of_binding.namespace_selector),
            ("labelSelector", &of_policy.object_selector, &of_binding.object_selector),
        ];
        for (member, a, b) in pairs {
            if let Some(selector) = matching::both(a.as_ref(), b.as_ref()) {
                matched.push((member, selector));
            }
            let is_used = |it: &Option<_>| {
                it.as_ref().is_some_and(|it| matching::both(Some(it), None).is_some())
            };
            if member == "labelSelector" && is_used(a) && is_used(b) {
                let message = "of an update, the new or the old object must meet the selectors of \
                               policy and binding together, not each of them";
                self.lose(field("matchResources.objectSelector"), message);
            }
        }
        for (suffix, namespace, parameters) in self.parameters(binding, spec) {
            let mut matched = matched.clone();
            if let Some(namespace) = namespace {
                let list: Value = [Value::from(namespace)].into_iter().collect();
                matched.push(("namespaces", list));
            }
            let mut members = vec![("enforcementAction", Value::from(action))];
            if !matched.is_empty() {
                members.push(("match", object(matched)));
            }
            if let Some(parameters) = parameters {
                members.push(("parameters", parameters));
            }
            let called = format!("{}{suffix}", name(binding));
            self.conversion.objects.push(object([
                ("apiVersion", Value::from(format!("{}/v1beta1", constraints::GROUP))),
                ("kind", kind.into()),
                ("metadata", object([("name", Value::from(called))])),
                ("spec", object(members)),
            ]));
        }
    }

    /// The parameters of a binding: for each constraint the end of its name, the one namespace that
    /// it applies to, and its parameters.
    fn parameters(
        &mut self,
        binding: &Value,
        spec: &BindingSpec,
    ) -> Vec<(String, Option<Str>, Option<Value>)> {
        let (Some(kind), Some(reference)) = (self.spec.param_kind.clone(), &spec.param_ref) else {
            return vec![(String::new(), None, None)];
        };
        let field = format!("{BINDING_KIND} {}: spec.paramRef", name(binding));
        let all = self.referenced(&kind, reference);
        self.conversion.originals.extend(all.iter().cloned());
        if all.is_empty() {
            let message = "the input has no such object; a constraint has its parameters in itself";
            self.lose(&field, message);
            return Vec::new();
        }
        let (group, version) = modgate_engine::api::meta::split_api_version(&kind.api_version);
        let gvk =
            GroupVersionKind { group: group.into(), version: version.into(), kind: kind.kind };
        let by_request = !gvk.is_cluster_scoped()
            && reference.namespace.is_empty()
            && all.iter().any(|it| !text(it, &["metadata", "namespace"]).is_empty());
        let denies = reference.parameter_not_found_action.as_deref() == Some("Deny");
        if by_request && denies {
            let message = "requests in namespaces without a parameter are not denied";
            self.lose(format!("{field}.parameterNotFoundAction"), message);
        }
        if by_request {
            let message = "requests about objects without a namespace are not denied";
            self.lose(&field, message);
        }
        let single = all.len() == 1 && reference.selector.is_none();
        let mut names = BTreeMap::new();
        for param in &all {
            let namespace = text(param, &["metadata", "namespace"]);
            let end = match (single, namespace) {
                (true, _) => String::new(),
                (false, "") => format!("-{}", name(param)),
                (false, namespace) => format!("-{namespace}-{}", name(param)),
            };
            let about = by_request.then(|| Str::from(namespace)).filter(|it| !it.is_empty());
            names.insert(end, (about, param.clone()));
        }
        names.into_iter().map(|(end, (about, param))| (end, about, Some(param))).collect()
    }

    /// The objects of the input that a reference names.
    fn referenced(&self, kind: &ParamKind, reference: &ParamRef) -> Vec<Value> {
        let selector = reference.selector.as_ref().map(Selector::compile);
        let is_referenced = |it: &&Value| {
            text(it, &["apiVersion"]) == kind.api_version
                && text(it, &["kind"]) == kind.kind
                && (reference.namespace.is_empty()
                    || text(it, &["metadata", "namespace"]) == reference.namespace)
                && match &selector {
                    Some(Ok(selector)) => selects(selector, it),
                    Some(Err(_)) => false,
                    None => name(it) == reference.name,
                }
        };
        self.documents.iter().filter(is_referenced).cloned().collect()
    }
}

/// Every expression of a policy but those of audit annotations.
fn expressions(spec: &PolicySpec) -> Vec<(String, Str)> {
    let conditions = spec.match_conditions.iter().flatten().enumerate();
    let conditions = conditions.map(|(index, it)| {
        (format!("spec.matchConditions[{index}].expression"), it.expression.clone())
    });
    let variables = spec.variables.iter().flatten().enumerate();
    let variables = variables
        .map(|(index, it)| (format!("spec.variables[{index}].expression"), it.expression.clone()));
    let validations = spec.validations.iter().flatten().enumerate();
    let validations = validations.flat_map(|(index, it)| {
        let field = |member: &str| format!("spec.validations[{index}].{member}");
        let message = (field("messageExpression"), it.message_expression.clone());
        let message = (!it.message_expression.is_empty()).then_some(message);
        [(field("expression"), it.expression.clone())].into_iter().chain(message)
    });
    conditions.chain(variables).chain(validations).collect()
}

/// An expression with the parameters where templates have them.
fn moved(expression: &str) -> String {
    with_input(expression, "params", PARAMS).unwrap_or_else(|_| expression.to_owned())
}

fn validation(it: &wire::Validation) -> Value {
    let expression = moved(&it.expression);
    let mut members = vec![("expression", Value::from(expression.as_str()))];
    let message = match it.message.trim() {
        // The message quotes the expression.
        "" if expression != it.expression.as_str() => {
            format!("failed expression: {}", it.expression.trim())
        }
        message => message.to_owned(),
    };
    if !message.is_empty() {
        members.push(("message", message.into()));
    }
    if !it.message_expression.is_empty() {
        members.push(("messageExpression", moved(&it.message_expression).into()));
    }
    object(members)
}

/// Entries of a match block's `kinds` in CEL.
fn one_of(kinds: &[Value]) -> String {
    let terms = kinds.iter().map(|entry| {
        let member = |member: &str, field: &str| {
            let list = entry.get(member)?.as_array()?;
            let any = list.iter().any(|it| it.as_str() == Some("*"));
            (!any)
                .then(|| format!("request.kind.{field} in {}", Value::from(list.clone()).to_json()))
        };
        let terms: Vec<String> =
            [member("apiGroups", "group"), member("kinds", "kind")].into_iter().flatten().collect();
        if terms.is_empty() { "true".to_owned() } else { format!("({})", terms.join(" && ")) }
    });
    format!("({})", terms.collect::<Vec<_>>().join(" || "))
}

/// A name as a kind: `replica-limit.example.com` is `ReplicaLimitExampleCom`.
fn camel(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let mut kind: String = words
        .map(|word| {
            let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
            first.to_ascii_uppercase() + rest
        })
        .collect();
    if !kind.starts_with(|c: char| c.is_ascii_alphabetic()) {
        kind.insert_str(0, "Policy");
    }
    // A CRD has a kind of 63 characters at most for lists, `KIND` with `List`; two are for a number.
    kind.truncate(57);
    kind
}
