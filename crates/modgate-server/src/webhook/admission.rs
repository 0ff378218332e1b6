//! One AdmissionReview: decode, evaluate, answer.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use axum::{extract::Request, http::StatusCode, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::{
    AdmissionStatus, CONTENTS, Decision, Host, MutationStatus, Review, StageReport, Stages,
    api::admission::{AdmissionResponse, ReviewVersion},
    cost::{Meter, Statistics},
    gatekeeper::admit_label,
    jsonpatch, lacks_template,
};
use modgate_policies::{PolicySet, ProviderHost};
use modgate_prove::recorded::Exchange;
use modgate_telemetry::metrics::{UndecidedCause as Cause, shard};
use modgate_value::{
    Str, Value,
    json::{self, Bounds, ParseErrorKind},
};

use super::{
    App, LateRejections, OnFailure, RequestLimits, Webhook,
    body::{Alone, Missing, NotReceived, max_values, too_many},
    bounds::bounded,
    content_type,
    evaluators::{EvaluationError, Flow},
    front,
    gatekeeper::{self, Conditions},
    is_json, modrule, record, respond,
    routes::{Task, Words, route},
    templates::{self, Template},
};
use crate::decisions::Decided;

/// Answers one request to `webhook`.
pub(super) async fn answer(app: &App, webhook: Webhook, request: Request) -> Response {
    let started = Instant::now();
    let in_flight = app.metrics.start(webhook);
    let parent = modgate_telemetry::otlp::Parent::of(request.headers());
    let answer = serve(app, webhook, request).await;
    drop(in_flight);
    let (code, took) = (answer.status.as_u16(), started.elapsed());
    app.metrics.answered(webhook, code, took);
    app.metrics.traced(parent, webhook, code, took);
    respond(answer.status, "application/json", answer.body)
}

/// An HTTP status and a body.
struct Answer {
    status: StatusCode,
    body: String,
}

impl Answer {
    fn review(head: &Head, response: AdmissionResponse) -> Self {
        let response = bounded(AdmissionResponse { uid: head.uid.clone(), ..response });
        let body = response.to_json(head.version, |patch| STANDARD.encode(patch));
        Self { status: StatusCode::OK, body }
    }

    /// The answer to a request that cannot be decoded: a review, not an HTTP error (spec
    /// `kubemod.md`, 7.2).
    fn malformed(head: Head, code: StatusCode, message: String) -> Self {
        Self::review(
            &head,
            AdmissionResponse {
                allowed: false,
                code: code.as_u16(),
                message,
                ..AdmissionResponse::default()
            },
        )
    }

    /// The answer if modgate itself fails. Logs and counts the cause.
    fn failed(app: &App, webhook: Webhook, cause: Cause, head: Head, message: Message) -> Self {
        let Message { error, answer } = message;
        report_failure(app, webhook, cause, &head, &error);
        let response = match app.gatekeeper.on_failure {
            OnFailure::FailurePolicy => {
                return Self { status: StatusCode::INTERNAL_SERVER_ERROR, body: answer };
            }
            OnFailure::Allow => AdmissionResponse {
                allowed: true,
                code: 200,
                warnings: vec![format!("modgate let this request through unchecked: {answer}")],
                reason: answer,
                ..AdmissionResponse::default()
            },
            OnFailure::Deny => AdmissionResponse {
                allowed: false,
                code: 500,
                message: answer,
                ..AdmissionResponse::default()
            },
        };
        Self::review(&head, response)
    }
}

/// Logs and counts a review that modgate itself failed to decide.
fn report_failure(app: &App, webhook: Webhook, cause: Cause, head: &Head, error: &str) {
    app.metrics.undecided(webhook, cause);
    tracing::error!(
        target: "webhook",
        webhook = webhook.path(),
        "request uid" = %head.uid,
        cause = cause.as_str(),
        %error,
        "review failed"
    );
}

/// The log line of a failure, and the text of its answer, which may be an original's.
struct Message {
    error: String,
    answer: String,
}

impl From<String> for Message {
    fn from(error: String) -> Self {
        Self { answer: error.clone(), error }
    }
}

/// The parts of a request that its answer needs, as far as they are known.
#[derive(Debug, Clone, Default)]
struct Head {
    version: ReviewVersion,
    uid: Str,
}

impl Head {
    /// Reads them from the front of a body that is not or cannot be decoded.
    fn ahead(body: &[u8]) -> Self {
        let (version, uid) = front::head(body);
        Self { version, uid }
    }

