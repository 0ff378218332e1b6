//! `cargo xtask supply`: what comes in through dependencies.
//!
//! Holds everything that is linked into what ships, or runs while it is built, to `deny.toml`:
//! licenses, sources, banned crates and wildcards. Sources and checksums are those of all of `Cargo.lock`, so
//! also of what only tests need. It reads `cargo metadata` and `Cargo.lock` and
//! installs nothing; images of the Containerfile must have a digest.
//! `cargo deny check`, where it is installed, finds the same and advisories, too.
//! With `--sbom` it writes a bill of materials, the same bytes for the same lock file.

mod image;
mod license;
mod notices;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use modgate_corpus::{corpus, program};
use modgate_value::{Object, Value, json};

/// Options of `cargo xtask supply`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only check; the default without `--sbom`, accepted so that every check reads alike.
    #[arg(long)]
    check: bool,
    /// Write a CycloneDX bill of materials to this file.
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
}

/// The package that ships.
const PROGRAM: &str = "modgate";

/// The package that ships for a target: the program, and the playground's module that it contains.
fn shipped(target: &str) -> &'static str {
    if target.starts_with("wasm32") { "modgate-playground-wasm" } else { PROGRAM }
}

/// Where crates may come from.
const SOURCES: &[&str] =
    &["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// Whether everything that comes in may.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let _ = args.check;
    hold(args.sbom.as_deref())
}

/// The licenses of what ships, with their texts.
pub(crate) fn notices() -> Result<String> {
    let rules = Rules::parse(&fs::read_to_string(corpus::repository().join("deny.toml"))?)?;
    let lock = fs::read_to_string(corpus::repository().join("Cargo.lock"))?;
    Supply::read(&rules.targets, &lock)?.notices()
}

