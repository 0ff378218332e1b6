//! Tests of ValidatingAdmissionPolicies and MutatingAdmissionPolicies in kat's layout: a folder
//! with `policy.yaml`, `binding.yaml` and `tests/NAME.WHAT.yaml` (docs/admission-policies.md).

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use modgate_api::{admissionregistration as registration, meta::GroupVersionKind};
use modgate_engine::{
    Code, Review,
    admissionpolicy::{
        Access, Action, Authorizer, Bindings, CompiledBinding, CompiledMutatingPolicy,
        CompiledPolicy, Denial, NoAuthorizer, ParamScope, Params, PolicyProblem, PolicySet,
        Surroundings, Types,
    },
    api::admissionregistration::ParamKind,
    cost::Meter,
    matching::Selector,
};
use modgate_value::{
    Budget, Limits, Object, Value,
    budget::Frozen,
    diag::{Diagnostic, Source, Span},
    gofmt, yaml,
};

use super::{
    coverage::Collected,
    files::{beside, first, read},
    filter::Filter,
    report::{CaseResult, SuiteResult, TestResult},
    runner::Noticed,
};
use crate::files::walk;

/// The role of a test's file, by the end of its name.
const PARTS: [&str; 11] = [
    "object.yaml",
    "oldObject.yaml",
    "request.yaml",
    "params.yaml",
    "authorizer.yaml",
    "gold.yaml",
    "expected.yaml",
    "annotations.yaml",
    "message.txt",
    "warnings.txt",
    "userInfo.yaml",
];

/// Budget of an evaluation.
const LIMITS: Limits = Limits { steps: 20_000_000, bytes: 64 << 20, ..Limits::UNLIMITED };

/// A folder in kat's layout.
pub(super) struct Folder {
    /// Absolute, without the leading slash.
    path: String,
    /// The path in results.
    pub(super) shown: String,
    /// The files of its tests: by test, then by role.
    tests: BTreeMap<String, BTreeMap<&'static str, String>>,
}

impl Folder {
    /// Whether a file, without the leading slash, is the policy of the folder.
    pub(super) fn is_policy(&self, path: &str) -> bool {
        beside(&self.path, "policy.yaml") == path
    }
}

/// Whether a file is a part of a test, hence no suite.
pub(super) fn is_part(file: &str) -> bool {
    let Some((folder, name)) = file.rsplit_once("/tests/") else { return false };
    PARTS.iter().any(|part| name.ends_with(part))
        && Path::new("/").join(folder).join("policy.yaml").is_file()
}

/// The folders in kat's layout below a folder, or the folder itself.
pub(super) fn find(target: &str, original: &str, recursive: bool) -> Result<Vec<Folder>, String> {
    let root = Path::new("/").join(target);
    if !root.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    if recursive {
        walk(&root, target, 0, &mut |file| files.push(file))?;
    } else if root.join("policy.yaml").is_file() && root.join("tests").is_dir() {
        let tests = beside(target, "tests");
        walk(&root.join("tests"), &tests, 0, &mut |file| files.push(file))?;
        files.push(beside(target, "policy.yaml"));
    }
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with("/policy.yaml")) {
        let path = file.trim_end_matches("/policy.yaml").to_owned();
        let below = path.strip_prefix(target).unwrap_or_default();
        let shown = format!("{}{below}", original.trim_end_matches('/'));
        folders.insert(path.clone(), Folder { path, shown, tests: BTreeMap::new() });
    }
    for file in &files {
        let Some((folder, name)) = file.rsplit_once("/tests/") else { continue };
        let Some(folder) = folders.get_mut(folder) else { continue };
        let part = PARTS.into_iter().find(|part| {
            name.strip_suffix(part).is_some_and(|test| test.ends_with('.') && test.len() > 1)
        });
        let Some(part) = part else { continue };
        let test = name.trim_end_matches(part).trim_end_matches('.').to_owned();
        folder.tests.entry(test).or_default().insert(part, file.clone());
    }
    folders.retain(|_, folder| !folder.tests.is_empty());
    Ok(folders.into_values().collect())
}

