//! `modgate select`: one expression on its own.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use anyhow::Result;
use modgate_engine::modrule::select_advice;
use modgate_select::{EvalError, Expr, Item, Key, PatchSelect, Val};
use modgate_value::{
    Budget, Object, Value,
    diag::{Diagnostic, Source, Span},
    near,
};

use crate::{
    args::{PathArgs, SelectArgs, TextOrJson},
    exit::Exit,
    inputs::{are_good, manifests},
    outputs::print_json,
    terminal::{Terminal, Tone, printable},
};

/// Runs the verb.
pub(crate) fn run(args: &SelectArgs, terminal: &Terminal) -> Result<Exit> {
    let source = Source::new("expression", args.expression.as_str());
    let expression = match Expr::parse(&args.expression) {
        Ok(expression) => expression,
        Err(error) => {
            let (word, help) = select_advice(&args.expression, error.span);
            let span = word.unwrap_or_else(|| visible(&source, error.span));
            let mut finding = Diagnostic::error(error.detail).at(source, span);
            finding.help = help.or(error.help.map(str::to_owned));
            terminal.diagnostic(&finding);
            return Ok(Exit::BadInput);
        }
    };
    let warnings = expression.lints().into_iter().map(|lint| {
        let warning = Diagnostic::warning(format!("{} ({})", lint.message, lint.id));
        let mut warning = warning.at(source.clone(), lint.span);
        warning.help = lint.help;
        warning
    });
    if !are_good(warnings.collect(), args.strict, terminal) {
        return Ok(Exit::BadInput);
    }
    // A bare path has captured keys; anything else has just a value.
    let select = PatchSelect::parse(&args.expression).ok();
    let mut incomplete = false;
    let objects = manifests(&PathArgs::of(&args.objects), terminal, &mut incomplete)?;
    let mut exit = if incomplete { Exit::BadInput } else { Exit::Success };
    let mut out = io::stdout().lock();
    let mut all = Vec::new();
    let several = objects.len() > 1;
    for (manifest, _) in &objects {
        let budget = Budget::unlimited();
        let evaluated = match &select {
            Some(select) => select
                .items(&manifest.object, &budget)
                .map(|items| items.into_iter().map(Selected::from).collect()),
            None => expression
                .eval(&manifest.object, &budget)
                .map(|value| vec![Selected { keys: Vec::new(), value }]),
        };
        let selected: Vec<Selected<'_>> = match evaluated {
            Ok(selected) => selected,
            Err(error) => {
                exit = Exit::BadInput;
                let span = error.span().unwrap_or(Span::new(0, source.text.len()));
                terminal.diagnostic(
                    &Diagnostic::error(format!("{} in {}", message_of(error), manifest.location()))
                        .at(source.clone(), span),
                );
                continue;
            }
        };
        // A path that selects nothing in `patch` may be an error in `match`.
        let mut failure = None;
        if let Some(select) = select.as_ref().filter(|_| selected.is_empty()) {
            failure = expression.eval(&manifest.object, &budget).err().map(message_of);
            let place = manifest.location();
            let undefined = undefined_at(select_text(args), select, &manifest.object);
            match (undefined, &failure) {
                (Some(why), None) => terminal.line(format_args!("{place}: {why}")),
                (why, Some(failure)) => terminal.line(format_args!(
                    "{place}: {}; in `match` the expression fails: {}",
                    why.unwrap_or_else(|| "undefined".to_owned()),
                    printable(failure)
                )),
                (None, None) => {}
            }
        }
        match args.output {
            TextOrJson::Text => {
                if several {
                    let place = format!("{}:", manifest.location());
                    writeln!(out, "{}", terminal.paint(Tone::Heading, place))?;
                }
                for each in &selected {
                    each.print(&mut out, terminal)?;
                }
            }
            TextOrJson::Json => {
                let results: Value = selected.iter().map(Selected::to_json).collect();
                let mut members: Object =
                    [("source", Value::from(manifest.location())), ("results", results)]
                        .into_iter()
                        .collect();
                if let Some(failure) = failure {
                    members.insert("matchError", failure.into());
                }
                all.push(members.into());
            }
        }
    }
    if args.output == TextOrJson::Json && !args.objects.is_empty() {
        print_json(&mut out, &all.into())?;
    }
    out.flush()?;
    Ok(exit)
}

fn message_of(error: EvalError) -> String {
    match error {
        EvalError::Failed { message, .. } => message,
        EvalError::Exhausted(error) => error.to_string(),
    }
}