    /// Reads them from a document, even if it is not a valid review: without the uid, the API
    /// server reports a missing uid instead of our message.
    fn of(document: &Value) -> Self {
        let text = |path: &[&str]| document.path(path).and_then(Value::as_str).unwrap_or_default();
        let v1beta1 = text(&["apiVersion"]) == ReviewVersion::V1Beta1.api_version();
        Self {
            version: if v1beta1 { ReviewVersion::V1Beta1 } else { ReviewVersion::V1 },
            uid: text(&["request", "uid"]).into(),
        }
    }
}

async fn serve(app: &App, webhook: Webhook, request: Request) -> Answer {
    let started = Instant::now();
    let Some(policies) = app.current.load() else {
        app.metrics.undecided(webhook, Cause::NoPolicies);
        let body = "policies are not loaded yet".to_owned();
        return Answer { status: StatusCode::SERVICE_UNAVAILABLE, body };
    };
    let wrong_type = (!is_json(&request)).then(|| content_type(&request).to_owned());
    let time_limit = time_limit(&request, &app.limits);
    let deadline = tokio::time::Instant::from_std(started + time_limit);
    let limit = app.limits.body_bytes;
    let body = match app.bodies.receive(request.into_body(), limit, deadline).await {
        Ok(body) => body,
        Err(missing) => return not_received(app, webhook, &missing, time_limit),
    };
    let body = body.bytes();
    if let Some(found) = wrong_type {
        let message = format!("contentType={found}, expected application/json");
        return Answer::malformed(Head::ahead(body), StatusCode::BAD_REQUEST, message);
    }
    if route(webhook).task == Task::BindPod {
        return bind_pod(app, &policies, body, deadline).await;
    }
    let flow = Flow { route: webhook.path(), namespace: front::namespace(body) };
    let mut head = None;
    let mut policies = policies;
    let mut template = Template::NotTried;
    let mut alone = None;
    let outcome = loop {
        let outcome = app
            .evaluators
            .run(flow.clone(), time_limit, |slot| {
                let started = Instant::now();
                app.metrics.queued(webhook, slot.waited());
                let providers = app.current.providers();
                let asking = providers.map(|all| all.asking(deadline).yielding(slot));
                let readers = only_policies_read(app, webhook, &policies).then_some(&*policies);
                let (read, review) = match decode(app, body, readers, alone.as_ref()) {
                    Ok(decoded) => decoded,
                    Err(undecoded) => return undecoded.into(),
                };
                let head = &*head.insert(read);
                let why = review.request().implausible();
                let objects = policies.objects.yielding(slot, deadline).only_known(why);
                let host = ProviderHost::new(&objects, asking);
                let counts = app.gatekeeper.log_stats && webhook == Webhook::Admit;
                let statistics = counts.then(Statistics::default);
                let meter = meter(&host, deadline.into_std(), statistics.as_ref());
                let conditions = Conditions {
                    policies: &policies,
                    host: &host,
                    meter,
                    template,
                    bytes: body.len(),
                    waited: slot.waited(),
                    is_recorded: app.traffic.is_on(),
                };
                let answer = evaluate(app, webhook, conditions, &review, head);
                app.metrics.evaluated(webhook, started.elapsed());
                answer
            })
            .await;
        match outcome {
            Ok(Evaluated::Answer(answer)) => break Ok(answer),
            // At most once: the second evaluation knows whether the template exists.
            Ok(Evaluated::NeedsTemplate(kind)) => {
                template = templates::wait(app, &policies, &kind, deadline).await;
                policies = app.current.load().unwrap_or(policies);
            }
            // At most once, too: alone, it may have more values.
            Ok(Evaluated::Large) => match app.bodies.alone(deadline).await {
                Some(granted) => alone = Some(granted),
                None => return no_room(app, webhook, Head::ahead(body)),
            },
            Err(error) => break Err(error),
        }
    };
    outcome.unwrap_or_else(|error| {
        let head = head.unwrap_or_else(|| Head::ahead(body));
        not_evaluated(app, webhook, head, &error, started)
    })
}

