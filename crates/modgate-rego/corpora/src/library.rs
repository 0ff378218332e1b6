//! The public Gatekeeper library's suites as Rego evaluations, and the violations recorded for them
//! (`languages/library-rego-results.json`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use modgate_rego::{
    Error, GroupId, Program, RegoVersion,
    ast::Module,
    builtins::Isolated,
    eval::{self, Context, Memo},
    parse_module, specialize_for,
    value::{Arena, Heap, Value as Rego},
};
use modgate_value::{Budget, Object, Str, Value, yaml};

use modgate_corpus::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case as Judged, Verdict},
};

pub(crate) fn run(file: &CorpusFile, roots: &Roots, cases: &mut Vec<Judged>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let recorded = top.required("results")?.as_object().context("`results` is not an object")?;
    top.finish()?;
    let Some(library) = roots.find_folder("gatekeeper-library") else {
        let skipped = recorded.keys().map(|key| (key, Verdict::Skipped));
        cases.extend(skipped.map(|(key, verdict)| Judged { id: key.to_string(), verdict }));
        return Ok(());
    };
    let found = self::cases(&library, "")?;
    // The running number at the end of a key counts all cases of all suites.
    for (number, case) in found.iter().enumerate() {
        let id = format!("{}#{number}", case.key);
        let recorded = recorded.get(&id).and_then(Value::as_array);
        let recorded = recorded.with_context(|| format!("nothing is recorded for `{id}`"))?;
        let mut expected = recorded
            .iter()
            .filter_map(Value::as_str)
            .map(|text| Ok(Value::from_json(text.as_bytes())?))
            .collect::<Result<Vec<_>>>()?;
        expected.sort();
        let text = |list: Vec<Value>| Value::from(list).to_json();
        let (expected, got) = (text(expected), text(case.violations()?));
        let mut verdict = Verdict::equal(expected.clone(), got);
        if matches!(verdict, Verdict::Passed) {
            verdict = Verdict::equal(expected, text(case.specialized().violations()?));
        }
        cases.push(Judged { id, verdict });
    }
    if found.len() != recorded.len() {
        bail!("{} cases are recorded, the suites have {}", recorded.len(), found.len());
    }
    Ok(())
}

/// The folder of the public library, if it is here.
pub fn folder() -> Option<PathBuf> {
    Roots::discover().find_folder("gatekeeper-library")
}

/// One case of a suite.
pub struct Case {
    /// `<suite path>:<test>/<case>`
    pub key: String,
    /// The Rego half of the template.
    pub program: Program,
    /// Its `violation`.
    pub violation: GroupId,
    /// `input`, as Gatekeeper makes it.
    pub input: Value,
    /// The whole of `data`.
    pub data: Value,
}

impl Case {
    /// The same with its program specialised for its parameters.
    pub fn specialized(&self) -> Self {
        let parameters = self.input.get("parameters").unwrap_or(&Value::Null);
        Self {
            key: self.key.clone(),
            program: specialize_for(
                self.violation,
                &self.program,
                ("parameters", parameters),
                &Budget::unlimited(),
            ),
            violation: self.violation,
            input: self.input.clone(),
            data: self.data.clone(),
        }
    }

    /// The violations as documents, sorted.
    fn violations(&self) -> Result<Vec<Value>> {
        let (arena, budget) = (Arena::new(), Budget::unlimited());
        let violations = self.evaluate(&arena, &budget)?;
        let mut violations = violations
            .as_set()
            .context("`violation` is not a set")?
            .iter()
            .map(|violation| Ok(violation.to_json(&budget)?))
            .collect::<Result<Vec<_>>>()?;
        violations.sort();
        Ok(violations)
    }

    /// The set of violations.
    ///
    /// # Errors
    ///
    /// When the evaluation fails.
    pub fn evaluate<'a>(
        &'a self,
        arena: &'a Arena,
        budget: &'a Budget<'a>,
    ) -> Result<Rego<'a>, Error> {
        let context = self.context(arena, budget);
        let violations = eval::document(&self.program, self.violation, context)?;
        Ok(violations.unwrap_or(Rego::EMPTY_SET))
    }

    /// The set of violations, by an evaluation that shares with others for the same object.
    ///
    /// # Errors
    ///
    /// When the evaluation fails.
    pub fn evaluate_sharing<'a>(
        &'a self,
        arena: &'a Arena,
        budget: &'a Budget<'a>,
        memo: &'a Memo<'a>,
    ) -> Result<Rego<'a>, Error> {
        let context = self.context(arena, budget);
        let violations = eval::shared_document(&self.program, self.violation, context, memo)?;
        Ok(violations.unwrap_or(Rego::EMPTY_SET))
    }

    fn context<'a>(&'a self, arena: &'a Arena, budget: &'a Budget<'a>) -> Context<'a> {
        Context {
            input: Some(Rego::json(&self.input)),
            data: Some(Rego::json(&self.data)),
            heap: Heap::new(arena, budget),
            host: &Isolated,
            strict_builtin_errors: false,
            tracer: None,
        }
    }

    /// The same under other parameters.
    pub fn with_parameters(&self, parameters: &Value) -> Self {
        let mut input = self.input.as_object().cloned().unwrap_or_default();
        input.insert("parameters", parameters.clone());
        Self {
            key: self.key.clone(),
            program: self.program.clone(),
            violation: self.violation,
            input: input.into(),
            data: self.data.clone(),
        }
    }
}

