//! Places that no object of the kinds at hand has.
//!
//! The kinds are Kubernetes' own, and those of custom resources whose definitions are at hand. Of other
//! kinds any place may exist, so a policy that may be about them is warned about plain slips only.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use modgate_api::meta;
use modgate_value::{Value, near, pointer};

use crate::{
    Code,
    admissionpolicy::{Shape, Types},
    constraint::METADATA,
    lint::types::shown,
};

/// A step into an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'s> {
    /// A member.
    Member(&'s str),
    /// The elements of a list.
    Element,
    /// The elements of a list that this member tells apart.
    Keyed(&'s str),
    /// The elements of a list, or the values of a map.
    Any,
}

/// Members of every object, as far as they can be mistaken for one another.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// The lists of containers: what stands in an element of one of these is a container in custom resources, too.
pub(super) const CONTAINERS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

/// Maps of texts that many kinds have.
const MAPS: [&str; 4] = ["annotations", "labels", "matchLabels", "nodeSelector"];

/// The types of a member of every kind of Kubernetes that has it, by the name of the member.
static FIRST: LazyLock<BTreeMap<&'static str, Vec<Shape<'static>>>> = LazyLock::new(|| {
    let types = Types::kubernetes();
    let shapes = types.keys().filter_map(|(version, kind)| types.shape(version, kind));
    let mut first = BTreeMap::new();
    for (name, shape) in shapes.flat_map(|shape| shape.fields()) {
        let known: &mut Vec<Shape<'_>> = first.entry(name).or_default();
        if !known.iter().any(|known| known.is_same(&shape)) {
            known.push(shape);
        }
    }
    first
});

/// As [`FIRST`], of the members of these.
type Second = BTreeMap<(&'static str, &'static str), Vec<Shape<'static>>>;

static SECOND: LazyLock<Second> = LazyLock::new(|| {
    let mut second = Second::new();
    for (first, shapes) in FIRST.iter() {
        for (name, shape) in shapes.iter().flat_map(|shape| shape.fields()) {
            second.entry((*first, name)).or_default().push(shape);
        }
    }
    second
});

/// The objects that a policy applies to.
#[derive(Debug, Clone)]
pub(crate) enum Objects<'t> {
    /// Objects of these types.
    Of(Vec<Shape<'t>>),
    /// Objects of these types, where a policy is written for objects of other types as well.
    Matched(Vec<Shape<'t>>),
    /// Any objects, also of kinds that are not known.
    Any,
}

impl<'t> Objects<'t> {
    /// Those of Kubernetes' kinds with these names, in every group and version. Any objects where there is no name, or
    /// one that Kubernetes does not have.
    pub(crate) fn of_kinds(kinds: &[&str]) -> Self {
        let types = Types::kubernetes();
        let mut found = Vec::new();
        for kind in kinds {
            let before = found.len();
            let versions = types.keys().filter(|(_, known)| known == kind);
            found.extend(versions.filter_map(|(version, _)| types.shape(version, kind)));
            if found.len() == before {
                return Self::Any;
            }
        }
        if found.is_empty() { Self::Any } else { Self::Of(found) }
    }

    /// Those of these types, by `apiVersion` and kind. Of a kind that is in no type, and of none, any objects.
    pub(crate) fn of_versions<'k>(
        types: &[&'t Types],
        versions: impl Iterator<Item = (&'k str, &'k str)>,
    ) -> Self {
        let mut found = Vec::new();
        let (mut named, mut known) = (BTreeSet::new(), BTreeSet::new());
        for (version, kind) in versions {
            named.insert(kind);
            if let Some(shape) = types.iter().find_map(|types| types.shape(version, kind)) {
                known.insert(kind);
                found.push(shape);
            }
        }
        if found.is_empty() || named != known { Self::Any } else { Self::Of(found) }
    }

    /// Those of these types and API groups, as constraints match them. Any objects where one of them is in no type.
    pub(crate) fn matched<'k>(
        types: &[&'t Types],
        kinds: impl Iterator<Item = (&'k str, &'k str)>,
    ) -> Self {
        let mut found = Vec::new();
        for (group, kind) in kinds {
            let before = found.len();
            for types in types {
                let versions = types.keys().filter(|(version, known)| {
                    known == kind && meta::split_api_version(version).0 == group
                });
                found.extend(versions.filter_map(|(version, _)| types.shape(version, kind)));
            }
            if found.len() == before {
                return Self::Any;
            }
        }
        if found.is_empty() { Self::Any } else { Self::Matched(found) }
    }

    /// The first step that leads nowhere in all of these objects.
    pub(crate) fn fault<'s>(&self, steps: &[Step<'s>]) -> Option<Fault<'s>> {
        // Objects of every kind have the same metadata.
        if let [Step::Member("metadata"), Step::Member(name), ..] = steps
            && !METADATA.contains(name)
        {
            let meant = near::nearest(name, METADATA)?;
            return Some(Fault { at: 1, what: What::Misspelt(name, meant.to_owned()) });
        }
        match (self, steps) {
            (Self::Of(shapes), _) => self.walk(shapes.clone(), steps, 0),
            (Self::Matched(shapes), _) => {
                let fault = self.walk(shapes.clone(), steps, 0)?;
                // What another kind has is there for objects of that kind.
                let is_of_others = !Self::Any.shapes(steps.get(..=fault.at)?).is_empty();
                (!is_of_others && fault.at > 0).then_some(fault)
            }
            (Self::Any, [Step::Member(first), rest @ ..]) => {
                let Some(shapes) = FIRST.get(first) else {
                    let meant = near::nearest(first, OBJECT)?;
                    return Some(Fault { at: 0, what: What::Misspelt(first, meant.to_owned()) });
                };
                let second = match rest {
                    [Step::Member(second), ..] => SECOND.get(&(*first, *second)),
                    _ => None,
                };
                match second {
                    Some(shapes) => self.walk(shapes.clone(), steps, 2),
                    None => self.walk(shapes.clone(), steps, 1),
                }
            }
            (Self::Any, _) => None,
        }
    }

    /// As [`fault`](Self::fault), from step number `first` on, where these types are.
    fn walk<'s>(
        &self,
        mut shapes: Vec<Shape<'_>>,
        steps: &[Step<'s>],
        first: usize,
    ) -> Option<Fault<'s>> {
        for (at, step) in steps.iter().enumerate().skip(first) {
            if !shapes.iter().all(Shape::is_known) {
                return None;
            }
            let next: Vec<Shape<'_>> = shapes.iter().filter_map(|it| below(it, *step)).collect();
            if next.is_empty() {
                let found = what(&shapes, *step)?;
                let is_sure = match self {
                    Self::Of(_) | Self::Matched(_) => true,
                    Self::Any => is_certain(steps.get(..at)?) || found.is_slip(),
                };
                return is_sure.then_some(Fault { at, what: found });
            }
            shapes = next;
        }
        None
    }

    /// The values that the field at a place may have, or the elements of a list, where there are only a few; none where
    /// objects differ.
    pub(crate) fn values(&self, steps: &[Step<'_>]) -> Option<&'static [&'static str]> {
        let steps = steps.strip_suffix(&[Step::Element]).unwrap_or(steps);
        let (Step::Member(name), before) = steps.split_last()? else { return None };
        let (mut shapes, before): (Vec<Shape<'_>>, _) = match (self, before) {
            (Self::Of(shapes) | Self::Matched(shapes), _) => (shapes.clone(), before),
            (Self::Any, [Step::Member(first), rest @ ..]) => (FIRST.get(first)?.clone(), rest),
            (Self::Any, _) => return None,
        };
        for step in before {
            shapes = shapes.iter().filter_map(|it| below(it, *step)).collect();
        }
        values_of(&shapes, name)
    }

    /// The types at a place, in all objects that have it.
    pub(crate) fn shapes(&self, steps: &[Step<'_>]) -> Vec<Shape<'t>> {
        let (mut shapes, steps) = match (self, steps) {
            (Self::Of(shapes) | Self::Matched(shapes), steps) => (shapes.clone(), steps),
            (Self::Any, [Step::Member(first), rest @ ..]) if !rest.is_empty() => {
                (FIRST.get(first).cloned().unwrap_or_default(), rest)
            }
            (Self::Any, _) => return Vec::new(),
        };
        for step in steps {
            shapes = shapes.iter().filter_map(|it| below(it, *step)).collect();
        }
        shapes
    }

    /// The field at a place, in words, if no object has a value of this one's type there.
    pub(crate) fn never_is(&self, steps: &[Step<'_>], value: &Value) -> Option<String> {
        let mut expected = None;
        for shape in self.shapes(steps) {
            expected = Some(shape.never_is(value)?);
        }
        expected
    }

    /// Whether the value at a place is a quantity in all objects that have it.
    pub(crate) fn is_quantity(&self, steps: &[Step<'_>]) -> bool {
        let shapes = self.shapes(steps);
        !shapes.is_empty() && shapes.iter().all(Shape::is_quantity)
    }

    /// [`fault`](Self::fault) and [`values`](Self::values) of a place whose steps lead into the elements of lists without
    /// saying so.
    pub(crate) fn within_lists<'s>(
        &self,
        steps: &[Step<'s>],
    ) -> (Option<Fault<'s>>, Option<&'static [&'static str]>) {
        let Self::Of(shapes) = self else { return (None, None) };
        let mut shapes = shapes.clone();
        for (at, step) in steps.iter().enumerate() {
            let elements: Vec<Shape<'_>> = shapes.iter().filter_map(Shape::element).collect();
            if !elements.is_empty() {
                shapes = elements;
            }
            let next: Vec<Shape<'_>> = shapes.iter().filter_map(|it| below(it, *step)).collect();
            if next.is_empty() {
                return (what(&shapes, *step).map(|what| Fault { at, what }), None);
            }
            if let Step::Member(name) = step
                && at + 1 == steps.len()
            {
                return (None, values_of(&shapes, name));
            }
            shapes = next;
        }
        (None, None)
    }

    /// The beginning of a message about a field that does not exist.
    pub(crate) fn none_has(&self) -> &'static str {
        match self {
            Self::Of(_) => "no object that this policy matches has",
            Self::Matched(_) => "no object that its constraints match has",
            Self::Any => "no kind of Kubernetes has",
        }
    }
}

/// The values of a member, if all types that have the member agree.
fn values_of(shapes: &[Shape<'_>], name: &str) -> Option<&'static [&'static str]> {
    let having = shapes.iter().filter(|shape| shape.member(name).is_some());
    let mut values = having.map(|shape| shape.values_of(name));
    let first = values.next()??;
    values.all(|other| other == Some(first)).then_some(first)
}

/// The name of the field that steps lead to, as messages call it.
pub(crate) fn last_name<'s>(steps: &[Step<'s>]) -> &'s str {
    match steps.last() {
        Some(Step::Member(name)) => name,
        _ => "this field",
    }
}

/// The message about an order of a quantity and a text.
pub(crate) const COMPARED_AS_TEXT: &str =
    "the field is a quantity, which is compared letter by letter here";

/// The message about a comparison with a text that a field never has.
pub(crate) fn never_has(text: &str) -> String {
    format!("the field never is `{text}`, so the comparison always has the same result")
}

/// The message about a comparison with a value that has another type than the field.
pub(crate) fn never_equal(expected: &str, value: &Value) -> String {
    let shown = shown(value);
    format!("the field is {expected}, so the comparison with {shown} always has the same result")
}

/// The advice about it, if writing the value in another way helps.
pub(crate) fn as_type(expected: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text)
            if expected == "true or false" && matches!(text.as_str(), "true" | "false") =>
        {
            Some(format!("write `{text}` without quotes"))
        }
        Value::String(text) if expected == "a number" && text.parse::<f64>().is_ok() => {
            Some(format!("write `{text}` without quotes"))
        }
        Value::Number(_) | Value::Bool(_) if expected == "a text" => {
            Some(format!("write `\"{value}\"`"))
        }
        Value::String(_) | Value::Number(_) if expected == "a list" => {
            Some("compare its elements, not the list".to_owned())
        }
        Value::Bool(_) if expected.starts_with("a list") || expected.starts_with("an object") => {
            Some("ask whether the field is there, not whether it is true".to_owned())
        }
        _ => None,
    }
}

/// The fields whose texts have no slash, by their names.
const PLAIN_NAMES: [&str; 11] = [
    "generateName",
    "hostname",
    "ingressClassName",
    "kind",
    "name",
    "namespace",
    "nodeName",
    "priorityClassName",
    "runtimeClassName",
    "serviceAccountName",
    "storageClassName",
];

/// Whether no text at a place has a slash: names, and the values of labels.
pub(crate) fn has_no_slash(steps: &[Step<'_>]) -> bool {
    match steps {
        [.., Step::Member("labels" | "matchLabels"), _] => true,
        [.., Step::Member(name)] => PLAIN_NAMES.contains(name),
        _ => false,
    }
}

/// The message about a text that a field cannot have.
pub(crate) fn has_no_value(field: &str, text: &str) -> String {
    format!("`{field}` cannot be `{text}`, so the API server refuses the object")
}

/// The type behind a step.
pub(super) fn below<'t>(shape: &Shape<'t>, step: Step<'_>) -> Option<Shape<'t>> {
    match step {
        Step::Member(name) => shape.member(name),
        Step::Element => shape.element(),
        Step::Keyed(key) => shape.element().filter(|element| element.member(key).is_some()),
        Step::Any => shape.element().or_else(|| shape.values()),
    }
}

/// Whether custom resources have the same fields as Kubernetes' own kinds behind these steps: in containers, and in
/// maps of texts.
fn is_certain(steps: &[Step<'_>]) -> bool {
    let is_one = |step: &Step<'_>, names: &[&str]| matches!(step, Step::Member(name) if names.contains(name));
    let mut before = steps.iter().rev().skip(1);
    steps.iter().any(|step| is_one(step, &CONTAINERS))
        // Objects of every kind have the same metadata.
        || matches!(steps, [Step::Member("metadata"), Step::Member(_), ..])
        || before.next().is_some_and(|it| is_one(it, &MAPS))
}

/// A step that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault<'s> {
    /// The number of the step.
    pub(crate) at: usize,
    /// The reason.
    pub(crate) what: What<'s>,
}

/// Why a step leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What<'s> {
    /// No field has this name, and one has a near name.
    Misspelt(&'s str, String),
    /// The elements of the list have no field of this name; those that they have.
    Key(&'s str, Vec<String>),
    /// A member of a list, whose elements this field may distinguish.
    OfList(&'s str, Option<String>),
    /// An element of what is no list.
    NoList,
    /// A member of a text, a number or a boolean.
    OfScalar(&'s str),
}

impl What<'_> {
    /// Whether the name is so long and so near to the right one that hardly any kind has it.
    fn is_slip(&self) -> bool {
        match self {
            Self::Misspelt(name, meant) => meant.len() > 4 && near::is_slip(name, meant),
            _ => false,
        }
    }
}

/// Why none of these has the step; `None` where no advice is possible.
fn what<'s>(shapes: &[Shape<'_>], step: Step<'s>) -> Option<What<'s>> {
    let lists = shapes.iter().filter_map(Shape::element);
    match step {
        Step::Member(name) => {
            let names = shapes.iter().flat_map(|shape| shape.fields()).map(|(name, _)| name);
            if let Some(meant) = near::nearest(name, names) {
                return Some(What::Misspelt(name, meant.to_owned()));
            }
            if shapes.iter().all(|shape| shape.element().is_some()) {
                let key = shapes.first().and_then(Shape::key).map(str::to_owned);
                return Some(What::OfList(name, key));
            }
            let is_scalar = |shape: &Shape<'_>| shape.is_scalar();
            shapes.iter().all(is_scalar).then_some(What::OfScalar(name))
        }
        Step::Keyed(key) => {
            let elements: Vec<Shape<'_>> = lists.collect();
            if elements.is_empty() {
                return Some(What::NoList);
            }
            let fields = elements.iter().flat_map(|shape| shape.fields());
            Some(What::Key(key, fields.map(|(name, _)| name.to_owned()).collect()))
        }
        Step::Element => Some(What::NoList),
        Step::Any => None,
    }
}

/// The steps of a JSON pointer. Elements of lists are numbers, also negative ones, `-`, or stand for captured keys, as `#0`.
#[derive(Debug)]
pub(crate) struct Pointer {
    names: Vec<String>,
}

impl Pointer {
    /// Reads a pointer; `None` if it does not start with `/`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let names = text.strip_prefix('/')?.split('/');
        let names = names.map(|name| pointer::unescape(name).into_owned()).collect();
        Some(Self { names })
    }

    /// The steps.
    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let is_digits = |name: &str| !name.is_empty() && name.bytes().all(|it| it.is_ascii_digit());
        let steps = self.names.iter().map(|name| match name.as_str() {
            "-" => Step::Element,
            name if is_digits(name.strip_prefix(['#', '-']).unwrap_or(name)) => Step::Any,
            name => Step::Member(name),
        });
        steps.collect()
    }

    /// The mistake in the pointer, if no object has the place. A patch may create parents that are
    /// missing.
    pub(crate) fn fault(
        &self,
        objects: &Objects<'_>,
        creates_parents: bool,
    ) -> Option<(Code, String, Option<String>)> {
        let so = match creates_parents {
            true => {
                ": where it is missing, the patch makes an object of it, which the API server refuses; where it is \
                 not, the patch fails"
            }
            false => ", so the patch fails",
        };
        let steps = self.steps();
        let Fault { at, what } = objects.fault(&steps)?;
        let before = self.written(at);
        Some(match what {
            What::Misspelt(name, meant) => (
                Code::UnknownPath,
                format!("{} the field `{name}`", objects.none_has()),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::OfList(..) => (
                Code::PatchPath,
                format!("`{before}` is a list, whose elements have numbers{so}"),
                Some(format!("write `{before}/0`, or `{before}/-` to add at the end")),
            ),
            What::OfScalar(_) => {
                let name = self.names.get(at.saturating_sub(1)..).unwrap_or_default().join("~1");
                let help = format!(
                    "a `/` within a name is written `~1`: `{}/{name}`",
                    self.written(at.saturating_sub(1))
                );
                let is_of_map = is_certain(steps.get(..at).unwrap_or_default());
                (
                    Code::PatchPath,
                    format!("`{before}` has no members{so}"),
                    is_of_map.then_some(help),
                )
            }
            What::Key(..) | What::NoList => return None,
        })
    }

    /// The first steps as they are written.
    fn written(&self, steps: usize) -> String {
        let names = self.names.iter().take(steps);
        names.map(|name| pointer::below("", name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a.*.b`, with `[key]` for the elements of a list.
    fn steps(path: &str) -> Vec<Step<'_>> {
        let step = |part| match part {
            "*" => Step::Any,
            part => match str::strip_prefix(part, "[") {
                Some(key) => Step::Keyed(key.trim_end_matches(']')),
                None => Step::Member(part),
            },
        };
        path.split('.').map(step).collect()
    }

    fn shown(objects: &Objects<'_>, path: &str) -> String {
        let Some(Fault { at, what }) = objects.fault(&steps(path)) else { return String::new() };
        let what = match what {
            What::Misspelt(name, meant) => format!("{name} for {meant}"),
            What::Key(key, _) => format!("key {key}"),
            What::OfList(name, key) => format!("{name} of a list by {}", key.unwrap_or_default()),
            What::NoList => "no list".to_owned(),
            What::OfScalar(name) => format!("{name} of a scalar"),
        };
        format!("{at} {what}")
    }

    #[test]
    fn faults() {
        for (kinds, path, expected) in [
            (&["Pod"][..], "spec.containers.*.image", ""),
            (&["Pod"], "spec.contaners.*.image", "1 contaners for containers"),
            (&["Pod"], "spec.containers.*.imge", "3 imge for image"),
            (&["Pod"], "spec.containers.image", "2 image of a list by name"),
            (&["Pod"], "spec.containers.[nmae].image", "2 key nmae"),
            (&["Pod"], "spec.securityContext.[name].x", "2 no list"),
            (&["Pod"], "spec.nodeName.x", "2 x of a scalar"),
            (&["Pod"], "metadata.labls.x", "1 labls for labels"),
            (&["Pod"], "metadata.labels.any.thing", "3 thing of a scalar"),
            (&["Pod"], "spec.container", "1 container for containers"),
            (&["Pod", "Deployment"], "spec.template.spec.contaners", "3 contaners for containers"),
            (&["Deployment"], "spec.replics", "1 replics for replicas"),
            (&["Pod"], "spec.nothingLikeIt", ""),
            // Any kinds: plain slips, and what every kind has.
            (&[], "spec.containers.*.image", ""),
            (&[], "spec.contaners", "1 contaners for containers"),
            (&[], "spec.container", ""),
            (&[], "spec.host", ""),
            (&[], "spec.hosts", ""),
            (&[], "spec.tls.termination", ""),
            (&[], "spec.containers.*.imge", "3 imge for image"),
            (&[], "spec.containers.image", "2 image of a list by name"),
            (&[], "spec.template.spec.contaners", "3 contaners for containers"),
            (&[], "metadata.labels.a.b", "3 b of a scalar"),
            (&[], "specs.x", "0 specs for spec"),
            (&["Widget"], "spec.image", ""),
        ] {
            assert_eq!(shown(&Objects::of_kinds(kinds), path), expected, "{kinds:?} {path}");
        }
    }

    #[test]
    fn values_of_fields() {
        for (kinds, path, expected) in [
            (&["Pod"][..], "spec.containers.*.imagePullPolicy", Some("Always")),
            (&[], "spec.containers.*.imagePullPolicy", Some("Always")),
            (&["Service"], "spec.type", Some("ClusterIP")),
            (&["Pod"], "spec.nodeName", None),
            // The strategies of several kinds have the same values.
            (&[], "spec.updateStrategy.type", Some("OnDelete")),
            // Of Services, and of what may have others.
            (&[], "spec.type", None),
        ] {
            let values = Objects::of_kinds(kinds).values(&steps(path));
            assert_eq!(values.and_then(|all| all.first().copied()), expected, "{kinds:?} {path}");
        }
    }

    #[test]
    fn pointers() {
        let pods = Objects::of_kinds(&["Pod"]);
        for (pointer, expected) in [
            ("/spec/containers/0/image", None),
            ("/spec/containers/-1/image", None),
            ("/spec/containers/#0/image", None),
            ("/spec/containers/-", None),
            ("/metadata/labels/app.kubernetes.io~1name", None),
            (
                "/metadata/labels/a/b",
                Some("a `/` within a name is written `~1`: `/metadata/labels/a~1b`"),
            ),
            ("/spec/contaners/0", Some("did you mean `containers`?")),
            (
                "/spec/containers/image",
                Some("write `/spec/containers/0`, or `/spec/containers/-` to add at the end"),
            ),
        ] {
            let fault = Pointer::parse(pointer).expect(pointer).fault(&pods, false);
            assert_eq!(fault.and_then(|(_, _, help)| help).as_deref(), expected, "{pointer}");
        }
        assert!(Pointer::parse("spec").is_none());
    }
}