/// Warnings about parameters that the policy of a folder does not see.
pub(super) fn warnings(folder: &Folder) -> Vec<Diagnostic> {
    let Ok(policy) = document(&beside(&folder.path, "policy.yaml")) else { return Vec::new() };
    let binding = document(&beside(&folder.path, "binding.yaml")).unwrap_or_default();
    let missing = if policy.path(&["spec", "paramKind"]).is_none() {
        "the policy has no `paramKind`"
    } else if binding.path(&["spec", "paramRef"]).is_none() {
        "the binding has no `paramRef`"
    } else {
        return Vec::new();
    };
    let files = folder.tests.values().filter_map(|files| files.get("params.yaml"));
    let found = files.filter_map(|file| {
        let shown = format!("{}{}", folder.shown, file.strip_prefix(&folder.path)?);
        let text = read(file).ok()?;
        let end = text.find('\n').unwrap_or(text.len());
        let finding =
            Diagnostic::warning(format!("{missing}, so the test does not use these parameters"));
        Some(finding.code(Code::NoEffect.as_str()).at(Source::new(shown, text), Span::new(0, end)))
    });
    found.collect()
}

/// Runs the tests of a folder that the filter selects.
pub(super) fn run(folder: &Folder, filter: &Filter, collected: Option<&Collected>) -> SuiteResult {
    let start = Instant::now();
    let mut test = TestResult { name: folder.shown.clone(), ..TestResult::default() };
    match Policies::read(&folder.path) {
        Err(error) => test.error = Some(error),
        Ok(policies) => {
            test.name.clone_from(&policies.name);
            for (name, files) in &folder.tests {
                if !filter.matches_case(&policies.name, name) {
                    let skipped = true;
                    let name = name.clone();
                    test.cases.push(CaseResult { name, skipped, ..CaseResult::default() });
                    continue;
                }
                let start = Instant::now();
                let count = |set: &PolicySet| {
                    if let Some(collected) = collected {
                        let file = beside(&folder.path, "policy.yaml");
                        set.coverage().for_each(|policy| collected.add(file.clone(), 0, policy));
                    }
                };
                let observed = collected.is_some();
                let error = policies.case(name, files, observed, &count).err();
                test.cases.push(CaseResult {
                    name: name.clone(),
                    error,
                    runtime: start.elapsed(),
                    print: policies.problems.join("\n"),
                    ..CaseResult::default()
                });
            }
        }
    }
    test.runtime = start.elapsed();
    let runtime = test.runtime;
    SuiteResult { path: folder.shown.clone(), runtime, tests: vec![test], ..Default::default() }
}

/// Whether the tests of a folder notice that its policy is another one. With `runs` off it only finds
/// out whether the policy loads.
pub(super) fn notices(folder: &Folder, filter: &Filter, policy: &Value, runs: bool) -> Noticed {
    let Ok(mut policies) = Policies::read(&folder.path) else { return Noticed::Invalid };
    let before = policies.set(&policies.policy, &policies.binding, false);
    policies.policy = policy.clone();
    let after = policies.set(&policies.policy, &policies.binding, false);
    match (before, after) {
        (Ok((_, before)), Ok((_, after))) if after.len() <= before.len() => {}
        _ => return Noticed::Invalid,
    }
    let tests = folder.tests.iter().filter(|(name, _)| filter.matches_case(&policies.name, name));
    let is_failed = |(name, files): (&String, &BTreeMap<&'static str, String>)| {
        policies.case(name, files, false, &|_| {}).is_err()
    };
    if runs && tests.into_iter().any(is_failed) { Noticed::Yes } else { Noticed::No }
}

/// A policy with its binding, as their documents.
struct Policies {
    name: String,
    policy: Value,
    binding: Value,
    mutates: bool,
    /// With the kinds of the CustomResourceDefinitions beside the policy.
    types: Types,
    /// Why the API server would not store them.
    problems: Vec<String>,
}

fn document(path: &str) -> Result<Value, String> {
    let quoted = gofmt::quote(path);
    let text = read(path)?;
    first(&text).map_err(|error| format!("parsing {quoted}: {error}"))
}

const DEFINITION: &str = "CustomResourceDefinition";

/// Kubernetes' own types, and those of the CustomResourceDefinitions in a folder.
fn types(folder: &str) -> Result<Types, String> {
    let mut types = Types::kubernetes().clone();
    let root = Path::new("/").join(folder);
    let entries = fs::read_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".yaml")).collect();
    names.sort();
    for name in names {
        let path = beside(folder, &name);
        let text_of_file = read(&path)?;
        // Other files are none of ours, and may be no YAML.
        let documents = Some(&text_of_file).filter(|text| text.contains(DEFINITION));
        for document in documents.into_iter().flat_map(|text| yaml::documents(text)) {
            let document =
                document.map_err(|error| format!("parsing {}: {error}", gofmt::quote(&path)))?;
            if text(&document.value, &["kind"]) == DEFINITION {
                types.define(&document.value);
            }
        }
    }
    Ok(types)
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

