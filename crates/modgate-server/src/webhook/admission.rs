//! One AdmissionReview: decode, evaluate, answer.

use std::time::{Duration, Instant};

use axum::{extract::Request, http::StatusCode, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::{
    AdmissionStatus, Decision, Host, MutationStatus, Review, StageReport, Stages,
    api::admission::{AdmissionResponse, ReviewVersion},
    cost::{Meter, Statistics},
    gatekeeper::{admit_label, lacks_template},
    jsonpatch,
};
use modgate_policies::{PolicySet, ProviderHost};
use modgate_telemetry::metrics::shard;
use modgate_value::{Str, Value};

use super::{
    App, LateRejections, OnFailure, RequestLimits, Webhook,
    body::{MAX_VALUES, Missing, NotReceived, OBJECT},
    bounds::bounded,
    content_type,
    evaluators::{EvaluationError, Flow},
    front,
    gatekeeper::{self, Conditions},
    is_json, modrule, record, respond,
    routes::{Task, Words, route},
    templates::{self, Template},
};

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

    /// A request that cannot be understood: an answer, not an HTTP error (spec `kubemod.md`, 7.2).
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

    /// A failure of ours.
    fn failed(failure: OnFailure, head: Head, message: String) -> Self {
        let response = match failure {
            OnFailure::FailurePolicy => {
                return Self { status: StatusCode::INTERNAL_SERVER_ERROR, body: message };
            }
            OnFailure::Allow => AdmissionResponse {
                allowed: true,
                code: 200,
                warnings: vec![format!("modgate let this request through unchecked: {message}")],
                reason: message,
                ..AdmissionResponse::default()
            },
            OnFailure::Deny => AdmissionResponse {
                allowed: false,
                code: 500,
                message,
                ..AdmissionResponse::default()
            },
        };
        Self::review(&head, response)
    }
}

/// What an answer needs of its request, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Head {
    version: ReviewVersion,
    uid: Str,
}

impl Head {
    /// As it stands at the front of a body that is not decoded, or cannot be.
    fn ahead(body: &[u8]) -> Self {
        let (version, uid) = front::head(body);
        Self { version, uid }
    }

    /// The uid of a document that is not a valid review may still be readable; with it the API
    /// server shows our message instead of complaining about the uid.
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
    let Some(world) = app.current.load() else {
        let body = "policies are not loaded yet".to_owned();
        return Answer { status: StatusCode::SERVICE_UNAVAILABLE, body };
    };
    let wrong_type = (!is_json(&request)).then(|| content_type(&request).to_owned());
    let patience = patience(&request, &app.limits);
    let deadline = tokio::time::Instant::from_std(started + patience);
    let limit = app.limits.body_bytes;
    let body = match app.bodies.receive(request.into_body(), limit, deadline).await {
        Ok(body) => body,
        Err(missing) => return not_received(app, webhook, &missing, patience),
    };
    let body = &*body.bytes;
    if let Some(found) = wrong_type {
        let message = format!("contentType={found}, expected application/json");
        return Answer::malformed(Head::ahead(body), StatusCode::BAD_REQUEST, message);
    }
    if route(webhook).task == Task::BindPod {
        return bind_pod(app, &world, body, deadline).await;
    }
    let flow = Flow { route: webhook.path(), namespace: front::namespace(body) };
    let mut head = None;
    let mut world = world;
    let mut template = Template::Unasked;
    let outcome = loop {
        let outcome = app
            .evaluators
            .run(flow.clone(), patience, |turn| {
                let started = Instant::now();
                app.metrics.queued(webhook, turn.waited());
                let providers = app.current.providers();
                let asking = providers.map(|all| all.asking(deadline).yielding(turn));
                let objects = world.objects.yielding(turn, deadline);
                let host = ProviderHost::new(&objects, asking);
                let counts = app.gatekeeper.log_stats && webhook == Webhook::Admit;
                let statistics = counts.then(Statistics::default);
                let meter = meter(&host, deadline.into_std(), statistics.as_ref());
                let conditions = Conditions { world: &world, host: &host, meter, template };
                let answer = evaluate(app, webhook, conditions, body, &mut head);
                app.metrics.evaluated(webhook, started.elapsed());
                answer
            })
            .await;
        match outcome {
            Ok(Evaluated::Answer(answer)) => break Ok(answer),
            // Once at most, as it is asked then.
            Ok(Evaluated::Awaits(kind)) => {
                template = templates::wait(app, &world, &kind, deadline).await;
                world = app.current.load().unwrap_or(world);
            }
            Err(error) => break Err(error),
        }
    };
    outcome.unwrap_or_else(|error| {
        let head = head.unwrap_or_else(|| Head::ahead(body));
        if let EvaluationError::Busy(waited) = &error {
            app.metrics.queued(webhook, *waited);
        }
        tracing::error!(
            target: "webhook",
            webhook = webhook.path(),
            "request uid" = %head.uid,
            %error,
            "review failed"
        );
        let message = if route(webhook).words == Words::Gatekeeper {
            let took = started.elapsed();
            match webhook {
                Webhook::Admit if error == EvaluationError::Panicked => {
                    app.metrics.not_validated(took);
                }
                Webhook::Admit => app.metrics.validated(AdmissionStatus::Error, false, took),
                Webhook::ApplyMutators => app.metrics.mutated(MutationStatus::Error, None, took),
                _ => {}
            }
            gatekeeper::failure(&error)
        } else {
            error.to_string()
        };
        Answer::failed(app.gatekeeper.on_failure, head, message)
    })
}

