//! `cargo xtask codegen`: writes the files that are made from code; with `--check` compares them.

mod chart;
mod functions;

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use modgate_engine::{Code, api::crds};
use modgate_testkit::{cluster::build, corpus, program};
use modgate_value::{Value, yaml};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if a file is not what would be written.
    #[arg(long)]
    check: bool,
}

/// A file made from code.
struct Generated {
    /// Below the repository.
    path: String,
    text: String,
}

/// Whether every generated file was up to date, or has been written.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    // The manifest is made of the definitions.
    let (mut count, mut stale) = (0, 0);
    for generate in [
        definitions,
        flags,
        chart::documents,
        manifest,
        cli_reference,
        metrics,
        warnings,
        functions::page,
    ] {
        for Generated { path, text } in generate()? {
            count += 1;
            let file = corpus::repository().join(&path);
            if fs::read_to_string(&file).is_ok_and(|present| present == text) {
                continue;
            }
            if args.check {
                eprintln!("error: `{path}` is out of date; run `cargo xtask codegen`");
                stale += 1;
            } else {
                if let Some(folder) = file.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::write(&file, text)?;
                println!("codegen: wrote {path}");
            }
        }
    }
    if stale == 0 && args.check {
        println!("codegen: {count} files up to date");
    }
    Ok(stale == 0)
}

const HEADER: &str = "# Written by `cargo xtask codegen`; do not edit.\n";

/// The CRDs of our kinds.
fn definitions() -> Result<Vec<Generated>> {
    let file = |definition: &Value| {
        let name = definition.path(&["metadata", "name"]).and_then(Value::as_str);
        let path = format!("deploy/crds/{}.yaml", name.context("a CRD without a name")?);
        Ok(Generated { path, text: format!("{HEADER}{}", yaml::write(definition)) })
    };
    crds::all()?.iter().map(file).collect()
}

/// The chart with its default values; where there is no Go, and hence no Helm, it says so.
#[expect(clippy::print_stderr, reason = "says what is left out")]
fn manifest() -> Result<Vec<Generated>> {
    let path = "deploy/modgate.yaml".to_owned();
    if !build::has_go() {
        eprintln!("codegen: no Go to build Helm with, so `{path}` is left as it is");
        return Ok(Vec::new());
    }
    let text = build::helm()?.render(&[
        "--skip-tests",
        "--set",
        "namespace.create=true,crds.keep=false",
    ])?;
    // Users apply the manifest without Helm.
    let is_helms = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("app.kubernetes.io/managed-by: Helm")
            || line.starts_with("helm.sh/chart: ")
    };
    let text: String =
        text.lines().filter(|line| !is_helms(line)).map(|line| format!("{line}\n")).collect();
    Ok(vec![Generated { path, text: format!("{HEADER}{text}") }])
}

/// The flags that the chart takes.
fn flags() -> Result<Vec<Generated>> {
    chart::flags(&help_of(&["serve"])?)
}

/// Every metric, as the binary describes what it registers.
fn metrics() -> Result<Vec<Generated>> {
    Ok(vec![Generated { path: "docs/metrics.md".to_owned(), text: printed(&["metrics"])? }])
}

/// Every warning about a policy.
fn warnings() -> Result<Vec<Generated>> {
    let mut text = String::from(WARNINGS);
    for code in Code::ALL {
        let words: Vec<&str> = code.explanation().split_whitespace().collect();
        text.push_str(&format!("| <a id=\"{code}\"></a>`{code}` | {} |\n", words.join(" ")));
    }
    Ok(vec![Generated { path: "docs/warnings.md".to_owned(), text }])
}

const WARNINGS: &str = "\
# Warnings about policies

Written by `cargo xtask codegen` from the code; do not edit.

A warning names a policy that loads and probably does not do what its author intends. Each has a code
that stays the same from release to release. modgate says it wherever it reads the policy: on the command
line with file, line and column, in the log of `modgate serve` (field `code`), in the answer of the
validating webhook, which kubectl prints, and in the [status](status.md) of the policy. The metric
`modgate_policy_warnings_total` counts them by code.

`--strict` makes warnings errors: `review`, `explain`, `plan` and `audit` then exit with code 2.
`modgate explain CODE` prints what a code means.

An annotation of the policy allows a warning. It needs a reason; several entries stand on lines of their
own, or behind semicolons. `duplicate-key` concerns the text of a file, and `unknown-kind` and
`unknown-group` concern documents that are not loaded: no annotation allows the latter two.

```yaml
metadata:
  annotations:
    modgate.sh/allow: never-matches the CRD of this kind comes with the next release
```

So does a comment in the line of the warning, or in lines above it, in files, in Rego and in CEL. In a file it also allows
warnings that no annotation allows, and those about suites.

```yaml
    kinds: [Widget]  # modgate: allow never-matches the CRD of this kind comes with the next release
```

| Code | Meaning |
| --- | --- |
";

/// The help of `modgate` and of each of its commands, as the binary prints it.
fn cli_reference() -> Result<Vec<Generated>> {
    let mut out = String::from(
        "# Command line\n\n\
         Written by `cargo xtask codegen` from the binary's own help; do not edit.\n",
    );
    let mut open = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let help = help_of(&command)?;
        let title: Vec<&str> = std::iter::once("modgate").chain(command.iter().copied()).collect();
        out.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", title.join(" "), help.trim_end()));
        let help: &'static str = help.leak();
        for name in subcommands(help).into_iter().rev() {
            open.push(command.iter().copied().chain([name]).collect());
        }
    }
    Ok(vec![Generated { path: "docs/cli.md".to_owned(), text: out }])
}

fn help_of(command: &[&str]) -> Result<String> {
    let text = printed(&[command, &["--help"]].concat())?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n"))
}

/// The output of the binary with these arguments.
fn printed(arguments: &[&str]) -> Result<String> {
    let output = Command::new(program::built()?)
        .args(arguments)
        .current_dir(corpus::repository())
        // A terminal's width must not show in the file.
        .env("COLUMNS", "100")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .context("cannot run modgate")?;
    ensure!(
        output.status.success(),
        "`modgate {}` failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The names listed under `Commands:`, without `help`.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::subcommands;

    #[test]
    fn commands_of_a_help_text() {
        let help = "Usage: modgate\n\nCommands:\n  serve   Serves\n          more\n  help    Helps\n\nOptions:\n  -h";
        assert_eq!(subcommands(help), ["serve"]);
        assert_eq!(subcommands("Usage: modgate serve\n"), [""; 0]);
    }
}