impl Policies {
    fn read(folder: &str) -> Result<Self, String> {
        let policy = document(&beside(folder, "policy.yaml"))?;
        let mutates = match text(&policy, &["kind"]) {
            registration::POLICY_KIND => false,
            registration::MUTATING_POLICY_KIND => true,
            other => {
                return Err(format!("policy.yaml holds a {}, not a policy", gofmt::quote(other)));
            }
        };
        let name = text(&policy, &["metadata", "name"]).to_owned();
        let path = beside(folder, "binding.yaml");
        let binding = if fs::exists(Path::new("/").join(&path)).unwrap_or(false) {
            document(&path)?
        } else {
            let actions: Value = ["Deny"].into_iter().map(Value::from).collect();
            members([
                ("metadata", members([("name", name.as_str().into())])),
                (
                    "spec",
                    members([("policyName", name.as_str().into()), ("validationActions", actions)]),
                ),
            ])
        };
        let types = types(folder)?;
        let mut policies = Self { name, policy, binding, mutates, types, problems: Vec::new() };
        let (_, problems) = policies.set(&policies.policy, &policies.binding, false)?;
        policies.problems = problems
            .into_iter()
            .map(|problem| {
                format!("the API server refuses this: {}: {}", problem.field, problem.message)
            })
            .collect();
        let conditions = policies.policy.path(&["spec", "matchConditions"]);
        if conditions.is_some_and(|it| it.to_json().contains("namespaceObject")) {
            let note =
                "the API server shows match conditions no Namespace: namespaceObject is null";
            policies.problems.push(note.to_owned());
        }
        Ok(policies)
    }

    /// The policy with this binding, compiled, even if the API server would not store them.
    fn set(
        &self,
        policy: &Value,
        binding: &Value,
        observed: bool,
    ) -> Result<(PolicySet, Vec<PolicyProblem>), String> {
        let mut set = PolicySet::new();
        let problems = if self.mutates {
            let policy = CompiledMutatingPolicy::compile_as_is(policy, observed);
            let (policy, mut problems) = policy.map_err(|it| it.to_string())?;
            let (binding, found) =
                CompiledBinding::compile_mutating_as_is(binding).map_err(|it| it.to_string())?;
            problems.extend(found);
            set.add_mutating_policy(policy);
            set.add_mutating_binding(binding);
            problems
        } else {
            let policy = CompiledPolicy::compile_as_is(policy, observed);
            let (policy, mut problems) = policy.map_err(|it| it.to_string())?;
            let (binding, found) =
                CompiledBinding::compile_as_is(binding).map_err(|it| it.to_string())?;
            problems.extend(found);
            set.add_policy(policy);
            set.add_binding(binding);
            problems
        };
        Ok((set, problems))
    }

