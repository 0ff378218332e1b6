//! `acceptance/location.json`: what mutators' locations parse to.

use anyhow::{Context as _, Result};
use modgate_engine::mutation::{
    Location,
    location::{Elements, Node},
};
use modgate_value::{Str, Value};

use super::check;
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
        let location = members.text("location")?;
        let recorded = |of: &Members<'_>| -> Result<Value> {
            Ok(match of.optional_text("error")? {
                Some(error) => error.into(),
                // An empty path has no text of its own.
                None => [
                    ("path", of.required("path")?.clone()),
                    ("canonical", of.optional_text("canonical")?.unwrap_or_default().into()),
                ]
                .into_iter()
                .collect(),
            })
        };
        let expect = recorded(&members)?;
        let upstream = match members.optional("upstream") {
            Some(upstream) => {
                let upstream = Members::of(upstream)?;
                let recorded = recorded(&upstream)?;
                upstream.finish()?;
                recorded
            }
            None => expect.clone(),
        };
        let decision = members.optional_text("decision")?.unwrap_or("keep");
        let got = parse(location);
        let verdict = check(decision, &expect, &upstream, &got, |recorded| *recorded == got)
            .with_context(|| format!("`{location}`"))?;
        members.finish()?;
        cases.push(Case { id: location.to_owned(), verdict });
    }
    top.finish()
}

fn parse(text: &str) -> Value {
    match Location::parse(text) {
        Err(error) => error.to_string().into(),
        Ok(location) => {
            let path: Value = location.nodes().iter().map(node).collect();
            [("path", path), ("canonical", location.to_string().into())].into_iter().collect()
        }
    }
}

fn node(node: &Node) -> Value {
    let entry = |key: &'static str, value: Value| (Str::from(key), value);
    match node {
        Node::Field(name) => [entry("field", name.clone().into())].into_iter().collect(),
        Node::List { key, elements } => {
            let mut members = vec![entry("key", key.clone().into())];
            match elements {
                Elements::All => members.push(entry("glob", true.into())),
                Elements::Text(text) => {
                    members.push(entry("type", "string".into()));
                    members.push(entry("value", text.clone().into()));
                }
                Elements::Integer(integer) => {
                    members.push(entry("type", "int64".into()));
                    members.push(entry("value", (*integer).into()));
                }
            }
            members.into_iter().collect()
        }
    }
}
