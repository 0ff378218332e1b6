//! The input of constraints: `input.review`, and what match blocks look at (spec 3.1).

use std::sync::OnceLock;

use modgate_api::meta::ObjectExt as _;
use modgate_api::meta::{GroupVersionKind, Operation};
use modgate_value::{Object, Str, Value};

use super::{cel::Input, inventory::Inventory};
use crate::{
    Review,
    matching::{Criteria, Criterion, MatchError, Matchable, Source},
};

/// An object or a request for admission, as constraints see it.
#[derive(Debug, Clone)]
pub struct Admission {
    review: Value,
    object: Option<TypedObject>,
    old_object: Option<TypedObject>,
    namespace: Option<Value>,
    /// Whether only match blocks see the Namespace.
    hides_namespace: bool,
    source: Option<Source>,
    operation: Str,
    name: Str,
    /// The input of CEL, made when the first policy in CEL is evaluated.
    cel: OnceLock<Input>,
}

/// An object and the kind it says it is (MA-3).
#[derive(Debug, Clone)]
struct TypedObject {
    object: Value,
    kind: GroupVersionKind,
}

impl TypedObject {
    fn name(&self) -> Str {
        self.object.name().into()
    }
}

/// Why there is nothing to review.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A deletion that does not say of what (EV-5).
    #[error(
        "admission.k8s.gatekeeper.sh: target.HandleReview failed for target \
         \"admission.k8s.gatekeeper.sh\": oldObject cannot be nil for DELETE operations\n"
    )]
    NoOldObject,
}

/// The optional members of a request that policies see as they were sent (EV-2).
const AS_SENT: [&str; 4] = ["requestKind", "requestResource", "requestSubResource", "dryRun"];

impl Admission {
    /// A request the API server sent, the `request` member of its AdmissionReview.
    ///
    /// `namespace` is the Namespace of the object; it is not looked at for Namespaces themselves.
    /// Numbers stay as they were sent.
    ///
    /// # Errors
    ///
    /// A DELETE without `oldObject`.
    pub fn of_request(request: &Value, namespace: Option<&Value>) -> Result<Self, AdmissionError> {
        let present = |key: &str| request.get(key).filter(|value| !value.is_null()).cloned();
        let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = text("operation");
        let old_object = present("oldObject");
        let object = match operation {
            // Policies need not know that the object of a deletion is the old one.
            "DELETE" => Some(old_object.clone().ok_or(AdmissionError::NoOldObject)?),
            _ => present("object"),
        };
        let kind = request.path(&["kind", "kind"]).and_then(Value::as_str);
        let group = request.path(&["kind", "group"]).and_then(Value::as_str);
        let is_namespace = match kind {
            Some(kind) => kind == "Namespace" && group.unwrap_or_default().is_empty(),
            None => object.as_ref().is_some_and(is_namespace),
        };
        let namespace = namespace.filter(|_| !is_namespace).cloned();
        // As written, also where it is empty (EV-145): match blocks go by the object.
        let kind = record(&present("kind").unwrap_or_default(), ["group", "version", "kind"]);
        let resource = present("resource").unwrap_or_default();
        let mut members: Vec<(Str, Value)> = vec![
            ("uid".into(), text("uid").into()),
            ("kind".into(), kind),
            ("resource".into(), record(&resource, ["group", "version", "resource"])),
            ("operation".into(), operation.into()),
            ("userInfo".into(), user_info(present("userInfo"))),
            ("options".into(), present("options").unwrap_or_default()),
        ];
        let namespace_name = if is_namespace { "" } else { text("namespace") };
        for (key, value) in [
            ("subResource", text("subResource")),
            ("name", text("name")),
            ("namespace", namespace_name),
        ] {
            if !value.is_empty() {
                members.push((key.into(), value.into()));
            }
        }
        for key in AS_SENT {
            members.extend(present(key).map(|value| (key.into(), value)));
        }
        let name = match text("name") {
            "" => object.as_ref().map_or("", |object| object.name()),
            name => name,
        };
        Ok(Self::new(members, object.clone(), old_object, namespace, operation.into(), name.into()))
    }

    /// As [`of_request`](Self::of_request), of a request that was read already.
    ///
    /// # Errors
    ///
    /// A DELETE without an old object.
    pub fn of_review(review: &Review, namespace: Option<&Value>) -> Result<Self, AdmissionError> {
        Self::of_request(review.sent(), namespace)
    }

