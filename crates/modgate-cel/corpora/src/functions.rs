//! `cel-functions.json`: every overload of every function of Kubernetes' environment, as
//! `tests/record/cel` lists them.

use anyhow::{Context as _, Result};
use modgate_cel::signatures;
use modgate_corpus::{Case, CorpusFile, Members, Roots, Verdict};

/// Names that no expression can write, or that are spelled otherwise there.
const INTERNAL: [&str; 5] = ["@not_strictly_false", "__not_strictly_false__", "_in_", "in", "_?._"];

/// Holds our table of functions against the recorded one, each overload a case.
///
/// # Errors
///
/// When the file has another shape.
pub fn functions(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    // The recorded environment is that of validations; mutations have one function more.
    let mut ours: Vec<String> = signatures()
        .into_iter()
        .filter(|signature| signature.name != "jsonpatch.escapeKey")
        .map(|signature| {
            let mut args: Vec<_> = signature.args.iter().map(ToString::to_string).collect();
            let target = if signature.member { args.remove(0) } else { String::new() };
            format!("{} {target}({}){}", signature.name, args.join(","), signature.result)
        })
        .collect();
    for overload in top.list("overloads")? {
        let overload = overload.as_str().context("an overload is not text")?;
        let name = overload.split(' ').next().unwrap_or_default();
        if INTERNAL.contains(&name) {
            continue;
        }
        let known = ours.iter().position(|known| known == overload);
        if let Some(known) = known {
            ours.remove(known);
        }
        let got = if known.is_some() { overload } else { "no such overload" };
        cases.push(Case { id: overload.to_owned(), verdict: Verdict::equal(overload, got) });
    }
    for extra in ours {
        let verdict = Verdict::equal("no such overload", extra.as_str());
        cases.push(Case { id: extra, verdict });
    }
    top.finish()
}
