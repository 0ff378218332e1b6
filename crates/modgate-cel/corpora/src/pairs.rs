//! The files that `tests/record/cel` writes.
//!
//! `cel-pairs-*.json`: functions and operators with pairs and triples of values. `cel-typings.json`:
//! expressions whose types are in doubt, with the texts of their errors. `cel-calls.json`: the same for
//! operands of types that only evaluation knows. `cel-kubernetes.json`: where cel-go 0.26 differs.

use anyhow::{Context as _, Result, bail};
use modgate_cel::{Activation, Arena, CompileError, Env, Opaque, Program, Release, Type, Val};
use modgate_corpus::{Case, CorpusFile, Members, Roots, Verdict, decision};
use modgate_value::{Budget, Value};

struct Object {
    object: Value,
    words: Value,
}

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "object" => Some(Val::json(&self.object)),
            "words" => Some(Val::json(&self.words)),
            _ => None,
        }
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
    run(file, cases, answered, Release::V0_30)
}

/// Runs a file of expressions with the answers of cel-go 0.26.
///
/// # Errors
///
/// When the file has another shape.
pub fn kubernetes(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    run(file, cases, answered, Release::V0_26)
}

/// Runs a file of expressions with their types, values and errors.
///
/// # Errors
///
/// When the file has another shape.
pub fn typings(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    run(file, cases, typed, Release::V0_30)
}

fn run(
    file: &CorpusFile,
    cases: &mut Vec<Case>,
    answer: fn(&str, &Object, &Env, &Arena) -> String,
    release: Release,
) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let words = ["a", "b"].into_iter().map(Value::from).collect();
    let object = Object { object: top.required("object")?.clone(), words };
    let env = Env::new().with("object", Type::Dyn).with("words", Type::list(Type::STRING));
    let env = env.with_release(release);
    let mut arena = Arena::new();
    for case in top.list("cases")? {
        let texts = case.as_array().context("a case is not a list")?;
        let [Value::String(expression), Value::String(expected)] = &**texts else {
            bail!("a case is not an expression and an answer");
        };
        arena.reset();
        let got = answer(expression, &object, &env, &arena);
        let named = with_types_of_cel(expected);
        let verdict = if got != **expected && got == named {
            Verdict::Differs(vec![&decision::CEL_2])
        } else if release == Release::V0_26
            && got != **expected
            && expression.contains("optional.of(")
        {
            let newest = env.clone().with_release(Release::default());
            match answer(expression, &object, &newest, &arena) == got {
                true => Verdict::Differs(vec![&decision::CEL_4]),
                false => Verdict::equal(expected.as_str(), got),
            }
        } else if expected.contains(PANIC) && got.contains("\nerror: ") {
            Verdict::Differs(vec![&decision::CEL_3])
        } else {
            Verdict::equal(without_numbers(expected), without_numbers(&got))
        };
        cases.push(Case { id: expression.to_string(), verdict });
    }
    top.finish()
}

/// A text without the numbers of types that are not known, as in `list(_var7)`: they depend on the order
/// in which the original tries overloads.
fn without_numbers(text: &str) -> String {
    const UNKNOWN: &str = "_var";
    let mut parts = text.split(UNKNOWN);
    let first = parts.next().unwrap_or_default().to_owned();
    let digits = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    parts.fold(first, |text, part| text + UNKNOWN + &digits(part))
}

/// How the original reports that its own code failed.
const PANIC: &str = "\nerror: internal error: ";

/// A recorded answer in which Go's types have the names that CEL gives them.
fn with_types_of_cel(answer: &str) -> String {
    const TEXTS: [(&str, &str); 2] =
        [("invalid qualifier type: ", ""), ("got '", "', expected iterable type")];
    const NAMES: [(&str, &str); 11] = [
        ("[]interface {}", "list"),
        ("[]string", "list"),
        ("*types.baseList", "list"),
        ("map[string]interface {}", "map"),
        ("*types.baseMap", "map"),
        ("<nil>", "types.Null"),
        ("cel.IP", "net.IP"),
        ("cel.CIDR", "net.CIDR"),
        ("cel.Quantity", "kubernetes.Quantity"),
        ("cel.Semver", "kubernetes.Semver"),
        ("cel.URL", "kubernetes.URL"),
    ];
    let mut named = answer.to_owned();
    for (before, after) in TEXTS {
        for (go, cel) in NAMES {
            named =
                named.replace(&format!("{before}{go}{after}"), &format!("{before}{cel}{after}"));
        }
    }
    named
}

/// The type and the value or error, or why the expression does not compile.
fn typed(expression: &str, object: &Object, env: &Env, arena: &Arena) -> String {
    let budget = Budget::unlimited();
    let program = match Program::compile(expression, env) {
        Ok(program) => program,
        Err(CompileError::Check(errors)) => return errors.to_string(),
        Err(error) => return format!("program: {error}"),
    };
    let ty = program.ty();
    match program.eval(object, arena, &budget, 1_000_000) {
        Ok((value, _)) => format!("{ty}\n{}", encoded(value)),
        Err(error) => format!("{ty}\nerror: {error}"),
    }
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
