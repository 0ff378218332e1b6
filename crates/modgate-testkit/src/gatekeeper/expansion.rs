//! `acceptance/expansion.json`: documents as `gator expand` is given them, and the resultants or
//! the error it ends with. The command line itself is the business of `gator.json`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use modgate_api::meta::ObjectExt as _;
use modgate_engine::{
    api::{expansion::ExpansionTemplate, mutations::Mutator},
    expansion::{CYCLE, CompiledTemplate, ExpansionRequest, ExpansionSystem},
    mutation::{CompiledMutator, MutationSystem, Options},
};
use modgate_value::{Budget, Value, yaml};

use super::{
    check,
    mutation::{EmptyProviders, mutate},
};
use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::Case,
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["what"]);
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        members.notes(&["title", "seed"]);
        let id = members.text("id")?.to_owned();
        let got = printed(expand(members.list("documents")?));
        let (expect, upstream) = (members.required("expect")?, members.required("upstream")?);
        let verdict = check(members.text("decision")?, expect, upstream, &got, |recorded| {
            let members = recorded.as_object().into_iter().flatten();
            members.into_iter().all(|(key, value)| key == "note" || got.get(key) == Some(value))
        })
        .with_context(|| id.clone())?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// The output of the command.
fn printed(result: Result<Vec<Value>, String>) -> Value {
    match result {
        Err(error) => [
            ("exitCode", Value::from(1)),
            ("stderr", format!("error expanding resources: {error}").into()),
        ]
        .into_iter()
        .collect(),
        Ok(resultants) => {
            let documents: Vec<String> = resultants.iter().map(yaml::write).collect();
            [
                ("exitCode", Value::from(0)),
                ("stdout", format!("{}\n", documents.join("---\n")).into()),
                ("resultants", resultants.into()),
            ]
            .into_iter()
            .collect()
        }
    }
}

/// Mutates each document and expands the result, as `gator expand` does; the resultants in the
/// order of its output.
fn expand(documents: &[Value]) -> Result<Vec<Value>, String> {
    let mut mutators = Vec::new();
    let mut templates: Vec<Arc<CompiledTemplate>> = Vec::new();
    for document in documents {
        if Mutator::is_mutator(document) {
            let mutator = CompiledMutator::compile(document, Options::default());
            mutators.push(Arc::new(mutator.map_err(|error| error.to_string())?));
        } else if ExpansionTemplate::is_expansion_template(document) {
            let name = document.metadata("name");
            let failed = |error: String| {
                format!("error upserting template {}: {error}", name.unwrap_or_default())
            };
            let template =
                CompiledTemplate::compile(document).map_err(|error| failed(error.to_string()))?;
            templates.push(Arc::new(template));
            if !ExpansionSystem::new(templates.iter().cloned()).cyclic().is_empty() {
                return Err(failed(CYCLE.to_owned()));
            }
        }
    }
    let mutators = MutationSystem::new(mutators);
    let templates = ExpansionSystem::new(templates);
    let mut resultants = Vec::new();
    for document in documents {
        let budget = Budget::unlimited();
        let namespace = namespace_of(document, documents);
        let name = document.metadata("name");
        let failed = |error: String| {
            format!("error expanding resource {}: {error}", name.unwrap_or_default())
        };
        let object = mutate(&mutators, document, namespace.as_ref()).map_err(|error| {
            failed(format!("error mutating base resource {}: {error}", name.unwrap_or_default()))
        })?;
        let request = ExpansionRequest {
            object: &object,
            namespace: namespace.as_ref(),
            username: "",
            mutators: &mutators,
            annotate: false,
            run_id: &|| "<uuid>".to_owned(),
            providers: &EmptyProviders,
            budget: &budget,
        };
        let found = templates.expand(&request).map_err(|error| failed(error.to_string()))?;
        resultants.extend(found.into_iter().map(|resultant| resultant.object));
    }
    resultants.sort_by_key(|resultant| {
        let text = |path: &[&str]| resultant.path(path).and_then(Value::as_str).unwrap_or_default();
        let key = [text(&["metadata", "name"]), text(&["apiVersion"]), text(&["kind"])].concat();
        std::cmp::Reverse(key)
    });
    Ok(resultants)
}

/// The Namespace among the documents, or what gator makes up: `default`, and one without a name for
/// an object that names none (7.4). No case has a cluster-scoped kind.
fn namespace_of(object: &Value, documents: &[Value]) -> Option<Value> {
    let name = object.namespace();
    let is_it = |document: &&Value| {
        document.get("kind").and_then(Value::as_str) == Some("Namespace")
            && document.metadata("name") == Some(name)
    };
    let made_up = || {
        let metadata: Value = [("name", Value::from(name))].into_iter().collect();
        let members =
            [("apiVersion", "v1".into()), ("kind", "Namespace".into()), ("metadata", metadata)];
        ["", "default"].contains(&name).then(|| members.into_iter().collect())
    };
    documents.iter().find(is_it).cloned().or_else(made_up)
}
