//! `cel-pairs-*.json`: functions and operators with pairs and triples of values, as
//! `tests/record/cel` writes them.

use anyhow::{Context as _, Result, bail};
use modgate_cel::{Activation, Arena, Env, Opaque, Program, Type, Val};
use modgate_corpus::{Case, CorpusFile, Members, Roots, Verdict};
use modgate_value::{Budget, Value};

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

/// The result for an error; texts of errors are not compared.
const ERROR: &str = "E";

/// Runs a file of expressions with their answers.
///
/// # Errors
///
/// When the file has another shape.
pub fn pairs(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let object = Object(top.required("object")?.clone());
    let env = Env::new().with("object", Type::Dyn);
    let mut arena = Arena::new();
    for case in top.list("cases")? {
        let texts = case.as_array().context("a case is not a list")?;
        let [Value::String(expression), Value::String(answer)] = &**texts else {
            bail!("a case is not an expression and an answer");
        };
        arena.reset();
        let got = answered(expression, &object, &env, &arena);
        let verdict = Verdict::equal(answer.as_str(), got);
        cases.push(Case { id: expression.to_string(), verdict });
    }
    top.finish()
}

fn answered(expression: &str, object: &Object, env: &Env, arena: &Arena) -> String {
    let budget = Budget::unlimited();
    let Ok(program) = Program::compile(expression, env) else { return ERROR.to_owned() };
    match program.eval(object, arena, &budget, 1_000_000) {
        Ok((value, _)) => encoded(value),
        Err(_) => ERROR.to_owned(),
    }
}

/// A value as the recording program writes it: a letter for its type and an exact text.
fn encoded(value: Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => format!("i{value}"),
        Val::Uint(value) => format!("u{value}"),
        Val::Double(value) if value.is_nan() => "dNaN".to_owned(),
        Val::Double(value) => format!("d{:x}", value.to_bits()),
        Val::String(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Val::Bytes(bytes) => {
            bytes.iter().fold("b".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
        Val::Timestamp(at) => format!("t{}.{}", at.seconds, at.nanos),
        Val::Duration(nanos) => format!("D{nanos}"),
        Val::Type(name) => format!("T{name}"),
        Val::Optional(None) => "none".to_owned(),
        Val::Optional(Some(inner)) => format!("some({})", encoded(*inner)),
        Val::Opaque(Opaque::Quantity(quantity)) => format!("Q{quantity}"),
        Val::Opaque(Opaque::Semver(version)) => format!("S{version}"),
        Val::Opaque(Opaque::Url(url)) => format!("U{url}"),
        Val::Opaque(Opaque::Ip(ip)) => format!("I{ip}"),
        Val::Opaque(Opaque::Cidr(cidr)) => format!("C{cidr}"),
        Val::Opaque(Opaque::Format(format)) => format!("F{}", format.to_string().to_lowercase()),
        other => {
            let entries = (0..other.size().unwrap_or(0)).filter_map(|index| other.entry(index));
            match other.type_name() {
                "list" => {
                    let items: Vec<_> = entries.map(|(_, item)| encoded(item)).collect();
                    format!("[{}]", items.join(","))
                }
                "map" => {
                    let entry = |(key, value)| format!("{}:{}", encoded(key), encoded(value));
                    let mut entries: Vec<_> = entries.map(entry).collect();
                    entries.sort();
                    format!("{{{}}}", entries.join(","))
                }
                name => format!("?{name}"),
            }
        }
    }
}
