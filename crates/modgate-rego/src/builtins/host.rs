//! The functions that a host gives to policies.

use modgate_template::{Env, Functions, Template};
use modgate_value::Value as Json;

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

/// Everything an evaluation cannot know by itself.
///
/// Each method grants nothing unless it is implemented; a built-in that needs it then fails with
/// an error that says so.
pub trait Host {
    /// The time of the evaluation in nanoseconds since 1970, for `time.now_ns`.
    fn now_ns(&self) -> Option<i64> {
        None
    }

    /// Random bits, for `rand.intn` and `uuid.rfc4122`.
    fn random(&self) -> Option<u64> {
        None
    }

    /// Receives the text of `print`; ignored by default.
    fn print(&self, text: &str) {
        let _ = text;
    }

    /// Receives the note of `trace`; ignored by default.
    fn trace(&self, note: &str) {
        let _ = note;
    }

    /// Calls a function that reaches outside, such as `http.send`, `opa.runtime` or
    /// `external_data`; `None` when it is not granted, an error text when it failed.
    fn call(&self, name: &str, args: &[Json]) -> Option<Result<Json, String>> {
        let _ = (name, args);
        None
    }
}

/// A host that grants nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Isolated;

impl Host for Isolated {}

impl<'a> Context<'a> {
    /// Calls the host's function `name`.
    ///
    /// # Errors
    ///
    /// When it is not granted or fails, and any limit.
    pub(crate) fn call_host(&mut self, name: &str, args: &[Value<'a>]) -> Outcome<'a> {
        let budget = self.heap.budget();
        let args: Vec<Json> =
            args.iter().map(|arg| arg.to_json(budget)).collect::<Result<_, _>>()?;
        match self.host.call(name, &args) {
            Some(Ok(value)) => Ok(Some(self.heap.copy_json(&value)?)),
            Some(Err(message)) => Err(BuiltinError::Failed(message)),
            None => Err(not_granted()),
        }
    }

    /// Calls a function that only the host has; equal arguments are looked up once.
    ///
    /// # Errors
    ///
    /// As [`Context::call_host`].
    pub(crate) fn call_host_function(&mut self, name: &str, args: &[Value<'a>]) -> Outcome<'a> {
        let key = self.heap.array(args)?;
        self.settle(name, key, |context| context.call_host(name, args))
    }

    /// The first result of `compute` for these arguments in this evaluation.
    pub(super) fn settle(
        &mut self,
        name: &str,
        key: Value<'a>,
        compute: impl FnOnce(&mut Self) -> Outcome<'a>,
    ) -> Outcome<'a> {
        let known = self.settled.iter().find(|(known, args, _)| *known == name && *args == key);
        if let Some((_, _, value)) = known {
            return Ok(Some(*value));
        }
        let value = compute(self)?;
        if let Some(value) = value {
            self.settled.push((name.into(), key, value));
        }
        Ok(value)
    }

    pub(super) fn random(&self) -> Result<u64, BuiltinError> {
        self.host.random().ok_or_else(not_granted)
    }

    pub(super) fn now_ns(&self) -> Result<i64, BuiltinError> {
        self.host.now_ns().ok_or_else(not_granted)
    }
}

fn not_granted() -> BuiltinError {
    BuiltinError::failed("not available here: the host does not grant it")
}

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("trace", "(note: string) => result: boolean", trace),
    Builtin::new("print", "(any...)", print),
    Builtin::new("internal.print", "(array[set[any]])", internal_print),
    Builtin::new("internal.test_case", "(array[any])", internal_test_case),
    Builtin::new("rand.intn", "(str: string, n: number) => y: number", rand_intn)
        .nondeterministic(),
    Builtin::new(
        "http.send",
        "(request: object[string: any]) => response: object[any: any]",
        |context, args| context.call_host("http.send", args),
    )
    .nondeterministic(),
    Builtin::new("opa.runtime", "() => output: object[string: any]", |context, args| {
        context.call_host("opa.runtime", args)
    })
    .nondeterministic(),
    Builtin::new("net.lookup_ip_addr", "(name: string) => addrs: set[string]", |context, args| {
        context.call_host("net.lookup_ip_addr", args)
    })
    .nondeterministic(),
    Builtin::new(
        "strings.render_template",
        "(value: string, vars: object[string: any]) => result: string",
        render_template,
    ),
    Builtin::new(
        "rego.parse_module",
        "(filename: string, rego: string) => output: object[string: any]",
        |context, args| context.call_host("rego.parse_module", args),
    ),
    Builtin::new("rego.metadata.chain", "() => chain: array[any]", |context, args| {
        context.call_host("rego.metadata.chain", args)
    }),
    Builtin::new("rego.metadata.rule", "() => output: any", |context, args| {
        context.call_host("rego.metadata.rule", args)
    }),
    Builtin::new(
        "graphql.parse",
        "(query: any<string, object[any: any]>, schema: any<string, object[any: any]>) => output: array<object[any: any], object[any: any]>",
        |context, args| context.call_host("graphql.parse", args),
    ),
    Builtin::new(
        "graphql.parse_and_verify",
        "(query: any<string, object[any: any]>, schema: any<string, object[any: any]>) => output: array<boolean, object[any: any], object[any: any]>",
        |context, args| context.call_host("graphql.parse_and_verify", args),
    ),
    Builtin::new(
        "graphql.parse_query",
        "(query: string) => output: object[any: any]",
        |context, args| context.call_host("graphql.parse_query", args),
    ),
    Builtin::new(
        "graphql.parse_schema",
        "(schema: string) => output: object[any: any]",
        |context, args| context.call_host("graphql.parse_schema", args),
    ),
    Builtin::new(
        "graphql.is_valid",
        "(query: any<string, object[any: any]>, schema: any<string, object[any: any]>) => output: boolean",
        |context, args| context.call_host("graphql.is_valid", args),
    ),
    Builtin::new(
        "graphql.schema_is_valid",
        "(schema: any<string, object[any: any]>) => output: boolean",
        |context, args| context.call_host("graphql.schema_is_valid", args),
    ),
    Builtin::new(
        "providers.aws.sign_req",
        "(request: object[string: any], aws_config: object[string: any], time_ns: number) => signed_request: object[any: any]",
        |context, args| context.call_host("providers.aws.sign_req", args),
    ),
];

fn trace<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let note = operand::string(args, 0)?;
    context.host.trace(note);
    yes_or_no(true)
}

/// Prints its operands, with a space between.
fn print<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut text = String::new();
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        append_printed(context, *arg, &mut text)?;
    }
    context.host.print(&text);
    yes_or_no(true)
}

