//! The chart and the manifest as a release publishes them: with the name and digest of the image.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_corpus::corpus;
use modgate_value::{Value, yaml};

use super::{
    About,
    archive::{Tar, gzip},
    links,
};

/// A packaged chart.
pub(super) struct Chart {
    /// As `helm package` writes one.
    pub(super) package: Vec<u8>,
    /// Chart.yaml.
    pub(super) metadata: Value,
}

/// Texts of the repository that do not hold for a published chart, and what stands there instead. `NAME` is the
/// image, `DIGEST` its digest.
const PUBLISHED: &[(&str, &str, &str)] = &[
    ("values.yaml", "\n  repository: \"\"\n", "\n  repository: NAME\n"),
    ("values.yaml", "\n  digest: \"\"\n", "\n  digest: DIGEST\n"),
    (
        "values.yaml",
        "# Repository of the image you built. Required: no image is published.",
        "# Repository of the image. Required.",
    ),
    (
        "values.schema.json",
        "Repository of the image you built. Required: no image is published.",
        "Repository of the image. Required.",
    ),
    (
        "README.md",
        "No image is published, so\n[build one](../../docs/install.md#the-image) first.",
        "The image is\n`NAME`.",
    ),
    (
        "README.md",
        "| `image.repository` | `\"\"` | Repository of the image you built. Required: no image is published. |",
        "| `image.repository` | `\"NAME\"` | Repository of the image. Required. |",
    ),
    ("README.md", "| `image.digest` | `\"\"` |", "| `image.digest` | `\"DIGEST\"` |"),
    ("README.md", " \\\n  --set image.repository=REGISTRY/modgate\n", "\n"),
    (
        "README.md",
        "helm install modgate deploy/chart ",
        "helm install modgate modgate-VERSION.tgz ",
    ),
];

impl Chart {
    /// Packages `deploy/chart`. With a name for the image, the values have it and this digest.
    pub(super) fn package(about: &About, digest: &str) -> Result<Self> {
        let folder = corpus::repository().join("deploy/chart");
        let ignored = Ignored::read(&fs::read_to_string(folder.join(".helmignore"))?)?;
        let mut files = Vec::new();
        collect(&folder, "", &ignored, &mut files)?;
        files.sort();
        let mut tar = Tar::new(about.time);
        let mut metadata = None;
        for (name, path) in files {
            let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            if name == "Chart.yaml" {
                let value = yaml::value(&text).context("deploy/chart/Chart.yaml")?;
                for field in ["version", "appVersion"] {
                    let found = value.get(field).and_then(Value::as_str).unwrap_or_default();
                    ensure!(
                        found == about.version,
                        "deploy/chart/Chart.yaml: `{field}` is `{found}`, but Cargo.toml has {}; set both",
                        about.version
                    );
                }
            }
            if name == "Chart.yaml" {
                text.push_str(&catalog(about, digest));
                metadata = Some(yaml::value(&text).context("the chart's Chart.yaml")?);
            }
            if let Some(image) = &about.image {
                text = published(&name, text, about, image, digest)?;
            }
            if name.ends_with(".md") {
                text = links(&text, "deploy/chart", about);
            }
            tar.file(&format!("modgate/{name}"), 0o644, text.as_bytes())?;
        }
        let metadata = metadata.context("deploy/chart has no Chart.yaml")?;
        Ok(Self { package: gzip(&tar.finish()?)?, metadata })
    }
}

/// The annotations that catalogs show of a published chart, to be appended to Chart.yaml, which
/// ends in annotations.
fn catalog(about: &About, digest: &str) -> String {
    let mut text = String::new();
    if let Some(image) = &about.image {
        text.push_str(&format!(
            "  artifacthub.io/images: |\n    - name: modgate\n      image: {image}@{digest}\n"
        ));
    }
    if let Some(source) = &about.source {
        text.push_str(&format!("home: {source}\nsources:\n  - {source}\n"));
    }
    text
}

fn published(name: &str, text: String, about: &About, image: &str, digest: &str) -> Result<String> {
    let mut text = text;
    for (file, from, to) in PUBLISHED {
        if *file != name {
            continue;
        }
        ensure!(
            text.matches(from).count() == 1,
            "deploy/chart/{name} does not have `{}` once; change `PUBLISHED` in xtask/src/dist/chart.rs with it",
            from.trim()
        );
        let to = to.replace("NAME", image).replace("DIGEST", digest);
        text = text.replace(from, &to.replace("VERSION", &about.version));
    }
    Ok(text)
}

/// `deploy/modgate.yaml` with the image by name and digest.
pub(super) fn manifest(about: &About, image: &str, digest: &str) -> Result<String> {
    let path = corpus::repository().join("deploy/modgate.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let from = format!("image: modgate:{}\n", about.version);
    ensure!(
        text.matches(&from).count() == 1,
        "deploy/modgate.yaml does not have `{}` once; run `cargo xtask codegen`",
        from.trim()
    );
    Ok(text.replace(&from, &format!("image: {image}@{digest}\n")))
}

fn collect(
    folder: &Path,
    prefix: &str,
    ignored: &Ignored,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if ignored.has(&name, path.is_dir()) {
            continue;
        }
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), ignored, files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}

/// The lines of a `.helmignore`, as far as ours has them: names, `*` at the beginning of a name, folders.
#[derive(Debug)]
struct Ignored(Vec<String>);

impl Ignored {
    fn read(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        for line in &lines {
            let name = line.strip_prefix('*').unwrap_or(line);
            let name = name.strip_suffix('/').unwrap_or(name);
            if name.contains(['/', '*', '?', '[', '!']) {
                bail!(
                    "deploy/chart/.helmignore: `{line}` is a pattern that `cargo xtask dist` does not know"
                );
            }
        }
        Ok(Self(lines))
    }

    fn has(&self, name: &str, is_folder: bool) -> bool {
        self.0.iter().any(|line| {
            let pattern = line.strip_suffix('/');
            if pattern.is_some() && !is_folder {
                return false;
            }
            let pattern = pattern.unwrap_or(line);
            match pattern.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => name == pattern,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files() {
        let ignored = Ignored::read("# why\n.DS_Store\n*.orig\n*~\nci/\n").expect("lines");
        for (name, is_folder, expected) in [
            (".DS_Store", false, true),
            ("a.orig", false, true),
            ("a~", false, true),
            ("ci", true, true),
            ("ci", false, false),
            ("values.yaml", false, false),
        ] {
            assert_eq!(ignored.has(name, is_folder), expected, "{name}");
        }
        assert!(Ignored::read("a/*.b\n").is_err());
    }
}