    /// An object that exists or might: the audit's and the command line's question.
    pub fn of_object(object: Value, namespace: Option<&Value>) -> Self {
        let namespace = namespace.filter(|_| !is_namespace(&object)).cloned();
        let empty = Value::Null;
        let mut members: Vec<(Str, Value)> = vec![
            ("uid".into(), "".into()),
            ("kind".into(), kind_value(Some(&object))),
            ("resource".into(), record(&empty, ["group", "version", "resource"])),
            ("operation".into(), "".into()),
            ("userInfo".into(), Object::default().into()),
            ("options".into(), Value::Null),
        ];
        for key in ["name", "namespace"] {
            let text = object.metadata(key).unwrap_or_default();
            if !text.is_empty() {
                members.push((key.into(), text.into()));
            }
        }
        let name: Str = object.name().into();
        Self::new(members, Some(object), None, namespace, Str::default(), name)
    }

    /// In the namespace of this name, if the object names none itself.
    #[must_use]
    pub fn in_namespace(mut self, name: &str) -> Self {
        if name.is_empty() || self.review.get("namespace").is_some() {
            return self;
        }
        let mut members = self.review.as_object().cloned().unwrap_or_default();
        members.insert("namespace", name.into());
        self.review = members.into();
        self.cel = OnceLock::new();
        self
    }

    /// With a Namespace that only match blocks see, if `hides` (EV-142).
    #[must_use]
    pub(crate) fn hiding_namespace(mut self, hides: bool) -> Self {
        if hides {
            let mut members = self.review.as_object().cloned().unwrap_or_default();
            members.insert("namespaceObject", Object::default().into());
            self.review = members.into();
            self.hides_namespace = true;
            self.cel = OnceLock::new();
        }
        self
    }

    /// With another source than [`Source::Original`].
    #[must_use]
    pub fn with_source(mut self, source: Option<Source>) -> Self {
        self.source = source;
        self
    }

    /// As part of this operation: that of the request an object is generated for. What is generated
    /// for a deletion is deleted, too.
    #[must_use]
    pub(crate) fn with_operation(mut self, operation: Option<Operation>) -> Self {
        let Some(operation) = operation else { return self };
        self.operation = operation.as_str().into();
        let mut members = self.review.as_object().cloned().unwrap_or_default();
        members.insert("operation", operation.as_str().into());
        if operation == Operation::Delete {
            self.old_object = self.object.clone();
            members.insert("oldObject", members.get("object").cloned().unwrap_or_default());
        }
        self.review = members.into();
        self.cel = OnceLock::new();
        self
    }

    fn new(
        mut members: Vec<(Str, Value)>,
        object: Option<Value>,
        old_object: Option<Value>,
        namespace: Option<Value>,
        operation: Str,
        name: Str,
    ) -> Self {
        let nothing = || Value::from(Object::default());
        members.push(("object".into(), object.clone().unwrap_or_default()));
        members.push(("oldObject".into(), old_object.clone().unwrap_or_default()));
        // An empty object where there is no namespace, not null.
        let exposed = namespace.as_ref().and_then(exposed);
        members.push(("namespaceObject".into(), exposed.unwrap_or_else(nothing)));
        let typed =
            |object: Value| TypedObject { kind: GroupVersionKind::of_object(&object), object };
        Self {
            review: Object::from_entries(members).into(),
            object: object.map(typed),
            old_object: old_object.map(typed),
            namespace,
            hides_namespace: false,
            source: Some(Source::Original),
            operation,
            name,
            cel: OnceLock::new(),
        }
    }

    /// The input of policies in CEL.
    pub(super) fn cel(&self) -> &Input {
        self.cel.get_or_init(|| {
            let shown = |object: &&Value| !self.hides_namespace && !object.name().is_empty();
            let named = self.namespace.as_ref().filter(shown);
            Input::of(&self.review, named)
        })
    }

    /// `input.review`.
    pub fn review(&self) -> &Value {
        &self.review
    }

