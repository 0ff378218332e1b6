//! `cargo xtask layers`: holds the crates to the layering of `docs/architecture.md`.
//!
//! Read from `cargo metadata`: arrows between our crates only point down, layers 0 to 3 stay free of runtimes, sockets and Kubernetes clients, and tests bring
//! in no shipped crate from above. Read from `cargo tree`: what is built alone has the features it
//! has among everything. Read from the sources: the modules of a crate form no new circles, no file
//! and no function is too long to read, and what ships is optimised.

mod circles;
mod profiles;
mod sizes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use modgate_corpus::{corpus, program};
use modgate_value::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change nothing. Without it, circles that have become smaller are written down.
    #[arg(long)]
    check: bool,
}

/// Our crates from the ground up. A crate may depend on crates of smaller numbers only.
const LAYERS: &[(&str, u32)] = &[
    ("modgate-value", 0),
    ("modgate-select", 1),
    ("modgate-template", 1),
    ("modgate-cel", 1),
    ("modgate-report", 1),
    ("modgate-ui", 1),
    // `strings.render_template` renders Go templates.
    ("modgate-rego", 2),
    ("modgate-api", 2),
    ("modgate-engine", 3),
    ("modgate-audit", 4),
    ("modgate-migrate", 4),
    ("modgate-prove", 4),
    ("modgate-http", 4),
    ("modgate-review", 4),
    ("modgate-playground", 5),
    ("modgate-playground-wasm", 6),
    ("modgate-policies", 5),
    ("modgate-gator", 6),
    ("modgate-telemetry", 6),
    ("modgate-export", 7),
    ("modgate-traffic", 7),
    ("modgate-cluster", 8),
    ("modgate-server", 9),
    ("modgate", 10),
    // Never shipped: nothing that is may depend on them.
    ("modgate-corpus", 11),
    ("modgate-cel-corpora", 12),
    ("modgate-rego-corpora", 12),
    ("modgate-testkit", 13),
    ("modgate-e2e", 14),
    ("xtask-suites", 15),
    ("xtask", 16),
];

/// The highest layer that is shipped.
const SHIPPED: u32 = 10;

/// The highest layer that must stay pure and synchronous.
const PURE: u32 = 3;

/// Crates above it that must stay so, too: the playground is built of them.
const ALSO_PURE: &[&str] = &["modgate-review", "modgate-playground", "modgate-playground-wasm"];

/// The crates that a pure crate must not depend on, directly or through others.
const IMPURE: &[&str] = &[
    "async-std",
    "axum",
    "h2",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "mio",
    "native-tls",
    "openssl",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "tokio",
    "tower",
    "tracing-subscriber",
    "ureq",
];

/// Shipped crates that tests of lower ones bring in: the test's crate, what it brings in, and why
/// that stays.
const ABOVE_IN_TESTS: &[(&str, &str, &str)] = &[];

/// Where the circles between modules are written down.
const CIRCLES: &str = "xtask/circles.txt";

/// Features that would change what JSON means for every crate at once.
const FORBIDDEN_FEATURES: &[(&str, &[&str])] =
    &[("serde_json", &["preserve_order", "arbitrary_precision", "unbounded_depth"])];

/// Whether every crate keeps to its layer.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let graph = Graph::read()?;
    let mut findings = findings(&graph);
    findings.extend(built_twice()?);
    findings.extend(new_circles(&graph, args.check)?);
    for folder in graph.folders.values() {
        findings.extend(sizes::of_crate(&folder.join("src"))?);
    }
    if let Some(folder) = graph.folders.get("modgate-e2e") {
        findings.extend(sizes::of_scenarios(&folder.join("tests"))?);
    }
    let manifest = fs::read_to_string(corpus::repository().join("Cargo.toml"))?;
    findings.extend(profiles::slow_in_dist(&manifest));
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    if findings.is_empty() {
        println!("layers: {} crates keep to docs/architecture.md", LAYERS.len());
    }
    Ok(findings.is_empty())
}

fn findings(graph: &Graph) -> Vec<String> {
    let mut findings = Vec::new();
    for ours in &graph.workspace {
        if layer(ours).is_none() {
            findings.push(format!("`{ours}` has no layer; add it to LAYERS"));
        }
    }
    for (name, level) in LAYERS {
        for dependency in graph.dependencies(name) {
            if layer(dependency).is_some_and(|below| below >= *level) {
                findings.push(format!("`{name}` depends on `{dependency}`, which is not below it"));
            }
        }
        if *level <= PURE || ALSO_PURE.contains(name) {
            for (impure, through) in graph.closure(graph.dependencies(name), name) {
                if IMPURE.contains(&impure) {
                    findings.push(format!("`{name}` brings in `{impure}` through `{through}`"));
                }
            }
        }
        findings.extend(above_in_tests(graph, name, *level));
    }
    for (package, features) in FORBIDDEN_FEATURES {
        for feature in graph.features.get(*package).into_iter().flatten() {
            if features.contains(&feature.as_str()) {
                findings.push(format!("feature `{feature}` of `{package}` is on"));
            }
        }
    }
    findings
}

