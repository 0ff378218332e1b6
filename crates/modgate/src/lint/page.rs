//! Findings as a page for a browser.

use modgate_engine::PolicySource;
use modgate_report::{Format, Report, write};
use modgate_ui::Page;
use modgate_value::{Value, yaml};

use super::{LintArgs, Shown};
use crate::page;

/// The folder for the proofs in the commands of a page.
const PROOFS: &str = "proofs";

/// A run of the verb.
pub(super) struct Contents<'a> {
    pub(super) args: &'a LintArgs,
    /// The findings of the run, those about the policies themselves first.
    pub(super) report: Report,
    /// The findings with a proof, which are the last ones of the report.
    pub(super) shown: &'a [Shown],
    pub(super) sources: &'a [PolicySource],
    /// How many policies there are, and about how many of them nothing is known.
    pub(super) policies: usize,
    pub(super) untried: usize,
    pub(super) notes: Vec<String>,
}

impl<'a> Contents<'a> {
    /// A run that could not read the policies.
    pub(super) const fn unread(args: &'a LintArgs, report: Report) -> Self {
        Self { args, report, shown: &[], sources: &[], policies: 0, untried: 0, notes: Vec::new() }
    }
    /// The page: what `-o json` prints, with the objects of each finding.
    pub(super) fn page(&self) -> Page {
        let report = Value::from_json(write(&self.report, Format::Json).as_bytes());
        let report = report.ok().and_then(|it| it.as_object().cloned());
        let mut document = report.unwrap_or_default();
        let number = |count: usize| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        document.insert("policies", number(self.policies));
        document.insert("notExamined", number(self.untried));
        let mut page = Page::new("lint", env!("CARGO_PKG_VERSION"), document.into());
        page.arguments = self.policy_arguments();
        let policy = |it: &PolicySource| page::policy(&it.id(), it).into_iter().collect();
        page.policies = self.sources.iter().map(policy).collect();
        page.subjects = self.shown.iter().map(|each| self.proof(each)).collect();
        page.omitted = self.notes.clone();
        page
    }

    fn policy_arguments(&self) -> Vec<String> {
        let paths = self.args.policies.iter().chain(&self.args.filename);
        paths.flat_map(|path| ["-f".to_owned(), path.display().to_string()]).collect()
    }

    /// The objects of a finding, and the commands that find it again.
    fn proof(&self, each: &Shown) -> Value {
        let texts = |texts: Vec<String>| texts.into_iter().map(Value::from).collect::<Value>();
        let part = |(what, object): &(String, Value)| -> Value {
            let text = yaml::write(object);
            [("what", Value::from(what.as_str())), ("text", text.into())].into_iter().collect()
        };
        [
            ("policy", Value::from(each.name.as_str())),
            ("denials", texts(each.denials.clone())),
            ("parts", each.parts.iter().map(part).collect()),
            ("commands", self.commands(each).into_iter().map(texts).collect()),
        ]
        .into_iter()
        .collect()
    }

    /// `lint`, which writes the proof, and `explain`, which reads it.
    fn commands(&self, each: &Shown) -> [Vec<String>; 2] {
        let LintArgs { object, budget, seed, namespace, checks, .. } = self.args;
        let mut lint = vec!["modgate".to_owned(), "lint".to_owned()];
        lint.extend(self.policy_arguments());
        let mut add = |flag: &str, value: String| lint.extend([flag.to_owned(), value]);
        object.iter().for_each(|path| add("--object", path.display().to_string()));
        checks.exclude.iter().for_each(|pattern| add("--exclude", pattern.clone()));
        let own = [
            ("--budget", budget.to_string(), super::BUDGET.to_string()),
            ("--seed", seed.to_string(), super::SEED.to_string()),
            ("--namespace", namespace.clone(), super::NAMESPACE.to_owned()),
        ];
        for (flag, value, default) in own {
            if value != default {
                add(flag, value);
            }
        }
        add("--write-witness", PROOFS.to_owned());
        let mut explain = vec!["modgate".to_owned(), "explain".to_owned()];
        explain.extend(self.policy_arguments());
        explain.extend(each.files.iter().map(|(what, _)| format!("{PROOFS}/{}", each.file(what))));
        [lint, explain]
    }
}
