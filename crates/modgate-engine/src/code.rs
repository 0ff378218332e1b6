//! The names of warnings, and what each is about.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The stable name of a warning about a policy: what people allow, search for and count.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            /// Every code, in the order of the page about them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name, in kebab case.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What the warning is about, and what follows from it.
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)+),)+
                }
            }
        }
    };
}

codes! {
    /// The kind of a document does not exist in its API group. The document is not loaded.
    UnknownKind = "unknown-kind",
    /// The API group of a document is not one of a policy, and is close to one or has a kind of a
    /// policy. The document is not loaded.
    UnknownGroup = "unknown-group",
    /// The API group of a policy has no such version. modgate loads the policy from files; a cluster
    /// refuses it.
    UnknownVersion = "unknown-version",
    /// No field of a policy has this name: it is misspelt, or stands in the wrong place.
    UnknownField = "unknown-field",
    /// A value that is none of those its field has. What follows is said in the message.
    UnknownValue = "unknown-value",
    /// An object of the YAML text has the same key twice. The last one counts; a cluster refuses it
    /// where kubectl validates strictly.
    DuplicateKey = "duplicate-key",
    /// A match block, an `applyTo` or a location that fits no object, so the policy never applies.
    NeverMatches = "never-matches",
    /// A field of the built-in kinds that does not exist, and is close to one that does.
    UnknownPath = "unknown-path",
    /// A setting that has no effect on this policy.
    NoEffect = "no-effect",
    /// A field that still works and has a newer name.
    Deprecated = "deprecated",
    /// A `select` expression names a function that does not exist, so it always fails.
    UnknownFunction = "unknown-function",
    /// A `select` expression compares with or filters by a member that may be missing.
    SelectMissing = "select-missing",
    /// A `select` expression compares a text as a number, or searches a number as a text.
    SelectNumber = "select-number",
    /// A `select` expression counts from the end of a list, which never finds anything.
    SelectIndex = "select-index",
    /// A `select` expression has a name without quotes and without `$`: it is looked up in the object.
    SelectName = "select-name",
    /// A literal regular expression does not compile, so the rule is undefined or fails.
    BadPattern = "bad-pattern",
    /// A path of a patch that addresses something else than it seems to.
    PatchPath = "patch-path",
    /// A value of a patch that is not what it seems to be.
    PatchValue = "patch-value",
    /// A path has more placeholders than `select` captures keys, so the patch always fails.
    CapturedKey = "captured-key",
    /// The result of a template differs from one review to the next.
    ImpureTemplate = "impure-template",
    /// Rego or CEL reads a member of `input` that does not exist, so the rule is undefined.
    UnknownInput = "unknown-input",
    /// Rego or CEL reads a parameter that the template's own schema does not have.
    UnknownParameter = "unknown-parameter",
    /// A `violation` rule gives an object without `msg`, so what it finds is not reported.
    ViolationWithoutMsg = "violation-without-msg",
    /// The format of `sprintf` has another number of verbs than there are values.
    FormatArguments = "format-arguments",
    /// An enforcement action or scope that does nothing, or is not one modgate knows.
    EnforcementAction = "enforcement-action",
    /// What an expansion template generates has no kind.
    GeneratedKind = "generated-kind",
    /// An entry of the annotation `modgate.sh/allow` that allows nothing.
    AllowAnnotation = "allow-annotation",
    /// A test suite has a field that `verify` does not know.
    SuiteMember = "suite-member",
    /// There is nothing to evaluate where something is expected.
    NothingFound = "nothing-found",
    /// A flag names something that does not exist.
    UnknownFlagValue = "unknown-flag-value",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
