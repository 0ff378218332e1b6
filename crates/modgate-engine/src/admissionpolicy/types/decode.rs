//! The API server's error for an object whose values do not fit the Go types of its kind.

use modgate_value::Value;

use super::{Reference, Scalar, Types, quantity};

/// How deep objects are looked at.
const MAX_DEPTH: usize = 64;

const QUANTITY: &str = "api.resource.Quantity";

/// Why an object does not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admissionpolicy) enum Misfit {
    /// A value of another type, in the words of Go's JSON decoder.
    Type(String),
    /// A number with a fraction where there are integers only: the path and the number.
    Fraction(String),
    /// A text that is no quantity.
    Quantity,
}

impl Misfit {
    /// The text of a decoder of JSON.
    pub(in crate::admissionpolicy) fn decoding(&self) -> &str {
        match self {
            Self::Type(text) | Self::Fraction(text) => text,
            Self::Quantity => quantity::NO_QUANTITY,
        }
    }

    /// The text of the conversion of an object without types.
    pub(in crate::admissionpolicy) fn conversion(&self) -> &str {
        match self {
            Self::Type(text) => text,
            Self::Fraction(_) => "cannot convert float64 to int32",
            Self::Quantity => quantity::NO_QUANTITY,
        }
    }
}

impl Types {
    /// The first value of an object that does not fit its type.
    pub(in crate::admissionpolicy) fn misfit(
        &self,
        ty: &Reference,
        object: &Value,
    ) -> Option<Misfit> {
        self.misfit_at(ty, object, ("", ""), 0)
    }

    /// `place` is the Go struct with the field, and the path of the field.
    fn misfit_at(
        &self,
        ty: &Reference,
        value: &Value,
        place: (&str, &str),
        depth: usize,
    ) -> Option<Misfit> {
        let name = match ty {
            Reference::Named(name, _) => name.as_str(),
            Reference::Inline(_) => "",
        };
        if depth > MAX_DEPTH || value.is_null() {
            return None;
        }
        if name == QUANTITY {
            let is_one = match value {
                Value::String(text) => quantity::is_quantity(text),
                Value::Number(_) => true,
                _ => false,
            };
            return (!is_one).then_some(Misfit::Quantity);
        }
        let resolved = self.resolve(ty);
        match value {
            Value::Object(members) => {
                let Some(map) = resolved.map else {
                    return resolved.scalar.map(|wanted| mismatch("object", wanted, place));
                };
                members.iter().find_map(|(key, value)| match map.fields.get(key) {
                    Some(field) => {
                        let owner = name.rsplit('.').next().unwrap_or_default();
                        let path = match place.1 {
                            "" => key.to_string(),
                            path => format!("{path}.{key}"),
                        };
                        self.misfit_at(&field.ty, value, (owner, &path), depth + 1)
                    }
                    None => self.misfit_at(map.element.as_ref()?, value, place, depth + 1),
                })
            }
            Value::Array(elements) => {
                let Some(list) = resolved.list else {
                    return resolved.scalar.map(|wanted| mismatch("array", wanted, place));
                };
                let mut elements = elements.iter();
                elements.find_map(|it| self.misfit_at(&list.element, it, place, depth + 1))
            }
            scalar => misfit_of(scalar, resolved.scalar?, place),
        }
    }
}

fn misfit_of(value: &Value, wanted: Scalar, place: (&str, &str)) -> Option<Misfit> {
    let is_integer = value.as_i64().is_some();
    let found = match (value, wanted) {
        (Value::Bool(_), Scalar::Boolean)
        | (Value::String(_), Scalar::Text | Scalar::Any)
        | (Value::Number(_), Scalar::Any) => return None,
        (Value::Number(_), Scalar::Numeric) if is_integer => return None,
        (Value::Number(_), Scalar::Numeric) => {
            let found = format!("number {}", value.to_json());
            let Misfit::Type(text) = mismatch(&found, wanted, place) else { return None };
            return Some(Misfit::Fraction(text));
        }
        // The one type that is a text or a number.
        (Value::Bool(_), Scalar::Any) => {
            let text = "json: cannot unmarshal bool into Go value of type int32";
            return Some(Misfit::Type(text.to_owned()));
        }
        (Value::Bool(_), _) => "bool",
        (Value::String(_), _) => "string",
        (Value::Number(_), _) => "number",
        _ => return None,
    };
    Some(mismatch(found, wanted, place))
}

fn mismatch(found: &str, wanted: Scalar, (owner, path): (&str, &str)) -> Misfit {
    let wanted = match wanted {
        Scalar::Numeric => "int32",
        Scalar::Boolean => "bool",
        Scalar::Text | Scalar::Any => "string",
    };
    Misfit::Type(format!(
        "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
    ))
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn texts_are_those_of_the_api_server() {
        let types = Types::kubernetes();
        for (object, expected) in [
            (
                "{apiVersion: v1, kind: ConfigMap, data: {x: 1}}",
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "{apiVersion: v1, kind: Pod, spec: {hostNetwork: x}}",
                "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of \
                 type bool",
            ),
            (
                "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2.5}}",
                "json: cannot unmarshal number 2.5 into Go struct field \
                 DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, resources: {limits: \
                 {cpu: abc}}}]}}",
                quantity::NO_QUANTITY,
            ),
            (
                "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, ports: [{containerPort: 1}], resources: {limits: {cpu: 1, memory: 1e3}}}], hostIPC: null}}",
                "",
            ),
            (
                "{apiVersion: v1, kind: Service, spec: {ports: [{port: 1, targetPort: web}, {port: 2, targetPort: 2}]}}",
                "",
            ),
        ] {
            let value = yaml::value(object).expect(object);
            let text = |member| value.get(member).and_then(Value::as_str).unwrap_or_default();
            let ty = types.of(text("apiVersion"), text("kind")).expect("a known kind");
            let found = types.misfit(ty, &value);
            assert_eq!(found.as_ref().map_or("", Misfit::decoding), expected, "{object}");
        }
    }
}
