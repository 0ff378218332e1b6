//! The folder that mdBook reads: pages of `docs/`, of the project, and of examples, whose links lead to each other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_corpus::pages::{self, Block};

use super::{
    FOLDER,
    examples::{self, Example},
    play::{self, Texts},
};
use crate::links::{normal, tracked};

/// Pages outside of `docs/`, with their titles.
const PROJECT: [(&str, &str); 8] = [
    ("README.md", "Readme"),
    ("CHANGELOG.md", "Changelog"),
    ("CONTRIBUTING.md", "Contributing"),
    ("SECURITY.md", "Security"),
    ("deploy/chart/README.md", "Values of the chart"),
    ("tests/cluster/README.md", "Tests: the API server"),
    ("tests/helm/README.md", "Tests: Helm"),
    ("tests/differential/README.md", "Tests: the originals"),
];

/// Writes the folder anew, and returns how many examples open in the playground.
///
/// # Errors
///
/// When a page cannot be read or has a marker that is wrong.
pub(crate) fn write(root: &Path, folder: &Path, has_playground: bool) -> Result<usize> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let examples = examples::all(root)?;
    let stage = Stage { root, examples: &examples, has_playground };
    let mut runs = 0;
    let files = tracked(root)?;
    let docs = files.iter().filter(|file| file.starts_with("docs"));
    let project = PROJECT.iter().map(|(path, _)| Path::new(path));
    for source in docs.map(PathBuf::as_path).chain(project) {
        let Some(place) = stage.place(source) else { continue };
        let target = folder.join(&place);
        fs::create_dir_all(target.parent().context("a folder")?)?;
        if source.extension().is_none_or(|it| it != "md") {
            fs::copy(root.join(source), &target)?;
            continue;
        }
        let text = fs::read_to_string(root.join(source)).context(source.display().to_string())?;
        let page = stage.page(source, &text).with_context(|| source.display().to_string())?;
        runs += page.runs;
        fs::write(target, page.text)?;
    }
    fs::create_dir_all(folder.join("examples"))?;
    for example in &examples {
        let text = example.page(has_playground)?;
        runs += usize::from(has_playground) * example.objects().count();
        fs::write(folder.join(example.place()), text)?;
    }
    let summary = folder.join("SUMMARY.md");
    fs::write(&summary, format!("{}{}", fs::read_to_string(&summary)?, contents(&examples)))?;
    Ok(runs)
}

/// The part of the contents that `docs/SUMMARY.md` does not have.
fn contents(examples: &[Example]) -> String {
    let mut text = String::from("\n# Examples\n\n");
    for example in examples {
        text.push_str(&format!("- [{}]({})\n", example.title, example.place().display()));
    }
    text.push_str("\n# Project\n\n");
    for (path, title) in PROJECT {
        text.push_str(&format!("- [{title}](project/{path})\n"));
    }
    text
}

/// The settings with which pages are written.
struct Stage<'a> {
    root: &'a Path,
    examples: &'a [Example],
    has_playground: bool,
}

/// Where a link leads.
struct Link {
    target: String,
    /// The title of the page there.
    title: Option<String>,
}

/// A page as mdBook reads it.
struct Page {
    text: String,
    /// How many examples of it open in the playground.
    runs: usize,
}