fn select_text(args: &SelectArgs) -> &str {
    args.expression.trim()
}

/// Why a path selects nothing: the first member or element that no object on the way has.
fn undefined_at(text: &str, whole: &PatchSelect, object: &Value) -> Option<String> {
    let budget = Budget::unlimited();
    if !whole.items(object, &budget).ok()?.is_empty() {
        return None;
    }
    let mut before = "";
    for end in steps(text) {
        let prefix = text.get(..end)?;
        let parsed = PatchSelect::parse(prefix).ok()?;
        if !parsed.items(object, &budget).ok()?.is_empty() {
            before = prefix;
            continue;
        }
        let step = prefix.get(before.len()..)?;
        let name = step.trim_matches(['.', '[', ']', '"', '\'']);
        let parent = PatchSelect::parse(before).ok().filter(|_| !before.is_empty());
        let items = parent.as_ref().and_then(|parent| parent.items(object, &budget).ok());
        let parents: Vec<Value> = match items {
            Some(items) => items.iter().filter_map(|item| item.value.to_json()).collect(),
            None => vec![object.clone()],
        };
        let members = parents.iter().filter_map(Value::as_object).flat_map(|it| it.keys());
        let members: BTreeSet<&str> = members.map(|key| key.as_str()).collect();
        let help = match near::did_you_mean(name, members.iter().copied()) {
            Some(help) => format!("; {help}"),
            None if step.starts_with("[?") => "; no element passes the filter".to_owned(),
            None if members.is_empty() => String::new(),
            None => format!("; members: {}", members.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Some(printable(&format!("undefined at `{step}`{help}")));
    }
    None
}

/// Where the steps of a path end: before each `.` and `[` outside of brackets and quotes.
fn steps(text: &str) -> Vec<usize> {
    let (mut depth, mut quote, mut ends) = (0_usize, None, Vec::new());
    for (index, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'[' | b'(', None) => {
                if depth == 0 && index > 0 {
                    ends.push(index);
                }
                depth += 1;
            }
            (b']' | b')', None) => depth = depth.saturating_sub(1),
            (b'.', None) if depth == 0 && index > 0 => ends.push(index),
            _ => {}
        }
    }
    ends.push(text.len());
    // `..name` is one step.
    ends.retain(|end| !text.get(..*end).is_some_and(|before| before.ends_with('.')));
    ends
}

/// The span, or where it would be invisible the last character before it.
fn visible(source: &Source, span: Span) -> Span {
    if span.start < source.text.len() || source.text.is_empty() {
        return span;
    }
    Span::new(source.text.len(), source.text.len())
}

/// One result: what `#0`, `#1`… would stand for, and the value.
struct Selected<'a> {
    keys: Vec<Key>,
    value: Val<'a>,
}

impl<'a> From<Item<'a>> for Selected<'a> {
    fn from(item: Item<'a>) -> Self {
        Self { keys: item.keys, value: item.value }
    }
}

impl Selected<'_> {
    fn print(&self, out: &mut impl Write, terminal: &Terminal) -> Result<()> {
        for (index, key) in self.keys.iter().enumerate() {
            let key = match key {
                Key::Index(index) => index.to_string(),
                Key::Name(name) => printable(name),
            };
            write!(out, "{}  ", terminal.paint(Tone::Faint, format_args!("#{index}={key}")))?;
        }
        let text = match (self.value.to_json(), &self.value) {
            (Some(json), _) => json.to_json(),
            (None, Val::Undefined) => "undefined".to_owned(),
            // JSON has no not-a-number and no infinity.
            (None, value) => value.text().into_owned(),
        };
        Ok(writeln!(out, "{text}")?)
    }

    fn to_json(&self) -> Value {
        let keys: Value = self
            .keys
            .iter()
            .map(|key| match key {
                Key::Index(index) => Value::from(i64::try_from(*index).unwrap_or(i64::MAX)),
                Key::Name(name) => Value::from(name.clone()),
            })
            .collect();
        let mut members: Object = [("keys", keys)].into_iter().collect();
        // Undefined is the absence of a value, also here. JSON has no not-a-number and no infinity:
        // then there is the text that ModRules compare.
        match self.value.to_json() {
            Some(value) => members.insert("value", value),
            None if self.value.is_undefined() => None,
            None => members.insert("text", self.value.text().into_owned().into()),
        };
        members.into()
    }
}
