//! Objects as the API server sends them.

use std::{borrow::Cow, fmt};

use kube::{
    api::{ApiResource, ObjectMeta, Resource},
    core::DynamicResourceScope,
};
use modgate_value::{
    MAX_DEPTH, MAX_JSON_DEPTH, Str, Value,
    json::{Bounds, parse_within},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

/// An object of any kind, without what only the API server needs.
#[derive(Debug, Clone)]
pub(crate) struct Stored<T = Result<Value, String>> {
    /// Name, namespace and resource version.
    metadata: ObjectMeta,
    /// Everything, or why it cannot be read: an object that is nested too deeply must not keep its
    /// neighbours in the same list from being read.
    pub(crate) object: T,
}

/// An object of any kind that has not been read yet: its text takes a fraction of the memory.
pub(crate) type Unread = Stored<Text>;

/// The JSON of an object. It may be a Secret, so it is not shown.
#[derive(Clone)]
pub(crate) struct Text(Box<RawValue>);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.get().len())
    }
}

/// Identifies an object among those of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: Str,
    pub(crate) name: Str,
}

/// An object that a watch has reported; all that is kept of it.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) key: Key,
    /// As [`Stored::object`].
    pub(crate) object: Result<Value, String>,
}

impl From<Stored> for Item {
    fn from(stored: Stored) -> Self {
        Self { key: stored.key(), object: stored.object }
    }
}

impl<T> Stored<T> {
    pub(crate) fn key(&self) -> Key {
        let text = |text: &Option<String>| Str::from(text.as_deref().unwrap_or_default());
        Key { namespace: text(&self.metadata.namespace), name: text(&self.metadata.name) }
    }
}

impl Stored {
    /// Adds group, version and kind, which items of a list may lack.
    pub(crate) fn of_kind(self, resource: &ApiResource) -> Self {
        Self { object: self.object.map(|object| of_kind(object, resource)), ..self }
    }
}

impl Text {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.0.get().len()
    }

    /// Reads the object as one of the kind that was asked for, whatever it says, nested as deeply as one of a
    /// request may be.
    pub(crate) fn read(&self, resource: &ApiResource) -> Result<Value, String> {
        let mut object = read(&self.0, MAX_JSON_DEPTH)?;
        match &mut object {
            Value::Object(members) => {
                members.insert("apiVersion", resource.api_version.as_str().into());
                members.insert("kind", resource.kind.as_str().into());
            }
            _ => return Err("it is no JSON object".to_owned()),
        }
        Ok(object)
    }
}

fn of_kind(mut object: Value, resource: &ApiResource) -> Value {
    if let Value::Object(members) = &mut object {
        let known = [("apiVersion", &resource.api_version), ("kind", &resource.kind)];
        for (member, text) in known {
            if members.get(member).and_then(Value::as_str).is_none_or(str::is_empty) {
                members.insert(member, text.as_str().into());
            }
        }
    }
    object
}

/// The members of `metadata` that are needed to follow an object.
#[derive(Debug, Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let object = read(&raw, MAX_DEPTH);
        let head = match object.as_ref().ok().and_then(HeadMeta::of) {
            Some(head) => head,
            // Of an object that is nested too deeply, too.
            None => HeadMeta::of_text(&raw).map_err(D::Error::custom)?,
        };
        Ok(Self { metadata: head.into(), object })
    }
}

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let head = HeadMeta::of_text(&raw).unwrap_or_else(|_| HeadMeta::of_odd_text(&raw));
        Ok(Self { metadata: head.into(), object: Text(raw) })
    }
}

fn read(text: &RawValue, max_depth: usize) -> Result<Value, String> {
    let bounds = Bounds { max_depth, max_values: usize::MAX, left_out: &[&MANAGED_FIELDS] };
    let read = parse_within(text.get().as_bytes(), &bounds);
    read.map(|read| trimmed(read.value)).map_err(|error| error.to_string())
}

impl From<HeadMeta> for ObjectMeta {
    fn from(HeadMeta { name, namespace, resource_version }: HeadMeta) -> Self {
        Self { name, namespace, resource_version, ..Self::default() }
    }
}

impl HeadMeta {
    fn of_text(text: &RawValue) -> Result<Self, serde_json::Error> {
        Ok(serde_json::from_str::<Head>(text.get())?.metadata)
    }

    /// The metadata of an object that is not as it should be, such as one with the same member twice, as far as a reader of
    /// the object finds it.
    fn of_odd_text(text: &RawValue) -> Self {
        let object = read(text, MAX_JSON_DEPTH).unwrap_or_default();
        let text = |name: &str| Some(object.path(&["metadata", name])?.as_str()?.to_owned());
        Self {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
        }
    }

    /// That of an object that has been read; nothing where it is not as it should be.
    fn of(object: &Value) -> Option<Self> {
        let Some(metadata) = object.as_object()?.get("metadata") else {
            return Some(Self::default());
        };
        let metadata = metadata.as_object()?;
        let text = |name: &str| match metadata.get(name) {
            None | Some(Value::Null) => Some(None),
            Some(text) => text.as_str().map(|text| Some(text.to_owned())),
        };
        Some(Self {
            name: text("name")?,
            namespace: text("namespace")?,
            resource_version: text("resourceVersion")?,
        })
    }
}

/// Members that [`trimmed`] removes are not even built.
const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// Without `managedFields`, which can be the larger half of an object.
fn trimmed(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
    {
        metadata.remove("managedFields");
    }
    object
}

