//! The documents that policies read, as far as their names and values are known: those of a review, of an object's metadata,
//! and the parameters of a template.

use modgate_api::kinds;
use modgate_cel::Expression;
use modgate_value::{Value, near};

/// The members of an object that are close to nothing else.
pub(super) const OBJECT: [&str; 4] = ["apiVersion", "metadata", "spec", "status"];

/// The members of an object's metadata.
pub(crate) const METADATA: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// The members of a kind.
pub(super) const KIND: [&str; 3] = ["group", "kind", "version"];

/// The members of a user.
pub(super) const USER: [&str; 4] = ["extra", "groups", "uid", "username"];

/// The operations of a request.
const OPERATIONS: [&str; 4] = ["CONNECT", "CREATE", "DELETE", "UPDATE"];

/// The parameters that a schema allows; `None` if it allows any.
pub(super) fn parameters(schema: &Value) -> Option<Vec<&str>> {
    let open =
        ["additionalProperties", "x-kubernetes-preserve-unknown-fields", "oneOf", "anyOf", "allOf"];
    if open.iter().any(|key| schema.get(key).is_some()) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    Some(properties.keys().map(|name| name.as_str()).collect())
}

/// Why a member of a request never has a value, and what is meant. The path is that below
/// `input.review` in Rego.
pub(super) fn never(path: &[&str], value: &str) -> Option<(String, String)> {
    let (what, help) = match path {
        ["operation"] if !OPERATIONS.contains(&value) => {
            let upper = value.to_uppercase();
            let help = match OPERATIONS.contains(&upper.as_str()) {
                true => format!("did you mean `{upper}`?"),
                false => near::did_you_mean_or(&upper, &OPERATIONS, "the operations are"),
            };
            ("no operation is called", help)
        }
        ["kind" | "requestKind" | "object" | "oldObject", "kind"] => {
            let meant = kinds::of_resource_name(value).filter(|meant| *meant != value)?;
            if kinds::all().any(|known| known == value) {
                return None;
            }
            ("no kind is called", format!("did you mean `{meant}`?"))
        }
        ["kind" | "requestKind", "group"] if value == "core" || value.contains('/') => {
            let help = match value.split_once('/') {
                Some((group, _)) => format!("a group has no version: `{group}`"),
                None => "the group of core kinds is the empty text: `\"\"`".to_owned(),
            };
            ("no API group is called", help)
        }
        _ => return None,
    };
    Some((format!("{what} `{value}`, so the comparison always has the same result"), help))
}

/// The functions of CEL that read a text, and fail for every object if it cannot be read.
const READERS: [&str; 7] = ["cidr", "duration", "ip", "quantity", "semver", "timestamp", "url"];

/// Why a function of CEL cannot read this text; `None` if it can, or if it is no such function.
pub(crate) fn unreadable(function: &str, text: &str) -> Option<String> {
    READERS.contains(&function).then_some(())?;
    let call = format!("{function}({})", Value::from(text).to_json());
    let expression = Expression::compile(&format!("{call} == {call}"), &[]).ok()?;
    expression.holds(&[]).err().map(|error| error.to_string())
}

/// The name of a label or an annotation that is written as if its dots and its slash were steps: `labels.a.b/c`.
pub(super) fn dotted_name(text: &str, last: &str) -> Option<String> {
    let end = format!("/{last}");
    let (before, _) = text.split_once(&end)?;
    let is_part = |letter: char| letter.is_alphanumeric() || "_.-".contains(letter);
    let path = before.rsplit(|letter| !is_part(letter)).next()?;
    let (map, domain) = ["labels.", "annotations.", "nodeSelector."]
        .into_iter()
        .find_map(|map| Some((map, path.split_once(map)?.1)))?;
    let map = map.trim_end_matches('.');
    Some(format!("a name with `/` stands in brackets: `{map}[\"{domain}{end}\"]`"))
}
