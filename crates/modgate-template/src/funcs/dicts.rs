//! Sprig's map functions.

use std::collections::BTreeMap;

use modgate_value::Str;

use crate::{
    cx::{Cx, Fault, Result, check_depth},
    funcs::{Args, Function, Ty, strings::text_of},
    semver::Version,
    text::Text,
    val::{List, ListKind, Map, Val},
};

use Ty::{Any, Map as M, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("deepCopy", &[Any], |cx, args| deep_copy(cx, args.get(0), 0)),
    Function::variadic("dict", &[Any], dict),
    Function::variadic("dig", &[Any], dig),
    Function::new("get", &[M, S], |cx, args| {
        Ok(cx.get(args.map(0), &args.str(1)).unwrap_or(Val::Text(Text::Ref(""))))
    }),
    Function::new("hasKey", &[M, S], |cx, args| {
        Ok(Val::Bool(cx.get(args.map(0), &args.str(1)).is_some()))
    }),
    Function::variadic("keys", &[M], |cx, args| {
        let mut keys = Vec::new();
        for map in args.all() {
            if let Val::Map(map) = map {
                keys.extend(cx.entries(*map)?.into_iter().map(|(key, _)| String::from(key)));
            }
        }
        cx.texts(keys)
    }),
    Function::variadic("merge", &[M, M], |cx, args| merge_all(cx, args, false)),
    Function::variadic("mergeOverwrite", &[M, M], |cx, args| merge_all(cx, args, true)),
    Function::new("mustDeepCopy", &[Any], |cx, args| deep_copy(cx, args.get(0), 0)),
    Function::variadic("mustMerge", &[M, M], |cx, args| merge_all(cx, args, false)),
    Function::variadic("mustMergeOverwrite", &[M, M], |cx, args| merge_all(cx, args, true)),
    Function::variadic("omit", &[M, S], |cx, args| {
        let mut entries: BTreeMap<Str, Val<'_>> = cx.entries(args.map(0))?.into_iter().collect();
        for index in 1..args.all().len() {
            entries.remove(&*args.str(index));
        }
        cx.any_map(entries)
    }),
    Function::variadic("pick", &[M, S], |cx, args| {
        let mut entries = BTreeMap::new();
        for index in 1..args.all().len() {
            let key = args.str(index);
            if let Some(value) = cx.get(args.map(0), &key) {
                entries.insert(key.into(), value);
            }
        }
        cx.any_map(entries)
    }),
    Function::variadic("pluck", &[S, M], |cx, args| {
        let key = args.str(0);
        let maps = (1..args.all().len()).map(|index| args.map(index));
        let found = maps.filter_map(|map| cx.get(map, &key)).collect();
        cx.any_list(found)
    }),
    Function::new("set", &[M, S, Any], |cx, args| {
        cx.set(args.map(0), &args.str(1), args.get(2).clone())?;
        Ok(args.get(0).clone())
    }),
    Function::new("unset", &[M, S], |cx, args| {
        cx.unset(args.map(0), &args.str(1))?;
        Ok(args.get(0).clone())
    }),
    Function::new("values", &[M], |cx, args| {
        let values = cx.entries(args.map(0))?.into_iter().map(|(_, value)| value).collect();
        cx.any_list(values)
    }),
];

fn dict<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut entries = BTreeMap::new();
    for pair in args.all().chunks(2) {
        let (key, value) = match pair {
            [key, value] => (key, value.clone()),
            [key] => (key, Val::Text(Text::Ref(""))),
            _ => continue,
        };
        entries.insert(text_of(cx, key)?.lossy().into(), value);
    }
    cx.any_map(entries)
}

