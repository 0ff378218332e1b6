//! ValidatingAdmissionPolicies of the public kubescape library, with their own tests: each case
//! names an object, a binding, parameters and the result (`MODGATE_SUITES`).

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use modgate_engine::{
    Review,
    admissionpolicy::{
        Bindings, CompiledBinding, CompiledPolicy, NoAuthorizer, ParamScope, Params,
        PolicyDecision, PolicySet, Surroundings, Types,
    },
    api::{admissionregistration::ParamKind, meta::Operation},
    cost::Meter,
    matching::Selector,
};
use modgate_value::{Budget, Value, yaml};

fn suites() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var_os("MODGATE_SUITES").map_or(root.join("../shared/suites"), PathBuf::from);
    let folder = folder.join("admission-policies");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no {}", folder.display());
    None
}

/// Parameters of one kind, in no namespace.
struct OneKind(BTreeMap<String, Value>);

impl Params for OneKind {
    fn scope(&self, _kind: &ParamKind) -> Option<ParamScope> {
        Some(ParamScope::Cluster)
    }

    fn get(&self, _kind: &ParamKind, _namespace: &str, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    fn list(&self, _kind: &ParamKind, _namespace: &str, selector: &Selector) -> Vec<Value> {
        let labels = |object: &Value| {
            object.path(&["metadata", "labels"]).and_then(Value::as_object).cloned()
        };
        self.0.values().filter(|it| selector.matches(labels(it).as_ref())).cloned().collect()
    }

    fn version(&self, _: &ParamKind) -> u64 {
        0
    }
}

fn read(path: &PathBuf) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    yaml::value(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn decide(set: &PolicySet, object: Value, params: &dyn Params) -> PolicyDecision {
    let review = Review::of_object(object, Operation::Create, "default");
    let surroundings = Surroundings {
        namespace: &|| Ok(None),
        params,
        meter: Meter::default(),
        authorizer: &NoAuthorizer,
        bindings: Bindings::All,
        types: Types::kubernetes(),
        assumes_namespace: false,
        conditions_see_namespace: false,
    };
    set.validate(&review, &surroundings, &Budget::unlimited()).expect("Namespaces are read")
}

#[test]
fn kubescape() {
    let Some(folder) = suites() else { return };
    let folder = folder.join("kubescape");
    let mut params = BTreeMap::new();
    for file in ["default-control-configuration.yaml", "empty-control-configuration.yaml"] {
        params.insert(file.to_owned(), read(&folder.join(file)));
    }
    let (mut cases, mut wrong) = (0, Vec::new());
    let mut controls: Vec<_> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    controls.sort();
    for control in controls.iter().filter(|path| path.is_dir()) {
        let policy = read(&control.join("policy.yaml"));
        let name = policy.path(&["metadata", "name"]).and_then(Value::as_str).expect("a name");
        for case in read(&control.join("cases.json")).as_array().expect("a list").iter() {
            let text = |key: &str| case.get(key).and_then(Value::as_str);
            let binding = text("binding").unwrap_or("policy-binding.yaml");
            let binding = bound(&read(&folder.join(binding)), name, text("params"));
            let mut set = PolicySet::new();
            let compiled = CompiledPolicy::compile(&policy);
            set.add_policy(compiled.unwrap_or_else(|error| panic!("{control:?}: {error}")));
            let compiled = CompiledBinding::compile(&binding);
            set.add_binding(compiled.unwrap_or_else(|error| panic!("{control:?}: {error}")));
            let object = case.get("object").cloned().expect("an object");
            let decision = decide(&set, object, &OneKind(params.clone()));
            let found = match (decision.allowed(), decision.warnings.is_empty()) {
                (false, _) => "fail",
                (true, false) => "warn",
                (true, true) => "pass",
            };
            cases += 1;
            if Some(found) != text("expected") {
                wrong.push(format!("{control:?} {:?}: {found}, {decision:?}", text("name")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cases, 628, "cases disappeared");
}

/// The binding for this policy and these parameters; without parameters it passes none.
fn bound(binding: &Value, policy: &str, params: Option<&str>) -> Value {
    let mut binding = binding.as_object().cloned().expect("an object");
    let mut spec = binding.get("spec").and_then(Value::as_object).cloned().expect("a spec");
    spec.insert("policyName", Value::from(policy));
    match params {
        None => {
            spec.remove("paramRef");
        }
        Some(name) => {
            let reference = spec.get("paramRef").and_then(Value::as_object).cloned();
            let mut reference = reference.unwrap_or_default();
            reference.insert("name", Value::from(name));
            reference.insert("parameterNotFoundAction", Value::from("Deny"));
            spec.insert("paramRef", Value::from(reference));
        }
    }
    binding.insert("spec", Value::from(spec));
    Value::from(binding)
}
