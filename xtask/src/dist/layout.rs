//! Images and other artefacts as OCI image layouts in a tar file, made without a container engine.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use modgate_value::{Object, Value};

use super::{
    About,
    archive::{Tar, gzip, timestamp},
    program::Program,
    sha256,
};
use crate::supply::object;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Names of the originals' programs, for manifests that call them.
pub(super) const LINKS: [&str; 3] = ["gator", "kubemod", "manager"];

/// Where the program looks for certificate authorities.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// A layout: a tar file, and the digest of what its only tag names.
pub(super) struct Layout {
    pub(super) tar: Vec<u8>,
    /// As `sha256:...`.
    pub(super) digest: String,
}

/// Blobs by the digits of their digest.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Keeps a blob; its descriptor, with further members.
    fn add(
        &mut self,
        media_type: &str,
        bytes: Vec<u8>,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<Value> {
        let digits = sha256(&bytes);
        let size = i64::try_from(bytes.len())?;
        let digest = format!("sha256:{digits}");
        let members = [
            ("mediaType", media_type.into()),
            ("digest", digest.as_str().into()),
            ("size", size.into()),
        ];
        self.0.insert(digits, bytes);
        Ok(members.into_iter().chain(more).collect::<Object>().into())
    }

    fn json(
        &mut self,
        media_type: &str,
        value: &Value,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<Value> {
        self.add(media_type, value.to_json().into_bytes(), more)
    }

    /// The layout whose tag names what the descriptor is of.
    fn layout(self, about: &About, named: Value) -> Result<Layout> {
        let digest = named.get("digest").and_then(Value::as_str);
        let digest = digest.context("a descriptor has a digest")?.to_owned();
        let index = object([
            ("schemaVersion", 2.into()),
            ("mediaType", INDEX.into()),
            ("manifests", [named].into_iter().collect()),
        ]);
        let mut tar = Tar::new(about.time);
        tar.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        tar.file("index.json", 0o644, index.to_json().as_bytes())?;
        tar.folder("blobs")?;
        tar.folder("blobs/sha256")?;
        for (digits, bytes) in &self.0 {
            tar.file(&format!("blobs/sha256/{digits}"), 0o644, bytes)?;
        }
        Ok(Layout { tar: tar.finish()?, digest })
    }
}

/// The members of an image that its recipe gives.
#[derive(Debug, PartialEq, Eq)]
struct Recipe {
    user: String,
    environment: Vec<String>,
    ports: Vec<String>,
    entrypoint: Value,
    arguments: Value,
}

impl Recipe {
    /// Reads the settings of the last stage of a Containerfile, so that images of both kinds are
    /// alike.
    fn read(text: &str) -> Result<Self> {
        let (_, stage) = text
            .rsplit_once("\nFROM scratch\n")
            .context("deploy/Containerfile does not end in a stage `FROM scratch`")?;
        let line = |word: &str| {
            let mut lines = stage.lines();
            lines
                .find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
                .with_context(|| format!("deploy/Containerfile has no `{word}` in its last stage"))
        };
        let words = |word: &str| -> Result<Vec<String>> {
            Ok(line(word)?.split_whitespace().map(str::to_owned).collect())
        };
        let list = |word: &str| {
            Value::from_json(line(word)?.as_bytes())
                .with_context(|| format!("deploy/Containerfile: `{word}` is no list in JSON"))
        };
        Ok(Self {
            user: line("USER")?.to_owned(),
            environment: words("ENV")?,
            ports: words("EXPOSE")?,
            entrypoint: list("ENTRYPOINT")?,
            arguments: list("CMD")?,
        })
    }

    fn config(&self, about: &About) -> Value {
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let ports = self.ports.iter().map(|port| (format!("{port}/tcp"), Object::default().into()));
        object([
            ("User", self.user.as_str().into()),
            ("ExposedPorts", ports.collect()),
            (
                "Env",
                [path].iter().chain(&self.environment).map(|it| Value::from(it.as_str())).collect(),
            ),
            ("Entrypoint", self.entrypoint.clone()),
            ("Cmd", self.arguments.clone()),
            ("WorkingDir", "/".into()),
            ("Labels", annotations(about)),
        ])
    }
}

/// The annotations that tools show of an image.
fn annotations(about: &About) -> Value {
    let mut members = vec![
        ("org.opencontainers.image.title", "modgate".to_owned()),
        ("org.opencontainers.image.description", about.description.clone()),
        ("org.opencontainers.image.licenses", "Apache-2.0".to_owned()),
        ("org.opencontainers.image.version", about.version.clone()),
        ("org.opencontainers.image.created", timestamp(about.time)),
    ];
    if let Some(commit) = about.commit.as_ref().filter(|_| about.is_built && !about.is_dirty) {
        members.push(("org.opencontainers.image.revision", commit.clone()));
    }
    if let Some(source) = &about.source {
        members.push(("org.opencontainers.image.source", source.clone()));
    }
    members.into_iter().map(|(name, text)| (name, Value::from(text))).collect::<Object>().into()
}

/// The image, one manifest for each program.
pub(super) fn image(
    about: &About,
    programs: &[Program],
    recipe: &str,
    authorities: &[u8],
) -> Result<Layout> {
    let recipe = Recipe::read(recipe)?;
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for program in programs {
        let layer = layer(about, program, authorities)?;
        let config = object([
            ("created", timestamp(about.time).as_str().into()),
            ("architecture", program.arch.name().into()),
            ("os", "linux".into()),
            ("config", recipe.config(about)),
            (
                "rootfs",
                object([
                    ("type", "layers".into()),
                    (
                        "diff_ids",
                        [Value::from(format!("sha256:{}", sha256(&layer)))].into_iter().collect(),
                    ),
                ]),
            ),
            (
                "history",
                [object([
                    ("created", timestamp(about.time).as_str().into()),
                    ("created_by", "cargo xtask dist".into()),
                ])]
                .into_iter()
                .collect(),
            ),
        ]);
        let config = blobs.json(CONFIG, &config, [])?;
        let layer = blobs.add(LAYER, gzip(&layer)?, [])?;
        let manifest = object([
            ("schemaVersion", 2.into()),
            ("mediaType", MANIFEST.into()),
            ("config", config),
            ("layers", [layer].into_iter().collect()),
            ("annotations", annotations(about)),
        ]);
        let mut platform =
            vec![("architecture", program.arch.name().into()), ("os", "linux".into())];
        if program.arch.name() == "arm64" {
            platform.push(("variant", "v8".into()));
        }
        let platform: Value = platform.into_iter().collect::<Object>().into();
        manifests.push(blobs.json(MANIFEST, &manifest, [("platform", platform)])?);
    }
    let index = object([
        ("schemaVersion", 2.into()),
        ("mediaType", INDEX.into()),
        ("manifests", manifests.into_iter().collect()),
        ("annotations", annotations(about)),
    ]);
    let named = blobs.json(INDEX, &index, [("annotations", tag(about))])?;
    blobs.layout(about, named)
}

/// The tag, and for containerd the whole name.
fn tag(about: &About) -> Value {
    let tag = about.version.replace('+', "_");
    let mut members = vec![("org.opencontainers.image.ref.name", Value::from(tag.as_str()))];
    if let Some(image) = &about.image {
        members.push(("io.containerd.image.name", format!("{image}:{tag}").into()));
    }
    members.into_iter().collect::<Object>().into()
}

/// All that the image has, in one layer.
fn layer(about: &About, program: &Program, authorities: &[u8]) -> Result<Vec<u8>> {
    let mut tar = Tar::new(about.time);
    for folder in ["etc", "etc/ssl", "etc/ssl/certs"] {
        tar.folder(folder)?;
    }
    tar.file(AUTHORITIES, 0o644, authorities)?;
    tar.file("modgate", 0o755, &program.bytes)?;
    for link in LINKS {
        tar.link(link, "modgate")?;
    }
    tar.finish()
}

/// A chart, as `helm push` puts one into a registry.
pub(super) fn chart(about: &About, metadata: &Value, package: &[u8]) -> Result<Layout> {
    let mut blobs = Blobs::default();
    let config = blobs.json(CHART_CONFIG, metadata, [])?;
    let layer = blobs.add(CHART, package.to_vec(), [])?;
    let manifest = object([
        ("schemaVersion", 2.into()),
        ("mediaType", MANIFEST.into()),
        ("config", config),
        ("layers", [layer].into_iter().collect()),
        ("annotations", annotations(about)),
    ]);
    let tag = about.version.replace('+', "_");
    let tag = object([("org.opencontainers.image.ref.name", tag.as_str().into())]);
    let named = blobs.json(MANIFEST, &manifest, [("annotations", tag)])?;
    blobs.layout(about, named)
}

#[cfg(test)]
mod tests {
    use modgate_corpus::corpus;

    use super::*;

    #[test]
    fn the_recipe_of_the_image_is_read() {
        let path = corpus::repository().join("deploy/Containerfile");
        let text = std::fs::read_to_string(path).expect("a Containerfile");
        let recipe = Recipe::read(&text).expect("a recipe");
        assert_eq!(recipe.user, "65532:65532");
        assert_eq!(recipe.entrypoint.to_json(), r#"["/modgate"]"#);
        assert_eq!(recipe.arguments.to_json(), r#"["serve"]"#);
        // What else it copies and links.
        assert!(text.contains(&format!("for name in {}; do", LINKS.join(" "))));
        assert!(text.contains(&format!("/{AUTHORITIES} /etc/ssl/certs/")));
        let stage = text.rsplit_once("\nFROM scratch\n").expect("a stage").1;
        let words = ["COPY", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD", "#", ""];
        for line in stage.lines() {
            let word = line.split(' ').next().unwrap_or_default();
            assert!(words.contains(&word), "an image of dist lacks `{line}`");
        }
        assert_eq!(stage.matches("COPY ").count(), 2);
    }

    #[test]
    fn recipes_that_lack_something() {
        let whole = "FROM a\nFROM scratch\nENV A=1 B=2\nUSER 1:1\nEXPOSE 1 2\nENTRYPOINT [\"/m\"]\nCMD []\n";
        let recipe = Recipe::read(whole).expect("a recipe");
        assert_eq!((recipe.environment.len(), recipe.ports.len()), (2, 2));
        for word in ["ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"] {
            let part: Vec<&str> = whole.lines().filter(|it| !it.starts_with(word)).collect();
            let error = Recipe::read(&part.join("\n")).expect_err(word).to_string();
            assert!(error.contains(&format!("no `{word}`")), "{error}");
        }
        assert!(Recipe::read("FROM a\n").is_err());
        assert!(Recipe::read(&whole.replace("[]", "serve")).is_err());
    }
}
