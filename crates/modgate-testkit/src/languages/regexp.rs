//! `regexp.json`: every pattern against every string, leftmost match in bytes.

use anyhow::{Context as _, Result, ensure};
use modgate_value::{Budget, Value, regex::GoRegex};

use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let strings: Option<Vec<_>> = top.list("strings")?.iter().map(Value::as_str).collect();
    let strings = strings.context("`strings` holds something else")?;
    let patterns = top.required("patterns")?.as_object().context("`patterns` is not a map")?;
    for (pattern, recorded) in patterns {
        let verdict = check(pattern, recorded, &strings).with_context(|| pattern.to_string())?;
        cases.push(Case { id: pattern.to_string(), verdict });
    }
    top.finish()
}

fn check(pattern: &str, recorded: &Value, strings: &[&str]) -> Result<Verdict> {
    let compiled = GoRegex::new(pattern);
    let Some(matches) = recorded.as_array() else {
        ensure!(recorded.is_null(), "neither a list nor null");
        return Ok(match compiled {
            Err(_) => Verdict::Passed,
            Ok(_) => failed("does not compile".to_owned(), "compiles".to_owned()),
        });
    };
    ensure!(matches.len() == strings.len(), "{} results for {}", matches.len(), strings.len());
    let regex = match compiled {
        Ok(regex) => regex,
        Err(error) => return Ok(failed("compiles".to_owned(), error.to_string())),
    };
    for (string, expected) in strings.iter().zip(matches.iter()) {
        let found = regex.find(string, &Budget::unlimited())?;
        let got = match &found {
            None => Value::Null,
            Some(range) => [range.start, range.end]
                .into_iter()
                .map(|at| Value::from(i64::try_from(at).unwrap_or(-1)))
                .collect(),
        };
        if got != *expected {
            return Ok(failed(format!("{expected} in {string:?}"), got.to_json()));
        }
        if regex.is_match(string) != found.is_some() {
            return Ok(failed(format!("is_match agrees with find in {string:?}"), String::new()));
        }
    }
    Ok(Verdict::Passed)
}

fn failed(expected: String, got: String) -> Verdict {
    Verdict::Failed { expected, got }
}
