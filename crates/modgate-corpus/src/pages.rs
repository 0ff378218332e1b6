//! The pages of `docs/`: their code blocks, and the markers above them.
//!
//! A *marker* is an HTML comment on a line of its own, directly above a block. Readers do not see it.
//!
//! | Marker | Meaning |
//! | --- | --- |
//! | `file: NAME` | the page's commands find the block as the file NAME |
//! | `run: object=NAME policies=NAME,NAME` | the site shows a link that opens the block in the playground, with these files |
//! | `output` | the block is what the last command of the block before prints |
//! | `output: COMMAND` | the block is what COMMAND prints |
//! | `not run: REASON` | no test runs the block |
//! | ``not run: `PART`: REASON`` | no test runs the lines that contain PART |
//!
//! Names are those of blocks of the page with `file`, then of files in `examples/repository`, then of files of this
//! repository.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::corpus;

/// The folder that commands of pages run in, below the repository.
pub const FOLDER: &str = "examples/repository";

/// Files that readers have, and the files of [`FOLDER`] that stand for them.
pub const STAND_INS: [(&str, &str); 5] = [
    ("pod.yaml", "manifests/pod.yaml"),
    ("object.yaml", "manifests/pod.yaml"),
    ("deployment.yaml", "manifests/deployment.yaml"),
    ("existing.yaml", "manifests/deployment.yaml"),
    ("policies.yaml", "policies/rules.yaml"),
];

/// Groups of policies.
const GROUPS: [&str; 8] = [
    "templates.gatekeeper.sh",
    "constraints.gatekeeper.sh",
    "mutations.gatekeeper.sh",
    "expansion.gatekeeper.sh",
    "config.gatekeeper.sh",
    "externaldata.gatekeeper.sh",
    "api.kubemod.io",
    "admissionregistration.k8s.io",
];

/// Whether a text holds policies.
pub fn is_policy(text: &str) -> bool {
    let versions = text.lines().filter_map(|line| line.strip_prefix("apiVersion:"));
    let mut groups = versions.filter_map(|version| version.trim().split('/').next());
    groups.any(|group| GROUPS.contains(&group))
}

/// A fenced code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of its first fence, from 1.
    pub line: usize,
    /// How far its fences are indented, in bytes.
    pub indent: usize,
    /// The language after the first fence; may be empty.
    pub language: String,
    /// Its lines without the indentation.
    pub text: String,
    /// Its markers, in order.
    pub markers: Vec<Marker>,
}

/// An instruction above a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// The block is a file of the page's commands.
    File(String),
    /// The block is an example for the playground: files by parts of its state.
    Run(BTreeMap<String, Vec<String>>),
    /// The block is the output of a command, or of the last one of the block before.
    Output(Option<String>),
    /// Nothing of the block is run, or no line with this part.
    NotRun {
        /// A part of the lines that are not run.
        part: Option<String>,
        /// Why.
        reason: String,
    },
}

impl Block {
    /// The name of the file that the block is.
    pub fn file(&self) -> Option<&str> {
        self.markers.iter().find_map(|marker| match marker {
            Marker::File(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The files of its example.
    pub fn run(&self) -> Option<&BTreeMap<String, Vec<String>>> {
        self.markers.iter().find_map(|marker| match marker {
            Marker::Run(parts) => Some(parts),
            _ => None,
        })
    }

    /// The commands of a block for a shell: lines that end in a backslash, and quoted ones, are one.
    pub fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut is_open = false;
        for line in self.text.lines() {
            match commands.last_mut().filter(|_| is_open) {
                Some(command) => {
                    command.push('\n');
                    command.push_str(line);
                }
                None => commands.push(line.to_owned()),
            }
            let command = commands.last().map_or("", String::as_str);
            let is_quoted = command.matches('\'').count() % 2 == 1;
            is_open = is_quoted || [" \\", "|", ",\\"].iter().any(|end| command.ends_with(end));
        }
        commands.retain(|command| !command.trim().is_empty());
        commands
    }
}

/// The code blocks of a page.
///
/// # Errors
///
/// When a comment above a block is none of the markers above, or a marker stands above no block.
pub fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut comments: Vec<(usize, &str)> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(language) = trimmed.strip_prefix("```") {
            let indent = line.len() - trimmed.len();
            let mut body = String::new();
            for (_, line) in lines.by_ref() {
                if line.trim() == "```" {
                    break;
                }
                body.push_str(line.get(indent..).unwrap_or_default());
                body.push('\n');
            }
            let marker = |(line, text)| parse(text).with_context(|| format!("line {line}"));
            let markers = comments.drain(..).map(marker).collect::<Result<_>>()?;
            let language = language.to_owned();
            blocks.push(Block { line: index + 1, indent, language, text: body, markers });
        } else if let Some(text) = comment(trimmed) {
            comments.push((index + 1, text));
        } else if comments.drain(..).any(|(_, text)| parse(text).is_ok()) {
            bail!("line {}: there is no block below the marker", index + 1);
        }
    }
    Ok(blocks)
}

/// The text of a comment that fills a line.
pub fn comment(line: &str) -> Option<&str> {
    Some(line.strip_prefix("<!--")?.trim_end().strip_suffix("-->")?.trim())
}

fn parse(text: &str) -> Result<Marker> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let value = value.trim();
    Ok(match name {
        "file" if !value.is_empty() => Marker::File(value.to_owned()),
        "run" => {
            let parts = value.split_whitespace().map(|part| {
                let (part, files) = part.split_once('=').context("want PART=FILE,FILE")?;
                Ok((part.to_owned(), files.split(',').map(str::to_owned).collect()))
            });
            Marker::Run(parts.collect::<Result<_>>()?)
        }
        "output" => Marker::Output(Some(value.to_owned()).filter(|value| !value.is_empty())),
        "not run" => match value.strip_prefix('`').and_then(|rest| rest.split_once("`: ")) {
            Some((part, reason)) => {
                Marker::NotRun { part: Some(part.to_owned()), reason: reason.to_owned() }
            }
            None if value.is_empty() => bail!("say why the block is not run"),
            None => Marker::NotRun { part: None, reason: value.to_owned() },
        },
        _ => bail!("no marker `{text}`"),
    })
}

