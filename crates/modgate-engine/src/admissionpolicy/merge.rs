//! Merging an apply configuration into an object
//! (`apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`, `structured-merge-diff/typed`).
//!
//! Where the original walks a Go map and so finds mistakes in random order, this one sorts.

use modgate_value::{MAX_DEPTH, Number, Object, Spelling, Str, Value};

use super::types::{List, Map, Reference, Resolved, Scalar, Types};

/// A mistake, and where it is.
struct Mistake {
    path: String,
    message: String,
}

/// Merges `patch` into `object`; both are of the kind of this type.
///
/// # Errors
///
/// The API server's text.
pub(super) fn apply(
    types: &Types,
    ty: &Reference,
    object: &Value,
    patch: &Value,
) -> Result<Value, String> {
    let walk = Walk { types, indexed: false, nulls: true };
    let check = |value: &Value, duplicates: bool, what: &str| {
        let mut mistakes = Vec::new();
        // A null of an expression is not the null of a document.
        let walk = Walk { nulls: duplicates, ..walk };
        walk.validate(ty, value, duplicates, &mut String::new(), 0, &mut mistakes);
        if mistakes.is_empty() {
            return Ok(());
        }
        Err(format!("failed to convert {what} object to typed object: {}", joined(&mistakes)))
    };
    check(patch, false, "patch")?;
    let mut atomics = Vec::new();
    walk.atomics(ty, patch, &mut String::new(), 0, &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    check(object, true, "original")?;
    match walk.merge(ty, object, patch, 0) {
        Ok(merged) => Ok(merged.unwrap_or_else(|| Object::default().into())),
        Err(mistakes) => Err(format!("failed to merge patch: {}", joined(&mistakes))),
    }
}

/// The members of an object that its kind does not have, such as `spec.other`.
pub(super) fn undeclared(types: &Types, ty: &Reference, object: &Value) -> Vec<String> {
    let mut mistakes = Vec::new();
    let walk = Walk { types, indexed: true, nulls: true };
    walk.validate(ty, object, true, &mut String::new(), 0, &mut mistakes);
    let undeclared = mistakes.into_iter().filter(|mistake| mistake.message == UNDECLARED);
    undeclared.map(|mistake| mistake.path.trim_start_matches('.').to_owned()).collect()
}

/// Everything about an object that does not fit its kind, as `path: message`. A null fits everywhere.
pub(super) fn mistakes(types: &Types, ty: &Reference, object: &Value) -> Vec<String> {
    let mut mistakes = Vec::new();
    let walk = Walk { types, indexed: false, nulls: true };
    walk.validate(ty, object, false, &mut String::new(), 0, &mut mistakes);
    mistakes.iter().map(|mistake| joined(std::slice::from_ref(mistake))).collect()
}

const UNDECLARED: &str = "field not declared in schema";

fn joined(mistakes: &[Mistake]) -> String {
    let one = |mistake: &Mistake| match mistake.path.as_str() {
        "" => mistake.message.clone(),
        path => format!("{path}: {}", mistake.message),
    };
    match mistakes {
        [mistake] => one(mistake),
        mistakes => {
            let lines = mistakes.iter().map(|mistake| format!("  {}", one(mistake)));
            ["errors:".to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
        }
    }
}

/// The key of an element of a list.
#[derive(Clone, PartialEq)]
enum Identity {
    Keys(Vec<(Str, Value)>),
    Scalar(Value),
}

impl Identity {
    fn written(&self) -> String {
        match self {
            Self::Keys(keys) => {
                let keys: Vec<_> =
                    keys.iter().map(|(key, value)| format!("{key}={}", value.to_json())).collect();
                format!("[{}]", keys.join(","))
            }
            Self::Scalar(value) => format!("[={}]", value.to_json()),
        }
    }
}

#[derive(Clone, Copy)]
struct Walk<'t> {
    types: &'t Types,
    /// Whether null is a value of every type.
    nulls: bool,
    /// Whether paths name elements of lists by their places, and lists are not looked at for
    /// elements that are there twice.
    indexed: bool,
}

/// Which of the forms of a type a value has.
enum Form<'t> {
    Map(&'t Map),
    Scalar(Scalar),
    List(&'t List),
    /// The type has none.
    None,
}

/// The form that a value has, or the one it is held against if it has none of them.
fn form<'t>(resolved: Resolved<'t>, value: &Value) -> Form<'t> {
    match (value, resolved.map, resolved.scalar, resolved.list) {
        (Value::Object(_), Some(map), ..) => return Form::Map(map),
        (Value::Array(_), _, _, Some(list)) => return Form::List(list),
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _, Some(scalar), _) => {
            return Form::Scalar(scalar);
        }
        _ => {}
    }
    match (resolved.map, resolved.scalar, resolved.list) {
        (Some(map), ..) => Form::Map(map),
        (_, Some(scalar), _) => Form::Scalar(scalar),
        (_, _, Some(list)) => Form::List(list),
        _ => Form::None,
    }
}

