//! `modgate select`: one expression on its own.

use std::io::{self, Write};

use anyhow::Result;
use modgate_select::{EvalError, Expr, Item, Key, PatchSelect, Val};
use modgate_value::{
    Budget, Object, Value,
    diag::{Diagnostic, Source, Span},
};

use crate::{
    args::{SelectArgs, TextOrJson},
    exit::Exit,
    inputs::manifests,
    review::print_json,
    terminal::{Terminal, Tone, printable},
};

/// Runs the verb.
pub(crate) fn run(args: &SelectArgs, terminal: &Terminal) -> Result<Exit> {
    let source = Source::new("expression", args.expression.as_str());
    let expression = match Expr::parse(&args.expression) {
        Ok(expression) => expression,
        Err(error) => {
            let span = visible(&source, error.span);
            let mut finding = Diagnostic::error(error.detail).at(source, span);
            finding.help = error.help.map(str::to_owned);
            terminal.diagnostic(&finding);
            return Ok(Exit::BadInput);
        }
    };
    for lint in expression.lints() {
        let mut finding = Diagnostic::warning(format!("{} ({})", lint.message, lint.id))
            .at(source.clone(), lint.span);
        finding.help = lint.help;
        terminal.diagnostic(&finding);
    }
    // A bare path has captured keys; anything else has just a value.
    let select = PatchSelect::parse(&args.expression).ok();
    let mut incomplete = false;
    let objects = manifests(&args.objects, terminal, &mut incomplete);
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
                let message = match error {
                    EvalError::Failed { message, .. } => message,
                    EvalError::Exhausted(error) => error.to_string(),
                };
                terminal.diagnostic(
                    &Diagnostic::error(format!("{message} in {}", manifest.location()))
                        .at(source.clone(), span),
                );
                continue;
            }
        };
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
                all.push(
                    [("source", Value::from(manifest.location())), ("results", results)]
                        .into_iter()
                        .collect(),
                );
            }
        }
    }
    if args.output == TextOrJson::Json && !args.objects.is_empty() {
        print_json(&mut out, &all.into())?;
    }
    out.flush()?;
    Ok(exit)
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
        // Undefined is the absence of a value, also here.
        if let Some(value) = self.value.to_json() {
            members.insert("value", value);
        }
        members.into()
    }
}
