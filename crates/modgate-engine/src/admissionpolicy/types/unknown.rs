//! Members that a type of Kubernetes does not have.

use modgate_value::{Str, Value};

use super::{GUESSED, Reference, Types, UNTYPED, reference};

/// Policies are not nested deeper; members below are not looked at.
const MAX_DEPTH: usize = 100;

/// How many members are reported at most.
const MAX_FOUND: usize = 20;

/// Unions that the table has as any value, with the type of the objects in them.
const UNIONS: [(&str, &str); 3] = [
    ("apiextensions.v1.JSONSchemaPropsOrArray", "apiextensions.v1.JSONSchemaProps"),
    ("apiextensions.v1.JSONSchemaPropsOrBool", "apiextensions.v1.JSONSchemaProps"),
    ("apiextensions.v1.JSONSchemaPropsOrStringArray", "apiextensions.v1.JSONSchemaProps"),
];

/// A member that its type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Where it stands, as Kubernetes writes field paths.
    pub(crate) path: String,
    /// The members that it may be meant for.
    pub(crate) known: Vec<Str>,
}

impl Types {
    /// The members of a value that the type with this name does not have, at most 20, with paths below `path`.
    pub(crate) fn unknown_members(&self, ty: &str, value: &Value, path: &str) -> Vec<Unknown> {
        let mut found = Vec::new();
        self.unknown(&reference(ty), value, path, 0, &mut found);
        found
    }

    fn unknown(
        &self,
        ty: &Reference,
        value: &Value,
        path: &str,
        depth: usize,
        found: &mut Vec<Unknown>,
    ) {
        if depth > MAX_DEPTH || found.len() >= MAX_FOUND {
            return;
        }
        let united = match ty {
            Reference::Named(name, _) if [UNTYPED, GUESSED].contains(&name.as_str()) => return,
            Reference::Named(name, _) => UNIONS.iter().find(|(union, _)| union == name),
            Reference::Inline(_) => None,
        };
        let of_union = united.map(|(_, ty)| reference(ty));
        let resolved = self.resolve(of_union.as_ref().unwrap_or(ty));
        match value {
            Value::Array(elements) => {
                let element = resolved.list.map(|list| &list.element);
                let Some(element) = of_union.as_ref().or(element) else { return };
                for (index, item) in elements.iter().enumerate() {
                    self.unknown(element, item, &format!("{path}[{index}]"), depth + 1, found);
                }
            }
            Value::Object(members) => {
                let Some(map) = resolved.map else { return };
                for (name, member) in members.iter() {
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{name}");
                    match map.fields.get(name).map(|field| &field.ty).or(map.element.as_ref()) {
                        Some(ty) => self.unknown(ty, member, &path, depth + 1, found),
                        None if found.len() < MAX_FOUND => {
                            found.push(Unknown {
                                path,
                                known: map.fields.keys().cloned().collect(),
                            });
                        }
                        None => return,
                    }
                }
            }
            _ => {}
        }
    }

    /// The versions of a group that have a kind; of any kind if `kind` is `None`.
    pub fn versions<'t>(
        &'t self,
        group: &'t str,
        kind: Option<&'t str>,
    ) -> impl Iterator<Item = &'t str> {
        let all = self.kinds.keys().filter(move |(_, name)| kind.is_none_or(|kind| kind == name));
        all.filter_map(move |(api_version, _)| {
            let (of, version) = modgate_api::meta::split_api_version(api_version);
            (of == group).then_some(version)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(ty: &str, json: &str) -> Vec<String> {
        let value = Value::from_json(json.as_bytes()).expect(json);
        let found = Types::kubernetes().unknown_members(ty, &value, "");
        found.into_iter().map(|unknown| unknown.path).collect()
    }

    #[test]
    fn members_of_types_lists_and_unions() {
        let policy = "admissionregistration.v1.ValidatingAdmissionPolicy";
        let json = r#"{"metadata": {"labls": {}, "labels": {"any": "x"}}, "spec": {"validation": [],
            "matchConstraints": {"resourceRules": [{"resources": []}, {"resource": []}]}}}"#;
        let expected = [
            "metadata.labls",
            "spec.matchConstraints.resourceRules[1].resource",
            "spec.validation",
        ];
        assert_eq!(paths(policy, json), expected);
        let schema = r#"{"requred": [], "properties": {"requred": {"patern": "x", "default": {"any": 1}}},
            "items": {"enm": []}, "additionalProperties": {"typ": "x"}, "allOf": [{"nott": {}}]}"#;
        let expected = [
            "additionalProperties.typ",
            "allOf[0].nott",
            "items.enm",
            "properties.requred.patern",
            "requred",
        ];
        assert_eq!(paths("apiextensions.v1.JSONSchemaProps", schema), expected);
        assert_eq!(paths("no.such.Type", schema), [""; 0]);
    }

    #[test]
    fn deep_and_many() {
        let deep = format!("{}{}", r#"{"not":"#.repeat(400), "{}".to_owned() + &"}".repeat(400));
        assert_eq!(paths("apiextensions.v1.JSONSchemaProps", &deep), [""; 0]);
        let many: Vec<String> = (0..1_000).map(|number| format!("\"x{number}\": 1")).collect();
        let many = format!("{{{}}}", many.join(","));
        assert_eq!(paths("meta.v1.ObjectMeta", &many).len(), MAX_FOUND);
    }

    #[test]
    fn served_versions() {
        let of = |group, kind| {
            let mut found: Vec<_> = Types::kubernetes().versions(group, kind).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(of("", Some("Pod")), ["v1"]);
        assert_eq!(of("apps", None), ["v1"]);
        assert_eq!(of("autoscaling", Some("HorizontalPodAutoscaler")), ["v1", "v2"]);
        assert_eq!(of("example.com", None), [""; 0]);
    }
}