/// Prints each way of choosing one value from every set; an empty set is an undefined operand.
fn internal_print<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    for row in choices(context, args)? {
        let mut text = String::new();
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                text.push(' ');
            }
            match value {
                Some(value) => append_printed(context, *value, &mut text)?,
                None => text.push_str("<undefined>"),
            }
        }
        context.host.print(&text);
    }
    yes_or_no(true)
}

fn internal_test_case<'a>(_: &mut Context<'a>, _: &[Value<'a>]) -> Outcome<'a> {
    yes_or_no(true)
}

/// Every way of choosing one value from each set in the array operand.
pub(super) fn choices<'a>(
    context: &Context<'a>,
    args: &[Value<'a>],
) -> Result<Vec<Vec<Option<Value<'a>>>>, BuiltinError> {
    let mut rows = vec![Vec::new()];
    for part in operand::array(args, 0)? {
        let options: Vec<Option<Value<'a>>> = match part.as_set() {
            Some(set) if set.is_empty() => vec![None],
            Some(set) => set.iter().map(Some).collect(),
            None => vec![Some(part)],
        };
        context.spend(rows.len().saturating_mul(options.len()))?;
        context.allocate(rows.len().saturating_mul(options.len()).saturating_mul(32))?;
        rows = rows
            .iter()
            .flat_map(|row| {
                options.iter().map(move |option| {
                    let mut longer = row.clone();
                    longer.push(*option);
                    longer
                })
            })
            .collect();
    }
    Ok(rows)
}

/// Text as it is, anything else as a term.
pub(super) fn append_printed<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    out: &mut String,
) -> Result<(), BuiltinError> {
    match value.as_str() {
        Some(text) => {
            context.allocate(text.len())?;
            out.push_str(text);
            Ok(())
        }
        None => Ok(value.append_text(out, context.heap.budget())?),
    }
}

/// A missing variable is `<undefined>`; numbers keep their text, as Go's `json.Number` does. OPA
/// reads the variables as the JSON that their text as a term is, so that sets are an error.
fn render_template<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    operand::object(args, 1)?;
    let budget = context.heap.budget();
    let variables = operand::any(args, 1).to_text(budget)?;
    context.spend(text.len().saturating_add(variables.len()))?;
    context.allocate(variables.len().saturating_mul(size_of::<Json>() / 2))?;
    let variables = Json::from_json(variables.as_bytes())
        .map_err(|error| BuiltinError::Failed(error.to_string()))?;
    let variables = numbers_as_text(variables);
    let env = Env { budget, host: &modgate_template::Isolated };
    let rendered = Template::parse_with("template", text, Functions::Builtin)
        .map_err(|error| error.to_string())
        .and_then(|template| {
            template.render_bytes(&variables, &env).map_err(|error| error.to_string())
        });
    // A rendering that the budget stopped fails here, not as an error of the template.
    context.spend(1)?;
    let rendered = rendered.map_err(BuiltinError::Failed)?;
    // `slice` can cut a character.
    let mut bytes = Vec::with_capacity(rendered.len());
    for chunk in rendered.utf8_chunks() {
        bytes.extend(chunk.valid().replace("<no value>", "<undefined>").into_bytes());
        bytes.extend(chunk.invalid());
    }
    context.bytes(&bytes)
}

fn numbers_as_text(value: Json) -> Json {
    match value {
        Json::Number(number) => number.to_string().into(),
        Json::Array(items) => items.iter().cloned().map(numbers_as_text).collect(),
        Json::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), numbers_as_text(value.clone())))
            .collect(),
        other => other,
    }
}

fn rand_intn<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let key = operand::string(args, 0)?;
    let bound = operand::int(args, 1)?.unsigned_abs();
    if bound == 0 {
        return Ok(Some(Value::int(0)));
    }
    let key = context.heap.array(&[Value::str(key), Value::len(bound as usize)])?;
    context.settle("rand.intn", key, |context| {
        // Multiplying keeps the high bits and is fair enough for sampling.
        let scaled = (u128::from(context.random()?) * u128::from(bound)) >> 64;
        Ok(Some(Value::len(usize::try_from(scaled).unwrap_or(usize::MAX))))
    })
}
