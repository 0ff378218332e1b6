//! Suites over Rego: OPA's own compliance cases, programs recorded from OPA, and the violations it
//! finds in the public library.

pub mod library;
pub(crate) mod opa;
pub(crate) mod programs;
pub(crate) mod recorded;

use std::collections::BTreeMap;

use modgate_rego::{
    Capabilities, ast::RegoVersion, builtins::Host, error::Error, ir::Program, parser,
    value::Value as Rego,
};
use modgate_template::{Functions, Isolated, Template};
use modgate_value::{Budget, Value};

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
        .map(|(name, text)| parser::parse_module(&name, text, version))
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

    fn render_template(
        &self,
        template: &str,
        variables: &Value,
        budget: &Budget<'_>,
    ) -> Option<Result<String, String>> {
        let env = modgate_template::Env { budget, host: &Isolated };
        let rendered = Template::parse_with("template", template, Functions::Builtin)
            .map_err(|error| error.to_string())
            .and_then(|template| {
                template.render(variables, &env).map_err(|error| error.to_string())
            });
        Some(rendered)
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
