//! The names of warnings, with their descriptions.

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

            /// The reason for the warning, and its consequence.
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
    /// A value that its field does not allow. The message has the consequence.
    UnknownValue = "unknown-value",
    /// An object of the YAML text has the same key twice. The last one counts; a cluster refuses it
    /// where kubectl validates strictly.
    DuplicateKey = "duplicate-key",
    /// A match block, an `applyTo`, a location or the items of a ModRule that fit no object, or none but those of
    /// modgate's own namespace, so the policy never applies.
    NeverMatches = "never-matches",
    /// A field of the built-in kinds that does not exist, and is close to one that does; or a field of a list, a
    /// text or a number, which have none.
    UnknownPath = "unknown-path",
    /// A key or a text has a letter that is not seen, such as a no-break space, or quotation marks
    /// of typesetting, which are not quotes: it is not what it looks like.
    OddLetter = "odd-letter",
    /// A setting that has no effect on this policy.
    NoEffect = "no-effect",
    /// An expression does not fit the type of a kind that the policy matches; the API server says so in
    /// `status.typeChecking`.
    TypeCheck = "type-check",
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
    /// A literal regular expression does not compile, so the rule is undefined or fails; or a pattern stands where
    /// texts are compared letter by letter, so it never fits.
    BadPattern = "bad-pattern",
    /// A path of a patch that addresses something else than it seems to.
    PatchPath = "patch-path",
    /// A value of a patch that is not what it seems to be.
    PatchValue = "patch-value",
    /// A value does not have the type of its field in the kinds that the policy matches: the API server
    /// refuses the object.
    ValueType = "value-type",
    /// A template reads something that its data does not have, so that it fails.
    TemplateField = "template-field",
    /// A path has more placeholders than `select` captures keys, or there is no `select`, so the patch always fails.
    CapturedKey = "captured-key",
    /// The result of a template differs from one review to the next.
    ImpureTemplate = "impure-template",
    /// Rego or CEL reads a member of `input` that does not exist, so the rule is undefined.
    UnknownInput = "unknown-input",
    /// Rego or CEL reads a parameter that the template's own schema does not have.
    UnknownParameter = "unknown-parameter",
    /// A `violation` rule gives an object without `msg`, so its findings are not reported.
    ViolationWithoutMsg = "violation-without-msg",
    /// The format of `sprintf` has another number of verbs than there are values, or verbs for
    /// values of another type; or its values are not a list.
    FormatArguments = "format-arguments",
    /// An enforcement action or scope that has no effect, or that modgate does not know.
    EnforcementAction = "enforcement-action",
    /// An ExpansionTemplate generates objects without a kind.
    GeneratedKind = "generated-kind",
    /// An annotation of modgate that does not exist, or an entry of `modgate.sh/allow`, or a comment, that allows
    /// nothing.
    AllowAnnotation = "allow-annotation",
    /// Found by `modgate lint`: an init container has what the policy denies in a container.
    BypassInitContainers = "bypass-init-containers",
    /// Found by `modgate lint`: an ephemeral container, which comes by an update of
    /// `pods/ephemeralcontainers`, has what the policy denies in a container.
    BypassEphemeralContainers = "bypass-ephemeral-containers",
    /// Found by `modgate lint`: another element of the list has what the policy denies in one.
    BypassListElement = "bypass-list-element",
    /// Found by `modgate lint`: an element that is there twice, or behind another one with its name, gets past
    /// the policy.
    BypassDuplicate = "bypass-duplicate",
    /// Found by `modgate lint`: an empty object or text, which means the same, gets past a policy that denies a
    /// missing one.
    BypassEmptyValue = "bypass-empty-value",
    /// Found by `modgate lint`: null, where the schema of a custom resource allows it, gets past a policy that
    /// denies a missing member.
    BypassNull = "bypass-null",
    /// Found by `modgate lint`: a number as a text, or a text as a number, that means the same gets past the
    /// policy.
    BypassNumber = "bypass-number",
    /// Found by `modgate lint`: an update brings what the policy denies at creation.
    BypassUpdate = "bypass-update",
    /// Found by `modgate lint`: a subresource, such as `scale`, brings what the policy denies at creation.
    BypassSubresource = "bypass-subresource",
    /// Found by `modgate lint`: the policy admits the deletion of an object that it protects from updates, and
    /// names deletions as well.
    BypassDelete = "bypass-delete",
    /// Found by `modgate lint`: an object with `generateName` gets past the policy, because its request has
    /// no name.
    BypassGenerateName = "bypass-generate-name",
    /// Found by `modgate lint`: the object gets past the policy in another namespace that it matches.
    BypassNamespace = "bypass-namespace",
    /// Found by `modgate lint`: another kind of workload that the policy matches makes the same Pods.
    BypassPodTemplate = "bypass-pod-template",
    /// Found by `modgate lint`: another name of the same image gets past the policy: with the registry
    /// or the tag that goes without saying, or with the port of the registry.
    BypassImageName = "bypass-image-name",
    /// Found by `modgate lint`: the image gets past the policy with a digest behind its tag.
    BypassImageDigest = "bypass-image-digest",
    /// Found by `modgate lint`: the name of a capability gets past the policy in other case, which
    /// container runtimes ignore.
    BypassCase = "bypass-case",
    /// Found by `modgate lint`: `ALL` gets past a policy that denies a capability.
    BypassAll = "bypass-all",
    /// Found by `modgate lint`: a quantity in another format, such as bytes in place of `Gi`, gets past the
    /// policy.
    BypassQuantity = "bypass-quantity",
    /// Found by `modgate lint`: an image of someone else gets past the policy because its name starts with
    /// an allowed text that ends within a part of a name.
    BypassPrefix = "bypass-prefix",
    /// An object that no API server stores: its kind does not exist, or its name, namespace or
    /// labels are not texts. Policies for the kind that is meant do not see it. Or a policy whose
    /// name has letters that names do not have.
    ImpossibleObject = "impossible-object",
    /// Found by `modgate lint`: a second run of a mutator or Patch rule changes the object again.
    NotIdempotent = "not-idempotent",
    /// Found by `modgate lint`: the result of two mutators or Patch rules depends on which of them
    /// runs first, which only their names determine.
    OrderDependent = "order-dependent",
    /// Found by `modgate lint`: another policy undoes everything that a mutator or Patch rule changes. Two mutators
    /// that undo each other come to no end, and the request is denied.
    Defeated = "defeated",
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
