//! The folders of `examples/` as pages of the site: their files, and links that open each object in the playground.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_corpus::pages::is_policy;

use super::{
    play::{PARTS, Texts},
    stage,
};
use crate::links::tracked;

/// The introduction of an example.
const README: &str = "README.md";

/// A folder of `examples/`.
#[derive(Debug)]
pub(crate) struct Example {
    /// Below the repository.
    pub(crate) folder: PathBuf,
    /// The heading of its README, or the first comment of its policies.
    pub(crate) title: String,
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    /// Below the folder.
    name: String,
    text: String,
    /// The part of the playground's state that it is.
    part: Option<&'static str>,
}

/// Every example, in the order of their folders.
///
/// # Errors
///
/// When files cannot be read.
pub(crate) fn all(root: &Path) -> Result<Vec<Example>> {
    let mut examples: Vec<Example> = Vec::new();
    for path in tracked(root)?.into_iter().filter(|path| path.starts_with("examples")) {
        // A folder of `examples/playground` is an example, too.
        let depth = if path.starts_with("examples/playground") { 3 } else { 2 };
        let folder: PathBuf = path.components().take(depth).collect();
        let name = path.strip_prefix(&folder)?.to_str().context("a name that is UTF-8")?.to_owned();
        let text =
            fs::read_to_string(root.join(&path)).with_context(|| path.display().to_string())?;
        let file = File { part: part(&name, &text), name, text };
        match examples.last_mut().filter(|example| example.folder == folder) {
            Some(example) => example.files.push(file),
            None => examples.push(Example { title: String::new(), folder, files: vec![file] }),
        }
    }
    for example in &mut examples {
        example.title = example.titled();
    }
    Ok(examples)
}

/// The part of the playground's state that a file is: by its name, then by its kind.
fn part(name: &str, text: &str) -> Option<&'static str> {
    if let Some((part, _)) = PARTS.iter().find(|(_, file)| *file == name) {
        return Some(part);
    }
    let has = |line: &str| text.lines().any(|it| it == line);
    match () {
        () if !name.ends_with(".yaml") || has("kind: Suite") || !text.contains("\nkind:") => None,
        () if is_policy(text) => Some("policies"),
        () if has("kind: Namespace") => Some("namespace"),
        () => Some("object"),
    }
}

impl Example {
    /// The page below the folder of pages.
    pub(crate) fn place(&self) -> PathBuf {
        let name = self.folder.strip_prefix("examples").unwrap_or(&self.folder);
        let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        Path::new("examples").join(format!("{}.md", name.join("-")))
    }

    fn titled(&self) -> String {
        let of = |name| self.files.iter().find(|file| file.name == name);
        let first = of(README).or_else(|| of("policies.yaml"));
        let title = first.and_then(|file| file.text.lines().next()?.strip_prefix("# "));
        title.map_or_else(|| self.folder.display().to_string(), str::to_owned)
    }

    /// The objects that policies of the example apply to.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &str> {
        let objects = self.files.iter().filter(|file| file.part == Some("object"));
        objects.map(|file| file.name.as_str())
    }

    /// The state of the playground with one of the objects.
    fn texts(&self, object: &str) -> Texts {
        let mut texts = Texts::new();
        for file in &self.files {
            if let Some(part) = file.part.filter(|part| *part != "object" || file.name == object) {
                texts.entry(part.to_owned()).or_default().push(file.text.clone());
            }
        }
        texts
    }

    /// The page: each file, and below each object a link that opens it with everything else.
    pub(crate) fn page(&self, has_playground: bool) -> Result<String> {
        let readme = self.files.iter().find(|file| file.name == README);
        let mut text = readme.map_or_else(|| format!("# {}\n", self.title), |it| it.text.clone());
        text.push_str(&format!("\nThe files are in `{}`.\n", self.folder.display()));
        for file in self.files.iter().filter(|file| file.name != README) {
            let language = match file.name.rsplit_once('.') {
                Some((_, known @ ("json" | "yaml"))) => known,
                _ => "text",
            };
            let body = file.text.trim_end();
            text.push_str(&format!("\n## `{}`\n\n````{language}\n{body}\n````\n", file.name));
            if has_playground && file.part == Some("object") {
                text.push_str(&format!("\n{}\n", stage::link(&self.texts(&file.name), 1)?));
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use modgate_corpus::corpus;

    use super::*;

    #[test]
    fn examples_have_pages() {
        let examples = all(&corpus::repository()).expect("examples");
        let of =
            |folder: &str| examples.iter().find(|it| it.folder == Path::new(folder)).expect(folder);
        let gatekeeper = of("examples/gatekeeper");
        assert_eq!(gatekeeper.title, "Gatekeeper's policies: memory of Pods");
        assert_eq!(gatekeeper.place(), Path::new("examples/gatekeeper.md"));
        assert_eq!(gatekeeper.objects().count(), 3);
        let texts = gatekeeper.texts("objects/large.yaml");
        assert_eq!(texts.get("object").map(Vec::len), Some(1));
        assert_eq!(texts.get("policies").map(Vec::len), Some(4));
        let rego = of("examples/playground/rego");
        assert_eq!(rego.place(), Path::new("examples/playground-rego.md"));
        assert_eq!(rego.title, "Rego v1: hosts of Ingresses are unique");
        let page = rego.page(true).expect("a page");
        assert_eq!(page.matches("../playground/#s=").count(), 1);
        let quickstart = of("examples/quickstart").texts("deployment.yaml");
        assert!(quickstart.contains_key("namespace") && quickstart.contains_key("policies"));
    }
}
