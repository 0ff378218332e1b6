//! The format of suite files.

use modgate_value::{DecodeError, Str, Value};
use serde::{Deserialize, Deserializer, de};

/// API group of suites.
pub(super) const GROUP: &str = "test.gatekeeper.sh";
/// Kind of suites.
pub(super) const KIND: &str = "Suite";

/// A list of tests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Suite {
    /// Whether to skip it.
    pub skip: bool,
    /// Its tests.
    pub tests: Vec<Test>,
}

/// One policy and its cases. File names are relative to the suite.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Test {
    /// Its name.
    pub name: Str,
    /// File of the ConstraintTemplate.
    pub template: Str,
    /// File of the constraint.
    pub constraint: Str,
    /// File of ExpansionTemplates; empty for none.
    pub expansion: Str,
    /// Whether the constraint must violate the template's schema.
    pub invalid: bool,
    /// Whether to skip it.
    pub skip: bool,
    /// Objects, and the expected violations.
    pub cases: Vec<Case>,
    /// Files of mutators that run over each object first. Ours.
    pub mutators: Option<Vec<Str>>,
    /// Files of ModRules that run after the mutators. Ours.
    pub modrules: Option<Vec<Str>>,
    /// Files of the cluster's own policies, with their bindings, parameters and definitions of kinds. Ours.
    pub policies: Option<Vec<Str>>,
}

/// One object and its expected violations.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Case {
    /// Its name.
    pub name: Str,
    /// File of the object, or of an AdmissionReview.
    pub object: Str,
    /// Files of referential data.
    pub inventory: Vec<Str>,
    /// The expected violations.
    pub assertions: Vec<Assertion>,
    /// Whether to skip it.
    pub skip: bool,
    /// The operation; the default is `CREATE`. Ours, like all members below.
    pub operation: Option<Str>,
    /// File of the object's Namespace.
    pub namespace: Option<Str>,
    /// File of the object after mutators and ModRules, or the object itself.
    pub expected: Option<Value>,
    /// The JSON Patch from the object to its state after mutators and ModRules.
    pub patch: Option<Value>,
    /// A pattern for the message with which mutators or ModRules refuse the object.
    pub rejected: Option<Str>,
    /// Whether a second pass must change nothing; the default is true.
    pub idempotent: Option<bool>,
}

/// How many violations with which message there must be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Assertion {
    /// The number of violations; the default is at least one.
    pub violations: Option<Violations>,
    /// A pattern for the messages that count; none or empty for all.
    pub message: Option<Str>,
}

/// `violations` of an assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violations {
    /// `yes`, `no`, or something that is neither.
    Word(Str),
    /// Exactly this many.
    Count(i32),
}

impl Suite {
    /// Reads a suite; unknown members are ignored.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }
}

impl Test {
    /// Whether it tests policies that may change objects, which only our suites have.
    pub fn changes_objects(&self) -> bool {
        self.mutators.is_some() || self.modrules.is_some() || self.policies.is_some()
    }
}

impl<'de> Deserialize<'de> for Violations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Violations;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of violations, `yes` or `no`")
            }

            fn visit_str<E>(self, text: &str) -> Result<Violations, E> {
                Ok(Violations::Word(text.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Violations, E> {
                i32::try_from(number)
                    .map(Violations::Count)
                    .map_err(|_| E::custom(format!("{number} is too large")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
