//! The licenses of what ships, with their texts as the crates' own archives have them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};

use super::{Package, Supply, license};

/// How the names of files with licenses and notices begin.
const NAMES: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];
/// A longer file is no license.
const MAX_BYTES: u64 = 256 << 10;

impl Supply {
    /// Every crate of others with its license; then each text once, with the crates that have it.
    pub(super) fn notices(&self) -> Result<String> {
        let mut packages: Vec<&Package> =
            self.packages.values().filter(|it| it.source.is_some()).collect();
        packages.sort_unstable_by_key(|it| (&it.name, &it.version));
        let mut list = String::from(
            "Crates of others in modgate, with their licenses. Their texts follow.\n\n",
        );
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in packages {
            let Package { name, version, license, folder, .. } = package;
            let expression = license.as_deref().map(license::spdx).unwrap_or_default();
            let found = found(folder).with_context(|| format!("the folder of `{name}`"))?;
            let without = if found.is_empty() { ", without a text of its own" } else { "" };
            list.push_str(&format!("{name} {version}: {expression}{without}\n"));
            for text in found {
                texts.entry(text).or_default().insert(format!("{name} {version}"));
            }
        }
        let mut sorted: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
        sorted.sort_unstable();
        for (names, text) in sorted {
            let names: Vec<String> = names.into_iter().collect();
            list.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", ")));
        }
        Ok(list)
    }
}

/// The texts of the files with licenses in a crate's folder.
fn found(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let about = entry.metadata()?;
        if NAMES.iter().any(|it| name.starts_with(it))
            && about.is_file()
            && about.len() <= MAX_BYTES
        {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.insert(text.trim().to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_there_once_with_all_its_crates() {
        let folder = tempfile::tempdir().expect("a folder");
        let package = |name: &str, files: &[(&str, &str)]| {
            let folder = folder.path().join(name);
            fs::create_dir(&folder).expect("made");
            for (file, text) in files {
                fs::write(folder.join(file), text).expect("written");
            }
            let source = Some("registry".to_owned());
            let (name, version) = (name.to_owned(), "1.0.0".to_owned());
            let license = Some("MIT/Apache-2.0".to_owned());
            (name.clone(), Package { name, version, license, source, folder, ..Package::default() })
        };
        let ours = Package { name: "ours".to_owned(), ..Package::default() };
        let supply = Supply {
            packages: [
                package("b", &[("LICENSE-MIT", "You may.\r\n"), ("lib.rs", "code")]),
                package("a", &[("license.txt", "You may."), ("NOTICE", "By us.")]),
                package("c", &[]),
                ("ours".to_owned(), ours),
            ]
            .into(),
            root: "ours".to_owned(),
        };
        let text = supply.notices().expect("notices");
        let (list, texts) = text.split_once("\n\n==").expect("texts");
        assert!(
            list.ends_with(
                "\n\na 1.0.0: MIT OR Apache-2.0\nb 1.0.0: MIT OR Apache-2.0\n\
             c 1.0.0: MIT OR Apache-2.0, without a text of its own"
            ),
            "{list}"
        );
        assert_eq!(texts.matches("You may.").count(), 1, "{texts}");
        assert!(texts.contains("=\na 1.0.0\n\nBy us.\n"), "{texts}");
        assert!(texts.contains("=\na 1.0.0, b 1.0.0\n\nYou may.\n"), "{texts}");
        assert!(!text.contains("ours") && !text.contains("code"), "{text}");
    }
}