/// Every case whose key contains `filter`, in the order of the recorded results.
///
/// # Errors
///
/// When a file is missing or does not have the shape of a suite, template, constraint or object.
pub fn cases(library: &Path, filter: &str) -> Result<Vec<Case>> {
    let mut suites = Vec::new();
    for group in ["library/general", "library/pod-security-policy"] {
        let folder = library.join(group);
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path().join("suite.yaml");
            if path.is_file() {
                suites.push(path);
            }
        }
    }
    suites.sort();
    let mut cases = Vec::new();
    for suite in &suites {
        suite_cases(library, suite, filter, &mut cases)
            .with_context(|| suite.display().to_string())?;
    }
    Ok(cases)
}

fn suite_cases(library: &Path, path: &Path, filter: &str, cases: &mut Vec<Case>) -> Result<()> {
    let folder = path.parent().context("no folder")?;
    let name = path.strip_prefix(library)?.display().to_string();
    let suite = document(path)?;
    for test in list(&suite, "tests") {
        let template = document(&folder.join(text(test, "template")))?;
        let constraint = document(&folder.join(text(test, "constraint")))?;
        for case in list(test, "cases") {
            let key = format!("{name}:{}/{}", text(test, "name"), text(case, "name"));
            if !key.contains(filter) {
                continue;
            }
            let object = document(&folder.join(text(case, "object")))?;
            let inventory = list(case, "inventory")
                .iter()
                .filter_map(Value::as_str)
                .map(|file| document(&folder.join(file)))
                .collect::<Result<Vec<_>>>()?;
            let (program, violation) = compile(&template)?;
            let parameters = constraint.path(&["spec", "parameters"]).cloned();
            let parameters = parameters.unwrap_or_else(|| Object::default().into());
            let input = [("review", review(object)), ("parameters", parameters)];
            cases.push(Case {
                key,
                program,
                violation,
                input: input.into_iter().collect(),
                data: data(&inventory)?,
            });
        }
    }
    Ok(())
}

/// The Rego half of a template, as Gatekeeper compiles it, and its `violation`.
///
/// # Errors
///
/// When there is none or it does not compile.
pub fn compile(template: &Value) -> Result<(Program, GroupId)> {
    let targets = template.path(&["spec", "targets"]).and_then(|targets| targets.at(0));
    let target = targets.context("a template without a target")?;
    let code = list(target, "code")
        .iter()
        .find(|code| text(code, "engine") == "Rego")
        .and_then(|code| code.get("source"))
        .unwrap_or(target);
    let mut modules = vec![module("template", text(code, "rego"))?];
    for (index, library) in list(code, "libs").iter().filter_map(Value::as_str).enumerate() {
        modules.push(module(&format!("libs[\"lib_{index}\"]"), library)?);
    }
    let program = Program::compile(&modules, &Default::default())
        .map_err(|errors| anyhow::anyhow!(super::joined(&errors)))?;
    let package = modules.first().map(|module| module.package.clone()).unwrap_or_default();
    let path: Vec<&str> = package.iter().map(Str::as_str).chain(["violation"]).collect();
    let violation = program.group(&path).context("a template without `violation`")?;
    Ok((program, violation))
}

fn module(name: &str, text: &str) -> Result<Module> {
    parse_module(name, text, RegoVersion::V0)
        .map_err(|errors| anyhow::anyhow!(super::joined(&errors)))
}

/// `input.review` for an object, or for the request of an AdmissionReview.
fn review(object: Value) -> Value {
    if text(&object, "kind") == "AdmissionReview" {
        let mut request =
            object.get("request").and_then(Value::as_object).cloned().unwrap_or_default();
        let object = request.get("object").cloned().unwrap_or_default();
        if !request.contains_key("kind") {
            request.insert("kind", kind(&object));
        }
        for nullable in ["object", "oldObject"] {
            if !request.contains_key(nullable) {
                request.insert(nullable, Value::Null);
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
        ("oldObject", Value::Null),
        ("object", object.clone()),
    ]
    .into_iter()
    .collect()
}

fn kind(object: &Value) -> Value {
    let api_version = text(object, "apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    [("group", group.into()), ("version", version.into()), ("kind", text(object, "kind").into())]
        .into_iter()
        .collect()
}

/// `data.inventory` of these objects.
fn data(objects: &[Value]) -> Result<Value> {
    let mut inventory = Object::default();
    for object in objects {
        let namespace = object.path(&["metadata", "namespace"]).and_then(Value::as_str);
        let name = object.path(&["metadata", "name"]).and_then(Value::as_str);
        let name = name.context("an object without a name")?;
        let (group_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
        let path = match namespace {
            Some(namespace) => vec!["namespace", namespace, group_version, kind, name],
            None => vec!["cluster", group_version, kind, name],
        };
        insert(&mut inventory, &path, object.clone());
    }
    Ok([("inventory", Value::from(inventory))].into_iter().collect())
}

fn insert(into: &mut Object, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        into.insert(*first, value);
        return;
    }
    let mut inner = into.get(first).and_then(Value::as_object).cloned().unwrap_or_default();
    insert(&mut inner, rest, value);
    into.insert(*first, inner.into());
}

fn document(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    yaml::value(&text).with_context(|| path.display().to_string())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
