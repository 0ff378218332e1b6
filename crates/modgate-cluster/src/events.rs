//! Kubernetes Events: what users see of us in `kubectl describe` and `kubectl get events`.
//!
//! [`Events::emit`] never waits: what it is given goes to a bounded queue, and one task, [`Writer`],
//! brings it to the API server. Repetitions become counts, each object gets a burst and then few,
//! and all of them together are written at a bounded rate ([`Ledger`]), so that no policy and no
//! flood of requests can flood the API server. What does not fit is dropped, and counted.

mod ledger;

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event as Wire, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use modgate_telemetry::metrics::{EventMetrics, EventResult};
use serde_json::json;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, sleep_until, timeout},
};

use self::ledger::{Due, Ledger};
use super::LOGGER;

/// Events that wait to be looked at.
const QUEUE: usize = 1024;
/// Bytes of a message; longer ones are cut.
const MESSAGE_BYTES: usize = 1024;
/// How long the API server may take to take an Event.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A message for users about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The object of the Event, which decides its place: the API server requires an Event in the namespace of
    /// its object.
    pub involved: Involved,
    /// The component that reports it, such as `gatekeeper-webhook`.
    pub component: &'static str,
    /// Whether something is wrong.
    pub severity: EventSeverity,
    /// One word in upper camel case.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// Annotations of the Event itself.
    pub annotations: Vec<(&'static str, String)>,
}

/// The object that an [`Event`] reports on.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Involved {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// Its namespace. Events about cluster-scoped objects belong to `default`, which the API server
    /// wants left empty here.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, or what keeps its Events apart from those of others.
    pub uid: String,
    /// Its resource version, if that is known.
    pub resource_version: String,
}

/// Whether an [`Event`] reports a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventSeverity {
    /// `Normal`
    Normal,
    /// `Warning`
    Warning,
}

impl EventSeverity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Where Events are left to be written; cheap to clone. They are not written until the queue is
/// given to a [`Writer`], and where there is no cluster, nothing ever.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    metrics: EventMetrics,
}

/// Events that wait to be written.
#[derive(Debug)]
pub struct EventQueue(mpsc::Receiver<Event>);

impl EventQueue {
    /// How many Events wait.
    pub fn waiting(&self) -> usize {
        self.0.len()
    }
}

impl Events {
    /// Leaves an Event to be written. It is dropped if too many wait, or if there is no cluster.
    pub fn emit(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(event) {
            self.metrics.became(EventResult::Dropped, 1);
        }
    }

    /// Whether Events are written; if not, none need be made.
    pub fn are_written(&self) -> bool {
        !self.queue.is_closed()
    }

    /// Both ends of a queue.
    pub fn channel(metrics: EventMetrics) -> (Self, EventQueue) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, EventQueue(waiting))
    }
}

/// Brings Events to the API server.
pub(crate) struct Writer {
    client: Client,
    queue: mpsc::Receiver<Event>,
    metrics: EventMetrics,
    ledger: Ledger,
}

impl Writer {
    /// Will write what `events` leaves in the queue.
    pub(crate) fn new(client: Client, queue: EventQueue, metrics: EventMetrics) -> Self {
        Self { client, queue: queue.0, metrics, ledger: Ledger::default() }
    }

