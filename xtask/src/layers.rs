//! `cargo xtask layers`: holds the crates to the layering of `docs/architecture.md`.
//!
//! Read from `cargo metadata`: arrows between our crates only point down, and layers 1 to 3 stay free of runtimes, sockets and Kubernetes clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use modgate_testkit::corpus;
use modgate_value::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only look, which is all this task ever does; accepted so that every check reads alike.
    #[arg(long)]
    check: bool,
}

/// Our crates from the ground up. A crate may depend on crates of smaller numbers only.
const LAYERS: &[(&str, u32)] = &[
    ("modgate-value", 0),
    ("modgate-select", 1),
    ("modgate-template", 1),
    ("modgate-cel", 1),
    // `strings.render_template` renders Go templates.
    ("modgate-rego", 2),
    ("modgate-api", 2),
    ("modgate-engine", 3),
    ("modgate-audit", 4),
    ("modgate-migrate", 4),
    ("modgate-server", 5),
    ("modgate-gator", 6),
    ("modgate", 7),
    // Never shipped: nothing that is may depend on them.
    ("modgate-corpus", 8),
    ("modgate-cel-corpora", 9),
    ("modgate-rego-corpora", 9),
    ("modgate-testkit", 10),
    ("xtask", 11),
];

/// The highest layer that must stay pure and synchronous.
const PURE: u32 = 3;

/// What a pure crate must not bring in, directly or through others.
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

/// Features that would change what JSON means for every crate at once.
const FORBIDDEN_FEATURES: &[(&str, &[&str])] =
    &[("serde_json", &["preserve_order", "arbitrary_precision", "unbounded_depth"])];

/// Whether every crate keeps to its layer.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let _ = args.check;
    let graph = Graph::read()?;
    let findings = findings(&graph);
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
        if *level <= PURE {
            for (impure, through) in graph.closure(name) {
                if IMPURE.contains(&impure) {
                    findings.push(format!("`{name}` brings in `{impure}` through `{through}`"));
                }
            }
        }
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

fn layer(name: &str) -> Option<u32> {
    LAYERS.iter().find(|(layered, _)| *layered == name).map(|(_, level)| *level)
}

/// The normal dependencies of every package, dev- and build-dependencies left out, by name.
#[derive(Default)]
struct Graph {
    workspace: Vec<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
    features: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read() -> Result<Self> {
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(corpus::repository())
            .output()
            .context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Self::of(&Value::from_json(&output.stdout)?).context("unexpected form of cargo metadata")
    }

    fn of(metadata: &Value) -> Option<Self> {
        let mut names = BTreeMap::new();
        for package in metadata.get("packages")?.as_array()? {
            names.insert(package.get("id")?.as_str()?, package.get("name")?.as_str()?);
        }
        let name = |id: &Value| Some((*names.get(id.as_str()?)?).to_owned());
        let mut graph = Self::default();
        for member in metadata.get("workspace_members")?.as_array()? {
            graph.workspace.push(name(member)?);
        }
        for node in metadata.get("resolve")?.get("nodes")?.as_array()? {
            let package = name(node.get("id")?)?;
            let edges = graph.edges.entry(package.clone()).or_default();
            for dependency in node.get("deps")?.as_array()? {
                let mut kinds = dependency.get("dep_kinds")?.as_array()?.iter();
                if kinds.any(|kind| kind.get("kind").is_some_and(Value::is_null)) {
                    edges.insert(name(dependency.get("pkg")?)?);
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

    /// Everything `name` brings in, each with a package that asks for it.
    fn closure(&self, name: &str) -> BTreeMap<&str, &str> {
        let mut found = BTreeMap::new();
        let mut open: Vec<&str> =
            self.edges.get_key_value(name).map(|(key, _)| key.as_str()).into_iter().collect();
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
    fn forbidden_features_are_seen() {
        let mut graph = graph(&[]);
        graph.features.insert("serde_json".to_owned(), ["preserve_order".to_owned()].into());
        assert_eq!(findings(&graph), ["feature `preserve_order` of `serde_json` is on"]);
    }
}