/// The crates that the tests of a crate depend on although they are shipped and not below the
/// crate.
fn above_in_tests(graph: &Graph, name: &str, level: u32) -> Vec<String> {
    let mut findings = Vec::new();
    for (above, through) in graph.closure(graph.dev_dependencies(name), name) {
        let is_above = above != name
            && layer(above).is_some_and(|layer| layer >= level && layer <= SHIPPED)
            || level <= PURE && IMPURE.contains(&above);
        let is_allowed = ABOVE_IN_TESTS
            .iter()
            .any(|(test, what, _)| *test == name && (*what == above || *what == "*"));
        if is_above && !is_allowed {
            findings.push(format!("tests of `{name}` bring in `{above}` through `{through}`"));
        }
    }
    findings
}

/// The packages that `.ci/run` builds beside the tests: the tasks, and the program for pages and
/// mistakes.
const ALONE: [&[&str]; 2] = [&["xtask-suites"], &["modgate", "modgate-testkit"]];

/// Packages that have other features when something is built alone than in tests: they, and all that
/// depends on them, would be compiled twice by `.ci/run`.
fn built_twice() -> Result<Vec<String>> {
    let everything = features(&["--workspace", "--edges", "normal,build,dev"])?;
    let mut findings = Vec::new();
    for alone in ALONE {
        let packages = alone.iter().flat_map(|package| ["--package", package]);
        let selection: Vec<&str> =
            ["--edges", "normal,build"].into_iter().chain(packages).collect();
        for (package, features) in features(&selection)? {
            let Some(among_all) = everything.get(&package) else { continue };
            for features in features.difference(among_all) {
                let among_all: Vec<&str> = among_all.iter().map(String::as_str).collect();
                findings.push(format!(
                    "`{package}` is built twice: with features [{features}] for `{}` alone, with [{}] \
                     among everything; make them equal in Cargo.toml",
                    alone.join("`, `"),
                    among_all.join("] or [")
                ));
            }
        }
    }
    Ok(findings)
}

/// The features of each package of a selection; more than one set where it is also built for build
/// scripts.
fn features(selection: &[&str]) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let format = ["tree", "--locked", "--prefix", "none", "--format", "{p}\t{f}"];
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in cargo(&[&format, selection].concat())?.lines() {
        let line = line.trim_end_matches(" (*)");
        if let Some((package, features)) = line.split_once('\t') {
            packages.entry(package.to_owned()).or_default().insert(features.trim().to_owned());
        }
    }
    Ok(packages)
}

/// Circles that are not written down, or not as small as they are; writes the smaller ones down
/// unless it may only check.
fn new_circles(graph: &Graph, check: bool) -> Result<Vec<String>> {
    let path = corpus::repository().join(CIRCLES);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let known = written(&text);
    let mut found = BTreeSet::new();
    for (name, folder) in &graph.folders {
        for circle in circles::of_crate(&folder.join("src"))? {
            found.insert((name.clone(), circle));
        }
    }
    let mut findings = Vec::new();
    for (name, circle) in &found {
        if !known.iter().any(|(known, modules)| known == name && circle.is_subset(modules)) {
            findings.push(format!("modules of `{name}` form a new circle: {}", words(circle)));
        }
    }
    if findings.is_empty() && found != known {
        if check {
            findings.push(format!(
                "circles have become smaller: `cargo xtask layers` updates {CIRCLES}"
            ));
        } else {
            let head = text.lines().take_while(|line| line.starts_with('#'));
            let lines = found.iter().map(|(name, circle)| format!("{name}: {}", words(circle)));
            let lines: Vec<String> = head.map(str::to_owned).chain(lines).collect();
            fs::write(&path, format!("{}\n", lines.join("\n")))?;
        }
    }
    Ok(findings)
}

