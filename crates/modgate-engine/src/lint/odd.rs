//! Invisible letters in keys and texts of policies, and typographic quotation marks around texts.

use modgate_value::{Value, diag::Span, odd, pointer::below};

use super::Lints;
use crate::Code;

/// Fields with texts for people, which may have any letter.
const FOR_PEOPLE: [&str; 6] =
    ["annotations", "description", "example", "message", "rejectMessage", "title"];

/// How many letters of a policy are reported.
const MAX_FOUND: usize = 20;

/// How deep a policy is looked at.
const MAX_DEPTH: usize = 64;

/// Checks the whole policy.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let mut found = Vec::new();
    visit(lints.object(), &mut Vec::new(), &mut found);
    for OddPlace { path, at, message, help } in found {
        let pointer = path.iter().fold(String::new(), |pointer, name| below(&pointer, name));
        let positions = lints.source.positions.as_ref();
        let position = positions.map(|all| match at {
            Some(_) => all.value(&pointer).unwrap_or_else(|| all.nearest_key(&pointer)).into(),
            None => all.nearest_key(&pointer).into(),
        });
        let field = field_of(&path);
        lints.at(Code::OddLetter, &field, position, message, Some(help));
        let text = lints.object().pointer(&pointer).and_then(Value::as_str);
        if let (Some(span), Some(text)) = (at, text) {
            lints.mark(text, span);
        }
    }
}

/// The path as Kubernetes writes it: `spec.match[0].select`.
fn field_of(path: &[String]) -> String {
    let mut field = String::new();
    for name in path {
        match name.parse::<usize>() {
            Ok(index) => field.push_str(&format!("[{index}]")),
            Err(_) if field.is_empty() => field.push_str(name),
            Err(_) => field.push_str(&format!(".{name}")),
        }
    }
    field
}

struct OddPlace {
    path: Vec<String>,
    /// The letter within a text; `None` for one in the last key.
    at: Option<Span>,
    message: String,
    help: String,
}

fn visit(value: &Value, path: &mut Vec<String>, found: &mut Vec<OddPlace>) {
    if found.len() >= MAX_FOUND || path.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members.iter() {
                path.push(key.to_string());
                if let Some((_, letter, name)) = odd::first_unseen(key) {
                    let message = format!("the key has {name}, which is not seen");
                    let help = odd::advice(letter).unwrap_or_default();
                    found.push(OddPlace { path: path.clone(), at: None, message, help });
                }
                if !FOR_PEOPLE.contains(&key.as_str()) {
                    visit(value, path, found);
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                visit(item, path, found);
                path.pop();
            }
        }
        Value::String(text) => {
            if let Some((at, letter, name)) = odd::first_unseen(text) {
                found.push(OddPlace {
                    path: path.clone(),
                    at: Some(Span::new(at, at + letter.len_utf8())),
                    message: format!("the text has {name}, which is not seen"),
                    help: odd::advice(letter).unwrap_or_default(),
                });
            } else if odd::is_typeset_quotation(text) {
                found.push(OddPlace {
                    path: path.clone(),
                    at: Some(Span::new(0, text.len())),
                    message: "the quotation marks are letters of typesetting, so they are a part of the text"
                        .to_owned(),
                    help: "write `\"`, or leave the quotes out".to_owned(),
                });
            }
        }
        _ => {}
    }
}