/// Does something with a longer path.
fn below<T>(path: &mut String, part: &str, work: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push_str(part);
    let result = work(path);
    path.truncate(length);
    result
}

impl Walk<'_> {
    fn validate(
        &self,
        ty: &Reference,
        value: &Value,
        duplicates: bool,
        path: &mut String,
        depth: usize,
        mistakes: &mut Vec<Mistake>,
    ) {
        let mut mistake = |path: &str, message: String| {
            mistakes.push(Mistake { path: path.to_owned(), message });
        };
        if depth > MAX_DEPTH {
            return mistake(path, format!("it nests more than {MAX_DEPTH} levels"));
        }
        match form(self.types.resolve(ty), value) {
            Form::None => mistake(path, "schema error: invalid atom: inlined".to_owned()),
            Form::Scalar(scalar) => {
                if let Some(message) = wrong_scalar(scalar, value, self.nulls) {
                    mistake(path, message);
                }
            }
            Form::List(list) => match value {
                Value::Array(items) => {
                    self.validate_list(list, items, duplicates, path, depth, mistakes);
                }
                Value::Null if self.nulls => {}
                other => mistake(path, format!("expected list, got {}", go(other))),
            },
            Form::Map(map) => match value {
                Value::Object(members) => {
                    for (key, value) in members.iter() {
                        let field = map.fields.get(key).map(|field| &field.ty);
                        let Some(ty) = field.or(map.element.as_ref()) else {
                            mistakes.push(Mistake {
                                path: format!("{path}.{key}"),
                                message: UNDECLARED.to_owned(),
                            });
                            continue;
                        };
                        below(path, &format!(".{key}"), |path| {
                            self.validate(ty, value, duplicates, path, depth + 1, mistakes);
                        });
                    }
                }
                Value::Null if self.nulls => {}
                other => mistake(path, format!("expected map, got {}", go(other))),
            },
        }
    }

    fn validate_list(
        &self,
        list: &List,
        items: &[Value],
        duplicates: bool,
        path: &mut String,
        depth: usize,
        mistakes: &mut Vec<Mistake>,
    ) {
        let mut seen: Vec<Identity> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let part = if list.atomic || self.indexed {
                format!("[{index}]")
            } else {
                match self.identity(list, item) {
                    Err(message) => {
                        let message = format!("element {index}: {message}");
                        mistakes.push(Mistake { path: path.clone(), message });
                        return;
                    }
                    Ok(identity) => {
                        let part = identity.written();
                        if !duplicates && seen.contains(&identity) {
                            let message = format!("duplicate entries for key {part}");
                            mistakes.push(Mistake { path: path.clone(), message });
                        }
                        seen.push(identity);
                        part
                    }
                }
            };
            below(path, &part, |path| {
                self.validate(&list.element, item, duplicates, path, depth + 1, mistakes);
            });
        }
    }

    fn identity(&self, list: &List, item: &Value) -> Result<Identity, String> {
        if list.keys.is_empty() {
            let whole = "associative list without keys has an element that's";
            return match item {
                Value::Object(_) => Err(format!("{whole} a map type")),
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Null => Err(format!("{whole} an explicit null")),
                scalar => Ok(Identity::Scalar(scalar.clone())),
            };
        }
        let Value::Object(members) = item else {
            let kind = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {kind}"));
        };
        let fields = self.types.resolve(&list.element).map.map(|map| &map.fields);
        let default =
            |key: &str| fields.and_then(|fields| fields.get(key)?.default.as_ref()).cloned();
        let mut keys: Vec<(Str, Value)> = list
            .keys
            .iter()
            .filter_map(|key| {
                let value = members.get(key).cloned().or_else(|| default(key))?;
                Some((key.clone(), value))
            })
            .collect();
        if keys.is_empty() {
            let names: Vec<_> = list.keys.iter().map(|key| format!("{:?}", key.as_str())).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        keys.sort();
        Ok(Identity::Keys(keys))
    }

    /// The places of everything in a patch that would be replaced as a whole.
    fn atomics(
        &self,
        ty: &Reference,
        value: &Value,
        path: &mut String,
        depth: usize,
        found: &mut Vec<String>,
    ) {
        if depth > MAX_DEPTH {
            return;
        }
        let resolved = self.types.resolve(ty);
        match (value, resolved.map, resolved.list) {
            (Value::Object(members), Some(map), _) => {
                if resolved.is_atomic(map.atomic) {
                    found.push(path.clone());
                }
                for (key, value) in members.iter() {
                    if let Some(field) = map.fields.get(key) {
                        below(path, &format!(".{key}"), |path| {
                            self.atomics(&field.ty, value, path, depth + 1, found);
                        });
                    }
                }
            }
            (Value::Array(items), _, Some(list)) => {
                if resolved.is_atomic(list.atomic) {
                    found.push(path.clone());
                }
                for (index, item) in items.iter().enumerate() {
                    below(path, &format!("[{index}]"), |path| {
                        self.atomics(&list.element, item, path, depth + 1, found);
                    });
                }
            }
            _ => {}
        }
    }

    /// `left` merged with `right`; `None` for a removed value.
    fn merge(
        &self,
        ty: &Reference,
        left: &Value,
        right: &Value,
        depth: usize,
    ) -> Result<Option<Value>, Vec<Mistake>> {
        if depth > MAX_DEPTH {
            let message = format!("it nests more than {MAX_DEPTH} levels");
            return Err(vec![Mistake { path: String::new(), message }]);
        }
        let resolved = self.types.resolve(ty);
        match form(resolved, right) {
            Form::Map(map) if !resolved.is_atomic(map.atomic) => {
                let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
                let (old, new) = (members(left), members(right));
                if old.is_empty() && new.is_empty() {
                    return Ok(Some(right.clone()));
                }
                let mut merged = old.clone();
                for (key, value) in new.iter() {
                    let field = map.fields.get(key).map(|field| &field.ty);
                    let merged_value = match (old.get(key), field.or(map.element.as_ref())) {
                        (Some(before), Some(ty)) => self.merge(ty, before, value, depth + 1)?,
                        _ => Some(value.clone()),
                    };
                    match merged_value {
                        Some(value) => merged.insert(key.clone(), value),
                        None => merged.remove(key),
                    };
                }
                Ok((!merged.is_empty()).then(|| merged.into()))
            }
            Form::List(list) if !resolved.is_atomic(list.atomic) => {
                let items = |value: &Value| value.as_array().map(|items| items.to_vec());
                let (old, new) =
                    (items(left).unwrap_or_default(), items(right).unwrap_or_default());
                if old.is_empty() && new.is_empty() {
                    return Ok(Some(right.clone()));
                }
                let merged = self.merge_lists(list, &old, &new, depth)?;
                Ok((!merged.is_empty()).then(|| Value::from(merged)))
            }
            _ => Ok(Some(right.clone())),
        }
    }

    fn identities(&self, list: &List, items: &[Value]) -> Result<Vec<Identity>, Vec<Mistake>> {
        let identity = |(index, item)| {
            self.identity(list, item).map_err(|message| {
                let message = format!("element {index}: {message}");
                vec![Mistake { path: String::new(), message }]
            })
        };
        items.iter().enumerate().map(identity).collect()
    }

    /// The elements of both, in an order that keeps that of the new list, and that of the old one
    /// where it can.
    fn merge_lists(
        &self,
        list: &List,
        old: &[Value],
        new: &[Value],
        depth: usize,
    ) -> Result<Vec<Value>, Vec<Mistake>> {
        let (old_ids, new_ids) = (self.identities(list, old)?, self.identities(list, new)?);
        let position = |ids: &[Identity], wanted: &Identity| ids.iter().position(|id| id == wanted);
        // Where the counterpart of each element is; an old element that is there twice has none.
        let of_old: Vec<Option<usize>> = old_ids.iter().map(|id| position(&new_ids, id)).collect();
        let of_new: Vec<Option<usize>> = new_ids
            .iter()
            .map(|id| {
                position(&old_ids, id)
                    .filter(|_| old_ids.iter().filter(|it| *it == id).count() == 1)
            })
            .collect();
        let shared: Vec<usize> = (0..new_ids.len())
            .filter(|index| new_ids.get(*index).is_some_and(|id| old_ids.contains(id)))
            .collect();
        let mut shared = shared.into_iter();
        let mut next = shared.next();
        let mut taken = vec![false; new.len()];
        let (mut left, mut right) = (0, 0);
        let mut out = Vec::with_capacity(old.len().max(new.len()));
        let take = |index: usize, taken: &mut Vec<bool>, out: &mut Vec<Value>| {
            if let Some(slot) = taken.get_mut(index) {
                *slot = true;
            }
            let Some(value) = new.get(index) else { return Ok(()) };
            let before = of_new.get(index).copied().flatten().and_then(|at| old.get(at));
            let merged = match before {
                Some(before) => self.merge(&list.element, before, value, depth + 1)?,
                None => Some(value.clone()),
            };
            out.extend(merged);
            Ok::<(), Vec<Mistake>>(())
        };
        while left < old.len() || right < new.len() {
            let counterpart = of_old.get(left).copied().flatten();
            if left < old.len() && right < new.len() {
                if counterpart == Some(right) {
                    take(right, &mut taken, &mut out)?;
                    left += 1;
                    right += 1;
                    next = shared.next();
                    continue;
                }
                if counterpart.is_some() && next.is_some() && next != counterpart {
                    left += 1;
                    continue;
                }
            }
            if left < old.len() {
                match counterpart {
                    None => {
                        out.extend(old.get(left).cloned());
                        left += 1;
                        continue;
                    }
                    Some(index) if taken.get(index) == Some(&true) => left += 1,
                    Some(_) => {}
                }
            }
            if right < new.len() {
                take(right, &mut taken, &mut out)?;
                if next == Some(right) {
                    next = shared.next();
                }
                right += 1;
            }
        }
        Ok(out)
    }
}

fn wrong_scalar(scalar: Scalar, value: &Value, nulls: bool) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null) if nulls => None,
        (Scalar::Numeric, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => {
            Some(format!("expected numeric (int or float), got {}", go_type(other)))
        }
        (Scalar::Text, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(other)
        )),
        (Scalar::Boolean, other) => Some(format!("expected boolean, got {}", go(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got {}", go(other))),
    }
}

/// As Go's `%v` prints the value.
fn go(value: &Value) -> String {
    if value.is_null() {
        return "&{NULL_VALUE}".to_owned();
    }
    format!("&{{{}}}", modgate_value::gofmt::text(value))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Number(number) if is_int(number) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn is_int(number: &Number) -> bool {
    matches!(number.spelling(), Spelling::Int(_)) || number.is_integer_text()
}

/// As Go's `%#v` prints the value.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{:?}:{}", key.as_str(), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => scalar.to_json(),
    }
}
