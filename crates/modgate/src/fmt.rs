//! `modgate fmt`: normalises the layout of YAML files. Values, order and comments stay.

mod layout;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_policies::manifest;
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
    yaml,
};
use similar::TextDiff;

use crate::{
    exit::Exit,
    paths::{self, Exclude},
    terminal::Terminal,
};

/// Arguments of `modgate fmt`.
#[derive(Debug, clap::Args)]
pub(crate) struct FmtArgs {
    /// Files, folders or quoted patterns of YAML, or `-` to format standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Write nothing, and exit with code 1 if a file is not formatted.
    #[arg(long)]
    check: bool,
    /// Write nothing, and print the changes.
    #[arg(long)]
    diff: bool,
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Print errors only: no names of files, no notes.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Format all policies of a folder
  modgate fmt policies/

  # Check in a pipeline that files are formatted, and print the differences
  modgate fmt --check --diff policies/

  # Format standard input, for editors
  modgate fmt - < rule.yaml

It sets the indentation to two spaces a level, removes spaces at line ends and repeated blank lines,
and ends files with a line break. Keys keep their order, comments their text, and Rego, CEL and other
texts of several lines every byte. A file whose values would change is left as it is.

Exit codes:
  0  every file is formatted
  1  with --check: at least one file is not
  2  arguments or files are not valid";

/// Runs the verb.
pub(crate) fn run(args: &FmtArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.quiet);
    let exclude = Exclude::new(&args.exclude)?;
    let unmatched = paths::unmatched(&args.exclude, args.paths.iter());
    unmatched.iter().for_each(|finding| terminal.diagnostic(finding));
    let mut worst = Exit::Success;
    for path in paths::expanded(&args.paths, &exclude)? {
        let listing = match manifest::files(&path) {
            Ok(listing) => listing,
            Err(error) => {
                terminal.diagnostic(&error.into());
                worst = Exit::BadInput;
                continue;
            }
        };
        for problem in listing.problems {
            if !problem.is_harmless() {
                worst = Exit::BadInput;
            }
            terminal.diagnostic(&problem.into());
        }
        for file in listing.files {
            let is_json = file.extension().is_some_and(|extension| extension == "json");
            if is_json {
                terminal.note(format_args!("note: `{}` is JSON, skipped", file.display()));
                continue;
            }
            worst = worst.max(of_file(args, &file, terminal)?);
        }
    }
    Ok(worst)
}

fn of_file(args: &FmtArgs, file: &Path, terminal: &Terminal) -> Result<Exit> {
    let source = match manifest::read_file(file) {
        Ok(source) => source,
        Err(error) => {
            terminal.diagnostic(&error.into());
            return Ok(Exit::BadInput);
        }
    };
    let formatted = match formatted(&source) {
        Ok(formatted) => formatted,
        Err(problems) => {
            problems.iter().for_each(|problem| terminal.diagnostic(problem));
            return Ok(Exit::BadInput);
        }
    };
    let is_stdin = manifest::is_stdin(file);
    let is_changed = formatted != *source.text;
    let mut out = io::stdout().lock();
    if args.diff && is_changed {
        let name = &source.name;
        let changes = TextDiff::from_lines(&*source.text, formatted.as_str());
        write!(out, "{}", changes.unified_diff().header(name, &format!("{name} (formatted)")))?;
    }
    if args.check || args.diff {
        if is_changed && !args.diff && !args.quiet {
            writeln!(out, "{}", source.name)?;
        }
        return Ok(if is_changed && args.check { Exit::Denied } else { Exit::Success });
    }
    if is_stdin {
        out.write_all(formatted.as_bytes())?;
    } else if is_changed {
        replace(file, &formatted).with_context(|| format!("cannot write `{}`", file.display()))?;
        if !args.quiet {
            writeln!(out, "{}", file.display())?;
        }
    }
    Ok(Exit::Success)
}

/// The text of a file in its normal layout.
fn formatted(source: &Source) -> Result<String, Vec<Diagnostic>> {
    let (_, problems) = manifest::parse(source);
    let values = values(&source.text);
    let (Some(before), true) = (values, problems.is_empty()) else {
        return Err(match problems.is_empty() {
            true => vec![kept(source, "it is not valid YAML")],
            false => problems,
        });
    };
    let text = layout::normalised(&source.text);
    if self::values(&text).as_ref() != Some(&before) {
        return Err(vec![kept(source, "its values would change")]);
    }
    if comments(&text) != comments(&source.text) {
        return Err(vec![kept(source, "its comments would change")]);
    }
    if layout::normalised(&text) != text {
        return Err(vec![kept(source, "its layout is ambiguous")]);
    }
    Ok(text)
}

fn kept(source: &Source, why: &str) -> Diagnostic {
    Diagnostic::error(format!("`{}` is left as it is: {why}", source.name))
        .help("indent mappings and lists by spaces, and put texts of several lines behind `|`")
}

/// The values of all documents; `None` if one is not valid.
fn values(text: &str) -> Option<Vec<Value>> {
    yaml::documents(text).map(|it| it.ok().map(|document| document.value)).collect()
}

/// The lines with a `#`, without the spaces around them.
fn comments(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter_map(|line| line.find('#').and_then(|at| line.get(at..))).collect()
}

/// Replaces a file at once, so that none is half written. A link stays a link.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize()?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    fs::set_permissions(written.path(), fs::metadata(&file)?.permissions())?;
    written.persist(&file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every YAML file of the repository and of the suites at hand: formatting keeps its values and is
    /// idempotent, and few files are refused.
    #[test]
    fn every_yaml_at_hand() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders: Vec<PathBuf> =
            ["examples", "conformance", "deploy", "tests"].map(|name| root.join(name)).into();
        for name in ["MODGATE_CONFORMANCE", "MODGATE_SUITES"] {
            folders.extend(std::env::var_os(name).map(PathBuf::from));
        }
        let (mut count, mut refused) = (0_usize, Vec::new());
        for folder in folders {
            for file in manifest::files(&folder).expect("a folder").files {
                if file.extension().is_some_and(|it| it == "json") {
                    continue;
                }
                let Ok(source) = manifest::read_file(&file) else { continue };
                let Some(before) = values(&source.text) else { continue };
                count += 1;
                match formatted(&source) {
                    Ok(text) => {
                        assert_eq!(values(&text).as_ref(), Some(&before), "{}", file.display());
                        assert_eq!(layout::normalised(&text), text, "{}", file.display());
                    }
                    Err(problems) => refused.push(format!("{}: {problems:?}", file.display())),
                }
            }
        }
        assert!(count > 50, "{count} files");
        assert!(refused.len() * 100 <= count, "{} of {count}: {refused:#?}", refused.len());
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for text in ["a: [\n", "a: {{ .Values.x }}\n", "? a\n: b\nc:\n- |+\n  x\n\n\nd: 1\n"] {
            let source = Source::new("a.yaml", text);
            match formatted(&source) {
                Ok(formatted) => assert_eq!(values(&formatted), values(text), "{text}"),
                Err(problems) => assert!(!problems.is_empty()),
            }
        }
    }
}
