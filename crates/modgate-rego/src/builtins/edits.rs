//! Changing documents: JSON patch, and keeping or dropping what paths name.

use std::collections::BTreeMap;

use modgate_value::pointer;

use super::{Builtin, BuiltinError, Context, Outcome, operand};
use crate::value::{MAX_DEPTH, Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "json.filter",
        "(object: object[any: any], paths: any<array[any<string, array[any]>], set[any<string, array[any]>]>) => filtered: any",
        filter,
    ),
    Builtin::new(
        "json.remove",
        "(object: object[any: any], paths: any<array[any<string, array[any]>], set[any<string, array[any]>]>) => output: any",
        remove,
    ),
    Builtin::new(
        "json.patch",
        "(target: any, patches: array[object<op: string, path: any>[any: any]]) => output: any",
        patch,
    ),
];

/// Paths by their first segment; a path that ends here makes it whole.
enum Paths<'a> {
    Whole,
    Under(BTreeMap<Value<'a>, Paths<'a>>),
}

impl<'a> Paths<'a> {
    fn get(&self, key: Value<'a>) -> Option<&Self> {
        match self {
            Self::Whole => None,
            Self::Under(members) => members.get(&key),
        }
    }

    fn add(&mut self, path: &[Value<'a>]) {
        let Some((last, above)) = path.split_last() else { return };
        let mut node = self;
        for segment in above {
            match node {
                Self::Whole => return,
                Self::Under(members) => {
                    node = members.entry(*segment).or_insert_with(|| Self::Under(BTreeMap::new()));
                }
            }
        }
        if let Self::Under(members) = node {
            members.insert(*last, Self::Whole);
        }
    }
}

/// No value is as deep, so what comes after in a path makes no difference.
const LONGEST_PATH: usize = 2 * MAX_DEPTH + 2;

/// The segments of a path: text between slashes, or the elements of an array.
fn path<'a>(context: &Context<'a>, value: Value<'a>) -> Result<Vec<Value<'a>>, BuiltinError> {
    match value.view() {
        View::String("") => Ok(Vec::new()),
        View::String(text) => {
            context.spend(text.len())?;
            let segments = text.trim_start_matches('/').split('/').take(LONGEST_PATH);
            segments
                .map(|segment| {
                    if !segment.contains('~') {
                        return Ok(Value::str(segment));
                    }
                    Ok(context.heap.string(&pointer::unescape(segment))?)
                })
                .collect()
        }
        View::Array(segments) => {
            context.spend(segments.len())?;
            Ok(segments.iter().take(LONGEST_PATH).collect())
        }
        _ => Err(operand::wrong(
            1,
            &format!(
                "must be one of {{set, array}} containing string paths or array of path segments \
                 but got {}",
                value.type_name()
            ),
        )),
    }
}

fn paths<'a>(context: &Context<'a>, args: &[Value<'a>]) -> Result<Paths<'a>, BuiltinError> {
    let mut all = Paths::Under(BTreeMap::new());
    for item in operand::elements(args, 1, &["set", "array"])? {
        let path = path(context, item)?;
        // Each segment may begin a map, which makes room for eleven.
        context.allocate(path.len().saturating_mul(size_of::<(Value<'_>, Paths<'_>)>() * 12))?;
        all.add(&path);
    }
    Ok(all)
}

/// The key under which paths name the entry at `index`: elements of arrays by decimal text.
fn segment<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    index: usize,
    key: Value<'a>,
) -> Result<Value<'a>, BuiltinError> {
    match value.as_array() {
        Some(_) => Ok(context.heap.string(&index.to_string())?),
        None => Ok(key),
    }
}

/// The value with other entries of the same kind: `None` leaves one out.
fn rebuild<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    mut entry: impl FnMut(usize, Value<'a>, Value<'a>) -> Result<Option<Value<'a>>, BuiltinError>,
) -> Result<Value<'a>, BuiltinError> {
    let count = value.entry_count().unwrap_or(0);
    context.spend(count)?;
    let mut kept = Vec::with_capacity(count);
    for index in 0..count {
        if let Some((key, inner)) = value.entry(index)
            && let Some(inner) = entry(index, key, inner)?
        {
            kept.push((key, inner));
        }
    }
    if value.as_object().is_some() {
        return Ok(context.heap.object_from_sorted(&kept)?);
    }
    let items: Vec<_> = kept.into_iter().map(|(_, inner)| inner).collect();
    Ok(match value.as_set() {
        Some(_) => context.heap.set(items)?,
        None => context.heap.array(&items)?,
    })
}

fn filter<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    operand::object(args, 0)?;
    let paths = paths(context, args)?;
    Ok(Some(keep(context, operand::any(args, 0), &paths)?))
}

