//! The provenance statement: which files, made from what, by whom (in-toto Statement v1, SLSA provenance v1).

use modgate_value::{Object, Value};

use super::{About, program::Program, sha256};
use crate::supply::object;

/// The inputs of a release beside the programs.
pub(super) struct Inputs<'i> {
    pub(super) programs: &'i [Program],
    /// `Cargo.lock`, which names every crate with its digest.
    pub(super) lock: &'i [u8],
    pub(super) authorities: &'i [u8],
    /// `rustc --version`.
    pub(super) compiler: String,
    /// The builder, as a URI.
    pub(super) builder: &'i str,
    pub(super) base_url: Option<&'i str>,
}

/// The statement about files and artefacts, each by name and SHA-256.
///
/// Without times and numbers of runs, so that the same inputs give the same statement. It says nothing that this
/// process does not know: a program that was given is an input, and a tree with changes is not a commit.
pub(super) fn statement(
    about: &About,
    subjects: &[(String, String)],
    inputs: &Inputs<'_>,
) -> Value {
    let hashed = |name: &str, digits: &str| {
        object([("name", name.into()), ("digest", object([("sha256", digits.into())]))])
    };
    let mut dependencies = vec![hashed("Cargo.lock", &sha256(inputs.lock))];
    if let Some(commit) = about.commit.as_ref().filter(|_| !about.is_dirty) {
        let mut members = vec![
            ("name", Value::from("source")),
            ("digest", object([("gitCommit", commit.as_str().into())])),
        ];
        if let Some(source) = &about.source {
            members.push(("uri", format!("git+{source}@refs/tags/v{}", about.version).into()));
        }
        dependencies.push(members.into_iter().collect::<Object>().into());
    }
    dependencies.push(hashed("ca-certificates.crt", &sha256(inputs.authorities)));
    for program in inputs.programs.iter().filter(|it| it.is_given) {
        let name = format!("program for {}, built elsewhere", program.arch.name());
        dependencies.push(hashed(&name, &sha256(&program.bytes)));
    }
    for program in inputs.programs {
        let name = format!("counts for {}", program.arch.name());
        dependencies.extend(program.counts.as_ref().map(|counts| hashed(&name, &sha256(counts))));
    }
    let built: Vec<&str> =
        inputs.programs.iter().filter(|it| !it.is_given).map(|it| it.arch.target()).collect();
    let mut external = vec![
        ("version", Value::from(about.version.as_str())),
        ("targets", built.iter().map(|it| Value::from(*it)).collect()),
        ("sourceHasUncommittedChanges", about.is_dirty.into()),
    ];
    for (name, text) in [("image", about.image.as_deref()), ("baseUrl", inputs.base_url)] {
        external.extend(text.map(|text| (name, Value::from(text))));
    }
    let mut internal = Object::default();
    if !built.is_empty() {
        internal = [("rustc", Value::from(inputs.compiler.as_str()))].into_iter().collect();
    }
    object([
        ("_type", "https://in-toto.io/Statement/v1".into()),
        ("subject", subjects.iter().map(|(name, digits)| hashed(name, digits)).collect()),
        ("predicateType", "https://slsa.dev/provenance/v1".into()),
        (
            "predicate",
            object([
                (
                    "buildDefinition",
                    object([
                        ("buildType", "urn:modgate:cargo-xtask-dist:v1".into()),
                        ("externalParameters", external.into_iter().collect::<Object>().into()),
                        ("internalParameters", internal.into()),
                        ("resolvedDependencies", dependencies.into_iter().collect()),
                    ]),
                ),
                ("runDetails", object([("builder", object([("id", inputs.builder.into())]))])),
            ]),
        ),
    ])
}