/// The text of a file that a marker names.
///
/// # Errors
///
/// When there is no such file.
pub fn file(blocks: &[Block], name: &str) -> Result<String> {
    if let Some(block) = blocks.iter().find(|block| block.file() == Some(name)) {
        return Ok(block.text.clone());
    }
    let stand_in = STAND_INS.iter().find(|(stands, _)| *stands == name);
    let name = stand_in.map_or(name, |(_, file)| file);
    let root = corpus::repository();
    let beside = root.join(FOLDER).join(name);
    let path = if beside.exists() { beside } else { root.join(name) };
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The pages of `docs/` and the README, below the repository; not those that are generated.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn paths() -> Result<Vec<PathBuf>> {
    let root = corpus::repository();
    let mut paths = vec![PathBuf::from("README.md")];
    let mut open = vec![PathBuf::from("docs")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let path = folder.join(entry?.file_name());
            if root.join(&path).is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "md") && !is_generated(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether the page is written by `cargo xtask codegen`, whose sources have tests of their own.
fn is_generated(path: &Path) -> bool {
    ["cli.md", "metrics.md", "warnings.md", "functions.md"].iter().any(|name| path.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_page() {
        let text = "Text\n\n<!-- file: a.yaml -->\n<!-- run: object=b.yaml policies=c,d -->\n```yaml\na: 1\n  b\n```\n\
                    1. x\n\n   ```sh\n   modgate x\n   ```\n";
        let [yaml, sh] = <[Block; 2]>::try_from(blocks(text).expect("blocks")).unwrap();
        assert_eq!(
            (yaml.line, yaml.language.as_str(), yaml.text.as_str()),
            (5, "yaml", "a: 1\n  b\n")
        );
        assert_eq!(yaml.file(), Some("a.yaml"));
        let run = yaml.run().expect("a run");
        assert_eq!(run.get("policies"), Some(&vec!["c".to_owned(), "d".to_owned()]));
        assert_eq!((sh.indent, sh.text.as_str()), (3, "modgate x\n"));
        assert!(sh.markers.is_empty());
    }

    #[test]
    fn markers() {
        for (text, expected) in [
            ("output", Marker::Output(None)),
            ("output: modgate x: y", Marker::Output(Some("modgate x: y".to_owned()))),
            (
                "not run: needs a cluster",
                Marker::NotRun { part: None, reason: "needs a cluster".to_owned() },
            ),
            (
                "not run: `--cluster`: needs one",
                Marker::NotRun {
                    part: Some("--cluster".to_owned()),
                    reason: "needs one".to_owned(),
                },
            ),
        ] {
            assert_eq!(parse(text).expect(text), expected);
        }
        for text in ["outptu", "not run", "file:", "run: object"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(blocks("<!-- output -->\ntext\n").is_err());
        assert!(blocks("<!-- outptu -->\n```text\n```\n").is_err());
        assert!(blocks("<!-- generated -->\ntext\n").is_ok());
    }

    #[test]
    fn commands_of_a_block() {
        let text = "a \\\n  b\n\nc 'd\ne' f\ng |\n  h\n".to_owned();
        let block =
            Block { line: 1, indent: 0, language: "sh".to_owned(), text, markers: Vec::new() };
        assert_eq!(block.commands(), ["a \\\n  b", "c 'd\ne' f", "g |\n  h"]);
    }
}