/// A review that was not received is denied with its uid, which stands at its front (without a uid
/// the API server does not take an answer for one), unless it is we who had no room for it.
fn not_received(app: &App, webhook: Webhook, missing: &NotReceived, patience: Duration) -> Answer {
    let head = Head::ahead(&missing.beginning);
    let (code, message) = match missing.why {
        Missing::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "request body is larger than {} bytes; `--max-body-size` allows more",
                app.limits.body_bytes
            ),
        ),
        Missing::TooMany => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "request body has more than {MAX_VALUES} values (an object counts as {OBJECT})"
            ),
        ),
        Missing::Broken => {
            (StatusCode::BAD_REQUEST, "request body ended before it was complete".to_owned())
        }
        Missing::Late => (
            StatusCode::REQUEST_TIMEOUT,
            format!("request body not received within {} s", patience.as_secs()),
        ),
        Missing::Overload => {
            let message = "request bodies take all the memory they may have".to_owned();
            tracing::error!(
                target: "webhook",
                webhook = webhook.path(),
                "request uid" = %head.uid,
                error = message,
                "review failed"
            );
            return Answer::failed(app.gatekeeper.on_failure, head, message);
        }
    };
    Answer::malformed(head, code, message)
}

/// Outside of the turns in which requests are evaluated: the Pod that is written here is a request of
/// its own to this webhook.
async fn bind_pod(
    app: &App,
    world: &PolicySet,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Answer {
    let (head, review) = match decode(app, body) {
        Ok(decoded) => decoded,
        Err((head, message)) => return Answer::malformed(head, StatusCode::BAD_REQUEST, message),
    };
    let decision = modrule::bind_pod(&review, world, deadline).await;
    Answer::review(&head, respond_with(app, Webhook::PodBinding, &review, decision))
}

/// How long a request may wait: the API server's `?timeout=10s`, at most the configured time.
fn patience(request: &Request, limits: &RequestLimits) -> Duration {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let seconds = pairs
        .filter_map(|pair| pair.strip_prefix("timeout=")?.strip_suffix('s')?.parse().ok())
        .map(Duration::from_secs)
        .next();
    seconds.unwrap_or(limits.time).min(limits.time)
}

/// What it takes to write an answer and send it.
const TO_ANSWER: Duration = Duration::from_millis(50);

/// Counts on this thread, and ends evaluation in time for an answer at `deadline`.
fn meter<'a>(host: &dyn Host, deadline: Instant, statistics: Option<&'a Statistics>) -> Meter<'a> {
    let now = host.uptime();
    let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(TO_ANSWER);
    Meter { shard: shard(), statistics, uptime: Some(now), deadline: Some(now + left) }
}

