//! The types of objects for those who write objects: which members there are, and whether an object
//! fits its kind.

use modgate_api::meta::GroupVersionKind;
use modgate_value::Value;

use super::{super::merge, Reference, Resolved, Scalar, Types, enums};

/// The type of a value in an object.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'t> {
    types: &'t Types,
    /// The name of the type; empty where it has none.
    name: &'t str,
    resolved: Resolved<'t>,
}

/// The types of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarShape {
    /// A number.
    Number,
    /// A text.
    Text,
    /// A boolean.
    Boolean,
    /// A number, a text or a boolean, such as a quantity.
    Any,
}

impl Types {
    /// The type of the objects of a kind; `None` where the kind is not known.
    pub fn shape(&self, api_version: &str, kind: &str) -> Option<Shape<'_>> {
        self.of(api_version, kind).map(|ty| self.shape_of(ty))
    }

    /// The parts of an object that do not fit its kind: unknown members, values of other types, elements
    /// that are there twice. `None` where the kind is not known.
    pub fn mistakes(&self, object: &Value) -> Option<Vec<String>> {
        let GroupVersionKind { kind, .. } = GroupVersionKind::of_object(object);
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let ty = self.of(api_version, &kind)?;
        Some(merge::mistakes(self, ty, object))
    }

    fn shape_of<'t>(&'t self, reference: &'t Reference) -> Shape<'t> {
        let name = match reference {
            Reference::Named(name, _) => name.as_str(),
            Reference::Inline(_) => "",
        };
        Shape { types: self, name, resolved: self.resolve(reference) }
    }
}

impl<'t> Shape<'t> {
    /// The type in words, if the value does not have it. Null has every type; the contents of lists
    /// and maps are not checked.
    pub(crate) fn mismatch(&self, value: &Value) -> Option<String> {
        let Resolved { scalar, list, map, .. } = self.resolved;
        let fits = match value {
            Value::Null => true,
            Value::Array(_) => list.is_some(),
            Value::Object(_) => map.is_some(),
            Value::Bool(_) => matches!(scalar, Some(Scalar::Boolean | Scalar::Any)),
            Value::Number(_) => matches!(scalar, Some(Scalar::Numeric | Scalar::Any)),
            Value::String(_) => matches!(scalar, Some(Scalar::Text | Scalar::Any)),
        };
        let is_known = scalar.is_some() || list.is_some() || map.is_some();
        if fits || !is_known {
            return None;
        }
        let scalar = scalar.map(|scalar| match scalar {
            Scalar::Numeric => "a number",
            Scalar::Text => "a text",
            Scalar::Boolean => "true or false",
            Scalar::Any => "a number or a text",
        });
        let all = [scalar, list.map(|_| "a list"), map.map(|_| "an object")];
        Some(all.into_iter().flatten().collect::<Vec<_>>().join(" or "))
    }

    /// As [`mismatch`](Self::mismatch), of a value that the field is compared with. The API server makes texts of
    /// quantities.
    pub(crate) fn never_is(&self, value: &Value) -> Option<String> {
        match value {
            Value::Number(_) | Value::Bool(_) if self.is_quantity() => {
                Some("a quantity, which is a text".to_owned())
            }
            value => self.mismatch(value),
        }
    }

    /// Whether the value is a quantity, such as `200Mi`.
    pub(crate) fn is_quantity(&self) -> bool {
        self.name == "api.resource.Quantity"
    }

    /// Whether both are the same type of Kubernetes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        !self.name.is_empty() && self.name == other.name
    }

    /// Whether anything is known of the value.
    pub(crate) fn is_known(&self) -> bool {
        let Resolved { scalar, list, map, .. } = self.resolved;
        scalar.is_some() || list.is_some() || map.is_some()
    }

    /// Whether the value is a number, a text or a boolean.
    pub(crate) fn is_scalar(&self) -> bool {
        let Resolved { scalar, list, map, .. } = self.resolved;
        scalar.is_some() && list.is_none() && map.is_none()
    }

    /// The first of the members that tell the elements of a list apart.
    pub(crate) fn key(&self) -> Option<&'t str> {
        self.resolved.list.and_then(|list| list.keys.first()).map(|key| key.as_str())
    }

    /// The values that a member may have, or its elements, where there are only a few.
    pub(crate) fn values_of(&self, name: &str) -> Option<&'static [&'static str]> {
        enums::values(self.name, name)
    }

    /// The type of the value, if it is a scalar.
    pub fn scalar(&self) -> Option<ScalarShape> {
        Some(match self.resolved.scalar? {
            Scalar::Numeric => ScalarShape::Number,
            Scalar::Text => ScalarShape::Text,
            Scalar::Boolean => ScalarShape::Boolean,
            Scalar::Any => ScalarShape::Any,
        })
    }

    /// The type of the elements, if the value is a list.
    pub fn element(&self) -> Option<Self> {
        self.resolved.list.map(|list| self.types.shape_of(&list.element))
    }

    /// The named members, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&'t str, Self)> + use<'t> {
        let types = self.types;
        let fields = self.resolved.map.map(|map| map.fields.iter());
        fields
            .into_iter()
            .flatten()
            .map(move |(name, field)| (name.as_str(), types.shape_of(&field.ty)))
    }

    /// The type of the members that have no names of their own, as in labels.
    pub fn values(&self) -> Option<Self> {
        let map = self.resolved.map?;
        map.element.as_ref().map(|ty| self.types.shape_of(ty))
    }

    /// The type of a member.
    pub fn member(&self, name: &str) -> Option<Self> {
        let map = self.resolved.map?;
        let ty = map.fields.get(name).map(|field| &field.ty).or(map.element.as_ref())?;
        Some(self.types.shape_of(ty))
    }
}