fn keep<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    paths: &Paths<'a>,
) -> Result<Value<'a>, BuiltinError> {
    if matches!(paths, Paths::Whole) || !value.is_composite() {
        return Ok(value);
    }
    rebuild(context, value, |index, key, inner| {
        match paths.get(segment(context, value, index, key)?) {
            Some(paths) => keep(context, inner, paths).map(Some),
            None => Ok(None),
        }
    })
}

fn remove<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    operand::object(args, 0)?;
    let paths = paths(context, args)?;
    discard(context, operand::any(args, 0), &paths)
}

fn discard<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    paths: &Paths<'a>,
) -> Result<Option<Value<'a>>, BuiltinError> {
    if matches!(paths, Paths::Whole) {
        return Ok(None);
    }
    if !value.is_composite() {
        return Ok(Some(value));
    }
    rebuild(context, value, |index, key, inner| {
        match paths.get(segment(context, value, index, key)?) {
            Some(paths) => discard(context, inner, paths),
            None => Ok(Some(inner)),
        }
    })
    .map(Some)
}

/// The operation of a patch step at the end of its path.
#[derive(Clone, Copy)]
enum Edit<'a> {
    Insert(Value<'a>),
    Delete,
}

/// RFC 6902 with paths through sets as well (`internal/edittree/edittree.go`).
fn patch<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut document = Some(operand::any(args, 0));
    for operation in operand::array(args, 1)? {
        let Some(fields) = operation.as_object() else {
            return Err(BuiltinError::failed(
                "must be an array of JSON-Patch objects, but at least one element is not an object",
            ));
        };
        let attribute = |name: &str| {
            fields
                .get_str(name)
                .ok_or_else(|| BuiltinError::failed(format!("missing required attribute '{name}'")))
        };
        let at = attribute("path")?;
        let op = attribute("op")?;
        let Some(op) = op.as_str() else {
            let got = op.type_name();
            return Err(BuiltinError::failed(format!(
                "attribute 'op' must be a string but found: {got}"
            )));
        };
        let at = path(context, at)?;
        let from = || path(context, attribute("from")?);
        let delete = |document, at: &[Value<'a>]| edit(context, document, at, Edit::Delete);
        let insert =
            |document, at: &[Value<'a>], value| edit(context, document, at, Edit::Insert(value));
        document = match op {
            "add" => insert(document, &at, attribute("value")?)?,
            "remove" => delete(document, &at)?,
            "replace" => insert(delete(document, &at)?, &at, attribute("value")?)?,
            "move" => {
                let from = from()?;
                let value = find(context, document, &from)?;
                insert(delete(document, &from)?, &at, value)?
            }
            "copy" => insert(document, &at, find(context, document, &from()?)?)?,
            "test" => {
                let found = find(context, document, &at)?;
                let wanted = attribute("value")?;
                context.heap.charge_walk([found, wanted])?;
                if found != wanted {
                    return Err(BuiltinError::failed(format!(
                        "value from EditTree != patch value.\n\nExpected: {}\n\nFound: {}",
                        context.shown(wanted)?,
                        context.shown(found)?
                    )));
                }
                document
            }
            other => return Err(BuiltinError::failed(format!("unrecognized op: '{other}'"))),
        };
    }
    Ok(document)
}

impl<'a> Context<'a> {
    fn shown(&self, value: Value<'a>) -> Result<String, BuiltinError> {
        Ok(value.to_text(self.heap.budget())?)
    }
}

/// The kind of a value that is not composite, as OPA's Go types are called.
fn scalar_type(value: Value<'_>) -> &'static str {
    match value.view() {
        View::Null => "ast.Null",
        View::Bool(_) => "ast.Boolean",
        View::Number(_) => "ast.Number",
        _ => "ast.String",
    }
}

fn find<'a>(
    context: &Context<'a>,
    document: Option<Value<'a>>,
    path: &[Value<'a>],
) -> Result<Value<'a>, BuiltinError> {
    let mut value = document.ok_or_else(removed)?;
    for segment in path {
        let (kind, found, shown) = match value.view() {
            View::Object(object) => ("object", object.get(*segment), *segment),
            View::Set(set) => ("set", set.find(*segment), *segment),
            View::Array(array) => {
                let index = index(array.len(), *segment)?;
                let found = usize::try_from(index).ok().and_then(|index| array.get(index));
                ("array", found, Value::int(index))
            }
            _ => {
                return Err(BuiltinError::failed(format!(
                    "expected composite type for path {}, found value: {value} (type: {})",
                    context.shown(*segment)?,
                    scalar_type(value)
                )));
            }
        };
        value = match found {
            Some(inner) => inner,
            None => {
                // OPA shows what is looked for in a set as a reference, which begins with a name.
                let shown = match shown.as_str() {
                    Some(name) if kind == "set" => name.to_owned(),
                    _ => context.shown(shown)?,
                };
                let value = context.shown(value)?;
                let message = format!("path {shown} does not exist in {kind} term {value}");
                return Err(BuiltinError::Failed(message));
            }
        };
    }
    Ok(value)
}

#[cold]
fn removed() -> BuiltinError {
    BuiltinError::failed("the document itself has been removed")
}

/// The index that a path segment names in an array of `len` elements.
fn index(len: usize, segment: Value<'_>) -> Result<i64, BuiltinError> {
    match segment.view() {
        View::Number(number) => {
            number.as_int().ok_or_else(|| BuiltinError::failed("invalid number type for indexing"))
        }
        View::String("-") => Ok(i64::try_from(len).unwrap_or(i64::MAX)),
        View::String(text) => {
            let index = text
                .parse::<i64>()
                .map_err(|_| BuiltinError::failed("invalid string for indexing"))?;
            if text != "0" && text.starts_with('0') {
                let problem = "leading zeros are not allowed in JSON paths";
                return Err(BuiltinError::failed(problem));
            }
            Ok(index)
        }
        _ => Err(BuiltinError::failed("invalid type for indexing")),
    }
}

/// The document after an edit where `path` ends; `None` when it has been removed as a whole.
fn edit<'a>(
    context: &Context<'a>,
    document: Option<Value<'a>>,
    path: &[Value<'a>],
    change: Edit<'a>,
) -> Result<Option<Value<'a>>, BuiltinError> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(match change {
            Edit::Insert(value) => Some(value),
            Edit::Delete => None,
        });
    };
    let value = document.ok_or_else(removed)?;
    if rest.is_empty() {
        return edit_entry(context, value, *first, change).map(Some);
    }
    let inner = find(context, Some(value), std::slice::from_ref(first))?;
    let Some(inner_after) = edit(context, Some(inner), rest, change)? else { return Ok(None) };
    // The entry that the first segment names, with its new value.
    let position = match value.as_array() {
        Some(array) => Some(index(array.len(), *first)?),
        None => None,
    };
    rebuild(context, value, |index, key, old| {
        let here = match position {
            Some(position) => i64::try_from(index) == Ok(position),
            None => key == *first,
        };
        Ok(Some(if here { inner_after } else { old }))
    })
    .map(Some)
}

