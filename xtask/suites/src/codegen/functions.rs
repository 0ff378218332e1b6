//! The reference of the functions of ModRule templates: the engine's table of functions, with a sentence and an
//! example for each from `functions.txt`. The results of the examples are computed.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use modgate_template::{Env, Isolated, Template, function_names};
use modgate_value::{Budget, Value};

use super::Generated;

/// `# GROUP`, then `NAME | SENTENCE | EXAMPLE`; a `\|` of an example stands for `|`.
const TEXTS: &str = include_str!("functions.txt");

const HEADER: &str = "\
# Functions of ModRule templates

Written by `cargo xtask codegen` from the engine's table of functions; do not edit.

Templates of [ModRules](modrules.md#templates) have these functions: those of Go's templates and those of Sprig 3.2,
without `env` and `expandenv`. A pipe passes a value as the last argument: `{{ .Target.metadata.name | upper }}`.

Numbers of the object are floating-point numbers: write `int` before integers, as in
`{{ add 1 (int .Target.spec.replicas) }}`. A function whose name begins with `must` ends the template with an error where the
other one returns an empty value.
";

/// The page.
pub(super) fn page() -> Result<Vec<Generated>> {
    Ok(vec![Generated { path: "docs/functions.md".to_owned(), text: text()? }])
}

fn text() -> Result<String> {
    let mut names: BTreeSet<&str> = function_names().collect();
    let mut out = HEADER.to_owned();
    for line in TEXTS.lines() {
        if let Some(group) = line.strip_prefix("# ") {
            out.push_str(&format!(
                "\n## {group}\n\n| Function | Result | Example | Gives |\n| --- | --- | --- | --- |\n"
            ));
            continue;
        }
        let line = format!("{line} ");
        let cells: Vec<&str> = line.splitn(3, " | ").collect();
        let [name, sentence, example] = cells[..] else {
            bail!("functions.txt: `{line}` has no three cells")
        };
        ensure!(names.remove(name), "functions.txt: `{name}` is no function, or has a line before");
        let example = example.trim();
        let (example, result) = match example {
            "" => (String::new(), String::new()),
            _ => (format!("`{example}`"), result(name, &example.replace("\\|", "|"))?),
        };
        out.push_str(&format!("| `{name}` | {sentence} | {example} | {result} |\n"));
    }
    ensure!(names.is_empty(), "functions.txt lacks {names:?}");
    Ok(out)
}

/// The output of the example, as a cell of the table.
fn result(name: &str, example: &str) -> Result<String> {
    let template = Template::parse("example", example).with_context(|| example.to_owned())?;
    if !template.impure_functions().is_empty() {
        return Ok("differs".to_owned());
    }
    let env = Env { budget: &Budget::unlimited(), host: &Isolated };
    if name == "fail" {
        let error = template.render(&Value::Null, &env).err().context("`fail` fails")?;
        ensure!(error.to_string().contains("no owner"), "{error}");
        return Ok("an error".to_owned());
    }
    let text = template.render(&Value::Null, &env).with_context(|| example.to_owned())?;
    ensure!(!text.contains('\n'), "`{example}` prints several lines");
    Ok(format!("`{}`", text.replace('|', "\\|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each function has one line, and each example has a result.
    #[test]
    fn every_function_is_described() {
        let text = text().expect("the page");
        let missing: Vec<&str> =
            function_names().filter(|name| !text.contains(&format!("| `{name}` |"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let line = "| `upper` | The text in upper case. | `{{ upper \"shop\" }}` | `SHOP` |";
        assert!(text.contains(line), "{text}");
    }
}