    /// Runs one test. `count` gets the policies once they have been evaluated.
    fn case(
        &self,
        name: &str,
        files: &BTreeMap<&'static str, String>,
        observed: bool,
        count: &dyn Fn(&PolicySet),
    ) -> Result<(), String> {
        let part = |part: &str| files.get(part).map(|path| document(path)).transpose();
        let request = part("request.yaml")?.unwrap_or_default();
        let or_inline = |file: Option<Value>, member: &str| {
            file.or_else(|| request.get(member).cloned()).filter(|value| !value.is_null())
        };
        let object = or_inline(part("object.yaml")?, "object");
        let old = or_inline(part("oldObject.yaml")?, "oldObject");
        let user = or_inline(part("userInfo.yaml")?, "userInfo");
        let namespace = request.get("namespaceObject").filter(|it| !it.is_null());
        if let Some(kind) = namespace.and_then(|namespace| namespace.get("kind"))
            && kind.as_str() != Some("Namespace")
        {
            return Err(format!("namespaceObject is of kind {kind}, not Namespace"));
        }
        let review = review(&request, object.as_ref(), old.as_ref(), user, namespace)?;
        let params = part("params.yaml")?;
        let binding = match params {
            Some(_) => self.binding.clone(),
            None => without(&self.binding, &["spec", "paramRef"]),
        };
        let (mut policy, mut binding) = (self.policy.clone(), binding);
        if namespace.is_none() {
            // Unknown values select everything.
            policy = without(&policy, &["spec", "matchConstraints", "namespaceSelector"]);
            binding = without(&binding, &["spec", "matchResources", "namespaceSelector"]);
        }
        let (set, _) = self.set(&policy, &binding, observed)?;
        let rules = files.get("authorizer.yaml").map(|path| {
            let rules = yaml::value(&read(path)?);
            rules.map_err(|error| format!("parsing {}: {error}", gofmt::quote(path)))
        });
        let rules = rules.transpose()?;
        let rules = rules.as_ref().and_then(Value::as_array);
        let rules = rules.map(|rules| Rules(rules.to_vec()));
        let surroundings = Surroundings {
            namespace: &|| Ok(namespace.cloned()),
            params: &OneObject(params),
            meter: Meter::default(),
            authorizer: match &rules {
                Some(rules) => rules,
                None => &NoAuthorizer,
            },
            bindings: Bindings::All,
            types: &self.types,
            assumes_namespace: false,
            conditions_see_namespace: true,
        };
        let budget = Budget::new(LIMITS, &Frozen);
        let mutated = set.mutate(&review, &surroundings, &budget).inspect_err(|_| count(&set))?;
        let object = mutated.object.or(object);
        let review = match &object {
            Some(object) => review.with_object(object.clone()),
            None => review,
        };
        let validated = set.validate(&review, &surroundings, &budget);
        count(&set);
        let validated = validated?;
        let denials: Vec<&Denial> = mutated.denials.iter().chain(&validated.denials).collect();
        let expected = Expected::read(name, files)?;
        let prefix = format!("{}/", self.name);
        let annotations = validated.audit_annotations.iter();
        let annotations = annotations.filter_map(|(key, value)| {
            Some((key.strip_prefix(&prefix)?.into(), Value::from(value.as_str())))
        });
        let annotations: Object = Object::from_entries(annotations.collect());
        expected.meets(&denials, &validated.warnings, &annotations, object.as_ref())
    }
}

/// A document without the member at a path.
fn without(value: &Value, path: &[&str]) -> Value {
    let (Some(members), Some((key, rest))) = (value.as_object(), path.split_first()) else {
        return value.clone();
    };
    let mut members = members.clone();
    match (members.get(key).cloned(), rest) {
        (None, _) => {}
        (Some(_), []) => drop(members.remove(key)),
        (Some(inner), rest) => drop(members.insert(*key, without(&inner, rest))),
    }
    members.into()
}

/// The request of a test.
fn review(
    request: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
    user: Option<Value>,
    namespace: Option<&Value>,
) -> Result<Review, String> {
    let subject = object.or(old).cloned().unwrap_or_default();
    let kind = GroupVersionKind::of_object(&subject);
    let operation = match (text(request, &["operation"]), object, old) {
        ("", Some(_), Some(_)) => "UPDATE",
        ("", None, Some(_)) => "DELETE",
        ("", ..) => "CREATE",
        (operation, ..) => operation,
    };
    let or = |wanted: &str, other: &str| -> Value {
        if wanted.is_empty() { other.into() } else { wanted.into() }
    };
    let name = or(text(request, &["name"]), text(&subject, &["metadata", "name"]));
    let own = match text(&subject, &["metadata", "namespace"]) {
        "" => namespace.map_or("default", |namespace| text(namespace, &["metadata", "name"])),
        own => own,
    };
    let namespace = match text(request, &["namespace"]) {
        "" if kind.is_namespace() => name.clone(),
        "" if kind.is_cluster_scoped() => "".into(),
        named => or(named, own),
    };
    let resource = |member: &str, other: &str| or(text(request, &["resource", member]), other);
    let plural = if kind.kind.is_empty() { String::new().into() } else { kind.plural() };
    let sent = members([
        ("uid", "kat".into()),
        (
            "kind",
            members([
                ("group", kind.group.as_str().into()),
                ("version", kind.version.as_str().into()),
                ("kind", kind.kind.as_str().into()),
            ]),
        ),
        (
            "resource",
            members([
                ("group", resource("group", &kind.group)),
                ("version", resource("version", &kind.version)),
                ("resource", resource("resource", &plural)),
            ]),
        ),
        ("subResource", text(request, &["subResource"]).into()),
        ("name", name),
        ("namespace", namespace),
        ("operation", operation.into()),
        ("userInfo", user.unwrap_or_else(|| Object::default().into())),
        ("object", object.cloned().unwrap_or_default()),
        ("oldObject", old.cloned().unwrap_or_default()),
        ("dryRun", request.get("dryRun").cloned().unwrap_or(Value::Bool(false))),
        ("options", request.get("options").cloned().unwrap_or_default()),
    ]);
    Review::from_request(&sent).map_err(|error| error.to_string())
}