/// Writes the bill of materials; whether everything in it may come in.
pub(crate) fn write_bill(path: &Path) -> Result<bool> {
    hold(Some(path))
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
fn hold(bill: Option<&Path>) -> Result<bool> {
    let rules = Rules::parse(&fs::read_to_string(corpus::repository().join("deny.toml"))?)?;
    let lock = fs::read_to_string(corpus::repository().join("Cargo.lock"))?;
    let supply = Supply::read(&rules.targets, &lock)?;
    let recipe = fs::read_to_string(corpus::repository().join("deploy/Containerfile"))?;
    let mut findings = supply.findings(&rules);
    findings.extend(locked(&lock).iter().flat_map(Locked::findings));
    findings.extend(image::findings(&recipe));
    findings.sort_unstable();
    findings.dedup();
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    if findings.is_empty() {
        println!(
            "supply: {} crates for {} keep to deny.toml; advisories are for `cargo deny`",
            supply.packages.len(),
            rules.targets.join(" and ")
        );
    }
    if let Some(path) = bill {
        let bill = supply.bill()?;
        let faults = faults(&bill);
        ensure!(faults.is_empty(), "the bill of materials is not valid: {}", faults.join("; "));
        let mut text = String::new();
        json::write_pretty(&bill, &mut text, "  ", json::Escape::Minimal);
        text.push('\n');
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(findings.is_empty())
}

/// The rules of `deny.toml`.
#[derive(Debug)]
struct Rules {
    targets: Vec<String>,
    licenses: BTreeSet<String>,
    banned: BTreeSet<String>,
}

impl Rules {
    fn parse(text: &str) -> Result<Self> {
        let lines: Vec<&str> =
            text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
        let text = lines.join("\n");
        let list = |section: &str, key: &str| -> Result<Vec<String>> {
            let missing = || format!("deny.toml has no `{key}` in [{section}]");
            let (_, rest) = text.split_once(&format!("[{section}]\n")).with_context(missing)?;
            let rest = rest.split("\n[").next().unwrap_or(rest);
            let (_, rest) = rest.split_once(&format!("{key} = [")).with_context(missing)?;
            let inside = rest.split(']').next().unwrap_or(rest);
            Ok(inside.split('"').skip(1).step_by(2).map(str::to_owned).collect())
        };
        Ok(Self {
            targets: list("graph", "targets")?,
            licenses: list("licenses", "allow")?.into_iter().collect(),
            banned: list("bans", "deny")?.into_iter().collect(),
        })
    }
}

/// A crate that is linked in or runs while building.
#[derive(Debug, Default, Clone)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Where its files are.
    folder: PathBuf,
    /// `None` for ours.
    source: Option<String>,
    /// SHA-256 of what was downloaded.
    checksum: Option<String>,
    /// Numbers of what it depends on.
    dependencies: BTreeSet<String>,
    /// Dependencies of ours on any version.
    wildcards: Vec<String>,
}

/// All of them, by cargo's id.
#[derive(Debug, Default)]
struct Supply {
    packages: BTreeMap<String, Package>,
    root: String,
}

impl Supply {
    fn read(targets: &[String], lock: &str) -> Result<Self> {
        let mut supply = Self::default();
        let checksums: Checksums = locked(lock)
            .into_iter()
            .filter_map(|it| Some(((it.name, it.version), it.checksum?)))
            .collect();
        for target in targets {
            let output = program::cargo()
                .args([
                    "metadata",
                    "--format-version",
                    "1",
                    "--locked",
                    "--filter-platform",
                    target,
                ])
                .output()
                .context("cannot run cargo")?;
            ensure!(
                output.status.success(),
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            supply
                .add(&Value::from_json(&output.stdout)?, &checksums, shipped(target))
                .context("unexpected form of cargo metadata")?;
        }
        Ok(supply)
    }

    /// Adds what a program reaches by normal and build-dependencies.
    fn add(&mut self, metadata: &Value, checksums: &Checksums, program: &str) -> Option<()> {
        let mut root = None;
        let mut known: HashMap<&str, Package> = HashMap::new();
        for package in metadata.get("packages")?.as_array()? {
            let text = |key| package.get(key).and_then(Value::as_str).map(str::to_owned);
            let (name, version) = (text("name")?, text("version")?);
            let source = text("source");
            let wildcards = package.get("dependencies")?.as_array()?.iter().filter(|dependency| {
                // What is in this repository has a path instead of a version.
                dependency.get("req").and_then(Value::as_str) == Some("*")
                    && dependency.get("path").is_none()
            });
            let wildcards = match source {
                None => {
                    wildcards.filter_map(|it| Some(it.get("name")?.as_str()?.to_owned())).collect()
                }
                Some(_) => Vec::new(),
            };
            let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
            let id = package.get("id")?.as_str()?;
            if name == program && source.is_none() {
                root = Some(id.to_owned());
            }
            let license = text("license");
            let manifest = text("manifest_path").map(PathBuf::from)?;
            let package = Package {
                name,
                version,
                license,
                folder: manifest.parent()?.to_owned(),
                source,
                checksum,
                wildcards,
                ..Package::default()
            };
            known.insert(id, package);
        }
        let mut edges: HashMap<&str, Vec<&str>> = HashMap::new();
        for node in metadata.get("resolve")?.get("nodes")?.as_array()? {
            let to = edges.entry(node.get("id")?.as_str()?).or_default();
            for dependency in node.get("deps")?.as_array()? {
                let mut kinds = dependency.get("dep_kinds")?.as_array()?.iter();
                if kinds.any(|kind| kind.get("kind").and_then(Value::as_str) != Some("dev")) {
                    to.push(dependency.get("pkg")?.as_str()?);
                }
            }
        }
        let root = root?;
        if program == PROGRAM {
            self.root.clone_from(&root);
        }
        let mut open = vec![root];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            let dependencies = edges.get(id.as_str()).map(Vec::as_slice).unwrap_or_default();
            let package =
                self.packages.entry(id.clone()).or_insert(known.get(id.as_str())?.clone());
            package.dependencies.extend(dependencies.iter().map(|id| (*id).to_owned()));
            open.extend(dependencies.iter().map(|id| (*id).to_owned()));
        }
        Some(())
    }

    fn findings(&self, rules: &Rules) -> Vec<String> {
        let mut findings = Vec::new();
        for Package { name, version, license, source, checksum, wildcards, .. } in
            self.packages.values()
        {
            match license.as_deref().map(|text| license::allows(text, &rules.licenses)) {
                Some(Some(true)) => {}
                Some(Some(false)) => findings.push(format!(
                    "`{name}` {version} is under `{}`, which deny.toml does not allow",
                    license.as_deref().unwrap_or_default()
                )),
                Some(None) => findings.push(format!(
                    "`{name}` {version} names no license that can be read: `{}`",
                    license.as_deref().unwrap_or_default()
                )),
                None => findings.push(format!("`{name}` {version} names no license")),
            }
            let (source, checksum) = (source.clone(), checksum.clone());
            let locked = Locked { name: name.clone(), version: version.clone(), source, checksum };
            findings.extend(locked.findings());
            if rules.banned.contains(name) {
                findings.push(format!("`{name}` is banned by deny.toml"));
            }
            for wildcard in wildcards {
                findings.push(format!("`{name}` asks for any version of `{wildcard}`"));
            }
        }
        findings
    }

    /// CycloneDX 1.5. Without a time and a serial number, which would differ between builds.
    fn bill(&self) -> Result<Value> {
        let program = self.packages.get(&self.root).context("the program is not there")?;
        let others = || self.packages.iter().filter(|(id, _)| **id != self.root);
        let dependencies = self.packages.values().map(|package| {
            let on = package.dependencies.iter().filter_map(|id| self.packages.get(id));
            let on: BTreeSet<String> = on.map(Package::url).collect();
            object([
                ("ref", package.url().as_str().into()),
                ("dependsOn", on.iter().map(|url| Value::from(url.as_str())).collect()),
            ])
        });
        let tool = object([("type", "application".into()), ("name", "cargo xtask supply".into())]);
        let tools = object([("components", [tool].into_iter().collect())]);
        Ok(object([
            ("bomFormat", "CycloneDX".into()),
            ("specVersion", "1.5".into()),
            ("version", 1.into()),
            (
                "metadata",
                object([("tools", tools), ("component", program.component("application"))]),
            ),
            ("components", others().map(|(_, package)| package.component("library")).collect()),
            ("dependencies", dependencies.collect()),
        ]))
    }
}

impl Package {
    /// Its package URL.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    fn component(&self, kind: &str) -> Value {
        let url = self.url();
        let mut members: Vec<(&str, Value)> = vec![
            ("type", kind.into()),
            ("bom-ref", url.as_str().into()),
            ("name", self.name.as_str().into()),
            ("version", self.version.as_str().into()),
        ];
        if let Some(checksum) = &self.checksum {
            let hash = object([("alg", "SHA-256".into()), ("content", checksum.as_str().into())]);
            members.push(("hashes", [hash].into_iter().collect()));
        }
        if let Some(text) = &self.license {
            let expression = object([("expression", license::spdx(text).as_str().into())]);
            members.push(("licenses", [expression].into_iter().collect()));
        }
        members.push(("purl", url.as_str().into()));
        members.into_iter().collect::<Object>().into()
    }
}

pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect::<Object>().into()
}

/// The mistakes in a bill: members that the schema of CycloneDX 1.5 refuses, and references that
/// lead nowhere.
fn faults(bill: &Value) -> Vec<String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let list = |value: &Value, key: &str| -> Vec<Value> {
        value.get(key).and_then(Value::as_array).map(|list| list.to_vec()).unwrap_or_default()
    };
    let mut faults = Vec::new();
    if text(bill, "bomFormat").as_deref() != Some("CycloneDX")
        || text(bill, "specVersion").is_none()
    {
        faults.push("it does not say that it is CycloneDX".to_owned());
    }
    let program = bill.path(&["metadata", "component"]).cloned();
    let mut known = BTreeSet::new();
    for component in list(bill, "components").into_iter().chain(program) {
        let Some(reference) = text(&component, "bom-ref") else {
            faults.push("a component has no `bom-ref`".to_owned());
            continue;
        };
        for key in ["type", "name", "version", "purl"] {
            if text(&component, key).is_none_or(|text| text.is_empty()) {
                faults.push(format!("`{reference}` has no `{key}`"));
            }
        }
        for hash in list(&component, "hashes") {
            let content = text(&hash, "content").unwrap_or_default();
            if content.len() != 64 || !content.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                faults.push(format!("`{reference}` has the hash `{content}`"));
            }
        }
        if !known.insert(reference.clone()) {
            faults.push(format!("`{reference}` is there twice"));
        }
    }
    for dependency in list(bill, "dependencies") {
        let on = list(&dependency, "dependsOn");
        let on = on.iter().filter_map(|it| it.as_str().map(str::to_owned));
        for reference in on.chain([text(&dependency, "ref").unwrap_or_default()]) {
            if !known.contains(&reference) {
                faults.push(format!("`{reference}` is no component"));
            }
        }
    }
    faults
}

type Checksums = HashMap<(String, String), String>;

