//! Values as the API server makes them of a JSON patch: by way of `google.protobuf.Value`
//! (`apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go`).

use modgate_value::{Number, Object, Value, go::base64::Alphabet};

use crate::{
    library::{Opaque, duration_text, timestamp_text},
    value::{Built, Val},
};

/// The largest integer that a double holds exactly.
const MAX_SAFE: u64 = (1 << 53) - 1;

impl Val<'_> {
    /// As a JSON patch has it: bytes in base64, integers that a double does not hold as texts.
    ///
    /// # Errors
    ///
    /// The API server's text for a value that has no such form.
    pub fn to_structpb(self) -> Result<Value, String> {
        match self {
            Val::Built(built) => fields(built),
            value => literal(value),
        }
    }
}

/// A value that is no object of a mutation.
fn literal(value: Val<'_>) -> Result<Value, String> {
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => value.into(),
        Val::Int(value) if value.unsigned_abs() > MAX_SAFE => value.to_string().into(),
        Val::Int(value) => value.into(),
        Val::Uint(value) if value > MAX_SAFE => value.to_string().into(),
        Val::Uint(value) => i64::try_from(value).unwrap_or_default().into(),
        Val::Double(value) => double(value, "Value")?,
        Val::String(text) => text.into(),
        Val::Bytes(bytes) => Alphabet::Standard.encode(bytes).into(),
        Val::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
        Val::JsonMap(object) => object.clone().into(),
        Val::JsonList(items) => items.iter().cloned().collect(),
        Val::Optional(Some(inner)) => literal(*inner)?,
        Val::Optional(None) => return Err("optional.none() dereference".to_owned()),
        Val::Timestamp(at) => timestamp_text(at).into(),
        Val::Duration(nanos) => duration_text(nanos).into(),
        Val::Built(built) => fields(built)?,
        Val::Opaque(opaque) => {
            let name = match opaque {
                Opaque::Quantity(_) => "Quantity",
                Opaque::Semver(_) => "Semver",
                Opaque::Url(_) => "URL",
                Opaque::Ip(_) => "IP",
                Opaque::Cidr(_) => "CIDR",
                Opaque::Format(_) => "Format",
                Opaque::Authorization(_) => opaque.type_name(),
            };
            return Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
        }
        value if value.is_list() => value.items().map(literal).collect::<Result<Value, _>>()?,
        value => {
            let mut members = Object::default();
            for (key, value) in entries(value) {
                let key = match key {
                    Val::String(key) => key,
                    Val::Int(_) => return unsupported("int"),
                    Val::Uint(_) => return unsupported("uint"),
                    Val::Bool(_) => {
                        return Err("type conversion error from bool to 'string'".to_owned());
                    }
                    Val::Double(_) => {
                        return Err("type conversion error from Double to 'string'".to_owned());
                    }
                    Val::Timestamp(_) => return inconvertible("Timestamp"),
                    Val::Duration(_) => return inconvertible("Duration"),
                    other => return inconvertible(other.type_name()),
                };
                members.insert(key, literal(value)?);
            }
            members.into()
        }
    })
}

fn unsupported(name: &str) -> Result<Value, String> {
    Err(format!("unsupported type conversion from '{name}' to string"))
}

fn inconvertible(name: &str) -> Result<Value, String> {
    Err(format!("type conversion error from '{name}' to 'string'"))
}

fn entries<'a>(value: Val<'a>) -> impl Iterator<Item = (Val<'a>, Val<'a>)> {
    (0..value.entries().unwrap_or(0)).filter_map(move |index| value.entry(index))
}

fn double(value: f64, kind: &str) -> Result<Value, String> {
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        value => return Ok(Number::from_f64(value).map(Value::Number).unwrap_or_default()),
    };
    Err(format!(
        "json: error calling MarshalJSON for type *structpb.{kind}: proto: \
         google.protobuf.Value.number_value: invalid {name} value"
    ))
}

/// An object of a mutation. Its values are Go's own, and lists and maps of CEL are looked at one level
/// deep only.
fn fields(built: &Built<'_>) -> Result<Value, String> {
    let mut members = Object::default();
    for (name, value) in built.fields {
        let value = match value {
            Val::Optional(Some(inner)) => **inner,
            value => *value,
        };
        let made = match value {
            Val::JsonMap(_) | Val::JsonList(_) => native(value)?,
            value if value.is_list() => value.items().map(native).collect::<Result<Value, _>>()?,
            value if value.is_map() => {
                let mut made = Object::default();
                for (key, value) in entries(value) {
                    let Val::String(key) = key else {
                        return Err(format!(
                            "fail to convert field {name:?}: map key {} is of type {}, not string",
                            quoted(key),
                            go_type(key)
                        ));
                    };
                    made.insert(key, native(value)?);
                }
                made.into()
            }
            value => native(value)?,
        };
        members.insert(*name, made);
    }
    Ok(members.into())
}