    /// Writes until the last sender of Events is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let next = self.ledger.next_write();
            tokio::select! {
                event = self.queue.recv() => {
                    let Some(mut event) = event else { return };
                    cut(&mut event.message);
                    if let Some(result) = self.ledger.take(event, Instant::now(), Timestamp::now())
                    {
                        self.metrics.became(result, 1);
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    self.write().await;
                }
            }
        }
    }

    async fn write(&mut self) {
        let Some(due) = self.ledger.due(Instant::now()) else { return };
        let namespace = due.event.involved.namespace.as_str();
        // The one namespace where Events without a namespace of their own may be.
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let api: Api<Wire> = Api::namespaced(self.client.clone(), namespace);
        let written = timeout(WRITE_TIMEOUT, write(&api, &due)).await;
        let error = match written {
            Ok(Ok(name)) => {
                self.metrics.became(EventResult::Written, 1);
                self.ledger.written(&due, name, Instant::now());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::debug!(
            target: LOGGER,
            namespace,
            object = %due.event.involved.name,
            reason = due.event.reason,
            error,
            "Event not written"
        );
        if !self.ledger.failed(&due, Instant::now()) {
            self.metrics.became(EventResult::Error, u64::from(due.news));
        }
    }
}

/// Counts in the Event that is there, or makes one; returns its name.
async fn write(api: &Api<Wire>, due: &Due) -> Result<String, kube::Error> {
    if let Some(name) = &due.name {
        let patch = json!({"count": due.count, "lastTimestamp": Time(due.last)});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(name.clone()),
            // The API server forgets Events after a while.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let event = wire(due);
    api.create(&PostParams::default(), &event).await?;
    Ok(event.metadata.name.unwrap_or_default())
}

fn wire(due: &Due) -> Wire {
    let Event { involved, component, severity, reason, message, annotations } = &due.event;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let annotations: std::collections::BTreeMap<String, String> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let namespace = if involved.namespace.is_empty() { "default" } else { &involved.namespace };
    Wire {
        metadata: ObjectMeta {
            name: Some(object_name(&involved.name, due.last)),
            namespace: text(namespace),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: text(&involved.api_version),
            kind: text(&involved.kind),
            namespace: text(&involved.namespace),
            name: text(&involved.name),
            uid: text(&involved.uid),
            resource_version: text(&involved.resource_version),
            ..ObjectReference::default()
        },
        type_: text(severity.as_str()),
        reason: text(reason),
        message: text(message),
        source: Some(EventSource { component: text(component), host: None }),
        reporting_component: text(component),
        first_timestamp: Some(Time(due.first)),
        last_timestamp: Some(Time(due.last)),
        count: i32::try_from(due.count).ok(),
        ..Wire::default()
    }
}

/// Unique as with other writers of Events: the object's name and the time. Names that only some
/// kinds may have, such as `system:node`, are no names of Events.
fn object_name(involved: &str, at: Timestamp) -> String {
    const LONGEST: usize = 200;
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let mut name: String = involved
        .chars()
        .take(LONGEST)
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| if allowed(letter) || letter == '.' { letter } else { '-' })
        .collect();
    // Each part of a name begins and ends with a letter or digit.
    let parts = name.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty());
    name = parts.collect::<Vec<_>>().join(".");
    let nanoseconds = at.as_nanosecond();
    if name.is_empty() {
        return format!("modgate.{nanoseconds:x}");
    }
    format!("{name}.{nanoseconds:x}")
}

fn cut(message: &mut String) {
    const DOTS: &str = "...";
    if message.len() > MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES - DOTS.len()));
        message.push_str(DOTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events() {
        let at = Timestamp::from_nanosecond(0x17).expect("time");
        for (involved, expected) in [
            ("web-1", "web-1.17"),
            ("system:node", "system-node.17"),
            ("Web_1.", "web-1.17"),
            ("a.-b-.c", "a.b.c.17"),
            ("", "modgate.17"),
            ("::", "modgate.17"),
        ] {
            assert_eq!(object_name(involved, at), expected, "{involved}");
        }
        assert!(object_name(&"x".repeat(300), at).len() < 253);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut message = "ä".repeat(MESSAGE_BYTES);
        cut(&mut message);
        assert!(message.len() <= MESSAGE_BYTES && message.ends_with("ä..."), "{}", message.len());
        let mut short = "short".to_owned();
        cut(&mut short);
        assert_eq!(short, "short");
    }

    #[test]
    fn nothing_waits_for_events() {
        let metrics = modgate_telemetry::metrics::Metrics::new();
        let event = Event {
            involved: Involved::default(),
            component: "gatekeeper-webhook",
            severity: EventSeverity::Warning,
            reason: "FailedAdmission",
            message: String::new(),
            annotations: Vec::new(),
        };
        let (nowhere, queue) = Events::channel(metrics.events().clone());
        drop(queue);
        nowhere.emit(event.clone());
        assert!(!nowhere.are_written());
        assert_eq!(metrics.events().count(EventResult::Dropped), 0);
        let (queue, _waiting) = mpsc::channel(2);
        let full = Events { queue, metrics: metrics.events().clone() };
        assert!(full.are_written());
        for _ in 0..5 {
            full.emit(event.clone());
        }
        assert_eq!(metrics.events().count(EventResult::Dropped), 3);
    }
}
