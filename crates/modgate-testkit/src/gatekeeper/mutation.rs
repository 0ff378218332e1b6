//! `acceptance/mutation.json`: mutators and an object, and the result: compilation, schema
//! conflicts, convergence, providers, errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use modgate_engine::{
    api::meta::Operation,
    jsonpatch,
    matching::Source,
    mutation::{
        Answer, CompiledMutator, Item, MutationRequest, MutationSystem, Options, Providers,
    },
};
use modgate_value::{Budget, Object, Str, Value};

use super::check;
use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::Case,
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["what"]);
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        members.notes(&["title", "seed"]);
        let id = members.text("id")?.to_owned();
        let got = outcome(&members).with_context(|| id.clone())?;
        let (expect, upstream) = (members.required("expect")?, members.required("upstream")?);
        let verdict = check(members.text("decision")?, expect, upstream, &got, |recorded| {
            is_as_recorded(recorded, &got)
        })
        .with_context(|| id.clone())?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// The result of our mutators for a case, in the words of the corpus: with every possible member,
/// so that a recording that lacks one is compared without it.
fn outcome(case: &Members<'_>) -> anyhow::Result<Value> {
    let mut got = Object::default();
    let mut compiled = Vec::new();
    let mut refused = Vec::new();
    for mutator in case.list("mutators")? {
        match CompiledMutator::compile(mutator, Options::default()) {
            Ok(mutator) => compiled.push(Arc::new(mutator)),
            Err(error) => refused.push(Value::from(error.to_string())),
        }
    }
    got.insert("mutatorErrors", refused.into());
    let system = MutationSystem::new(compiled.iter().cloned());
    let conflicts: BTreeSet<Value> =
        system.conflicts().values().map(|conflict| conflict.to_string().into()).collect();
    got.insert("conflictErrors", conflicts.into_iter().collect());
    let removed: Vec<usize> = case
        .optional_list("remove")?
        .iter()
        .map(|index| usize::try_from(index.as_i64()?).ok())
        .collect::<Option<_>>()
        .context("`remove` is not a list of positions")?;
    let kept = compiled.into_iter().enumerate().filter(|(index, _)| !removed.contains(index));
    let system = MutationSystem::new(kept.map(|(_, mutator)| mutator));

    let object = case.required("object")?;
    let providers = Recorded { providers: case.optional("providers"), requests: Mutex::default() };
    let budget = Budget::unlimited();
    let request = MutationRequest {
        shard: 0,
        object,
        namespace: case.optional("namespace").filter(|namespace| !namespace.is_null()),
        operation: match case.optional_text("operation")? {
            None => Some(Operation::Create),
            // An audit knows no operation.
            Some("-") => None,
            Some(text) => Some(text.parse()?),
        },
        source: Some(match case.optional_text("source")? {
            Some("Generated") => Source::Generated,
            None | Some("Original") => Source::Original,
            Some(other) => bail!("unknown source `{other}`"),
        }),
        username: case.optional_text("username")?.unwrap_or_default(),
        annotate: case.flag("annotate")?,
        run_id: &|| "<uuid>".to_owned(),
        providers: &providers,
        budget: &budget,
    };
    let result = system.mutate(&request);
    // Looking closely is doing the same.
    ensure!(system.explain(&request).result == result, "explain does otherwise");
    match result {
        Err(error) => {
            got.insert("error", error.to_string().into());
            got.insert("mutated", false.into());
            got.insert("object", object.clone());
        }
        Ok(mutated) => {
            got.insert("mutated", mutated.object.is_some().into());
            let after = mutated.object.unwrap_or_else(|| object.clone());
            let patch = jsonpatch::diff(object, &after);
            got.insert("patch", jsonpatch::to_value(&patch));
            got.insert("object", after);
        }
    }
    got.insert("requests", providers.requests()?);
    Ok(got.into())
}

