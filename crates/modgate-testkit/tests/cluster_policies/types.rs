//! The table of types, from what the API server publishes (`/openapi/v3`). How it is written says
//! `modgate-engine/src/admissionpolicy/types.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use modgate_value::Value;

use super::{api::Api, text};

const PREFIXES: [&str; 5] = [
    "io.k8s.api.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.kube-aggregator.pkg.apis.",
    "io.k8s.apiextensions-apiserver.pkg.apis.",
];

/// Without what its group's names begin with.
fn short(name: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

type Schemas = BTreeMap<String, Value>;

pub(crate) fn table(api: &mut Api) -> String {
    let paths = api.send("GET", "/openapi/v3", None).body;
    let paths = paths.get("paths").and_then(Value::as_object).expect("paths");
    let mut schemas = Schemas::new();
    for path in paths.keys() {
        let is_version = path.as_str() == "api/v1" || path.matches('/').count() == 2;
        if !is_version || !path.starts_with("api") {
            continue;
        }
        let document = api.send("GET", &format!("/openapi/v3/{path}"), None).body;
        let found = document.path(&["components", "schemas"]).and_then(Value::as_object);
        for (name, schema) in found.expect("schemas").iter() {
            schemas.insert(short(name).to_owned(), schema.clone());
        }
    }
    let (mut kinds, mut waiting) = (BTreeMap::new(), Vec::new());
    for (name, schema) in &schemas {
        let known = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        let is_object = schema.path(&["properties", "metadata"]).is_some();
        for kind in known.into_iter().flat_map(|known| known.iter()) {
            if is_object && !name.ends_with("List") {
                let key = ["group", "version", "kind"].map(|member| text(kind, &[member]));
                kinds.insert(key, name.clone());
                waiting.push(name.clone());
            }
        }
    }
    let keys = keys(&schemas);
    let mut lines = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        let Some(schema) = schemas.get(&name).filter(|_| !lines.contains_key(&name)) else {
            continue;
        };
        let line = line(&name, schema, &keys, &mut waiting);
        lines.insert(name, line);
    }
    let mut out = String::new();
    for ([group, version, kind], name) in kinds {
        let slash = if group.is_empty() { "" } else { "/" };
        let _ = writeln!(out, "@ {group}{slash}{version} {kind} {name}");
    }
    for line in lines.values() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// The fields that tell elements of lists apart, with the type of the elements.
fn keys(schemas: &Schemas) -> BTreeSet<(String, String)> {
    let properties = schemas
        .values()
        .filter_map(|schema| schema.get("properties").and_then(Value::as_object))
        .flat_map(|properties| properties.values());
    let mut keys = BTreeSet::new();
    for property in properties {
        if text(property, &["x-kubernetes-list-type"]) != "map" {
            continue;
        }
        let element = reference(property.get("items").expect("items"), &mut Vec::new());
        let names = property.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        for name in names.expect("keys").iter() {
            keys.insert((element.clone(), name.as_str().expect("a name").to_owned()));
        }
    }
    keys
}

fn line(
    name: &str,
    schema: &Value,
    keys: &BTreeSet<(String, String)>,
    named: &mut Vec<String>,
) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let (Some(properties), "object") = (properties, text(schema, &["type"])) else {
        return format!("{name} {}", atom(schema, name, named));
    };
    let atomic = if text(schema, &["x-kubernetes-map-type"]) == "atomic" { "!" } else { "" };
    let mut out = format!("{name} {{{atomic}}}");
    for (field, property) in properties.iter() {
        let _ = write!(out, " {field}={}", reference(property, named));
        let default = property.get("default");
        if let Some(default) = default
            && keys.contains(&(name.to_owned(), field.to_string()))
        {
            let _ = write!(out, "~{}", default.to_json());
        }
    }
    out
}

fn reference(schema: &Value, named: &mut Vec<String>) -> String {
    let inner = schema.get("allOf").and_then(Value::as_array);
    let inner = inner.filter(|all| all.len() == 1).and_then(|all| all.first());
    let target = schema.get("$ref").or_else(|| inner?.get("$ref")).and_then(Value::as_str);
    let Some(target) = target else { return atom(schema, "", named) };
    let name = short(target.rsplit('/').next().expect("a name"));
    named.push(name.to_owned());
    let mark = match text(schema, &["x-kubernetes-map-type"]) {
        "atomic" => "!",
        "granular" => ".",
        _ => "",
    };
    format!("{mark}{name}")
}

fn atom(schema: &Value, name: &str, named: &mut Vec<String>) -> String {
    let member = |key: &str| text(schema, &[key]).to_owned();
    match (name, member("type").as_str()) {
        ("api.resource.Quantity", _) => "u".to_owned(),
        ("runtime.RawExtension", _) => "*".to_owned(),
        (_, "") => "%".to_owned(),
        (_, "object") => {
            let atomic = if member("x-kubernetes-map-type") == "atomic" { "!" } else { "" };
            let element = match schema.get("additionalProperties") {
                None | Some(Value::Bool(_)) => "?".to_owned(),
                Some(element) => reference(element, named),
            };
            format!("{{{atomic}}}{element}")
        }
        (_, "array") => {
            let merged = ["merge", "merge,retainKeys"]
                .contains(&member("x-kubernetes-patch-strategy").as_str());
            let keys = match member("x-kubernetes-list-type").as_str() {
                "map" => {
                    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                    let keys = keys.expect("keys").iter().filter_map(Value::as_str);
                    keys.collect::<Vec<_>>().join(",")
                }
                "set" => "=".to_owned(),
                "" if merged => match member("x-kubernetes-patch-merge-key") {
                    key if key.is_empty() => "=".to_owned(),
                    key => key,
                },
                _ => String::new(),
            };
            format!("[{keys}]{}", reference(schema.get("items").expect("items"), named))
        }
        (_, "integer" | "number") => "n".to_owned(),
        (_, "boolean") => "b".to_owned(),
        _ if ["", "byte"].contains(&member("format").as_str()) => "s".to_owned(),
        _ => "u".to_owned(),
    }
}
