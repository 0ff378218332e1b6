//! `cargo xtask dist`: everything that a release publishes, the same bytes for the same commit.
//!
//! Only compiling takes long. All after it reads the programs as they are, so `--binary` can give programs that
//! were built elsewhere. Nothing here needs a container engine or Helm.

mod archive;
mod chart;
mod krew;
mod layout;
mod notes;
mod program;
mod provenance;
mod signature;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_corpus::corpus;
use modgate_value::{Value, json, yaml};
use ring::digest;

use self::{
    archive::{Tar, gzip},
    chart::Chart,
    program::{Arch, Papers, Program},
    provenance::Inputs,
    signature::Key,
};
use crate::supply;

/// Options of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A target to build for; can be given several times. Default: the musl targets of x86_64 and aarch64.
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    /// A built program instead of a build, as amd64=FILE or arm64=FILE; can be given several times.
    #[arg(long = "binary", value_name = "ARCH=FILE", conflicts_with = "targets")]
    binaries: Vec<String>,
    /// Counts of `cargo xtask train` that the compiler optimises a program by, as amd64=FILE or arm64=FILE; can be given
    /// several times.
    #[arg(long, value_name = "ARCH=FILE", conflicts_with = "binaries")]
    counts: Vec<String>,
    /// The program that prints completions and manual pages. Default: the one of the release that runs here.
    #[arg(long, value_name = "FILE")]
    documented_by: Option<PathBuf>,
    /// The folder to write to; it must be empty or absent. Default: target/modgate-VERSION.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The address under which the files will be published. Without it there is no plugin manifest.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The name under which the image will be published, without a tag. Without it the chart requires
    /// `image.repository`, and there is no manifest for kubectl.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// The address of the repository, for links of the notes and labels of the image.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// A private key in PEM (PKCS #8): Ed25519 or ECDSA on P-256. Without it nothing is signed.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The certificate authorities that the image trusts.
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    ca_certificates: PathBuf,
    /// The builder of the release, as a URI, for the provenance statement.
    #[arg(long, value_name = "URI", default_value = "urn:modgate:unnamed-builder")]
    builder: String,
    /// Make a release of a tree with changes that are not committed; the provenance says so.
    #[arg(long)]
    allow_dirty: bool,
}

/// The facts about a release that all its parts contain.
#[derive(Debug)]
struct About {
    version: String,
    /// The chart's description.
    description: String,
    /// The time of the commit, in seconds since 1970; `SOURCE_DATE_EPOCH` wins.
    time: u64,
    commit: Option<String>,
    is_dirty: bool,
    /// Whether the programs are made from this commit, rather than given.
    is_built: bool,
    source: Option<String>,
    image: Option<String>,
}

impl About {
    fn read(args: &Args) -> Result<Self> {
        let chart = fs::read_to_string(corpus::repository().join("deploy/chart/Chart.yaml"))?;
        let chart = yaml::value(&chart).context("deploy/chart/Chart.yaml")?;
        let description = chart.get("description").and_then(Value::as_str).unwrap_or_default();
        let commit = git(&["rev-parse", "HEAD"]);
        let is_dirty = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
        ensure!(
            args.allow_dirty || !is_dirty,
            "the tree has changes that are not committed, or is no checkout of Git, so no commit names what \
             is built; commit them, or give `--allow-dirty`"
        );
        let time = match env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => Some(text.parse().with_context(|| {
                format!("SOURCE_DATE_EPOCH is `{text}`, not a number of seconds since 1970")
            })?),
            Err(_) => git(&["log", "-1", "--format=%ct"]).and_then(|text| text.parse().ok()),
        };
        let time = time.context("set SOURCE_DATE_EPOCH: there is no commit to take a time from")?;
        if let Some(image) = &args.image {
            let last = image.rsplit('/').next().unwrap_or_default();
            ensure!(
                !last.is_empty() && !image.contains('@') && !last.contains(':'),
                "`--image {image}`: give the name without a tag and a digest"
            );
        }
        let source = args.source.as_ref().map(|it| it.trim_end_matches('/').to_owned());
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: description.to_owned(),
            time,
            commit,
            is_dirty,
            is_built: args.binaries.is_empty(),
            source,
            image: args.image.clone(),
        })
    }
}