/// Denies a review that got no slot, or whose evaluation panicked.
fn not_evaluated(
    app: &App,
    webhook: Webhook,
    head: Head,
    error: &EvaluationError,
    started: Instant,
) -> Answer {
    if let EvaluationError::Busy(waited) = error {
        app.metrics.queued(webhook, *waited);
    }
    let answer = if route(webhook).words == Words::Gatekeeper {
        let took = started.elapsed();
        match webhook {
            Webhook::Admit if *error == EvaluationError::Panicked => {
                app.metrics.not_validated(took);
            }
            Webhook::Admit => app.metrics.validated(AdmissionStatus::Error, false, took),
            Webhook::ApplyMutators => app.metrics.mutated(MutationStatus::Error, None, took),
            _ => {}
        }
        gatekeeper::failure(error)
    } else {
        error.to_string()
    };
    let cause = match error {
        EvaluationError::Busy(_) => Cause::NoSlot,
        EvaluationError::Full => Cause::QueueFull,
        EvaluationError::Panicked => Cause::Panic,
    };
    let message = Message { error: error.to_string(), answer };
    Answer::failed(app, webhook, cause, head, message)
}

/// Denies a review whose body was not received, with the uid from its front (the API server ignores
/// an answer without uid). If modgate had no room for the body, answers as for its other failures.
fn not_received(
    app: &App,
    webhook: Webhook,
    missing: &NotReceived,
    time_limit: Duration,
) -> Answer {
    let head = Head::ahead(&missing.beginning);
    let (code, message) = match missing.why {
        Missing::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, too_large(&app.limits)),
        Missing::TooMany => (StatusCode::PAYLOAD_TOO_LARGE, too_many()),
        Missing::Broken => {
            (StatusCode::BAD_REQUEST, "request body ended before it was complete".to_owned())
        }
        Missing::Late => (
            StatusCode::REQUEST_TIMEOUT,
            format!("request body not received within {} s", time_limit.as_secs()),
        ),
        Missing::Overload => return no_room(app, webhook, head),
    };
    Answer::malformed(head, code, message)
}

fn no_room(app: &App, webhook: Webhook, head: Head) -> Answer {
    Answer::failed(app, webhook, Cause::BodyMemory, head, NO_ROOM.to_owned().into())
}

/// The message of a body that has no room.
pub(super) const NO_ROOM: &str = "request bodies take all the memory they may have; `--max-bodies-size` (chart \
                                  value `args`) raises the limit";

/// The message of a body beyond the limit.
pub(super) fn too_large(limits: &RequestLimits) -> String {
    format!(
        "request body is larger than {} bytes; `--max-body-size` (chart value `args`) raises the limit",
        limits.body_bytes
    )
}

/// Runs without a slot: writing the Pod causes another request to this webhook.
async fn bind_pod(
    app: &App,
    policies: &PolicySet,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Answer {
    let mut alone = None;
    let (head, review) = loop {
        match decode(app, body, None, alone.as_ref()) {
            Ok(decoded) => break decoded,
            Err(Undecoded::Malformed(answer)) => return answer,
            Err(Undecoded::Large) => match app.bodies.alone(deadline).await {
                Some(granted) => alone = Some(granted),
                None => return no_room(app, Webhook::PodBinding, Head::ahead(body)),
            },
        }
    };
    let decision = modrule::bind_pod(&review, policies, deadline).await;
    Answer::review(&head, respond_with(app, Webhook::PodBinding, &review, decision))
}

/// How long a request may wait: the API server's `?timeout=10s`, at most the configured time.
fn time_limit(request: &Request, limits: &RequestLimits) -> Duration {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let seconds = pairs
        .filter_map(|pair| pair.strip_prefix("timeout=")?.strip_suffix('s')?.parse().ok())
        .map(Duration::from_secs)
        .next();
    seconds.unwrap_or(limits.time).min(limits.time)
}

/// Time reserved for writing and sending the answer.
const TO_ANSWER: Duration = Duration::from_millis(50);

/// A meter that counts on this thread and ends evaluation in time for an answer at `deadline`.
pub(crate) fn meter<'a>(
    host: &dyn Host,
    deadline: Instant,
    statistics: Option<&'a Statistics>,
) -> Meter<'a> {
    let now = host.uptime();
    let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(TO_ANSWER);
    Meter { shard: shard(), statistics, uptime: Some(now), deadline: Some(now + left) }
}

/// The result of an evaluation.
enum Evaluated {
    Answer(Answer),
    /// The template of this kind is not loaded: evaluate again once the cluster has been queried
    /// for it.
    NeedsTemplate(Str),
    /// The review has many values: evaluate it again when no other such is in memory.
    Large,
}

/// Why a review was not decoded.
enum Undecoded {
    Malformed(Answer),
    /// It has many values, which only one review at a time may have.
    Large,
}

