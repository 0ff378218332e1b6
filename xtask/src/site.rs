//! `cargo xtask site`: builds the site: the pages of `docs/`, the examples and the playground.
//!
//! The pages are copied to `target/site-pages` first, with the pages of the project that they link to, a page
//! for each example, and links that open examples in the playground. Then mdBook builds `target/site`, and
//! every link of the result is followed.

mod examples;
mod links;
mod play;
mod stage;

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use modgate_corpus::corpus;

use crate::links as pages;

/// The files of the playground, as `cargo xtask playground` writes them.
const PLAYGROUND: &str = "crates/modgate-ui/dist/playground";
/// The folder of the playground on the site.
const FOLDER: &str = "playground";

/// Options of `cargo xtask site`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program `mdbook`, version 0.5 or later.
    #[arg(long, value_name = "PROGRAM", default_value = "mdbook")]
    mdbook: PathBuf,
    /// Follow the links of the site that was built last; build nothing.
    #[arg(long)]
    links: bool,
}

/// Builds the site. Whether each of its links leads somewhere; those that do not are printed.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let root = corpus::repository();
    let site = root.join("target/site");
    if !args.links {
        let playground = root.join(PLAYGROUND);
        let has_playground = playground.join("modgate.wasm.gz").is_file();
        if !has_playground {
            println!("site: without the playground, which `cargo xtask playground` builds");
        }
        let pages = root.join("target/site-pages");
        let runs = stage::write(&root, &pages, has_playground)?;
        build(&args.mdbook, &pages, &site)?;
        if has_playground {
            unpack(&playground, &site.join(FOLDER))?;
            println!("site: {runs} examples open in the playground");
        }
    }
    let (count, broken) = links::check(&site)?;
    for problem in &broken {
        eprintln!("error: {problem}");
    }
    ensure!(count > 1000, "only {count} links were found in {}", site.display());
    if broken.is_empty() {
        println!("site: {count} links lead somewhere; {}", site.join("index.html").display());
    }
    Ok(broken.is_empty())
}

/// The number of links between the pages that mdBook would read, and those that lead nowhere, in words.
///
/// # Errors
///
/// When a page cannot be written.
pub(crate) fn staged_links(root: &Path) -> Result<(usize, Vec<String>)> {
    let folder = tempfile::tempdir()?;
    stage::write(root, folder.path(), false)?;
    let (mut count, mut broken) = (0, Vec::new());
    let contents = fs::read_to_string(folder.path().join("SUMMARY.md"))?;
    for page in links::files(folder.path())? {
        if page.extension().is_none_or(|it| it != "md") {
            continue;
        }
        // mdBook leaves out pages that the contents do not name.
        if page != Path::new("SUMMARY.md") && !contents.contains(&format!("]({})", page.display()))
        {
            broken.push(format!("{}: docs/SUMMARY.md does not name it", page.display()));
        }
        for (line, link) in pages::links_of(&fs::read_to_string(folder.path().join(&page))?) {
            count += 1;
            if let Some(reason) = pages::broken(folder.path(), &page, &link) {
                broken.push(format!("{}:{line}: `{link}`: {reason}", page.display()));
            }
        }
    }
    Ok((count, broken))
}

fn build(mdbook: &Path, pages: &Path, site: &Path) -> Result<()> {
    let status = Command::new(mdbook)
        .arg("build")
        .arg(pages)
        .arg("--dest-dir")
        .arg(site)
        .status()
        .with_context(|| {
            format!(
                "cannot run {}: `cargo install mdbook --no-default-features --features search`",
                mdbook.display()
            )
        })?;
    ensure!(status.success(), "mdbook failed");
    Ok(())
}

/// Writes the files of the playground as they are read: servers of static files compress on their own.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".gz"))
        else {
            continue;
        };
        let mut text = Vec::new();
        GzDecoder::new(fs::File::open(&path)?).read_to_end(&mut text)?;
        fs::write(to.join(name), text)?;
    }
    Ok(())
}
