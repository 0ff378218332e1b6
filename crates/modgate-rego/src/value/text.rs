//! Values as text and as JSON.

use std::fmt;

use modgate_value::{Budget, Value as Json, gofmt};

use super::{Items, Limit, MAX_DEPTH, Value, View, ground::json_number};

/// Room for a short text, in bytes.
const FEW: usize = 64;

impl Value<'_> {
    /// The term as OPA prints it: `{"a": [1, "b"]}`, `{1, 2}`, `set()`.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]; [`Limit::Depth`] for parts of a document that nest too deeply.
    pub fn to_text(self, budget: &Budget<'_>) -> Result<String, Limit> {
        let mut out = String::with_capacity(FEW);
        self.append_text(&mut out, budget)?;
        Ok(out)
    }

    /// Appends what [`to_text`](Self::to_text) returns.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]; [`Limit::Depth`] for parts of a document that nest too deeply.
    pub fn append_text(self, out: &mut String, budget: &Budget<'_>) -> Result<(), Limit> {
        self.append_at(0, out, budget)
    }

    fn append_at(self, depth: usize, out: &mut String, budget: &Budget<'_>) -> Result<(), Limit> {
        budget.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(Limit::Depth);
        }
        if let Some(text) = self.as_utf8() {
            budget.allocate(text.len())?;
            gofmt::append_quoted(text, out);
            return Ok(());
        }
        let start = out.len();
        match self.view() {
            View::Null => out.push_str("null"),
            View::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            View::Number(number) => out.push_str(&number.text()),
            View::String(text) => {
                budget.allocate(text.len())?;
                append_quoted_bytes(self.as_bytes().unwrap_or_default(), out);
                return Ok(());
            }
            View::Array(array) => return list(array.iter(), ['[', ']'], depth, out, budget),
            View::Set(set) if set.is_empty() => out.push_str("set()"),
            View::Set(set) => return list(set.iter(), ['{', '}'], depth, out, budget),
            View::Object(object) => {
                budget.allocate(object.len().saturating_mul(4))?;
                let mut separator = "{";
                let mut member = |key: Value<'_>, value: Value<'_>| {
                    out.push_str(separator);
                    separator = ", ";
                    key.append_at(depth + 1, out, budget)?;
                    out.push_str(": ");
                    value.append_at(depth + 1, out, budget)
                };
                match self.as_json_object() {
                    Some(object) => object
                        .iter()
                        .try_for_each(|(key, value)| member(Value::str(key), Value::json(value)))?,
                    None => object.iter().try_for_each(|(key, value)| member(key, value))?,
                }
                out.push_str(if object.is_empty() { "{}" } else { "}" });
                return Ok(());
            }
        }
        Ok(budget.allocate(out.len() - start)?)
    }

    /// The value as JSON: sets become arrays, keys that are not text become their JSON text.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]; [`Limit::Depth`] when it nests deeper than a document may.
    pub fn to_json(self, budget: &Budget<'_>) -> Result<Json, Limit> {
        self.json_at(0, budget)
    }

    fn json_at(self, depth: usize, budget: &Budget<'_>) -> Result<Json, Limit> {
        budget.spend(1)?;
        budget.allocate(size_of::<Json>())?;
        if depth > MAX_DEPTH {
            return Err(Limit::Depth);
        }
        Ok(match self.view() {
            View::Null => Json::Null,
            View::Bool(value) => value.into(),
            View::Number(number) => json_number(number),
            View::String(text) => {
                budget.allocate(text.len())?;
                text.into()
            }
            View::Array(array) => json_list(array.iter(), depth, budget)?,
            View::Set(set) => json_list(set.iter(), depth, budget)?,
            View::Object(object) => {
                let members: Vec<_> = object
                    .iter()
                    .map(|(key, value)| {
                        let value = value.json_at(depth + 1, budget)?;
                        Ok((key.json_key(depth, budget)?, value))
                    })
                    .collect::<Result<_, Limit>>()?;
                Json::from_iter(members)
            }
        })
    }

    fn json_key(self, depth: usize, budget: &Budget<'_>) -> Result<String, Limit> {
        match self.as_str() {
            Some(text) => {
                budget.allocate(text.len())?;
                Ok(text.to_owned())
            }
            None => Ok(self.json_at(depth + 1, budget)?.to_json()),
        }
    }
}

/// Go's `strconv.Quote`: a byte that is not part of a character is `\xff`.
fn append_quoted_bytes(bytes: &[u8], out: &mut String) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        let quoted = gofmt::quote(chunk.valid());
        out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out.push('"');
}

fn list(
    items: Items<'_>,
    [open, close]: [char; 2],
    depth: usize,
    out: &mut String,
    budget: &Budget<'_>,
) -> Result<(), Limit> {
    budget.allocate(items.len().saturating_mul(2))?;
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        item.append_at(depth + 1, out, budget)?;
    }
    out.push(close);
    Ok(())
}

fn json_list(items: Items<'_>, depth: usize, budget: &Budget<'_>) -> Result<Json, Limit> {
    items.map(|item| item.json_at(depth + 1, budget)).collect::<Result<Vec<_>, _>>().map(Json::from)
}

/// As OPA prints the term.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(&Budget::unlimited()).map_err(|_| fmt::Error)?)
    }
}

/// As OPA prints the term.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