/// A value of Go's own types, as `structpb.NewValue` takes it.
fn native(value: Val<'_>) -> Result<Value, String> {
    let invalid = |name: &str| Err(format!("proto: invalid type: {name}"));
    Ok(match value {
        Val::Null => return invalid("structpb.NullValue"),
        Val::Bool(value) => value.into(),
        // As a double, whatever that loses.
        #[expect(clippy::cast_precision_loss, reason = "as the original does")]
        Val::Int(value) => double(value as f64, "Struct")?,
        #[expect(clippy::cast_precision_loss, reason = "as the original does")]
        Val::Uint(value) => double(value as f64, "Struct")?,
        Val::Double(value) => double(value, "Struct")?,
        Val::String(text) => text.into(),
        Val::Bytes(bytes) => Alphabet::Standard.encode(bytes).into(),
        Val::Type(name) => name.into(),
        Val::JsonMap(object) => object.clone().into(),
        Val::JsonList(items) => items.iter().cloned().collect(),
        Val::Optional(Some(inner)) => native(*inner)?,
        Val::Optional(None) => Value::Null,
        Val::Timestamp(_) => return invalid("time.Time"),
        Val::Duration(_) => return invalid("time.Duration"),
        Val::Built(built) => fields(built)?,
        Val::Opaque(opaque) => {
            return invalid(match opaque {
                Opaque::Quantity(_) => "*resource.Quantity",
                Opaque::Semver(_) => "semver.Version",
                Opaque::Url(_) => "*url.URL",
                Opaque::Ip(_) => "netip.Addr",
                Opaque::Cidr(_) => "netip.Prefix",
                Opaque::Format(_) => "*cel.Format",
                Opaque::Authorization(_) => opaque.type_name(),
            });
        }
        value if value.is_list() => return invalid("[]ref.Val"),
        _ => return invalid("map[ref.Val]ref.Val"),
    })
}

/// A key as `%q` prints it.
fn quoted(key: Val<'_>) -> String {
    match key {
        Val::Int(value) => match u32::try_from(value).ok().and_then(char::from_u32) {
            Some(c) if c.is_control() => format!("'\\x{:02x}'", u32::from(c)),
            Some(c) => format!("'{c}'"),
            None => "'\u{fffd}'".to_owned(),
        },
        other => format!("%!q({})", other.type_name()),
    }
}

fn go_type(key: Val<'_>) -> &'static str {
    match key {
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Bool(_) => "types.Bool",
        Val::Double(_) => "types.Double",
        _ => "ref.Val",
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::Budget;

    use crate::{Activation, Arena, Env, Program, Release, Val};

    struct Nothing;

    impl Activation for Nothing {
        fn variable<'a>(&'a self, _: &str) -> Option<Val<'a>> {
            None
        }
    }

    #[test]
    fn values_are_those_of_the_api_server() {
        let env = Env::new().with_patches().with_release(Release::V0_26);
        for (text, expected) in [
            ("{'a': b'hi'}", r#"{"a":"aGk="}"#),
            (r"{'a': b'\xff\xfe'}", r#"{"a":"//4="}"#),
            ("{'a': 9007199254740993}", r#"{"a":"9007199254740993"}"#),
            ("{'a': -9007199254740991}", r#"{"a":-9007199254740991}"#),
            ("{'a': [1u, 9007199254740993u]}", r#"{"a":[1,"9007199254740993"]}"#),
            ("{'a': duration('90m')}", r#"{"a":"5400s"}"#),
            ("{'a': timestamp('2020-01-01T00:00:00Z')}", r#"{"a":"2020-01-01T00:00:00Z"}"#),
            ("{1: 'a'}", "unsupported type conversion from 'int' to string"),
            ("{true: 'x'}", "type conversion error from bool to 'string'"),
            ("{'a': type(1)}", "type conversion not supported for 'type'"),
            ("{'a': quantity('1')}", "type conversion error from 'Quantity' to '*structpb.Value'"),
            ("{'a': optional.none()}", "optional.none() dereference"),
            ("{'a': optional.of('x')}", r#"{"a":"x"}"#),
            (
                "{'a': 1.0/0.0}",
                "json: error calling MarshalJSON for type *structpb.Value: proto: \
                 google.protobuf.Value.number_value: invalid +Inf value",
            ),
            (
                "Object.m{a: b'hi', b: [1, 2], c: {'d': 'e'}}",
                r#"{"a":"aGk=","b":[1,2],"c":{"d":"e"}}"#,
            ),
            ("Object.m{a: null}", "proto: invalid type: structpb.NullValue"),
            ("Object.m{a: {'b': {'c': 'd'}}}", "proto: invalid type: map[ref.Val]ref.Val"),
            ("Object.m{a: [[1]]}", "proto: invalid type: []ref.Val"),
            ("Object.m{a: duration('1s')}", "proto: invalid type: time.Duration"),
            ("Object.m{a: type(1)}", r#"{"a":"int"}"#),
            (
                "Object.m{a: {1: 'x'}}",
                "fail to convert field \"a\": map key '\\x01' is of type types.Int, not string",
            ),
        ] {
            let program = Program::compile(text, &env).expect(text);
            let (arena, budget) = (Arena::new(), Budget::unlimited());
            let (value, _) = program.eval(&Nothing, &arena, &budget, u64::MAX).expect(text);
            let made = match value.to_structpb() {
                Ok(made) => made.to_json(),
                Err(error) => error,
            };
            assert_eq!(made, expected, "{text}");
        }
    }

    #[test]
    fn api_servers_have_no_names_in_backticks() {
        let (newer, older) = (Env::new(), Env::new().with_release(Release::V0_26));
        for text in ["{'a': 1}.`a`", "has({'a': 1}.`a`)"] {
            assert!(Program::compile(text, &newer).is_ok(), "{text}");
            let error = Program::compile(text, &older).expect_err(text).to_string();
            assert!(error.contains("unsupported syntax: '`'"), "{error}");
        }
    }
}
