//! The same offence in the members of any object: beside another element, twice, empty or null in place of missing, a
//! number as a text.

use modgate_engine::{Code, api::schema::names};
use modgate_value::Value;

use super::{
    Bypass, bypass,
    probe::{Prober, Request},
    seeds::Seeds,
};
use crate::{
    objects::possible::{Possible, keys},
    value::{Path, Step, at, paths, removed, replaced},
};

/// Lists tried of an object, and elements tried in place of an offending one.
const MAX_LISTS: usize = 8;
const MAX_ELEMENTS: usize = 12;
/// Members of an admitted object that are tried as what is missing, and such objects.
const MAX_MEMBERS: usize = 60;
const MAX_OBJECTS: usize = 4;
/// Labels and annotations that are tried as what is missing.
const MAX_KEYS: usize = 128;

/// Members that an API server keeps where they are empty.
const KEPT_EMPTY: [&str; 7] = [
    "affinity",
    "capabilities",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "resources",
    "securityContext",
];

pub(super) fn tried(
    prober: &mut Prober<'_>,
    object: &Value,
    seeds: &Seeds,
    report: &mut dyn FnMut(Bypass),
) {
    let is_list = |path: &Vec<Step>| {
        let of_containers = keys(path).last().is_some_and(|key| key.ends_with("ontainers"));
        !of_containers
            && matches!(at(object, path).and_then(Value::as_array), Some(list) if list.len() == 1)
    };
    for path in paths(object).into_iter().filter(is_list).take(MAX_LISTS) {
        elements(prober, object, &path, seeds, report);
    }
    missing(prober, object, seeds, report);
    numbers(prober, object, report);
}

/// The offending element twice, and beside one that is admitted.
fn elements(
    prober: &mut Prober<'_>,
    object: &Value,
    path: &Path,
    seeds: &Seeds,
    report: &mut dyn FnMut(Bypass),
) {
    let with = |elements: Vec<Value>| replaced(object, path, elements.into());
    let Some(bad) = at(object, path).and_then(|list| list.at(0)) else { return };
    // A list that is denied without its element lacks something; another element is no bypass then.
    let without = removed(object, path);
    if !prober.admits(&Request::create(without)) {
        return;
    }
    let place = |index: usize| [path, &[Step::from(index)]].concat();
    let denied = || Request::create(object.clone());
    let twice = Request::create(with(vec![bad.clone(), bad.clone()]));
    if let Some(found) = bypass(prober, Code::BypassDuplicate, &place(1), denied(), twice) {
        return report(found);
    }
    let is_env = keys(path).last() == Some(&"env");
    for good in others(object, path, bad, seeds) {
        let alone = with(vec![good.clone()]);
        if !prober.admits(&Request::create(alone)) {
            continue;
        }
        // Of two variables with one name, the last one counts.
        let same = is_env && good.get("name") == bad.get("name");
        let code = if same { Code::BypassDuplicate } else { Code::BypassListElement };
        let behind = (1, with(vec![good.clone(), bad.clone()]));
        let before = (!same).then(|| (0, with(vec![bad.clone(), good])));
        for (index, witness) in std::iter::once(behind).chain(before) {
            let witness = Request::create(witness);
            if let Some(found) = bypass(prober, code, &place(index), denied(), witness) {
                return report(found);
            }
        }
    }
}

/// Elements in place of an offending one: those of admitted objects, and the offending one with another value.
fn others(object: &Value, path: &Path, bad: &Value, seeds: &Seeds) -> Vec<Value> {
    let own = keys(path);
    let mut found: Vec<Value> = Vec::new();
    let leaves = [vec![Vec::new()], paths(bad)].concat();
    for leaf in leaves {
        let Some(value) = at(bad, &leaf) else { continue };
        if keys(&leaf).last() == Some(&"name") && own.last() == Some(&"env") {
            continue;
        }
        found.extend(variants(value).into_iter().map(|other| replaced(bad, &leaf, other)));
    }
    for admitted in seeds.of_kind(object).take(MAX_OBJECTS) {
        let lists = paths(admitted).into_iter().filter(|path| keys(path) == own);
        let lists = lists.filter_map(|path| at(admitted, &path).and_then(Value::as_array));
        found.extend(lists.flat_map(|list| list.iter()).take(MAX_ELEMENTS / 2).cloned());
    }
    if own.last() == Some(&"volumes") {
        found
            .push([("name", "scratch".into()), ("emptyDir", empty_object())].into_iter().collect());
    }
    found.retain(|other| other != bad);
    found.truncate(MAX_ELEMENTS);
    let renamed = |other: Value| {
        let clashes = other.get("name").is_some() && other.get("name") == bad.get("name");
        match clashes && own.last() != Some(&"env") {
            true => replaced(&other, &["name".into()], "other".into()),
            false => other,
        }
    };
    found.into_iter().map(renamed).collect()
}

/// Other values of the same type.
fn variants(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(is) => vec![(!is).into()],
        Value::Number(_) => vec![8080_i64.into(), 1_i64.into()],
        Value::String(_) => vec!["web".into(), "10.0.0.7".into(), "CHOWN".into()],
        _ => Vec::new(),
    }
}

fn empty_object() -> Value {
    Vec::<(&str, Value)>::new().into_iter().collect()
}

