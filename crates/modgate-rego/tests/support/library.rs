//! The public Gatekeeper library's suites as Rego evaluations: one program, one input and one
//! inventory per case.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use modgate_rego::{
    ast::RegoVersion,
    builtins::Isolated,
    eval::{self, Context},
    ir::{GroupId, Program},
    parser::parse_module,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Object, Value as Json, yaml};

/// One case of a suite.
pub(crate) struct Case {
    /// `<suite path>:<test>/<case>`
    pub(crate) key: String,
    pub(crate) program: Program,
    pub(crate) violation: GroupId,
    pub(crate) input: Json,
    /// The whole of `data`.
    pub(crate) data: Json,
}

/// The folder of upstream's corpora, if it is here.
pub(crate) fn corpora() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = env::var_os("MODGATE_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), PathBuf::from);
    if dir.join("gatekeeper-library").is_dir() {
        return Some(dir);
    }
    assert!(
        env::var_os("CI").is_none() || !root.join("../shared").is_dir(),
        "the library is missing from {}",
        dir.display()
    );
    None
}

/// Every case whose key contains `filter`, in the order of the recorded results.
pub(crate) fn cases(dir: &Path, filter: &str) -> Vec<Case> {
    let library = dir.join("gatekeeper-library");
    let mut suites = Vec::new();
    for group in ["library/general", "library/pod-security-policy"] {
        for entry in fs::read_dir(library.join(group)).expect(group) {
            let path = entry.expect(group).path().join("suite.yaml");
            if path.is_file() {
                suites.push(path);
            }
        }
    }
    suites.sort();
    suites.iter().flat_map(|suite| suite_cases(&library, suite, filter)).collect()
}

fn suite_cases(library: &Path, path: &Path, filter: &str) -> Vec<Case> {
    let folder = path.parent().expect("a folder");
    let name = path.strip_prefix(library).expect("below the library").display().to_string();
    let suite = document(path);
    let mut cases = Vec::new();
    for test in list(&suite, "tests") {
        let template = document(&folder.join(text(test, "template")));
        let constraint = document(&folder.join(text(test, "constraint")));
        for case in list(test, "cases") {
            let key = format!("{name}:{}/{}", text(test, "name"), text(case, "name"));
            if !key.contains(filter) {
                continue;
            }
            let object = document(&folder.join(text(case, "object")));
            let inventory = list(case, "inventory")
                .iter()
                .filter_map(Json::as_str)
                .map(|file| document(&folder.join(file)))
                .collect::<Vec<_>>();
            let (program, violation) = compile(&template);
            let input = [
                ("review", review(object)),
                (
                    "parameters",
                    constraint
                        .path(&["spec", "parameters"])
                        .cloned()
                        .unwrap_or_else(|| Object::default().into()),
                ),
            ];
            cases.push(Case {
                key,
                program,
                violation,
                input: input.into_iter().collect(),
                data: data(&inventory),
            });
        }
    }
    cases
}

/// The Rego half of a template, as Gatekeeper compiles it.
pub(crate) fn compile(template: &Json) -> (Program, GroupId) {
    let target = list(template.get("spec").expect("spec"), "targets")[0].clone();
    let code = list(&target, "code")
        .iter()
        .find(|code| text(code, "engine") == "Rego")
        .and_then(|code| code.get("source"))
        .cloned()
        .unwrap_or(target);
    let mut modules = vec![module("template", text(&code, "rego"))];
    for (index, library) in list(&code, "libs").iter().enumerate() {
        modules
            .push(module(&format!("libs[\"lib_{index}\"]"), library.as_str().expect("a library")));
    }
    let program = Program::compile(&modules, &Default::default())
        .unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut path: Vec<Json> = modules[0].package.iter().map(|part| part.clone().into()).collect();
    path.push("violation".into());
    let violation = program.groups.iter().position(|group| {
        group.path.iter().map(|id| &program.constants[id.0 as usize]).eq(path.iter())
    });
    (program, GroupId(u32::try_from(violation.expect("violation")).expect("few groups")))
}

fn module(name: &str, text: &str) -> modgate_rego::ast::Module {
    parse_module(name, text, RegoVersion::V0).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// What `input.review` is for an object, or for the request of an AdmissionReview.
fn review(object: Json) -> Json {
    if text(&object, "kind") == "AdmissionReview" {
        let mut request =
            object.get("request").and_then(Json::as_object).cloned().expect("request");
        let object = request.get("object").cloned().unwrap_or_default();
        if !request.contains_key("kind") {
            request.insert("kind", kind(&object));
        }
        for nullable in ["object", "oldObject"] {
            if !request.contains_key(nullable) {
                request.insert(nullable, Json::Null);
            }
        }
        return request.into();
    }
    let metadata = |field: &str| object.path(&["metadata", field]).cloned().unwrap_or("".into());
    [
        ("kind", kind(&object)),
        ("name", metadata("name")),
        ("namespace", metadata("namespace")),
        ("operation", "".into()),
        ("userInfo", Object::default().into()),
        ("oldObject", Json::Null),
        ("object", object.clone()),
    ]
    .into_iter()
    .collect()
}

fn kind(object: &Json) -> Json {
    let (group, version) =
        text(object, "apiVersion").rsplit_once('/').unwrap_or(("", text(object, "apiVersion")));
    [("group", group.into()), ("version", version.into()), ("kind", text(object, "kind").into())]
        .into_iter()
        .collect()
}

/// `data.inventory` of these objects.
fn data(objects: &[Json]) -> Json {
    let mut inventory = Object::default();
    for object in objects {
        let namespace = object.path(&["metadata", "namespace"]).and_then(Json::as_str);
        let name = object.path(&["metadata", "name"]).and_then(Json::as_str).expect("name");
        let (group_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
        let path = match namespace {
            Some(namespace) => vec!["namespace", namespace, group_version, kind, name],
            None => vec!["cluster", group_version, kind, name],
        };
        insert(&mut inventory, &path, object.clone());
    }
    [("inventory", Json::from(inventory))].into_iter().collect()
}

fn insert(into: &mut Object, path: &[&str], value: Json) {
    let (first, rest) = path.split_first().expect("a path");
    if rest.is_empty() {
        into.insert(*first, value);
        return;
    }
    let mut inner = into.get(first).and_then(Json::as_object).cloned().unwrap_or_default();
    insert(&mut inner, rest, value);
    into.insert(*first, inner.into());
}

fn document(path: &Path) -> Json {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    yaml::value(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn list<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value.get(key).and_then(Json::as_array).map_or(&[], |list| &list[..])
}

fn text<'a>(value: &'a Json, key: &str) -> &'a str {
    value.get(key).and_then(Json::as_str).unwrap_or_default()
}

impl Case {
    /// Evaluates `violation` in `arena` and hands the set to `read`.
    pub(crate) fn evaluate<T>(&self, arena: &Arena, read: impl FnOnce(Value<'_>) -> T) -> T {
        let budget = Budget::unlimited();
        let heap = Heap::new(arena, &budget);
        let context = Context {
            input: Some(Value::json(&self.input)),
            data: Some(Value::json(&self.data)),
            heap,
            host: &Isolated,
            strict_builtin_errors: false,
            tracer: None,
        };
        let violations = eval::document(&self.program, self.violation, context)
            .unwrap_or_else(|error| panic!("{}: {error}", self.key));
        read(violations.unwrap_or(Value::EMPTY_SET))
    }
}
