//! The notes of a release, cut from the changelog.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{About, links};

/// The notes, and whether the changelog has a section of this version; otherwise they are those of `[Unreleased]`.
pub(super) fn notes(
    about: &About,
    changelog: &str,
    images: &[(String, String)],
    verification: Option<&str>,
) -> Result<(String, bool)> {
    let own = section(changelog, &about.version);
    let text = own.or_else(|| section(changelog, "Unreleased"));
    let text = text.with_context(|| {
        format!("CHANGELOG.md has neither a section `## [{}]` nor `## [Unreleased]`", about.version)
    })?;
    let mut all = format!("# modgate {}\n\n{}\n", about.version, links(text.trim(), "", about));
    all.push_str("\n## Digests\n\n| Artefact | Digest |\n| --- | --- |\n");
    for (name, digest) in images {
        writeln!(all, "| {name} | `{digest}` |")?;
    }
    all.push_str("\n`sha256sum -c SHA256SUMS` compares the files with their digests.");
    if let Some(command) = verification {
        write!(all, " Verify who made the list:\n\n```sh\n{command}\n```")?;
    }
    all.push('\n');
    Ok((all, own.is_some()))
}

/// The text below the heading of a version.
fn section<'c>(changelog: &'c str, version: &str) -> Option<&'c str> {
    let heading = format!("\n## [{version}]");
    let (_, rest) = changelog.split_once(&heading)?;
    let (_, rest) = rest.split_once('\n')?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n\
        - two ([page](docs/two.md#part), [site](https://example.com/x))\n\n## [0.1.0]\n\n- one\n";

    fn about(version: &str, source: Option<&str>) -> About {
        About {
            version: version.to_owned(),
            description: String::new(),
            time: 0,
            commit: None,
            is_dirty: false,
            is_built: true,
            source: source.map(str::to_owned),
            image: None,
        }
    }

    #[test]
    fn the_section_of_the_version() {
        let notes =
            |version, source| notes(&about(version, source), CHANGELOG, &[], None).expect("notes");
        let (text, is_own) = notes("0.2.0", Some("https://example.com/modgate"));
        assert!(is_own);
        let link = "[page](https://example.com/modgate/blob/v0.2.0/docs/two.md#part)";
        assert!(text.contains(&format!("- two ({link}, [site](https://example.com/x))")), "{text}");
        assert!(!text.contains("one") && !text.contains("new"), "{text}");
        // Without an address for the source no link leads nowhere.
        let (text, _) = notes("0.2.0", None);
        assert!(text.contains("- two (page, [site](https://example.com/x))"), "{text}");
        let (text, is_own) = notes("0.3.0", None);
        assert!(!is_own && text.contains("- new") && !text.contains("two"), "{text}");
        assert!(super::notes(&about("0.3.0", None), "# Changelog\n", &[], None).is_err());
    }
}