impl From<Undecoded> for Evaluated {
    fn from(undecoded: Undecoded) -> Self {
        match undecoded {
            Undecoded::Malformed(answer) => Self::Answer(answer),
            Undecoded::Large => Self::Large,
        }
    }
}

fn evaluate(
    app: &App,
    webhook: Webhook,
    conditions: Conditions<'_>,
    review: &Review,
    head: &Head,
) -> Evaluated {
    let Conditions { policies, template, .. } = conditions;
    if webhook == Webhook::Admit
        && template == Template::NotTried
        && policies.objects.cluster().is_some()
        && review.request().implausible().is_none()
        && let Some(kind) = lacks_template(review, &policies.snapshot)
    {
        return Evaluated::NeedsTemplate(kind);
    }
    Evaluated::Answer(run_task(app, webhook, conditions, review, head))
}

/// A body that is smaller is decoded sooner than it is known whether any policy looks at its contents.
const LARGE: usize = 64 << 10;

/// Whether nothing but the policies of a webhook sees what the objects of a request hold.
fn only_policies_read(app: &App, webhook: Webhook, policies: &PolicySet) -> bool {
    stages(app, webhook).is_some()
        && !app.traffic.is_on()
        && app.decisions.is_none()
        && !app.gatekeeper.log_stats
        && policies.snapshot.traces().is_empty()
}

/// Decodes a review. On failure, returns the parts that the answer needs, read from the document if
/// that is JSON. If only these policies read it and none looks at the contents of the objects, a large one is
/// decoded without them.
fn decode(
    app: &App,
    body: &[u8],
    readers: Option<&PolicySet>,
    alone: Option<&Alone>,
) -> Result<(Head, Review), Undecoded> {
    let readers = readers.filter(|_| body.len() >= LARGE);
    let objects = if readers.is_some() { &["object", "oldObject"][..] } else { &[] };
    let contents = objects.iter().flat_map(|object| CONTENTS.map(|it| ["request", *object, it]));
    let contents: Vec<_> = contents.collect();
    let contents: Vec<&[&str]> = contents.iter().map(<[_; 3]>::as_slice).collect();
    let max_values = max_values(body, alone);
    let bounds = Bounds { max_depth: app.limits.max_depth, max_values, left_out: &contents };
    let malformed =
        |head, code, message| Undecoded::Malformed(Answer::malformed(head, code, message));
    let document = json::parse_within(body, &bounds).map_err(|error| {
        let raise = match error.kind {
            ParseErrorKind::TooMany(_) if alone.is_none() => return Undecoded::Large,
            ParseErrorKind::TooMany(_) => {
                return malformed(Head::ahead(body), StatusCode::PAYLOAD_TOO_LARGE, too_many());
            }
            ParseErrorKind::TooDeep(_) => {
                "; `--max-body-depth` (chart value `args`) raises the limit"
            }
            _ => "",
        };
        let message = format!("request body is not JSON: {error}{raise}");
        malformed(Head::ahead(body), StatusCode::BAD_REQUEST, message)
    })?;
    let head = Head::of(&document.value);
    let review = match Review::parse(&document.value) {
        Ok(review) => review,
        Err(error) => return Err(malformed(head, StatusCode::BAD_REQUEST, error.to_string())),
    };
    match readers {
        Some(policies) if !document.is_whole && policies.snapshot.may_read_contents(&review) => {
            decode(app, body, None, alone)
        }
        _ => Ok((head, review)),
    }
}

