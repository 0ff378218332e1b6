//! `cargo xtask docs --check`: ids of rules and relative links that lead nowhere, in the sources and in the pages of the
//! site, and comments whose words [`words`] refuses.

use std::{collections::BTreeSet, ffi::OsStr, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use modgate_corpus::corpus;

use crate::{
    links::{broken, links_of, tracked},
    site, words,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Look and report; there is no other mode.
    #[arg(long, required = true)]
    check: bool,
}

/// Pages with one row for each id.
const PAGES: [&str; 2] = ["docs/spec/README.md", "docs/compatibility.md"];

/// Groups of rules. What looks like an id and belongs to none, such as `SHA-256`, is none.
const GROUPS: [&str; 33] = [
    "AD", "AU", "CE", "CR", "EA", "EV", "EX", "GK-AU", "GK-CR", "GK-HE", "GK-OP", "GK-OT", "GK-Q",
    "GK-RD", "GK-RM", "GK-ST", "GK-SV", "GR", "HE", "IL", "MA", "ME", "OP", "OT", "Q", "RD",
    "REGO", "RS", "SS", "ST", "SV", "TC", "XP",
];

/// Whether every id and every link leads somewhere; what does not is printed.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    ensure!(args.check, "there is nothing to do but `--check`");
    let root = corpus::repository();
    let files = tracked(&root)?;
    let known = known(&root)?;
    let (mut ids, mut links, mut wrong) = (0, 0, 0);
    for file in &files {
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        let name = file.display();
        if is_prose_or_code(file) {
            for (line, id) in cited(&text) {
                ids += 1;
                if !resolves(&known, &id) {
                    eprintln!("error: {name}:{line}: no row for `{id}` in {}", PAGES.join(" or "));
                    wrong += 1;
                }
            }
        }
        if is_product(file) {
            for (line, word) in words::odd(&text) {
                eprintln!("error: {name}:{line}: `{word}`: begin with a noun, and name the actor");
                wrong += 1;
            }
        }
        if file.extension().is_some_and(|it| it == "md") {
            for (line, link) in links_of(&text) {
                links += 1;
                if let Some(reason) = broken(&root, file, &link) {
                    eprintln!("error: {name}:{line}: `{link}`: {reason}");
                    wrong += 1;
                }
            }
        }
    }
    let (staged, broken) = site::staged_links(&root)?;
    for problem in &broken {
        eprintln!("error: the site's page {problem}");
    }
    wrong += broken.len();
    ensure!(
        ids > 100 && links > 50 && staged > links / 2,
        "only {ids} ids, {links} links and {staged} links of the site were found"
    );
    if wrong == 0 {
        println!("docs: {ids} ids, {links} links and {staged} links of the site lead somewhere");
    }
    Ok(wrong == 0)
}

/// Sources, prose and templates; not corpora, whose scenarios have names of their own.
fn is_prose_or_code(file: &Path) -> bool {
    let is_kind = file.extension().is_some_and(|it| it == "rs" || it == "md" || it == "tpl");
    is_kind && !file.starts_with("conformance") && !file.starts_with("xtask")
}

/// Sources besides tests and benches.
fn is_product(file: &Path) -> bool {
    let is_test = |part: &OsStr| part == "tests" || part == "benches" || part == "tests.rs";
    file.extension().is_some_and(|it| it == "rs")
        && (file.starts_with("crates") || file.starts_with("xtask"))
        && !file.iter().any(is_test)
}

/// The first cell of every row of the pages; a row stands in one page only.
fn known(root: &Path) -> Result<BTreeSet<String>> {
    let [spec, differences] = PAGES.map(|page| rows(root, page));
    let mut all: BTreeSet<String> = differences?.into_iter().collect();
    for cell in spec? {
        ensure!(all.insert(cell.clone()), "{}: `{cell}` has a row before", PAGES[0]);
    }
    Ok(all)
}

fn rows(root: &Path, page: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(page)).with_context(|| page.to_owned())?;
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let cells = cells.filter(|cell| *cell != "Id" && !cell.starts_with("---"));
    Ok(cells.map(str::to_owned).collect())
}

/// Gatekeeper's rules are cited with and without their prefix.
fn resolves(known: &BTreeSet<String>, id: &str) -> bool {
    known.contains(id)
        || known.contains(&format!("GK-{id}"))
        || id.strip_prefix("GK-").is_some_and(|id| known.contains(id))
}

/// Ids in a text with the lines they stand in.
fn cited(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_word = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        for word in line.split(|it| !is_word(it)) {
            let Some((group, number)) = word.rsplit_once('-') else { continue };
            let number = number.strip_prefix('A').unwrap_or(number);
            let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
            if is_number && GROUPS.contains(&group) {
                found.push((index + 1, word.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_text() {
        let text =
            "As TC-25 and (Q-15, GK-Q-4) say, EV-A2 too.\nSHA-256, P-384, ID-5 and RM-x are none.";
        let found: Vec<String> = cited(text).into_iter().map(|(_, id)| id).collect();
        assert_eq!(found, ["TC-25", "Q-15", "GK-Q-4", "EV-A2"]);
    }

    #[test]
    fn ids_have_rows() {
        let known: BTreeSet<String> = ["TC-1", "GK-Q-4", "XP-3"].map(str::to_owned).into();
        for (id, expected) in
            [("TC-1", true), ("Q-4", true), ("GK-Q-4", true), ("GK-XP-3", true), ("TC-2", false)]
        {
            assert_eq!(resolves(&known, id), expected, "{id}");
        }
    }
}