/// The circles of a text: a line each, the crate before a colon; comments start with `#`.
fn written(text: &str) -> BTreeSet<(String, circles::Circle)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, modules)| {
            (name.to_owned(), modules.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

fn words(circle: &circles::Circle) -> String {
    circle.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The output of cargo in the repository.
fn cargo(arguments: &[&str]) -> Result<String> {
    let output = program::cargo().args(arguments).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn layer(name: &str) -> Option<u32> {
    LAYERS.iter().find(|(layered, _)| *layered == name).map(|(_, level)| *level)
}

/// The dependencies of every package by name, build-dependencies left out.
#[derive(Default)]
struct Graph {
    workspace: Vec<String>,
    /// Where each of our crates is.
    folders: BTreeMap<String, PathBuf>,
    edges: BTreeMap<String, BTreeSet<String>>,
    dev_edges: BTreeMap<String, BTreeSet<String>>,
    features: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read() -> Result<Self> {
        let metadata = cargo(&["metadata", "--format-version", "1", "--locked"])?;
        Self::of(&Value::from_json(metadata.as_bytes())?)
            .context("unexpected form of cargo metadata")
    }

    fn of(metadata: &Value) -> Option<Self> {
        let mut names = BTreeMap::new();
        let mut manifests = BTreeMap::new();
        for package in metadata.get("packages")?.as_array()? {
            let name = package.get("name")?.as_str()?;
            names.insert(package.get("id")?.as_str()?, name);
            manifests.insert(name, package.get("manifest_path")?.as_str()?);
        }
        let name = |id: &Value| Some((*names.get(id.as_str()?)?).to_owned());
        let mut graph = Self::default();
        for member in metadata.get("workspace_members")?.as_array()? {
            let name = name(member)?;
            let folder = Path::new(manifests.get(name.as_str())?).parent()?;
            graph.folders.insert(name.clone(), folder.to_owned());
            graph.workspace.push(name);
        }
        for node in metadata.get("resolve")?.get("nodes")?.as_array()? {
            let package = name(node.get("id")?)?;
            for dependency in node.get("deps")?.as_array()? {
                for kind in dependency.get("dep_kinds")?.as_array()? {
                    let edges = match kind.get("kind")?.as_str() {
                        None => &mut graph.edges,
                        Some("dev") => &mut graph.dev_edges,
                        Some(_) => continue,
                    };
                    edges.entry(package.clone()).or_default().insert(name(dependency.get("pkg")?)?);
                }
            }
            let on = node.get("features")?.as_array()?.iter().filter_map(Value::as_str);
            graph.features.entry(package).or_default().extend(on.map(str::to_owned));
        }
        Some(graph)
    }

    fn dependencies(&self, name: &str) -> impl Iterator<Item = &str> {
        self.edges.get(name).into_iter().flatten().map(String::as_str)
    }

    fn dev_dependencies(&self, name: &str) -> impl Iterator<Item = &str> {
        self.dev_edges.get(name).into_iter().flatten().map(String::as_str)
    }

    /// `first`, which `name` asks for, and everything that brings in, each with a package that asks
    /// for it.
    fn closure<'a>(
        &'a self,
        first: impl Iterator<Item = &'a str>,
        name: &'a str,
    ) -> BTreeMap<&'a str, &'a str> {
        let mut found: BTreeMap<&str, &str> = first.map(|package| (package, name)).collect();
        let mut open: Vec<&str> = found.keys().copied().collect();
        while let Some(package) = open.pop() {
            for dependency in self.dependencies(package) {
                if !found.contains_key(dependency) {
                    found.insert(dependency, package);
                    open.push(dependency);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let mut graph = Graph::default();
        for (package, dependencies) in edges {
            let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
            graph.edges.insert((*package).to_owned(), dependencies);
        }
        graph
    }

    #[test]
    fn what_is_found() {
        for (edges, expected) in [
            (graph(&[("modgate-select", &["modgate-value"])]), None),
            (graph(&[("modgate-value", &["modgate-api"])]), Some("not below it")),
            (graph(&[("modgate-select", &["modgate-template"])]), Some("not below it")),
            (graph(&[("modgate", &["modgate-testkit"])]), Some("not below it")),
            (graph(&[("modgate-server", &["tokio"])]), None),
            (graph(&[("modgate-engine", &["a"]), ("a", &["tokio"])]), Some("through `a`")),
        ] {
            let findings = findings(&edges);
            match expected {
                None => assert_eq!(findings, [""; 0]),
                Some(text) => assert!(findings[0].contains(text), "{findings:?}"),
            }
        }
    }

    #[test]
    fn tests_bring_in_nothing_from_above() {
        let mut graph = graph(&[
            ("modgate-corpus", &["modgate-value"]),
            ("modgate-testkit", &["modgate-gator"]),
            ("modgate-gator", &["tokio"]),
        ]);
        for (name, dependency, expected) in [
            ("modgate-cel", "modgate-corpus", None),
            ("modgate-cel", "modgate-testkit", Some("`modgate-gator` through `modgate-testkit`")),
            ("modgate-cel", "tokio", Some("`tokio` through `modgate-cel`")),
            ("modgate", "modgate-testkit", None),
        ] {
            graph.dev_edges = [(name.to_owned(), [dependency.to_owned()].into())].into();
            let findings = findings(&graph);
            match expected {
                None => assert_eq!(findings, [""; 0]),
                Some(text) => assert!(findings[0].contains(text), "{findings:?}"),
            }
        }
    }

    #[test]
    fn circles_are_read_back() {
        let text = "# why\na: b c\n";
        assert_eq!(
            written(text),
            [("a".to_owned(), ["b".to_owned(), "c".to_owned()].into())].into()
        );
    }

    #[test]
    fn forbidden_features_are_seen() {
        let mut graph = graph(&[]);
        graph.features.insert("serde_json".to_owned(), ["preserve_order".to_owned()].into());
        assert_eq!(findings(&graph), ["feature `preserve_order` of `serde_json` is on"]);
    }
}
