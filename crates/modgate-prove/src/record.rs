//! Requests from the events of an API server's audit log (`audit.k8s.io/v1`).
//!
//! An event has what the client sent and what the server answered, at most. The request that
//! policies received does not always follow from that, so [`Log::read`] says why an event stands for no request, and which
//! parts of a request are not as they were.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use modgate_engine::api::meta::ObjectExt as _;
use modgate_engine::{
    Review,
    api::{
        admission,
        meta::{GroupVersionKind, split_api_version},
    },
};
use modgate_value::{Str, Value};

use crate::{
    answer::{Answer, Said},
    value,
};

/// How much memory, in bytes of JSON, the objects take that a log keeps for later events.
pub const MAX_REMEMBERED: usize = 64 << 20;

/// The API group of audit events.
const GROUP: &str = "audit.k8s.io";

/// Why an event cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unreplayed {
    /// The level of the event is `Metadata` or `None`: it has no objects.
    Metadata,
    /// The API server truncated the event.
    Truncated,
    /// A patch without the object that it led to.
    Patch,
    /// A deletion, and no earlier event has the object.
    DeletedObject,
    /// A deletion of a collection: the event does not name the objects.
    Collection,
    /// The event has no object.
    NoObject,
    /// A connection, whose options the event does not have.
    Connect,
    /// The event is not well-formed.
    Malformed,
}

impl fmt::Display for Unreplayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "the audit level keeps no objects",
            Self::Truncated => "the event is truncated",
            Self::Patch => "a patch without the patched object",
            Self::DeletedObject => "a deletion without the deleted object",
            Self::Collection => "a deletion of a collection",
            Self::NoObject => "the event has no object",
            Self::Connect => "a connection without its options",
            Self::Malformed => "the event is not well-formed",
        })
    }
}

/// The differences of a replayed request to the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caveat {
    /// An update, and no earlier event has the old object: policies see none.
    OldObject,
    /// The object of a patch is the stored one, after mutation.
    Stored,
    /// The data of a Secret is not recorded: policies see `(hidden)`.
    Hidden,
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OldObject => "an update without its old object",
            Self::Stored => "the object of a patch as it was stored",
            Self::Hidden => "a Secret without its data",
        })
    }
}

/// The request of an event.
#[derive(Debug)]
pub enum Event {
    /// A request.
    Request {
        /// The request.
        review: Box<Review>,
        /// Its differences to the original.
        caveats: Vec<Caveat>,
        /// The answer of the API server, if it tells the decision of admission.
        answer: Option<Answer>,
    },
    /// Nothing that admission sees: a read, or another stage of a request.
    NotAdmitted,
    /// A request that cannot be replayed.
    Unreplayed(Unreplayed),
}

/// A log that is read event by event. It remembers the objects that requests left, for the requests that
/// change them later.
#[derive(Debug, Default)]
pub struct Log {
    stored: BTreeMap<Key, Value>,
    /// The order in which objects came, with their sizes.
    order: VecDeque<(Key, usize)>,
    remembered: usize,
}

type Key = (Str, Str, Str, Str);

impl Log {
    /// Whether a document is an event of an audit log.
    pub fn is_event(document: &Value) -> bool {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        text("kind") == "Event" && split_api_version(text("apiVersion")).0 == GROUP
    }