/// One object, under any name.
struct OneObject(Option<Value>);

impl Params for OneObject {
    fn scope(&self, _: &ParamKind) -> Option<ParamScope> {
        Some(ParamScope::Namespaced)
    }

    fn get(&self, _: &ParamKind, _: &str, _: &str) -> Option<Value> {
        self.0.clone()
    }

    fn list(&self, _: &ParamKind, _: &str, _: &Selector) -> Vec<Value> {
        self.0.iter().cloned().collect()
    }

    fn version(&self, _: &ParamKind) -> u64 {
        0
    }
}

/// The decisions of a test: the first rule for an action counts; without one, the action is not
/// allowed.
#[derive(Debug)]
struct Rules(Vec<Value>);

impl Authorizer for Rules {
    fn decide(&self, action: &Action<'_>) -> Result<Access, String> {
        let is_about = |rule: &&Value| {
            let same = |member: &str, found: &str| {
                rule.get(member).and_then(Value::as_str).is_none_or(|wanted| wanted == found)
            };
            same("verb", action.verb)
                && same("path", action.path)
                && same("group", action.group)
                && same("resource", action.resource)
                && same("subresource", action.subresource)
                && same("namespace", action.namespace)
                && same("name", action.name)
        };
        let rule = self.0.iter().find(is_about);
        let allowed = rule.is_some_and(|rule| text(rule, &["decision"]) == "allow");
        let reason = rule.map(|rule| text(rule, &["reason"])).unwrap_or_default().to_owned();
        Ok(Access { allowed, reason, error: None })
    }
}

/// The expectation of a test.
struct Expected {
    denied: bool,
    message: Option<String>,
    warnings: Option<String>,
    annotations: Option<Value>,
    object: Option<Value>,
}

impl Expected {
    fn read(name: &str, files: &BTreeMap<&'static str, String>) -> Result<Self, String> {
        let text = |part: &str| files.get(part).map(|path| read(path)).transpose();
        let value = |part: &str| files.get(part).map(|path| document(path)).transpose();
        let message = text("message.txt")?;
        let denied = match name.rsplit(['.', '-', '_']).next() {
            Some("deny" | "denied") => true,
            Some("allow" | "allowed" | "warn" | "audit" | "mutate") => false,
            _ => message.is_some(),
        };
        let object = value("gold.yaml")?.or(value("expected.yaml")?);
        let (warnings, annotations) = (text("warnings.txt")?, value("annotations.yaml")?);
        Ok(Self { denied, message, warnings, annotations, object })
    }

    fn meets(
        &self,
        denials: &[&Denial],
        warnings: &[String],
        annotations: &Object,
        object: Option<&Value>,
    ) -> Result<(), String> {
        match (self.denied, denials) {
            (true, []) => return Err("the request is allowed, and must be denied".to_owned()),
            (false, [first, ..]) => return Err(format!("the request is denied: {first}")),
            _ => {}
        }
        if let Some(message) = &self.message {
            let message = message.trim();
            let says = |denial: &&&Denial| {
                format!("validation failed: {}", denial.message).contains(message)
            };
            if !denials.iter().any(|denial| says(&denial)) {
                let found: Vec<_> = denials.iter().map(|denial| denial.message.as_str()).collect();
                return Err(format!("the message must be {message:?}, and is {found:?}"));
            }
        }
        if let Some(wanted) = &self.warnings {
            let wanted: Vec<_> =
                wanted.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let is_given = |line: &&str| warnings.iter().any(|warning| warning.ends_with(*line));
            if wanted.len() != warnings.len() || !wanted.iter().all(is_given) {
                return Err(format!("warnings must be {wanted:?}, and are {warnings:?}"));
            }
        }
        if let Some(wanted) = &self.annotations {
            let found = Value::from(annotations.clone());
            if *wanted != found {
                return Err(format!("audit annotations must be {wanted}, and are {found}"));
            }
        }
        match (&self.object, object) {
            (Some(wanted), Some(found)) if wanted != found => {
                Err(format!("the object must be {wanted}, and is {found}"))
            }
            (Some(_), None) => Err("there is no object".to_owned()),
            _ => Ok(()),
        }
    }
}