/// The output of a command of Git in the repository; `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).current_dir(corpus::repository()).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}

/// Builds the programs and writes everything that is made of them; whether all crates keep to deny.toml.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let about = About::read(args)?;
    // What can be wrong is found before the build, which takes long.
    let key = args.key.as_deref().map(Key::read).transpose()?;
    let authorities = authorities(&args.ca_certificates)?;
    let out = folder(args, &about)?;
    let Some(programs) = programs(args)? else { return Ok(false) };
    let papers = Papers::of(args.documented_by.as_deref(), &programs)?;

    let mut release = Release { files: BTreeMap::new(), about: &about };
    let mut archives = Vec::new();
    let notices = supply::notices()?;
    let mut missing = Vec::new();
    for program in &programs {
        missing.extend(release.add_counts(program)?);
        let name = format!("modgate-{}-linux-{}.tar.gz", about.version, program.arch.name());
        let bytes = archive(&about, program, &papers, &notices)?;
        archives.push((program.arch, name.clone(), sha256(&bytes)));
        release.add(&name, bytes);
    }
    let recipe = read("deploy/Containerfile")?;
    let image = layout::image(&about, &programs, &recipe, &authorities)?;
    release.add(&release.named("-image.oci.tar"), image.tar);
    let chart = Chart::package(&about, &image.digest)?;
    let chart_layout = layout::chart(&about, &chart.metadata, &chart.package)?;
    release.add(&release.named(".tgz"), chart.package);
    release.add(&release.named("-chart.oci.tar"), chart_layout.tar);
    match &about.image {
        Some(name) => {
            let manifest = chart::manifest(&about, name, &image.digest)?;
            release.add(&release.named(".yaml"), manifest.into_bytes());
        }
        None => missing.push("no manifest for kubectl: give `--image NAME`".to_owned()),
    }
    match &args.base_url {
        Some(base) => {
            let template = read("deploy/krew/modgate.yaml")?;
            let manifest = krew::manifest(&about, &template, base, &archives)?;
            release.add("modgate-krew.yaml", manifest.into_bytes());
        }
        None => missing.push("no plugin manifest: give `--base-url URL`".to_owned()),
    }
    let is_allowed = bill(&mut release)?;

    let images = [
        (about.image.clone().unwrap_or_else(|| "image".to_owned()), image.digest),
        ("chart".to_owned(), chart_layout.digest),
    ];
    let command = key.as_ref().map(|key| key.verification("SHA256SUMS"));
    let changelog = read("CHANGELOG.md")?;
    let (notes, is_own) = notes::notes(&about, &changelog, &images, command.as_deref())?;
    if !is_own {
        missing.push(
            "the notes are those of [Unreleased]: CHANGELOG.md has no section of this version"
                .to_owned(),
        );
    }
    release.add("RELEASE_NOTES.md", notes.into_bytes());
    let lock = read("Cargo.lock")?;
    let inputs = Inputs {
        programs: &programs,
        lock: lock.as_bytes(),
        authorities: &authorities,
        compiler: compiler()?,
        builder: &args.builder,
        base_url: args.base_url.as_deref(),
    };
    release.state(&images, &inputs, key.as_ref())?;
    release.sum_up(key.as_ref())?;
    if key.is_none() {
        missing.push("not signed: give `--key FILE`".to_owned());
    }
    for (name, bytes) in &release.files {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    for (name, digest) in &images {
        println!("{name}: {digest}");
    }
    for note in missing {
        println!("note: {note}");
    }
    Ok(is_allowed)
}

/// The files of a release, by name.
struct Release<'r> {
    files: BTreeMap<String, Vec<u8>>,
    about: &'r About,
}

