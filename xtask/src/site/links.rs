//! Links of the site as it is built: each `href` and `src` within it must lead to a file, and to an id there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::links::normal;

/// The number of links, and those that lead nowhere, in words.
///
/// # Errors
///
/// When the site cannot be read.
pub(crate) fn check(site: &Path) -> Result<(usize, Vec<String>)> {
    let files = files(site)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "html")) {
        let text =
            fs::read_to_string(site.join(file)).with_context(|| file.display().to_string())?;
        pages.insert(file.clone(), attributes(&text));
    }
    let (mut count, mut broken) = (0, Vec::new());
    for (page, Attributes { links, .. }) in &pages {
        // Its links start from any place: it is shown for addresses that do not exist.
        if page == Path::new("404.html") {
            continue;
        }
        for link in links {
            count += 1;
            if let Some(reason) = fault(&files, &pages, page, link) {
                broken.push(format!("{}: `{link}`: {reason}", page.display()));
            }
        }
    }
    Ok((count, broken))
}

/// Every file of a folder, below it.
///
/// # Errors
///
/// When a folder cannot be read.
pub(crate) fn files(site: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    walk(site, Path::new(""), &mut files)?;
    Ok(files)
}

fn walk(site: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(site.join(folder)).with_context(|| site.display().to_string())? {
        let path = folder.join(entry?.file_name());
        if site.join(&path).is_dir() {
            walk(site, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

/// The links of a page, and the places in it that links can lead to.
#[derive(Debug, Default)]
struct Attributes {
    links: BTreeSet<String>,
    ids: BTreeSet<String>,
}

/// The attributes of elements; texts of scripts and styles have none.
fn attributes(text: &str) -> Attributes {
    let mut found = Attributes::default();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (element, after) = after.split_once('>').unwrap_or((after, ""));
        rest = after;
        for part in element.split_ascii_whitespace().skip(1).filter(|part| part.contains('=')) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let value = value.trim_matches(['"', '\'', '/']).replace("&amp;", "&");
            match name {
                "href" | "src" if is_local(&value) => found.links.insert(value),
                "id" | "name" => found.ids.insert(value),
                _ => false,
            };
        }
        for name in ["script", "style"] {
            if element.split_ascii_whitespace().next() == Some(name) {
                rest = rest.split_once(&format!("</{name}")).map_or("", |(_, after)| after);
            }
        }
    }
    found
}

fn is_local(link: &str) -> bool {
    !link.is_empty()
        && !["http:", "https:", "mailto:", "data:"].iter().any(|it| link.starts_with(it))
}

/// Why a link of a page leads nowhere.
fn fault(
    files: &BTreeSet<PathBuf>,
    pages: &BTreeMap<PathBuf, Attributes>,
    page: &Path,
    link: &str,
) -> Option<String> {
    let (path, id) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut target = if path.is_empty() { page.to_owned() } else { normal(&folder.join(path)) };
    if !files.contains(&target) {
        target = target.join("index.html");
    }
    if !files.contains(&target) {
        return Some("there is no such file".to_owned());
    }
    // The playground reads its fragment as a text, not as an id.
    if id.is_empty() || id.starts_with("s=") {
        return None;
    }
    let ids = &pages.get(&target)?.ids;
    (!ids.contains(id)).then(|| format!("{} has no id `{id}`", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere() {
        let site = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = site.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write("a/b.html", r#"<h1 id="top">x</h1>"#);
        write("playground/index.html", "");
        write("style.css", "");
        write("404.html", r#"<a href="none.html">"#);
        write(
            "index.html",
            r##"<link href="style.css"><a href="a/b.html#top">x</a> <a class="y" href="a/b.html#bottom">
            <a href="https://example.com"><a href="playground/#s=abc"><a href="#here"><img src="none.svg">
            <script>'<a href="no.html">'</script>"##,
        );
        let (count, broken) = check(site.path()).expect("a site");
        assert_eq!(count, 6);
        assert_eq!(
            broken,
            [
                "index.html: `#here`: index.html has no id `here`",
                "index.html: `a/b.html#bottom`: a/b.html has no id `bottom`",
                "index.html: `none.svg`: there is no such file",
            ]
        );
    }
}