/// Runs the task of a webhook. If modgate itself fails, `--internal-errors` sets the answer.
fn run_task(
    app: &App,
    webhook: Webhook,
    conditions: Conditions<'_>,
    review: &Review,
    head: &Head,
) -> Answer {
    let policies = conditions.policies;
    let started = Instant::now();
    let mut observed = None;
    let mut decide = |stages| {
        let decision = gatekeeper::decide(review, stages, conditions);
        let took = started.elapsed();
        gatekeeper::record(app, review, &decision, conditions, took);
        if app.traffic.is_on() && review.request().implausible().is_none() {
            let wanted = app.traffic.wanted(review, conditions.bytes);
            observed = wanted.is_any().then(|| (stages, decision.clone(), took, wanted));
        }
        decision
    };
    let late = app.gatekeeper.late_rejections;
    let mut decision = match route(webhook).task {
        Task::Decide(_) if webhook == Webhook::Validate && late == LateRejections::Off => {
            Decision::allowed()
        }
        Task::Decide(_) | Task::DecideUnified => match stages(app, webhook) {
            Some(stages) => decide(stages),
            None => Decision::allowed(),
        },
        Task::CheckLabel => admit_label(review.request(), &policies.snapshot.config().installation),
        Task::DefaultModRule => modrule::default(review),
        Task::ValidateModRule => modrule::validate(review, policies),
        // `bind_pod` has already run, without a slot.
        Task::BindPod => Decision::allowed(),
    };
    if webhook == Webhook::Validate && late == LateRejections::Warn {
        modrule::admit_with_warnings(&mut decision);
    }
    if let Some(decisions) = &app.decisions {
        decisions.observe(Decided {
            webhook: webhook.path(),
            stages: stages(app, webhook),
            policies,
            review,
            decision: &decision,
            took: started.elapsed(),
            bytes: conditions.bytes,
        });
    }
    if decision.is_undecided() {
        if app.gatekeeper.on_failure != OnFailure::Deny {
            let message = decision.reason.into();
            return Answer::failed(app, webhook, Cause::Lookup, head.clone(), message);
        }
        report_failure(app, webhook, Cause::Lookup, head, &decision.reason);
    }
    let response = respond_with(app, webhook, review, decision);
    if let Some((stages, decision, took, wanted)) = observed {
        let exchange = Exchange {
            webhook: webhook.path(),
            stages,
            version: head.version,
            review: review.clone(),
            decision,
            response: AdmissionResponse { uid: head.uid.clone(), ..response.clone() },
            took,
            waited: conditions.waited,
        };
        app.traffic.observe(exchange, policies, conditions.bytes, wanted);
    }
    Answer::review(head, response)
}

/// The stages of policies that a webhook runs, if it runs any.
fn stages(app: &App, webhook: Webhook) -> Option<Stages> {
    match route(webhook).task {
        Task::Decide(stages) => Some(stages),
        Task::DecideUnified if app.gatekeeper.unified_mutate => Some(Stages::UNIFIED),
        Task::DecideUnified => Some(Stages::MODRULES),
        Task::CheckLabel | Task::DefaultModRule | Task::ValidateModRule | Task::BindPod => None,
    }
}

/// Logs and counts the results of ModRules, and makes a response from a decision with the texts of
/// the webhook's original.
fn respond_with(
    app: &App,
    webhook: Webhook,
    review: &Review,
    decision: Decision,
) -> AdmissionResponse {
    let route = route(webhook);
    if decision.stages.modrules != StageReport::NotRun || route.task == Task::BindPod {
        app.metrics.decided(webhook, &decision);
        record::decision(webhook, review, &decision);
    }
    record::denials(webhook, review, &decision);
    app.metrics.found(&decision);
    let patch = (decision.allowed && !decision.patch.is_empty())
        .then(|| jsonpatch::to_json(&decision.patch));
    let forbidden = if decision.code == 403 { "Forbidden" } else { "" };
    let (reason, message) = match (route.task, route.words) {
        (_, Words::KubeMod) => (decision.reason, String::new()),
        (_, Words::Gatekeeper) => (forbidden.to_owned(), decision.reason),
        (_, Words::Own) if decision.allowed => (String::new(), String::new()),
        // As in controller-runtime, a decoding failure is an error with a message, an invalid
        // object a denial with a reason.
        (Task::ValidateModRule | Task::DefaultModRule, _) if decision.code != 400 => {
            (decision.reason, String::new())
        }
        (_, Words::ApiServer) => {
            let denial = decision.denials.first();
            let reason = denial.map(|denial| denial.reason.as_str()).unwrap_or_default();
            let message = if decision.allowed { String::new() } else { decision.reason };
            (reason.to_owned(), message)
        }
        (_, Words::Own) => (forbidden.to_owned(), decision.reason),
    };
    AdmissionResponse {
        uid: Str::default(),
        allowed: decision.allowed,
        code: decision.code,
        reason,
        message,
        patch,
        warnings: decision.warnings,
        audit_annotations: audit_annotations(decision.audit_annotations),
    }
}

/// The API server puts the name of the webhook and a slash in front of each key, and takes one slash
/// only: `policy/key` is `policy.key`.
fn audit_annotations(all: BTreeMap<String, String>) -> Vec<(String, String)> {
    let key = |key: String| match key.strip_prefix("validation.policy.admission.k8s.io/") {
        Some(key) => key.to_owned(),
        None => key.replace('/', "."),
    };
    all.into_iter().map(|(name, text)| (key(name), text)).collect()
}