impl<T> Resource for Stored<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::{api::WatchEvent, core::ObjectList};
    use serde::de::DeserializeOwned;

    use super::*;

    fn deep(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn an_object_that_cannot_be_read_spares_its_neighbours() {
        let list = format!(
            r#"{{"apiVersion": "v1", "kind": "NamespaceList", "metadata": {{"resourceVersion": "7"}},
            "items": [
              {{"metadata": {{"name": "deep", "namespace": "n"}}, "spec": {}}},
              {{"metadata": {{"name": "good", "managedFields": [1]}}}}]}}"#,
            deep(20_000)
        );
        let list: ObjectList<Stored> = serde_json::from_str(&list).expect("list");
        assert_eq!(list.metadata.resource_version.as_deref(), Some("7"));
        let [bad, good] = &list.items[..] else { panic!("two items") };
        assert_eq!(bad.key(), Key { namespace: "n".into(), name: "deep".into() });
        assert!(bad.object.is_err());
        let resource =
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Namespace"));
        let good = good.clone().of_kind(&resource);
        let expected = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"good"}}"#;
        assert_eq!(good.object.map(|object| object.to_json()), Ok(expected.to_owned()));
    }

    #[test]
    fn events() {
        let event = format!(
            r#"{{"type": "MODIFIED", "object": {{"kind": "A",
            "metadata": {{"name": "a", "resourceVersion": "3"}}, "spec": {}}}}}"#,
            deep(20_000)
        );
        let event: WatchEvent<Stored> = serde_json::from_str(&event).expect("event");
        let WatchEvent::Modified(stored) = event else { panic!("{event:?}") };
        assert_eq!(stored.meta().resource_version.as_deref(), Some("3"));
        assert!(stored.object.is_err());
    }

    #[test]
    fn identities() {
        identities_of::<Result<Value, String>>();
        identities_of::<Text>();
    }

    fn identities_of<T>()
    where
        Stored<T>: DeserializeOwned + fmt::Debug,
    {
        let read = |text: &str| serde_json::from_str::<Stored<T>>(text);
        let stored = read(
            r#"{"metadata": {"name": "a", "namespace": null, "resourceVersion": "3", "managedFields": [1]}}"#,
        );
        let stored = stored.expect("an object");
        assert_eq!(stored.key(), Key { namespace: "".into(), name: "a".into() });
        assert_eq!(stored.meta().resource_version.as_deref(), Some("3"));
        assert_eq!(read("{}").expect("an object").meta().name, None);
    }

    /// Odd objects of a list, and the names under which they are known.
    const ODD: [(&str, &str); 9] = [
        ("1", ""),
        ("null", ""),
        ("[]", ""),
        (r#"{"metadata": null}"#, ""),
        (r#"{"metadata": {"name": 1}}"#, ""),
        (r#"{"metadata": {"name": "a", "namespace": 1}}"#, "a"),
        (r#"{"metadata": {"name": "a", "name": "b"}}"#, "b"),
        (r#"{"metadata": {"name": "a"}, "metadata": {"name": "b"}}"#, "b"),
        (r#"{"metadata": {"name": "\ud800"}}"#, "\u{fffd}"),
    ];

    #[test]
    fn an_odd_object_of_a_list_is_one_without_a_name_or_with_the_last() {
        for (odd, name) in ODD {
            let list = format!(
                r#"{{"metadata": {{}}, "items": [{{"metadata": {{"name": "x"}}}}, {odd},
                {{"metadata": {{"name": "y"}}}}]}}"#
            );
            let list: ObjectList<Unread> = serde_json::from_str(&list).expect(odd);
            let names: Vec<_> = list.items.iter().map(|item| item.key().name).collect();
            assert_eq!(names, ["x", name, "y"], "{odd}");
        }
        for odd in ["1", r#"{"metadata": null}"#, r#"{"metadata": {"name": 1}}"#] {
            assert!(serde_json::from_str::<Stored>(odd).is_err(), "a policy: {odd}");
        }
    }

    #[test]
    fn an_object_is_of_the_kind_that_was_asked_for() {
        let resource =
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment"));
        let read = |text: &str| {
            let unread = serde_json::from_str::<Unread>(text).expect(text);
            unread.object.read(&resource)
        };
        for own in ["", r#""kind": "Pod", "apiVersion": "v1","#, r#""kind": 1,"#] {
            let object = read(&format!(r#"{{{own} "metadata": {{"name": "a"}}}}"#));
            let expected =
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}"#;
            assert_eq!(object.map(|object| object.to_json()), Ok(expected.to_owned()), "{own}");
        }
        assert_eq!(read("5"), Err("it is no JSON object".to_owned()));
    }

    #[test]
    fn an_audit_reads_objects_as_deep_as_those_of_requests() {
        let resource =
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Secret"));
        let read = |levels| {
            let text = format!(r#"{{"metadata": {{"name": "a"}}, "spec": {}}}"#, deep(levels));
            serde_json::from_str::<Unread>(&text).expect("an object").object.read(&resource)
        };
        assert!(read(MAX_JSON_DEPTH - 1).is_ok());
        let error = read(MAX_JSON_DEPTH).expect_err("too deep");
        assert!(error.contains("more than 10000 nested levels"), "{error}");
    }

    #[test]
    fn what_is_read_later_is_read_alike() {
        let resource =
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Secret"));
        for text in [
            r#"{"metadata": {"name": "a", "managedFields": [1]}, "data": {"k": "secret"}}"#
                .to_owned(),
            format!(r#"{{"metadata": {{"name": "a"}}, "spec": {}}}"#, deep(500)),
        ] {
            let at_once = serde_json::from_str::<Stored>(&text).expect("an object");
            let later = serde_json::from_str::<Unread>(&text).expect("an object");
            assert!(!format!("{later:?}").contains("secret"), "{later:?}");
            assert_eq!(at_once.key(), later.key());
            let at_once = at_once.of_kind(&resource);
            assert_eq!(at_once.object, later.object.read(&resource));
        }
    }
}
