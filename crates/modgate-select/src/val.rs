//! The values of expressions.

use std::{borrow::Cow, sync::Arc};

use modgate_value::{Array, Number, Object, Str, Value, gofloat, gofmt, gotime::Time};

/// The value of an expression: borrowed from the document or the expression where it can be.
#[derive(Debug, Clone)]
pub enum Val<'a> {
    /// A missing key, and anything looked up below null or undefined.
    Undefined,
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// Any number but a length: a 64-bit float, as KubeMod has it.
    Number(f64),
    /// The result of `length()`.
    Int(i64),
    /// Text.
    Str(Cow<'a, str>),
    /// A list.
    Array(List<'a>),
    /// A map.
    Object(Map<'a>),
    /// The result of `date()`.
    Time(Box<Time>),
}

/// A list, of the document or built by the expression.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Part of the document.
    Json(&'a Array),
    /// Built by a multi step or an array literal.
    Built(Arc<[Val<'a>]>),
}

/// A map, of the document or built by the expression.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Part of the document.
    Json(&'a Object),
    /// Built by an object literal; sorted by key, keys distinct.
    Built(Arc<[(Str, Val<'a>)]>),
}

impl<'a> From<&'a Value> for Val<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.as_f64()),
            Value::String(text) => Self::Str(Cow::Borrowed(text.as_str())),
            Value::Array(array) => Self::Array(List::Json(array)),
            Value::Object(object) => Self::Object(Map::Json(object)),
        }
    }
}

impl<'a> Val<'a> {
    /// The Go type name that error texts show (`%T`).
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Undefined => "jsonpath.UndefinedType",
            Self::Null => "<nil>",
            Self::Bool(_) => "bool",
            Self::Number(_) => "float64",
            Self::Int(_) => "int",
            Self::Str(_) => "string",
            Self::Array(_) => "[]interface {}",
            Self::Object(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
        }
    }

    /// Whether this is undefined.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// The text that `matchValue` and friends compare (spec `kubemod.md`, 3.3 and appendix B).
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Str(text) => Cow::Borrowed(text),
            Self::Undefined => Cow::Borrowed(""),
            Self::Null => Cow::Borrowed("<nil>"),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            _ => {
                let mut out = String::new();
                self.append_text(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Appends [`Val::text`] to `out`.
    pub fn append_text(&self, out: &mut String) {
        use std::fmt::Write as _;
        match self {
            Self::Undefined => {}
            Self::Null => out.push_str("<nil>"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(value) => out.push_str(&gofloat::general(*value)),
            Self::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Str(text) => out.push_str(text),
            Self::Time(time) => {
                let _ = write!(out, "{time}");
            }
            Self::Array(List::Json(array)) => {
                gofmt::append_text(&Value::Array((*array).clone()), out);
            }
            Self::Array(List::Built(list)) => {
                out.push('[');
                for (index, element) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(' ');
                    }
                    element.append_text(out);
                }
                out.push(']');
            }
            Self::Object(Map::Json(object)) => {
                gofmt::append_text(&Value::Object((*object).clone()), out);
            }
            Self::Object(Map::Built(entries)) => {
                out.push_str("map[");
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(' ');
                    }
                    out.push_str(key);
                    out.push(':');
                    value.append_text(out);
                }
                out.push(']');
            }
        }
    }

    /// As JSON; `None` for undefined and for numbers JSON lacks, anywhere inside. A timestamp is
    /// its text.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Undefined => return None,
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(Number::from_f64(*value)?),
            Self::Int(value) => Value::from(*value),
            Self::Str(text) => Value::from(text.as_ref()),
            Self::Time(time) => Value::from(time.to_string()),
            Self::Array(List::Json(array)) => Value::Array((*array).clone()),
            Self::Array(list) => {
                Value::Array(list.iter().map(|val| val.to_json()).collect::<Option<_>>()?)
            }
            Self::Object(Map::Json(object)) => Value::Object((*object).clone()),
            Self::Object(Map::Built(entries)) => Value::Object(
                entries
                    .iter()
                    .map(|(key, val)| Some((key.clone(), val.to_json()?)))
                    .collect::<Option<_>>()?,
            ),
        })
    }
}

impl<'a> List<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(array) => array.len(),
            Self::Built(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::Json(array) => array.get(index).map(Val::from),
            Self::Built(values) => values.get(index).cloned(),
        }
    }

    /// Whether both are the same list, hence equal without looking.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(left), Self::Json(right)) => left.ptr_eq(right),
            (Self::Built(left), Self::Built(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    /// How many members there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(object) => object.len(),
            Self::Built(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are the same map, hence equal without looking.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(left), Self::Json(right)) => left.ptr_eq(right),
            (Self::Built(left), Self::Built(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }

    /// The members, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Val<'a>)> + '_ {
        (0..self.len()).filter_map(|index| self.at(index))
    }

    /// The member at `index` in the order of keys.
    pub(crate) fn at(&self, index: usize) -> Option<(&str, Val<'a>)> {
        match self {
            Self::Json(object) => {
                object.as_slice().get(index).map(|(key, value)| (key.as_str(), Val::from(value)))
            }
            Self::Built(entries) => {
                entries.get(index).map(|(key, val)| (key.as_str(), val.clone()))
            }
        }
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<Val<'a>> {
        match self {
            Self::Json(object) => object.get(key).map(Val::from),
            Self::Built(entries) => {
                let at = entries.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
                entries.get(at).map(|(_, val)| val.clone())
            }
        }
    }
}