/// The object after mutation by an unknown user, or why that failed.
pub(super) fn mutate(
    system: &MutationSystem,
    object: &Value,
    namespace: Option<&Value>,
) -> Result<Value, String> {
    let budget = Budget::unlimited();
    let request = MutationRequest {
        shard: 0,
        object,
        namespace,
        operation: None,
        source: Some(Source::Original),
        username: "",
        annotate: false,
        run_id: &|| "<uuid>".to_owned(),
        providers: &EmptyProviders,
        budget: &budget,
    };
    let mutated = system.mutate(&request).map_err(|error| error.to_string())?;
    Ok(mutated.object.unwrap_or_else(|| object.clone()))
}

pub(super) fn show(result: &Result<Value, String>) -> String {
    match result {
        Ok(value) => value.to_json(),
        Err(error) => format!("error: {error}"),
    }
}

type Answers = BTreeMap<Str, Result<Answer, String>>;

/// Providers that answer with nothing.
pub(super) struct EmptyProviders;

impl Providers for EmptyProviders {
    fn ask(&self, _: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        Ok(Answers::new())
    }
}

fn is_as_recorded(recorded: &Value, got: &Value) -> bool {
    let text = |key| got.get(key).and_then(Value::as_str).unwrap_or_default();
    let as_list = |value: Option<&Value>| {
        value.and_then(Value::as_array).map(|list| list.to_vec()).unwrap_or_default()
    };
    let refusals = recorded.get("mutatorErrors");
    if refusals.is_some() || !as_list(got.get("mutatorErrors")).is_empty() {
        // What a system of the mutators that are left does is not part of such a case.
        return as_list(refusals) == as_list(got.get("mutatorErrors"));
    }
    let members = recorded.as_object().into_iter().flatten();
    let same = members.into_iter().all(|(key, value)| match key.as_str() {
        "errorContains" => value.as_str().is_some_and(|part| text("error").contains(part)),
        // Any patch will do that leads to the object; only whether there is one is recorded.
        "patch" => as_list(Some(value)).is_empty() == as_list(got.get("patch")).is_empty(),
        key => got.get(key) == Some(value),
    });
    let fails = recorded.get("error").or(recorded.get("errorContains")).is_some();
    same && fails == got.get("error").is_some()
        && as_list(recorded.get("conflictErrors")) == as_list(got.get("conflictErrors"))
}

/// Providers that give the answers of a case, and record their requests.
struct Recorded<'a> {
    providers: Option<&'a Value>,
    requests: Mutex<BTreeMap<Str, BTreeSet<Vec<Str>>>>,
}

impl Recorded<'_> {
    fn requests(self) -> anyhow::Result<Value> {
        let requests = self.requests.into_inner().map_err(|_| anyhow!("a provider panicked"))?;
        let texts = |keys: Vec<Str>| keys.into_iter().map(Value::from).collect::<Value>();
        Ok(requests
            .into_iter()
            .map(|(name, calls)| (name, calls.into_iter().map(texts).collect::<Value>()))
            .collect())
    }
}

impl Providers for Recorded<'_> {
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        let mut answers = Answers::new();
        for (name, keys) in keys {
            let Some(provider) = self.providers.and_then(|all| all.get(name)) else { continue };
            if let Ok(mut requests) = self.requests.lock() {
                requests.entry(name.clone()).or_default().insert(keys.iter().cloned().collect());
            }
            let answer = match provider.get("sendError").and_then(Value::as_str) {
                Some(error) => Err(error.to_owned()),
                None => Ok(provider.get("response").map(answer).unwrap_or_default()),
            };
            answers.insert(name.clone(), answer);
        }
        Ok(answers)
    }
}

fn answer(response: &Value) -> Answer {
    let text = |of: &Value, key: &str| -> String {
        of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let item = |item: &Value| Item {
        key: text(item, "key").into(),
        value: item.get("value").cloned().unwrap_or_default(),
        error: text(item, "error"),
    };
    let items = response.get("items").and_then(Value::as_array);
    Answer {
        idempotent: response.get("idempotent").and_then(Value::as_bool).unwrap_or_default(),
        system_error: text(response, "systemError"),
        items: items.map(|items| items.iter().map(item).collect()).unwrap_or_default(),
    }
}
