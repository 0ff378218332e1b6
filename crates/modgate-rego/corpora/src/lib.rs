//! Suites over Rego: OPA's own compliance cases, programs recorded from OPA, and the violations it
//! finds in the public library.
//!
//! `cargo test -p modgate-rego` and `cargo xtask conformance` both run [`SUITES`]. This crate is
//! never shipped.

pub mod library;
mod opa;
mod pairs;
mod programs;
mod recorded;

use std::collections::BTreeMap;

use modgate_corpus::Suite;
use modgate_rego::{
    Capabilities, Error, Program, RegoVersion, builtins::Host, parse_module, value::Value as Rego,
};
use modgate_value::{Budget, Value};

/// The suites, for [`modgate_corpus::suite`].
pub const SUITES: &[Suite] = &[
    Suite { name: "languages/rego.json", run: recorded::run },
    Suite { name: "languages/rego-programs.json", run: programs::run },
    Suite { name: "languages/rego-syntax.json", run: programs::run },
    Suite { name: "languages/library-rego-results.json", run: library::run },
    Suite { name: "languages/rego-pairs*.json", run: pairs::run },
    Suite { name: "opa/*.json", run: opa::run },
];

/// Groups of OPA's cases that reach outside an evaluation or belong to other products.
pub const EXEMPT: &[&str] = &[
    "opa/graphql.json",
    "opa/jwtencodesign*.json",
    "opa/netlookupipaddr.json",
    "opa/planner-ir.json",
    "opa/providers-aws.json",
    "opa/regometadata*.json",
    "opa/regoparsemodule.json",
];

/// The functions OPA's runner adds.
fn capabilities() -> Capabilities {
    Capabilities {
        host_functions: BTreeMap::from([("test.sleep".into(), 1)]),
        ..Capabilities::default()
    }
}

/// Parses and compiles modules; the error is in the words of OPA's compiler.
fn compile<'m>(
    modules: impl Iterator<Item = (String, &'m str)>,
    version: RegoVersion,
) -> Result<Program, Refusal> {
    let modules = modules
        .map(|(name, text)| parse_module(&name, text, version))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Refusal::Parse)?;
    Program::compile(&modules, &capabilities()).map_err(Refusal::Compile)
}

/// Why there is no program.
enum Refusal {
    Parse(Vec<Error>),
    Compile(Vec<Error>),
}

/// Several errors as OPA joins them.
fn joined(errors: &[Error]) -> String {
    let texts: Vec<String> = errors.iter().map(Error::detailed).collect();
    match texts.as_slice() {
        [one] => format!("1 error occurred: {one}"),
        many => format!("{} errors occurred:\n{}", many.len(), many.join("\n")),
    }
}

/// Grants what OPA's own runner grants.
struct Runner;

impl Host for Runner {
    fn now_ns(&self) -> Option<i64> {
        // Later than the certificates of the corpus were made.
        Some(1_790_000_000_000_000_000)
    }

    fn random(&self) -> Option<u64> {
        Some(4)
    }

    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        match name {
            "test.sleep" => Some(Ok(Value::Null)),
            "opa.runtime" => Some(Ok(Value::Object(modgate_value::Object::default()))),
            _ => None,
        }
    }
}

/// A value as OPA's runner compares it: sets are arrays, keys are text.
fn to_json(value: Rego<'_>) -> anyhow::Result<Value> {
    Ok(value.to_json(&Budget::unlimited())?)
}