/// A package of a lock file.
#[derive(Debug, Default)]
struct Locked {
    name: String,
    version: String,
    /// `None` for ours.
    source: Option<String>,
    checksum: Option<String>,
}

/// Every package of a lock file.
fn locked(lock: &str) -> Vec<Locked> {
    let packages = lock.split("[[package]]\n").skip(1).map(|package| {
        let value = |key: &str| {
            let start = format!("{key} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        let (name, version) =
            (value("name").unwrap_or_default(), value("version").unwrap_or_default());
        Locked { name, version, source: value("source"), checksum: value("checksum") }
    });
    packages.collect()
}

impl Locked {
    /// Whether it comes from where crates may come from, and is known by its checksum.
    fn findings(&self) -> Vec<String> {
        let Self { name, version, source, checksum } = self;
        let mut findings = Vec::new();
        let Some(source) = source else { return findings };
        if !SOURCES.contains(&source.as_str()) {
            findings.push(format!("`{name}` {version} comes from {source}"));
        }
        if checksum.is_none() {
            findings.push(format!("`{name}` {version} has no checksum in Cargo.lock"));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[graph]\ntargets = [\"x-musl\"]\n[licenses]\nallow = [\n  \"MIT\", # why\n]\n\
        [bans]\ndeny = [\n  { crate = \"native-tls\" },\n]\n";

    fn supply(package: Package) -> Supply {
        let program = Package {
            name: PROGRAM.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some("MIT".to_owned()),
            dependencies: ["other".to_owned()].into(),
            ..Package::default()
        };
        Supply {
            packages: [("root".to_owned(), program), ("other".to_owned(), package)].into(),
            root: "root".to_owned(),
        }
    }

    fn good() -> Package {
        Package {
            name: "other".to_owned(),
            version: "2.0.0+b".to_owned(),
            license: Some("MIT OR Apache-2.0".to_owned()),
            source: Some(SOURCES[0].to_owned()),
            checksum: Some("ab".repeat(32)),
            ..Package::default()
        }
    }

    #[test]
    fn what_may_not_come_in_is_found() {
        let rules = Rules::parse(RULES).expect("rules");
        assert_eq!(rules.targets, ["x-musl"]);
        let text = |text: &str| Some(text.to_owned());
        for (package, expected) in [
            (good(), None),
            (Package { license: text("GPL-3.0"), ..good() }, Some("does not allow")),
            (Package { license: text("MIT AND"), ..good() }, Some("can be read")),
            (Package { license: None, ..good() }, Some("names no license")),
            (
                Package { source: text("git+https://example.com/x"), ..good() },
                Some("comes from git"),
            ),
            (Package { checksum: None, ..good() }, Some("no checksum")),
            (Package { name: "native-tls".to_owned(), ..good() }, Some("is banned")),
            (Package { wildcards: vec!["x".to_owned()], ..good() }, Some("any version of `x`")),
        ] {
            let findings = supply(package).findings(&rules);
            match expected {
                None => assert_eq!(findings, [""; 0]),
                Some(text) => {
                    assert!(findings.len() == 1 && findings[0].contains(text), "{findings:?}")
                }
            }
        }
    }

    #[test]
    fn all_of_the_lock_file_is_looked_at() {
        let lock = "version = 4\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\n\
             name = \"good\"\nversion = \"1.0.0\"\n\
             source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"ab\"\n\n\
             [[package]]\nname = \"for-tests\"\nversion = \"2.0.0\"\n\
             source = \"git+https://example.com/x#1\"\n";
        let findings: Vec<String> = locked(lock).iter().flat_map(Locked::findings).collect();
        assert_eq!(
            findings,
            [
                "`for-tests` 2.0.0 comes from git+https://example.com/x#1",
                "`for-tests` 2.0.0 has no checksum in Cargo.lock"
            ]
        );
    }

    #[test]
    fn the_bill_is_valid_and_says_what_is_wrong_if_not() {
        let bill = supply(good()).bill().expect("a bill");
        assert_eq!(faults(&bill), [""; 0]);
        assert!(bill.to_json().contains("pkg:cargo/other@2.0.0%2Bb"), "{bill}");
        let short =
            supply(Package { checksum: Some("ab".to_owned()), ..good() }).bill().expect("a bill");
        assert!(faults(&short)[0].contains("has the hash"));
        let unnamed = supply(Package { name: String::new(), ..good() }).bill().expect("a bill");
        assert!(faults(&unnamed)[0].contains("has no `name`"));
    }
}