impl Stage<'_> {
    /// Where a file of the repository stands in the folder.
    fn place(&self, source: &Path) -> Option<PathBuf> {
        if let Ok(page) = source.strip_prefix("docs") {
            return self.root.join(source).exists().then(|| page.to_owned());
        }
        if PROJECT.iter().any(|(path, _)| Path::new(path) == source) {
            return Some(Path::new("project").join(source));
        }
        let holds = |example: &&Example| source.starts_with(&example.folder);
        self.examples.iter().find(holds).map(Example::place)
    }

    /// A page without markers, with links for this folder, and below each example one that opens it.
    fn page(&self, source: &Path, text: &str) -> Result<Page> {
        let blocks = pages::blocks(text)?;
        let depth = self.place(source).context("no place")?.components().count() - 1;
        let mut open: Option<&Block> = None;
        let mut page = Page { text: String::new(), runs: 0 };
        for (index, line) in text.lines().enumerate() {
            let starts = blocks.iter().find(|block| block.line == index + 1);
            if starts.is_none() && open.is_none() && pages::comment(line.trim_start()).is_some() {
                continue;
            }
            let line = match open.or(starts) {
                Some(block) if starts.is_some() => fence(line, &block.language),
                Some(_) => line.to_owned(),
                None => relinked(line, |target| self.link(source, target)),
            };
            page.text.push_str(&line);
            page.text.push('\n');
            match (starts, open) {
                (Some(block), _) => open = Some(block),
                (None, Some(block)) if line.trim() == "```" => {
                    open = None;
                    if self.has_playground && block.run().is_some() {
                        let texts = texts(&blocks, block)?;
                        let indent = " ".repeat(block.indent);
                        page.text.push_str(&format!("\n{indent}{}\n", link(&texts, depth)?));
                        page.runs += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(page)
    }

    /// A link of a page as it is in this folder; none if it has no page for the target.
    fn link(&self, source: &Path, target: &str) -> Option<Link> {
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        if is_elsewhere || target.starts_with('#') {
            return Some(Link { target: target.to_owned(), title: None });
        }
        let (path, id) =
            target.split_once('#').map_or((target, None), |(path, id)| (path, Some(id)));
        let file = normal(&source.parent().unwrap_or(Path::new("")).join(path));
        // A folder of the documentation is its page.
        let page = file.join("README.md");
        let is_folder = file.starts_with("docs") && self.root.join(&page).exists();
        let file = if is_folder { page } else { file };
        let to = self.place(&file)?;
        let from = self.place(source)?;
        let up = "../".repeat(from.components().count() - 1);
        let id = id.map(|id| format!("#{id}")).unwrap_or_default();
        let text = fs::read_to_string(self.root.join(&file)).unwrap_or_default();
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
        Some(Link { target: format!("{up}{}{id}", to.display()), title })
    }
}

/// Languages that the highlighter of mdBook knows.
const HIGHLIGHTED: [&str; 5] = ["console", "json", "sh", "text", "yaml"];

/// The first line of a block; a language that the highlighter does not know becomes a text.
fn fence(line: &str, language: &str) -> String {
    match language {
        "" => format!("{line}text"),
        known if HIGHLIGHTED.contains(&known) => line.to_owned(),
        unknown => line.replace(unknown, "text"),
    }
}

/// The texts of the example that a block is: the files of its marker, and itself.
fn texts(blocks: &[Block], block: &Block) -> Result<Texts> {
    let mut texts = Texts::new();
    for (part, names) in block.run().into_iter().flatten() {
        let files = names.iter().map(|name| pages::file(blocks, name));
        texts.insert(part.clone(), files.collect::<Result<_>>()?);
    }
    if block.language == "yaml" {
        let part = if pages::is_policy(&block.text) { "policies" } else { "object" };
        texts.entry(part.to_owned()).or_default().insert(0, block.text.clone());
    }
    Ok(texts)
}

/// A link that opens texts in the playground, from a page so many folders down.
///
/// # Errors
///
/// When the texts cannot be compressed.
pub(crate) fn link(texts: &Texts, depth: usize) -> Result<String> {
    let up = "../".repeat(depth);
    let fragment = play::fragment(texts)?;
    Ok(format!(
        "<p class=\"run\"><a href=\"{up}{FOLDER}/#{fragment}\">Run in the playground</a></p>"
    ))
}

/// A line of a page with its links' targets replaced. Where there is none, the text of the link stays; the name of a
/// file as the text becomes the title of its page.
fn relinked(line: &str, link: impl Fn(&str) -> Option<Link>) -> String {
    let plain = masked(line);
    let mut out = String::new();
    let mut from = 0;
    while let Some(middle) = plain.get(from..).and_then(|rest| rest.find("](")).map(|at| at + from)
    {
        let end = plain
            .get(middle..)
            .and_then(|rest| rest.find(')'))
            .map_or(line.len(), |at| at + middle);
        let (Some(before), Some(old)) = (line.get(from..middle), line.get(middle + 2..end)) else {
            break;
        };
        let start = plain.get(from..middle).and_then(|text| text.rfind('['));
        let (left, text) = before.split_at(start.unwrap_or(0));
        let text = text.strip_prefix('[').unwrap_or(text);
        out.push_str(left);
        match link(old) {
            Some(Link { target, title }) => {
                let is_file = text.ends_with(".md") && !text.contains(' ');
                let text = title.filter(|_| is_file).unwrap_or_else(|| text.to_owned());
                out.push_str(&format!("[{text}]({target})"));
            }
            None => out.push_str(text),
        }
        from = end + 1;
    }
    out.push_str(line.get(from..).unwrap_or_default());
    out
}

/// A line of the same length in which code is blank.
fn masked(line: &str) -> String {
    let mut is_code = false;
    let mask = |text: &str| " ".repeat(text.len());
    let parts = line.split('`').map(|part| {
        let text = if is_code { mask(part) } else { part.to_owned() };
        is_code = !is_code;
        text
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use modgate_corpus::corpus;

    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_site() {
        let root = corpus::repository();
        let examples = examples::all(&root).expect("examples");
        let stage = Stage { root: &root, examples: &examples, has_playground: true };
        for (source, line, expected) in [
            (
                "docs/README.md",
                "[cli.md](cli.md) and [b](../SECURITY.md#x)",
                "[Command line](cli.md) and [b](project/SECURITY.md#x)",
            ),
            ("docs/runbooks/README.md", "[a](../limits.md)", "[a](../limits.md)"),
            ("README.md", "![a](docs/images/order.svg)", "![a](../images/order.svg)"),
            (
                "README.md",
                "[`x`](examples/gatekeeper), `[no](x)`",
                "[`x`](../examples/gatekeeper.md), `[no](x)`",
            ),
            (
                "CONTRIBUTING.md",
                "see [the code](crates/modgate/src/lib.rs) [y](#z)",
                "see the code [y](#z)",
            ),
            ("CONTRIBUTING.md", "[a](docs/runbooks)", "[a](../runbooks/README.md)"),
            ("README.md", "[a](https://example.com/x)", "[a](https://example.com/x)"),
        ] {
            let found = relinked(line, |target| stage.link(Path::new(source), target));
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn examples_of_a_page_open_in_the_playground() {
        let root = corpus::repository();
        let stage = Stage { root: &root, examples: &[], has_playground: true };
        let text = "A\n\n<!-- file: a.yaml -->\n<!-- run: object=pod.yaml -->\n```yaml\n\
                    apiVersion: mutations.gatekeeper.sh/v1\n```\nB\n";
        let page = stage.page(Path::new("docs/runbooks/x.md"), text);
        // No such page: it has no place.
        assert!(page.is_err());
        let page = stage.page(Path::new("docs/mutation.md"), text).expect("a page");
        assert_eq!(page.runs, 1);
        assert!(!page.text.contains("<!--"), "{}", page.text);
        assert!(
            page.text.contains("```\n\n<p class=\"run\"><a href=\"playground/#s="),
            "{}",
            page.text
        );
    }
}