/// `dig key… default map`
fn dig<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let [keys @ .., default, map] = args.all() else {
        return Err(Fault::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(Fault::new("dig needs at least three arguments"));
    }
    let not_a = |value: &Val<'_>, wanted: &str| {
        let found = if matches!(value, Val::Nil) { "nil" } else { value.type_name() };
        Fault::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
    };
    // The original takes no bare `.Target` here either (spec Q-46, a superset).
    let mut current = map.pointed();
    if let Some(key) = keys.iter().find(|key| !matches!(key, Val::Text(_))) {
        return Err(not_a(key, "string"));
    }
    for key in keys {
        let (Val::Map(map), Val::Text(key)) = (&current, key) else {
            return Err(not_a(&current, "map[string]interface {}"));
        };
        if map.holds_texts() {
            return Err(not_a(&current, "map[string]interface {}"));
        }
        match cx.get(*map, &key.lossy()) {
            Some(value) => current = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(current)
}

/// `copystructure.Copy`
fn deep_copy<'a>(cx: &mut Cx<'a>, value: &Val<'a>, depth: usize) -> Result<Val<'a>> {
    check_depth(depth)?;
    cx.spend(1)?;
    match value {
        Val::Nil | Val::Missing if depth == 0 => {
            Err(Fault::new("reflect: call of reflect.Value.Type on zero Value"))
        }
        // Data is never changed, only copied when it would be; but a changed copy must be copied.
        Val::Map(map) => {
            let mut copy = BTreeMap::new();
            for (key, value) in cx.entries(*map)? {
                copy.insert(key, deep_copy(cx, &value, depth + 1)?);
            }
            let kind = if map.holds_texts() {
                crate::val::MapKind::Texts
            } else {
                crate::val::MapKind::Any
            };
            Ok(Val::Map(cx.map(copy, kind)?))
        }
        Val::List(list) => {
            let mut copy = Vec::new();
            for item in list.iter() {
                copy.push(deep_copy(cx, &item, depth + 1)?);
            }
            cx.list(copy, list.kind())
        }
        // The original copies exported fields only, and a version has none.
        Val::Version(_) => Ok(Val::Version(Version::default().into())),
        Val::Pointer(value) => deep_copy(cx, &Val::of_json(value), depth + 1),
        other => Ok(other.clone()),
    }
}

/// `mergo.Merge` of each source into the first map, which is changed and returned.
fn merge_all<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, overwrite: bool) -> Result<Val<'a>> {
    let mut target = args.map(0);
    for source in args.rest(1) {
        let Val::Map(source) = source else { continue };
        if matches!(target, Map::Nil) && !matches!(source, Map::Nil) {
            target = cx.map(BTreeMap::new(), crate::val::MapKind::Any)?;
        }
        merge(cx, target, *source, overwrite, 0)?;
    }
    Ok(Val::Map(target))
}

/// The merge of mergo v0.3.11, member by member (`merge.go`, `deepMerge`): maps merge into maps; a map
/// or list never replaces anything but an empty value; other values do with `overwrite`, even when
/// they are empty themselves.
fn merge<'a>(
    cx: &mut Cx<'a>,
    target: Map<'a>,
    source: Map<'a>,
    overwrite: bool,
    depth: usize,
) -> Result<()> {
    check_depth(depth)?;
    for (key, value) in cx.entries(source)? {
        let existing = cx.get(target, &key);
        if matches!(value, Val::Nil) {
            if overwrite {
                cx.set(target, &key, Val::Nil)?;
            }
            continue;
        }
        match (&value, &existing) {
            (Val::Map(from), Some(Val::Map(into))) => {
                merge(cx, *into, *from, overwrite, depth + 1)?;
            }
            (Val::List(_), Some(_)) if overwrite => cx.set(target, &key, value.clone())?,
            _ => {}
        }
        let is_container = matches!(value, Val::Map(_) | Val::List(_));
        // Looked at after the merge, which may have filled a map that was empty.
        let taken = existing.as_ref().is_some_and(|existing| !merges_as_empty(cx, existing));
        if !taken || (overwrite && !is_container) {
            cx.set(target, &key, value)?;
        }
    }
    Ok(())
}

/// Whether mergo takes a value for empty.
fn merges_as_empty<'a>(cx: &Cx<'a>, value: &Val<'a>) -> bool {
    match value {
        Val::Pointer(value) => merges_as_empty(cx, &Val::of_json(value)),
        Val::Time(_) | Val::Version(_) | Val::Certificate(_) | Val::Context => false,
        Val::List(List::Own(list)) if list.kind == ListKind::Nil => true,
        other => super::defaults::is_empty(cx, other),
    }
}