/// What became of an evaluation.
enum Evaluated {
    Answer(Answer),
    /// It has to wait until the template of constraints of this kind was asked for.
    Awaits(Str),
}

fn evaluate(
    app: &App,
    webhook: Webhook,
    conditions: Conditions<'_>,
    body: &[u8],
    head: &mut Option<Head>,
) -> Evaluated {
    let Conditions { world, template, .. } = conditions;
    let (read, review) = match decode(app, body) {
        Ok(decoded) => decoded,
        Err((head, message)) => {
            return Evaluated::Answer(Answer::malformed(head, StatusCode::BAD_REQUEST, message));
        }
    };
    let head = &*head.insert(read);
    if webhook == Webhook::Admit
        && template == Template::Unasked
        && world.objects.cluster().is_some()
        && let Some(kind) = lacks_template(&review, &world.snapshot)
    {
        return Evaluated::Awaits(kind);
    }
    Evaluated::Answer(judge(app, webhook, conditions, &review, head))
}

/// Reads a review and what its answer needs, which is all there is if it cannot be read: by what the
/// document says, should its front and its end differ.
fn decode(app: &App, body: &[u8]) -> Result<(Head, Review), (Head, String)> {
    let document = match Value::from_json_nested(body, app.limits.max_depth) {
        Ok(document) => document,
        Err(error) => {
            return Err((Head::ahead(body), format!("request body is not JSON: {error}")));
        }
    };
    let head = Head::of(&document);
    match Review::parse(&document) {
        Ok(review) => Ok((head, review)),
        Err(error) => Err((head, error.to_string())),
    }
}

/// Answers a request. A failure of ours is answered as the operator wants it.
fn judge(
    app: &App,
    webhook: Webhook,
    conditions: Conditions<'_>,
    review: &Review,
    head: &Head,
) -> Answer {
    let world = conditions.world;
    let started = Instant::now();
    let decide = |stages| {
        let decision = gatekeeper::decide(review, stages, conditions);
        gatekeeper::record(app, review, &decision, conditions, started.elapsed());
        decision
    };
    let late = app.gatekeeper.late_rejections;
    let mut decision = match route(webhook).task {
        Task::Decide(_) if webhook == Webhook::Validate && late == LateRejections::Off => {
            Decision::allowed()
        }
        Task::Decide(stages) => decide(stages),
        Task::DecideUnified if app.gatekeeper.unified_mutate => decide(Stages::UNIFIED),
        Task::DecideUnified => decide(Stages::MODRULES),
        Task::CheckLabel => admit_label(review.request(), &world.snapshot.config().installation),
        Task::DefaultModRule => modrule::default(review),
        Task::ValidateModRule => modrule::validate(review, world),
        // `serve` does it before there is a turn.
        Task::BindPod => Decision::allowed(),
    };
    if webhook == Webhook::Validate && late == LateRejections::Warn {
        modrule::admit_with_warnings(&mut decision);
    }
    if decision.is_undecided() && app.gatekeeper.on_failure != OnFailure::Deny {
        return Answer::failed(app.gatekeeper.on_failure, head.clone(), decision.reason);
    }
    Answer::review(head, respond_with(app, webhook, review, decision))
}

/// Records what ModRules came to and turns a decision into a response, in the words of the webhook.
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
    let patch = (decision.allowed && !decision.patch.is_empty())
        .then(|| jsonpatch::to_value(&decision.patch).to_json());
    let forbidden = if decision.code == 403 { "Forbidden" } else { "" };
    let (reason, message) = match (route.task, route.words) {
        (_, Words::KubeMod) => (decision.reason, String::new()),
        (_, Words::Gatekeeper) => (forbidden.to_owned(), decision.reason),
        (_, Words::Own) if decision.allowed => (String::new(), String::new()),
        // As controller-runtime: what cannot be decoded is an error with a message, what is not valid
        // is denied for a reason.
        (Task::ValidateModRule | Task::DefaultModRule, _) if decision.code != 400 => {
            (decision.reason, String::new())
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
    }
}