impl Release<'_> {
    /// The name of a file that names the version.
    fn named(&self, end: &str) -> String {
        format!("modgate-{}{end}", self.about.version)
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(name.to_owned(), bytes);
    }

    /// Adds the counts that a program is optimised by, for those who build the same bytes again. If there are none, it
    /// returns a note that says so.
    fn add_counts(&mut self, program: &Program) -> Result<Option<String>> {
        let arch = program.arch.name();
        match &program.counts {
            Some(counts) => {
                let name = self.named(&format!("-linux-{arch}.profdata.gz"));
                self.add(&name, gzip(counts)?);
                Ok(None)
            }
            None if program.is_given => Ok(None),
            None => Ok(Some(format!(
                "the program for {arch} is slower and larger than it could be: give `--counts {arch}=FILE` of `cargo xtask train`"
            ))),
        }
    }

    /// Adds the provenance of all that is there; with a key also as a signed envelope.
    fn state(
        &mut self,
        images: &[(String, String)],
        inputs: &Inputs<'_>,
        key: Option<&Key>,
    ) -> Result<()> {
        let mut subjects: Vec<(String, String)> =
            self.files.iter().map(|(name, bytes)| (name.clone(), sha256(bytes))).collect();
        subjects.extend(images.iter().map(|(name, digest)| {
            (name.clone(), digest.strip_prefix("sha256:").unwrap_or(digest).to_owned())
        }));
        let statement = provenance::statement(self.about, &subjects, inputs);
        if let Some(key) = key {
            let envelope = key.envelope(statement.to_json().as_bytes())?;
            self.add(&self.named(".intoto.jsonl"), format!("{}\n", envelope.to_json()).into());
        }
        self.add(&self.named(".provenance.json"), pretty(&statement));
        Ok(())
    }

    /// Adds the digests of all files, and signatures.
    fn sum_up(&mut self, key: Option<&Key>) -> Result<()> {
        if let Some(key) = key {
            self.add("modgate.pub", key.public_pem().into_bytes());
        }
        let lines = self.files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
        let sums: String = lines.collect();
        self.add("SHA256SUMS", sums.into_bytes());
        let Some(key) = key else { return Ok(()) };
        let mut signatures = Vec::new();
        for (name, bytes) in self.files.iter().filter(|(name, _)| *name != "modgate.pub") {
            signatures.push((format!("{name}.sig"), key.sign(bytes)?));
        }
        self.files.extend(signatures);
        Ok(())
    }
}

/// The folder to write to, made if it is not there.
fn folder(args: &Args, about: &About) -> Result<PathBuf> {
    let default = || corpus::repository().join(format!("target/modgate-{}", about.version));
    let out = args.out.clone().unwrap_or_else(default);
    fs::create_dir_all(&out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let is_empty = fs::read_dir(&out).with_context(|| out.display().to_string())?.next().is_none();
    ensure!(
        is_empty,
        "`{}` is not empty, and files of another release would be taken for this one's; delete it, or name \
         another folder with `--out`",
        out.display()
    );
    Ok(out)
}

/// All programs, in a fixed order; `None` if one could not be built.
fn programs(args: &Args) -> Result<Option<Vec<Program>>> {
    let mut programs: Vec<Program> =
        args.binaries.iter().map(|it| Program::given(it)).collect::<Result<_>>()?;
    if programs.is_empty() {
        let mut wanted = Vec::new();
        for target in &args.targets {
            let Some(arch) = Arch::of_target(target) else {
                let known: Vec<&str> = Arch::ALL.iter().map(|arch| arch.target()).collect();
                bail!("`--target {target}`: a release has programs for {}", known.join(" and "));
            };
            wanted.push(arch);
        }
        if wanted.is_empty() {
            wanted = Arch::ALL.to_vec();
        }
        let mut counts = counts(args)?;
        if let Some(arch) = counts.keys().find(|arch| !wanted.contains(arch)) {
            bail!("`--counts {}=…`: no program for it is built", arch.name());
        }
        for arch in wanted {
            let Some(program) = Program::build(arch, counts.remove(&arch))? else {
                return Ok(None);
            };
            programs.push(program);
        }
    }
    programs.sort_by_key(|program| program.arch);
    let twice = programs.windows(2).any(|pair| matches!(pair, [a, b] if a.arch == b.arch));
    ensure!(!twice, "a processor is named twice; a release has one program for each");
    Ok(Some(programs))
}

/// The files of counts, each with the processor that its program is for.
fn counts(args: &Args) -> Result<BTreeMap<Arch, PathBuf>> {
    let mut all = BTreeMap::new();
    for text in &args.counts {
        let (arch, path) = Arch::of_pair(text).with_context(|| {
            format!("`--counts {text}`: write amd64=FILE or arm64=FILE, the file one of `cargo xtask train`")
        })?;
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        ensure!(all.insert(arch, path).is_none(), "`--counts` names {} twice", arch.name());
    }
    Ok(all)
}

fn authorities(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| {
        format!(
            "cannot read certificate authorities from `{}`; name a bundle in PEM with `--ca-certificates`",
            path.display()
        )
    })?;
    let text = String::from_utf8_lossy(&bytes);
    ensure!(
        text.contains("-----BEGIN CERTIFICATE-----") && !text.contains("PRIVATE KEY"),
        "`{}` is no bundle of certificates in PEM",
        path.display()
    );
    Ok(bytes)
}

