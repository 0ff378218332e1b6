//! Links between the pages of the repository: where they stand, and whether they lead somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// Files that Git knows, so that nothing built is looked at.
pub(crate) fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.lines().map(PathBuf::from).collect())
}

/// Targets of the links of a page, outside of code.
pub(crate) fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // What is between backticks is no link.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for part in plain.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

/// Why a relative link leads nowhere.
pub(crate) fn broken(root: &Path, page: &Path, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        path => normal(&page.parent().unwrap_or(Path::new("")).join(path)),
    };
    let file = root.join(&target);
    if !file.exists() {
        return Some("there is no such file".to_owned());
    }
    if anchor.is_empty() || target.extension().is_none_or(|it| it != "md") {
        return None;
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then(|| format!("no heading of it becomes `#{anchor}`"))
}

/// A path without `.` and `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Headings as anchors, as GitHub and GitLab make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_code = false;
    let mut all = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let Some(title) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let anchor: String = kept.map(|it| if it == ' ' { '-' } else { it }).collect();
        let count = seen.entry(anchor.clone()).or_default();
        all.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use modgate_corpus::corpus;

    use super::*;

    #[test]
    fn links_of_a_page() {
        let text = "[a](b.md) and `[no](x)` and [c](#d), [e](https://f)\n```\n[no](y)\n```\n";
        let found: Vec<String> = links_of(text).into_iter().map(|(_, link)| link).collect();
        assert_eq!(found, ["b.md", "#d"]);
    }

    #[test]
    fn headings_become_anchors() {
        let found = anchors("# The `image` of modgate!\n## A\n```\n# no\n```\n## A\n");
        let expected = ["the-image-of-modgate", "a", "a-1"].map(str::to_owned);
        assert_eq!(found, expected.into());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let root = corpus::repository();
        let page = Path::new("docs/install.md");
        for (link, is_broken) in [
            ("cli.md", false),
            ("../README.md", false),
            ("#upgrade", false),
            ("#no-such-heading", true),
            ("no-such-page.md", true),
        ] {
            assert_eq!(broken(&root, page, link).is_some(), is_broken, "{link}");
        }
    }
}