/// Inserts or deletes one entry of `value`.
fn edit_entry<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    key: Value<'a>,
    change: Edit<'a>,
) -> Result<Value<'a>, BuiltinError> {
    context.spend(value.entry_count().unwrap_or(0))?;
    let absent = || match context.shown(key) {
        Ok(key) => {
            BuiltinError::failed(format!("cannot delete child key {key} that does not exist"))
        }
        Err(limit) => limit,
    };
    match (value.view(), change) {
        (View::Object(object), Edit::Insert(new)) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.push((key, new));
            Ok(context.heap.object(entries)?)
        }
        (View::Object(object), Edit::Delete) => {
            object.get(key).ok_or_else(absent)?;
            let kept: Vec<_> = object.iter().filter(|(name, _)| *name != key).collect();
            Ok(context.heap.object_from_sorted(&kept)?)
        }
        (View::Set(set), Edit::Insert(new)) => {
            if key != new {
                return Err(BuiltinError::failed(format!(
                    "set key {} does not equal value to be inserted {}",
                    context.shown(key)?,
                    context.shown(new)?
                )));
            }
            let mut items: Vec<_> = set.iter().collect();
            items.push(new);
            Ok(context.heap.set(items)?)
        }
        (View::Set(set), Edit::Delete) => {
            set.find(key).ok_or_else(absent)?;
            let kept: Vec<_> = set.iter().filter(|item| *item != key).collect();
            Ok(context.heap.set_from_sorted(&kept)?)
        }
        (View::Array(array), change) => {
            let index = index(array.len(), key)?;
            let outside =
                |verb: &str| BuiltinError::failed(format!("index for array {verb} out of bounds"));
            let mut items: Vec<_> = array.iter().collect();
            match change {
                Edit::Insert(new) => {
                    let index = usize::try_from(index).ok().filter(|index| *index <= items.len());
                    items.insert(index.ok_or_else(|| outside("insertion"))?, new);
                }
                Edit::Delete => {
                    let index = usize::try_from(index).ok().filter(|index| *index < items.len());
                    items.remove(index.ok_or_else(|| outside("delete"))?);
                }
            }
            Ok(context.heap.array(&items)?)
        }
        _ => Err(BuiltinError::failed(format!(
            "expected composite type, found value: {value} (type: {})",
            scalar_type(value)
        ))),
    }
}
