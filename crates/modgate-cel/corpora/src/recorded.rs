//! `cel.json`, `cel-costs.json` and `cel-libraries.json`: expressions in Kubernetes' environment;
//! their values, errors and costs.

use anyhow::{Context as _, Result, bail};
use modgate_cel::{
    Activation, Arena, CompileError, CostLimits, Env, Evaluation, Opaque, Program, Type, Val,
    Variables,
};
use modgate_corpus::{Case, CorpusFile, Members, Roots, Verdict, decision};
use modgate_value::{Budget, Value, gotime::Duration};

/// The object that `cel.json` was recorded with, as far as its expressions show it.
const OBJECT: &str = r#"{"metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"n": 5, "q": "1Gi", "list": [1, 2, 3]}}"#;

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

/// Runs a file of expressions about one object.
///
/// # Errors
///
/// When the file has another shape.
pub fn expressions(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let object = Object(Value::from_json(OBJECT.as_bytes())?);
    for case in top.list("cases")? {
        let case = Members::of(case)?;
        let id = case.text("expr")?.to_owned();
        let expect = Members::of(case.required("expect")?)?;
        let verdict = check(&id, &object, &expect).with_context(|| id.clone())?;
        expect.finish()?;
        case.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// Runs a file whose cases each name one of its objects.
///
/// # Errors
///
/// When the file has another shape.
pub fn costs(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let objects = top.required("objects")?.as_object().context("`objects` is not a map")?;
    for case in top.list("cases")? {
        let case = Members::of(case)?;
        let expr = case.text("expr")?;
        let name = case.text("object")?;
        let object = objects.get(name).with_context(|| format!("no object `{name}`"))?;
        let object = Object(object.clone());
        let verdict = check(expr, &object, &case).with_context(|| expr.to_owned())?;
        case.finish()?;
        cases.push(Case { id: format!("{expr} ({name})"), verdict });
    }
    top.finish()
}

/// `v`, `e` and `cost` of `expect` against what the expression gives.
fn check(expr: &str, object: &Object, expect: &Members<'_>) -> Result<Verdict> {
    let (arena, budget, none) = (Arena::new(), Budget::unlimited(), Variables::new());
    let limits = CostLimits { expression: u64::MAX, total: u64::MAX };
    let evaluation = Evaluation::new(object, &none, &arena, &budget, limits);
    let program = Program::compile(expr, &Env::new().with("object", Type::Dyn));
    let found = match &program {
        Ok(program) => match evaluation.evaluate(program) {
            Ok(value) => Ok(shown(value)?),
            Err(error) => Err(error.to_string()),
        },
        Err(CompileError::Check(errors)) => Err(format!("COMPILE {errors}")),
        Err(CompileError::Constant(error)) => Err(format!("PROGRAM {error}")),
        Err(error) => bail!("{error}"),
    };
    let error = expect.optional("e").map(|error| error.as_str().context("`e` is not text"));
    let wanted = match (expect.optional("v"), error) {
        (_, Some(error)) => Err(error?.to_owned()),
        (Some(value), None) => Ok(value.clone()),
        (None, None) => bail!("neither `v` nor `e`"),
    };
    let cost = i64::try_from(limits.total - evaluation.remaining())?;
    let wanted_cost = expect.optional("cost").and_then(Value::as_i64);
    if found == wanted && wanted_cost.is_none_or(|wanted| wanted == cost) {
        return Ok(Verdict::Passed);
    }
    // Recorded with a release before 0.30.
    let unordered = Err("NaN values cannot be ordered".to_owned());
    if wanted == unordered && found == Ok(Value::Bool(false)) && wanted_cost == Some(cost) {
        return Ok(Verdict::Differs(vec![&decision::CEL_1]));
    }
    Ok(Verdict::Failed {
        expected: format!("{wanted:?} at a cost of {wanted_cost:?}"),
        got: format!("{found:?} at a cost of {cost}"),
    })
}

/// A value as the corpus writes it.
fn shown(value: Val<'_>) -> Result<Value> {
    let entries = || (0..value.size().unwrap_or(0)).filter_map(|index| value.entry(index));
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::Uint(value) => Value::from_json(value.to_string().as_bytes())?,
        Val::Double(value) if value.is_finite() => {
            Value::from_json(format!("{value:?}").as_bytes())?
        }
        Val::Double(value) => modgate_value::gofloat::general(value).into(),
        Val::String(text) => text.into(),
        Val::Bytes(bytes) => {
            let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
            format!("<bytes [{}]>", bytes.join(" ")).into()
        }
        Val::Type(name) => format!("<type {name}>").into(),
        Val::Timestamp(at) => format!("<{} {}>", value.type_name(), at.written()).into(),
        Val::Duration(nanos) => format!("<{} {}>", value.type_name(), Duration(nanos)).into(),
        Val::Opaque(Opaque::Ip(ip)) => format!("<{} {ip}>", value.type_name()).into(),
        Val::Opaque(Opaque::Cidr(cidr)) => format!("<{} {cidr}>", value.type_name()).into(),
        Val::Optional(None) => "<none>".into(),
        Val::Optional(Some(inner)) => [("<opt>", shown(*inner)?)].into_iter().collect(),
        other => match other.type_name() {
            "list" => entries().map(|(_, item)| shown(item)).collect::<Result<_>>()?,
            "map" => entries()
                .map(|(key, value)| {
                    let key = match shown(key)? {
                        Value::String(key) => key.to_string(),
                        other => other.to_json(),
                    };
                    Ok((key, shown(value)?))
                })
                .collect::<Result<_>>()?,
            name => bail!("a value of type {name}"),
        },
    })
}