/// The archive that people download for one processor.
fn archive(about: &About, program: &Program, papers: &Papers, notices: &str) -> Result<Vec<u8>> {
    let mut tar = Tar::new(about.time);
    tar.file("modgate", 0o755, &program.bytes)?;
    tar.file("LICENSE", 0o644, read("LICENSE")?.as_bytes())?;
    tar.file("THIRD-PARTY.txt", 0o644, notices.as_bytes())?;
    tar.folder("completions")?;
    for (name, text) in &papers.completions {
        tar.file(&format!("completions/{name}"), 0o644, text)?;
    }
    tar.folder("man")?;
    tar.folder("man/man1")?;
    for (name, text) in &papers.pages {
        tar.file(&format!("man/man1/{name}"), 0o644, text)?;
    }
    gzip(&tar.finish()?)
}

/// Adds the bill of materials; whether everything in it may come in.
fn bill(release: &mut Release<'_>) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bill");
    let is_allowed = supply::write_bill(&path)?;
    release.add(&release.named(".cdx.json"), fs::read(&path)?);
    Ok(is_allowed)
}

/// A text of the repository.
fn read(path: &str) -> Result<String> {
    fs::read_to_string(corpus::repository().join(path)).with_context(|| path.to_owned())
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc")
        .arg("--version")
        .current_dir(corpus::repository())
        .output()
        .context("cannot run rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = String::new();
    json::write_pretty(value, &mut text, "  ", json::Escape::Minimal);
    text.push('\n');
    text.into_bytes()
}

/// SHA-256 in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A Markdown text whose relative links, seen from a folder of the repository, lead to the repository; without an
/// address of it they become plain text.
fn links(text: &str, folder: &str, about: &About) -> String {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        rest = after;
        let is_relative = !target.contains("://") && !target.starts_with('#');
        match (&about.source, before.rsplit_once('[')) {
            (Some(source), _) if is_relative => {
                let path = resolve(folder, target);
                all.push_str(&format!("{before}]({source}/blob/v{}/{path})", about.version));
            }
            (None, Some((start, label))) if is_relative => {
                all.push_str(start);
                all.push_str(label);
            }
            _ => all.push_str(&format!("{before}]({target})")),
        }
    }
    all.push_str(rest);
    all
}

/// A relative path, seen from the root.
fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_from_the_root() {
        for (folder, path, expected) in [
            ("deploy/chart", "../../docs/install.md#the-image", "docs/install.md#the-image"),
            ("", "docs/a.md", "docs/a.md"),
            ("docs", "./b.md", "docs/b.md"),
        ] {
            assert_eq!(resolve(folder, path), expected);
        }
    }
}