/// An empty value or null in place of a missing one.
fn missing(prober: &mut Prober<'_>, object: &Value, seeds: &Seeds, report: &mut dyn FnMut(Bypass)) {
    keyed(prober, object, seeds, report);
    for admitted in seeds.of_kind(object).take(MAX_OBJECTS) {
        let is_missing = |path: &Vec<Step>| {
            let listed = path.iter().rposition(|step| matches!(step, Step::Index(_)));
            let list = listed.and_then(|end| path.get(..=end));
            at(object, path).is_none() && list.is_none_or(|list| at(object, list).is_some())
        };
        let mut candidates: Vec<Vec<Step>> =
            paths(admitted).into_iter().filter(is_missing).collect();
        candidates.reverse();
        for path in candidates.into_iter().take(MAX_MEMBERS) {
            let Some(value) = at(admitted, &path) else { continue };
            let with = replaced(object, &path, value.clone());
            if !prober.admits(&Request::create(with)) {
                continue;
            }
            let found: Vec<Bypass> = (1..=path.len())
                .filter_map(|length| path.get(..length))
                .filter(|path| at(object, path).is_none())
                .filter_map(|path| emptied(prober, object, admitted, path))
                .collect();
            if !found.is_empty() {
                found.into_iter().for_each(&mut *report);
                return;
            }
        }
    }
}

/// The object with something empty at a path at which an admitted one has a value.
fn emptied(
    prober: &mut Prober<'_>,
    object: &Value,
    admitted: &Value,
    path: &Path,
) -> Option<Bypass> {
    let (last, parent) = path.split_last()?;
    let own = Possible::is_own(object);
    if !own && prober.possible().schema(object).is_none() {
        return None;
    }
    let mut values = match at(admitted, path)? {
        Value::String(_) if !own || is_map(parent) => vec![Value::from("")],
        Value::Object(_) => {
            let kept = matches!(last, Step::Key(key) if KEPT_EMPTY.contains(&key.as_str()));
            if !own || kept { vec![empty_object()] } else { Vec::new() }
        }
        Value::Array(_) if !own => vec![Vec::<Value>::new().into()],
        _ => Vec::new(),
    };
    // An API server drops nulls of Kubernetes' own kinds.
    if !own {
        values.push(Value::Null);
    }
    values.into_iter().find_map(|value| {
        let code = if value.is_null() { Code::BypassNull } else { Code::BypassEmptyValue };
        let witness = Request::create(replaced(object, path, value));
        bypass(prober, code, path, Request::create(object.clone()), witness)
    })
}

/// Whether what is at a path are labels or annotations, which an API server keeps where they are empty.
fn is_map(path: &Path) -> bool {
    matches!(keys(path).last(), Some(&("annotations" | "labels")))
}

/// Empty labels and annotations in place of missing ones, with the names that the policy mentions.
fn keyed(prober: &mut Prober<'_>, object: &Value, seeds: &Seeds, report: &mut dyn FnMut(Bypass)) {
    for member in ["labels", "annotations"] {
        let path: &Path = &["metadata".into(), member.into()];
        let present = at(object, path).and_then(Value::as_object);
        let is_key = |key: &&String| {
            names::label_key(key).is_empty()
                && !present.is_some_and(|it| it.contains_key(key.as_str()))
        };
        let mut names: Vec<&String> = seeds.texts.iter().filter(is_key).take(MAX_KEYS).collect();
        let with = |names: &[&String], value: &str| {
            names.iter().fold(object.clone(), |object, name| {
                let path = [path, &[Step::from(name.as_str())]].concat();
                replaced(&object, &path, value.into())
            })
        };
        let mut shows = |names: &[&String]| {
            prober.admits(&Request::create(with(names, "web")))
                && prober.admits(&Request::create(with(names, "")))
        };
        if names.is_empty() || !shows(&names) {
            continue;
        }
        while let Some(half) = halves(&names).into_iter().find(|half| shows(half)) {
            names = half;
        }
        let place = [path, &[Step::from(names.first().map_or("", |name| name.as_str()))]].concat();
        let (denied, witness) = (Request::create(object.clone()), with(&names, ""));
        let witness = Request::create(witness);
        if let Some(found) = bypass(prober, Code::BypassEmptyValue, &place, denied, witness) {
            return report(found);
        }
    }
}

/// The two halves of more than one.
fn halves<'n>(names: &[&'n String]) -> Vec<Vec<&'n String>> {
    if names.len() < 2 {
        return Vec::new();
    }
    let (left, right) = names.split_at(names.len() / 2);
    vec![left.to_vec(), right.to_vec()]
}

/// A number as a text that means the same, and the other way round.
fn numbers(prober: &mut Prober<'_>, object: &Value, report: &mut dyn FnMut(Bypass)) {
    let own = Possible::is_own(object);
    if !own && prober.possible().schema(object).is_none() {
        return;
    }
    for path in paths(object) {
        let Some(value) = at(object, &path) else { continue };
        let percentage =
            matches!(keys(&path).last(), Some(&("maxSurge" | "maxUnavailable" | "minAvailable")));
        let other: Value = match (value, value.as_str().map(str::parse::<i64>)) {
            (Value::Number(_), _) if own && percentage && value.as_i64() == Some(0) => "0%".into(),
            (Value::String(text), _) if own && percentage && *text == "0%" => 0_i64.into(),
            _ if own => continue,
            (Value::Number(number), _) => number.to_string().into(),
            (_, Some(Ok(number))) => number.into(),
            _ => continue,
        };
        let witness = Request::create(replaced(object, &path, other));
        let denied = Request::create(object.clone());
        if let Some(found) = bypass(prober, Code::BypassNumber, &path, denied, witness) {
            report(found);
        }
    }
}