    /// The request of an event.
    pub fn read(&mut self, event: &Value) -> Event {
        let text = |path: &[&str]| event.path(path).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text(&["stage"]), "" | "ResponseComplete" | "Panic") {
            return Event::NotAdmitted;
        }
        let sub_resource = text(&["objectRef", "subresource"]);
        let operation = match (text(&["verb"]), sub_resource) {
            (_, "exec" | "attach" | "portforward" | "proxy") => {
                return Event::Unreplayed(Unreplayed::Connect);
            }
            ("create", _) => "CREATE",
            ("update" | "patch", _) => "UPDATE",
            ("delete", _) => "DELETE",
            ("deletecollection", _) => return Event::Unreplayed(Unreplayed::Collection),
            _ => return Event::NotAdmitted,
        };
        let annotation = |name| text(&["annotations", name]);
        // A request that is not authorised does not come to admission.
        if event.get("objectRef").is_none()
            || annotation("authorization.k8s.io/decision") == "forbid"
        {
            return Event::NotAdmitted;
        }
        if event.path(&["annotations", "audit.k8s.io/truncated"]).is_some() {
            return Event::Unreplayed(Unreplayed::Truncated);
        }
        if matches!(text(&["level"]), "Metadata" | "None") {
            return Event::Unreplayed(Unreplayed::Metadata);
        }
        let found = self.request(event, operation);
        self.remember(event, operation);
        match found {
            Ok((review, caveats)) => {
                Event::Request { review: Box::new(review), caveats, answer: answer(event) }
            }
            Err(why) => Event::Unreplayed(why),
        }
    }

    fn request(&self, event: &Value, operation: &str) -> Result<(Review, Vec<Caveat>), Unreplayed> {
        let text = |path: &[&str]| event.path(path).and_then(Value::as_str).unwrap_or_default();
        let is_object = |object: &&Value| {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            !matches!(kind, "" | "Status" | "DeleteOptions")
        };
        let sent = event.get("requestObject").filter(is_object);
        let answered = event.get("responseObject").filter(is_object);
        let before = self.stored.get(&key(event)).cloned();
        let mut caveats = Vec::new();
        let is_patch = text(&["verb"]) == "patch";
        // A server-side apply sends an object, but not all of it.
        let object = match (operation, is_patch) {
            ("DELETE", _) => None,
            (_, true) => {
                caveats.push(Caveat::Stored);
                Some(answered.ok_or(Unreplayed::Patch)?)
            }
            _ => Some(sent.ok_or(Unreplayed::NoObject)?),
        };
        // What a server-side apply creates.
        let creates = is_patch
            && event.path(&["responseStatus", "code"]).and_then(Value::as_i64) == Some(201);
        let operation = if creates { "CREATE" } else { operation };
        let old_object = match operation {
            "CREATE" => None,
            "DELETE" => Some(before.or(answered.cloned()).ok_or(Unreplayed::DeletedObject)?),
            _ => before,
        };
        if operation == "UPDATE" && old_object.is_none() {
            caveats.push(Caveat::OldObject);
        }
        let object = object.map(|object| located(object, event));
        let subject = object.as_ref().or(old_object.as_ref()).ok_or(Unreplayed::NoObject)?;
        let kind = GroupVersionKind::of_object(subject);
        let reference = |member: &str| Value::from(text(&["objectRef", member]));
        let texts = |members: [(&str, Value); 3]| -> Value { members.into_iter().collect() };
        let name = match text(&["objectRef", "name"]) {
            "" => subject.path(&["metadata", "name"]).cloned().unwrap_or_else(|| "".into()),
            name => name.into(),
        };
        let user = event.get("impersonatedUser").or(event.get("user")).cloned().unwrap_or_default();
        let request: Value = [
            ("uid", Value::from(text(&["auditID"]))),
            (
                "kind",
                texts([
                    ("group", kind.group.into()),
                    ("version", kind.version.into()),
                    ("kind", kind.kind.into()),
                ]),
            ),
            (
                "resource",
                texts([
                    ("group", reference("apiGroup")),
                    ("version", reference("apiVersion")),
                    ("resource", reference("resource")),
                ]),
            ),
            ("subResource", reference("subresource")),
            ("name", name),
            ("namespace", reference("namespace")),
            ("operation", operation.into()),
            ("userInfo", user),
            ("object", object.unwrap_or_default()),
            ("oldObject", old_object.unwrap_or_default()),
            ("dryRun", text(&["requestURI"]).contains("dryRun=All").into()),
            ("options", Value::Null),
        ]
        .into_iter()
        .collect();
        let request = admission::AdmissionRequest::from_value(&request).map(|_| request);
        let request = request.map_err(|_| Unreplayed::Malformed)?;
        let review = Review::from_request(&request).map_err(|_| Unreplayed::Malformed)?;
        Ok((review, caveats))
    }

    /// Keeps the object that a request left.
    fn remember(&mut self, event: &Value, operation: &str) {
        let subresource = event.path(&["objectRef", "subresource"]).and_then(Value::as_str);
        let code = event.path(&["responseStatus", "code"]).and_then(Value::as_i64);
        let failed = code.is_some_and(|code| code >= 300);
        let dry_run = event.get("requestURI").and_then(Value::as_str);
        if failed || dry_run.is_some_and(|uri| uri.contains("dryRun=All")) {
            return;
        }
        let key = key(event);
        if operation == "DELETE" {
            self.stored.remove(&key);
            return;
        }
        // A Scale or a Binding is not the object.
        let Some(object) = event.get("responseObject") else { return };
        if matches!(subresource, Some(name) if !matches!(name, "status" | "ephemeralcontainers" | "resize"))
        {
            return;
        }
        let object = value::unmanaged(object);
        let size = value::size(&object);
        self.remembered += size;
        self.order.push_back((key.clone(), size));
        self.stored.insert(key, object);
        while self.remembered > MAX_REMEMBERED {
            let Some((oldest, size)) = self.order.pop_front() else { break };
            self.remembered -= size;
            if !self.order.iter().any(|(key, _)| *key == oldest) {
                self.stored.remove(&oldest);
            }
        }
    }
}

/// The decision that the status of an event tells. Of an allowed request it tells neither warnings nor the
/// patch; other errors than denials tell nothing.
fn answer(event: &Value) -> Option<Answer> {
    let status = event.get("responseStatus")?;
    let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let (allowed, said) = match status.get("code").and_then(Value::as_i64)? {
        200..300 => (true, Said::Denial(String::new())),
        _ if message.contains("ValidatingAdmissionPolicy '")
            && message.contains(" denied request: ") =>
        {
            (false, Said::Unknown)
        }
        _ => {
            let (_, denial) = message.strip_prefix("admission webhook \"")?.split_once('"')?;
            let text = match denial.strip_prefix(" denied the request: ") {
                Some(text) => text,
                None => {
                    denial.strip_prefix(" denied the request without explanation").map(|_| "")?
                }
            };
            (false, Said::Denial(text.to_owned()))
        }
    };
    Some(Answer { allowed, denying: BTreeSet::new(), said, object: None })
}

/// The object of an event.
fn key(event: &Value) -> Key {
    let text = |member: &str| -> Str {
        event.path(&["objectRef", member]).and_then(Value::as_str).unwrap_or_default().into()
    };
    let name = match text("name") {
        name if !name.is_empty() => name,
        // The name of a created object may stand in the answer only.
        _ => {
            let object = event.get("responseObject").or(event.get("requestObject"));
            let name = object.and_then(|object| object.metadata("name"));
            name.unwrap_or_default().into()
        }
    };
    (text("apiGroup"), text("resource"), text("namespace"), name)
}

/// The object with the namespace that the API server gives it before admission.
fn located(object: &Value, event: &Value) -> Value {
    let namespace = event.path(&["objectRef", "namespace"]).and_then(Value::as_str);
    let is_namespace = GroupVersionKind::of_object(object).is_namespace();
    let own = object.metadata("namespace");
    match (namespace, own) {
        (Some(namespace), None | Some("")) if !is_namespace && !namespace.is_empty() => {
            value::replaced(object, &["metadata".into(), "namespace".into()], namespace.into())
        }
        _ => object.clone(),
    }
}