    /// The request's operation; empty when there is no request.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The object's name, as errors give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kinds of the object and the old one, as far as there are any.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.object.iter().chain(&self.old_object).map(|typed| &typed.kind)
    }

    /// Whether the object has no kind: no match block can be evaluated against it.
    pub(super) fn lacks_kind(&self) -> bool {
        self.kinds().any(|kind| kind.kind.is_empty())
    }

    /// Whether there is neither an object nor an old one.
    pub(super) fn is_empty(&self) -> bool {
        self.object.is_none() && self.old_object.is_none()
    }

    /// Whether the object matches, or else the old one (MA-2). A Namespace that was not given is
    /// looked for among the synced objects (MA-4).
    ///
    /// # Errors
    ///
    /// Why it cannot be decided, and the name of the object.
    pub(super) fn matches(
        &self,
        criteria: &Criteria,
        inventory: &Inventory,
    ) -> Result<bool, (MatchError, Str)> {
        for typed in self.object.iter().chain(&self.old_object) {
            let matched = criteria.matches(self.subject(typed, inventory));
            if matched.map_err(|error| (error, typed.name()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which criterion excludes the object, and what the object is; `None` when it, or else the old
    /// one, matches.
    ///
    /// # Errors
    ///
    /// As [`matches`](Self::matches).
    pub(super) fn mismatch(
        &self,
        criteria: &Criteria,
        inventory: &Inventory,
    ) -> Result<Option<Mismatch>, (MatchError, Str)> {
        let mut first = None;
        for typed in self.object.iter().chain(&self.old_object) {
            let subject = self.subject(typed, inventory);
            let mismatch = criteria.first_mismatch(subject);
            let Some(criterion) = mismatch.map_err(|error| (error, typed.name()))? else {
                return Ok(None);
            };
            first.get_or_insert_with(|| Mismatch { criterion, found: found(criterion, subject) });
        }
        Ok(first)
    }

    fn subject<'a>(&'a self, typed: &'a TypedObject, inventory: &'a Inventory) -> Matchable<'a> {
        let own = typed.object.namespace();
        let synced = || inventory.namespace(own).filter(|_| !is_namespace(&typed.object));
        Matchable {
            object: &typed.object,
            kind: &typed.kind,
            namespace: self.namespace.as_ref().or_else(synced),
            source: self.source,
        }
    }
}

/// Why a match block excludes an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The criterion that is not met.
    pub(super) criterion: Criterion,
    /// The object's value for the criterion, in words.
    pub(super) found: String,
}

/// The value of a subject for a criterion.
fn found(criterion: Criterion, subject: Matchable<'_>) -> String {
    let text = |path: &[&str], of: &Value| {
        let value = of.path(path).filter(|value| !value.is_null());
        value.map_or_else(|| "none".to_owned(), Value::to_json)
    };
    let namespace = match (subject.namespace, subject.object.namespace()) {
        _ if is_namespace(subject.object) => subject.object.name(),
        (Some(namespace), _) => namespace.name(),
        (None, own) => own,
    };
    match criterion {
        Criterion::Kinds => format!("the object is a {}", subject.kind),
        Criterion::Scope if namespace.is_empty() || is_namespace(subject.object) => {
            "the object is cluster-scoped".to_owned()
        }
        Criterion::Scope => format!("the object is in namespace {namespace}"),
        Criterion::Namespaces | Criterion::ExcludedNamespaces => {
            format!("the namespace is {namespace}")
        }
        Criterion::LabelSelector => {
            format!("the object's labels are {}", text(&["metadata", "labels"], subject.object))
        }
        Criterion::NamespaceSelector => {
            let namespace = subject.namespace.unwrap_or(subject.object);
            format!("the namespace's labels are {}", text(&["metadata", "labels"], namespace))
        }
        Criterion::Name => match subject.object.metadata("generateName").unwrap_or_default() {
            "" => format!("the object's name is {}", subject.object.name()),
            beginning => format!("the object's name begins with {beginning}"),
        },
        Criterion::Source => match subject.source {
            Some(Source::Generated) => "the object is generated".to_owned(),
            Some(Source::Original) => "the object is original".to_owned(),
            None => "it is not known where the object comes from".to_owned(),
        },
    }
}

/// A Namespace as policies see it: without what only its file says (EV-3); `None` for one without a
/// name, which stands for none.
fn exposed(namespace: &Value) -> Option<Value> {
    if namespace.name().is_empty() {
        return None;
    }
    let mut members = namespace.as_object()?.clone();
    members.remove("apiVersion");
    members.remove("kind");
    Some(members.into())
}

fn is_namespace(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// These text members, empty where missing.
fn record(from: &Value, keys: [&str; 3]) -> Value {
    let text = |key| from.get(key).and_then(Value::as_str).unwrap_or_default();
    keys.into_iter().map(|key| (key, Value::from(text(key)))).collect()
}

fn kind_value(object: Option<&Value>) -> Value {
    let kind = object.map(GroupVersionKind::of_object).unwrap_or_default();
    [("group", kind.group), ("version", kind.version), ("kind", kind.kind)]
        .into_iter()
        .map(|(key, value)| (key, Value::from(value)))
        .collect()
}

/// Members that are empty are absent on the wire.
fn user_info(sent: Option<Value>) -> Value {
    let sent = sent.unwrap_or_default();
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let members = sent.as_object().cloned().unwrap_or_default();
    if members.values().any(is_empty) {
        let kept = members.iter().filter(|(_, value)| !is_empty(value)).cloned();
        return Object::from_entries(kept.collect()).into();
    }
    members.into()
}
