//! Documents that are no policies but look as if they should be.

use modgate_api::meta;
use modgate_value::{Value, near};

use super::{VERSIONS, groups, kinds};
use crate::Code;

/// A mistake in a document: why one is not loaded that its author may take for a policy, or why no
/// API server stores an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The code of the warning.
    pub code: Code,
    /// The part of the document at fault.
    pub place: Place,
    /// The message.
    pub message: String,
    /// Advice for its author.
    pub help: Option<String>,
}

/// A part of a document: the name or the value of one of its members. The whole document where there is no such member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The name.
    Key(String),
    /// The value.
    Value(String),
}

impl Mistake {
    fn new(code: Code, member: &str, message: String, help: Option<String>) -> Self {
        Self { code, place: Place::Value(member.to_owned()), message, help }
    }
}

/// The error of a document that is no policy but looks like one.
pub fn not_loaded(object: &Value) -> Option<Mistake> {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if object.get("apiVersion").is_none() || kind.is_empty() {
        return without(object, if kind.is_empty() { "kind" } else { "apiVersion" });
    }
    if !api_version.contains('/')
        && let Some(found) = without_version(api_version)
    {
        return Some(found);
    }
    let (group, _) = meta::split_api_version(api_version);
    if groups().any(|known| known == group) {
        let known = kinds(group);
        let is_known = known.contains(&kind) || known.is_empty();
        return (!is_known).then(|| {
            let message = format!("unknown kind `{kind}` in {api_version}, not loaded");
            let help = near::did_you_mean_or(kind, known, "the kinds of the group");
            Mistake::new(Code::UnknownKind, "kind", message, Some(help))
        });
    }
    let near_group = near::nearest(group, groups().filter(|_| group.contains('.')));
    let of_kind = groups().find(|group| kinds(group).contains(&kind));
    // A kind that others have, too, such as Config or Provider, says nothing by itself.
    let of_kind = of_kind.filter(|_| !["Config", "Provider"].contains(&kind));
    let right = near_group.or(of_kind)?;
    let message = match group {
        "" => format!("`{kind}` is not a kind of the core API group, not loaded"),
        _ => format!("unknown API group `{group}`, not loaded"),
    };
    let help = Some(format!("did you mean `{right}`?"));
    Some(Mistake::new(Code::UnknownGroup, "apiVersion", message, help))
}

/// A document without `apiVersion` or without `kind`.
fn without(object: &Value, member: &str) -> Option<Mistake> {
    let names: Vec<&str> = object.as_object()?.keys().map(|name| name.as_str()).collect();
    let meant = near::nearest(member, names.iter().copied());
    let message = format!("the document has no `{member}`, not loaded");
    let help = meant.map(|_| format!("did you mean `{member}`?"));
    let code = if member == "kind" { Code::UnknownKind } else { Code::UnknownGroup };
    let place = match meant {
        Some(key) => Place::Key(key.to_owned()),
        None => Place::Value(String::new()),
    };
    Some(Mistake { code, place, message, help })
}

/// An `apiVersion` that is the name of a group, or nearly.
fn without_version(api_version: &str) -> Option<Mistake> {
    let is_it = |(known, _): &&(&'static str, &'static [&'static str])| {
        *known == api_version
            || (api_version.contains('.') && near::nearest(api_version, [*known]).is_some())
    };
    let (group, versions) = VERSIONS.iter().find(is_it)?;
    let version = versions.first().copied().unwrap_or("v1");
    let message = format!("`{api_version}` has no version, not loaded");
    let help = Some(format!("did you mean `{group}/{version}`?"));
    Some(Mistake::new(Code::UnknownGroup, "apiVersion", message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Option<(String, String)> {
        let object = Value::from_json(json.as_bytes()).expect(json);
        not_loaded(&object).map(|found| (found.message, found.help.unwrap_or_default()))
    }

    #[test]
    fn documents_that_look_like_policies() {
        for (json, message, help) in [
            (
                r#"{"apiversion": "v1", "kind": "Assign"}"#,
                "the document has no `apiVersion`, not loaded",
                "did you mean `apiVersion`?",
            ),
            (
                r#"{"apiVersion": "v1", "Kind": "Assign"}"#,
                "the document has no `kind`, not loaded",
                "did you mean `kind`?",
            ),
            (
                r#"{"apiVersion": "mutations.gatekeeper.sh", "kind": "Assign"}"#,
                "`mutations.gatekeeper.sh` has no version, not loaded",
                "did you mean `mutations.gatekeeper.sh/v1`?",
            ),
            (
                r#"{"apiVersion": "v1", "kind": "Assign"}"#,
                "`Assign` is not a kind of the core API group, not loaded",
                "did you mean `mutations.gatekeeper.sh`?",
            ),
            (
                r#"{"apiVersion": "admissionregistraton.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}"#,
                "unknown API group `admissionregistraton.k8s.io`, not loaded",
                "did you mean `admissionregistration.k8s.io`?",
            ),
            (
                r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolic"}"#,
                "unknown kind `ValidatingAdmissionPolic` in admissionregistration.k8s.io/v1, not loaded",
                "did you mean `ValidatingAdmissionPolicy`?",
            ),
        ] {
            assert_eq!(found(json), Some((message.to_owned(), help.to_owned())), "{json}");
        }
        for json in [
            r#"{"apiVersion": "v1", "kind": "Pod"}"#,
            r#"{"apiVersion": "v1", "kind": "Config"}"#,
            r#"{"apiVersion": "example.com/v1", "kind": "Widget"}"#,
            r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}"#,
        ] {
            assert_eq!(found(json), None, "{json}");
        }
    }
}
