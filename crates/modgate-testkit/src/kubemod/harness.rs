//! Drives the engine the way a corpus asks for.

use anyhow::{Context as _, Result, bail, ensure};
use modgate_api::meta::ObjectExt as _;
use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, Host, HostError, Lookup, NoopObserver, OnError,
    PolicySource, Problem, Review, Severity, Snapshot, Stages,
    constraint::{Arena, Inventory},
    jsonpatch::{Op, PatchOperation},
};
use modgate_value::{Clock, Object, Value, budget::Frozen, pointer};

use super::model::{Answer, Decided, Request};
use crate::compare::same;

/// Rules compiled by the engine.
pub(super) struct Loaded {
    /// As the server has it: rules found by index.
    snapshot: Snapshot,
    /// The oracle: every rule asked.
    oracle: Snapshot,
    problems: Vec<Problem>,
}

impl Loaded {
    pub(super) fn of(rules: &[Value]) -> Self {
        Self::with(rules, EngineConfig::default())
    }

    pub(super) fn with(rules: &[Value], config: EngineConfig) -> Self {
        let sources = rules.iter().cloned().map(PolicySource::of_object);
        let changes: Vec<Change> = sources.map(Change::Upsert).collect();
        let plain = EngineConfig { lookup: Lookup::Scan, ..config.clone() };
        let oracle = Snapshot::new(plain).apply(changes.clone(), OnError::Unload).snapshot;
        let update = Snapshot::new(config).apply(changes, OnError::Unload);
        Self { snapshot: update.snapshot, oracle, problems: update.problems }
    }

    /// The problems because of which rules did not load.
    pub(super) fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// The engine's decision, once both ways of finding rules lead to it.
    pub(super) fn decide(&self, request: &Request<'_>) -> Result<Decision> {
        let review = Review::from_request(&wire(request)).context("not a request")?;
        let host = TestHost { request };
        let decide = |snapshot: &Snapshot| {
            let (inventory, mut arena) = (Inventory::default(), Arena::new());
            let mut evaluation = Evaluation::new(&host, &inventory, &mut arena);
            snapshot.decide(&review, Stages::MODRULES, &mut evaluation, &mut NoopObserver)
        };
        let (decision, plain) = (decide(&self.snapshot), decide(&self.oracle));
        ensure!(decision == plain, "by index {decision:?}, by asking every rule {plain:?}");
        Ok(decision)
    }

    /// The engine's decision as an answer, once it is consistent in itself.
    pub(super) fn answer(&self, request: &Request<'_>) -> Result<(Answer, Vec<PatchOperation>)> {
        let decision = self.decide(request)?;
        let subject = request.subject().cloned().unwrap_or_default();
        check(&decision, &subject)?;
        let decided = Decided {
            allowed: decision.allowed,
            code: i64::from(decision.code),
            reason: decision.reason.clone(),
            object: decision.allowed.then_some(decision.object),
            failed: !decision.failures.is_empty(),
        };
        Ok((Answer::Decided(decided), decision.patch))
    }
}

/// Whether the parts of a decision agree.
fn check(decision: &Decision, subject: &Value) -> Result<()> {
    if !decision.allowed {
        ensure!(decision.patch.is_empty(), "a denied request carries a patch");
        ensure!(decision.code >= 400, "a denied request has code {}", decision.code);
        return Ok(());
    }
    let patched = patched(subject, &decision.patch).context("the patch is not RFC 6902")?;
    ensure!(
        same(&patched, &decision.object),
        "the patch leads to {patched}, but the decision says {}",
        decision.object
    );
    let claims_patch = decision.reason == "patched ok";
    ensure!(claims_patch != decision.patch.is_empty(), "reason `{}` is wrong", decision.reason);
    Ok(())
}

fn wire(request: &Request<'_>) -> Value {
    let subject = request.subject();
    let text = |key| subject.and_then(|it| it.get(key)?.as_str()).unwrap_or_default();
    let (group, version) = modgate_api::meta::split_api_version(text("apiVersion"));
    let kind: Value = [("group", group), ("version", version), ("kind", text("kind"))]
        .map(|(key, value)| (key, Value::from(value)))
        .into_iter()
        .collect();
    // An API server sends a text, or nothing.
    let name = subject.and_then(|it| it.metadata("name")).map(Value::from);
    let members = [
        ("uid", Value::from("testkit")),
        ("kind", kind),
        ("name", name.unwrap_or_default()),
        ("namespace", Value::from(request.namespace)),
        ("operation", Value::from(request.operation)),
        ("object", request.object.cloned().unwrap_or_default()),
        ("oldObject", request.old_object.cloned().unwrap_or_default()),
    ];
    members.into_iter().collect()
}

struct TestHost<'a> {
    request: &'a Request<'a>,
}

impl TestHost<'_> {
    fn read(&self, kind: &str, name: &str) -> Option<Value> {
        let is_it = |object: &&Value| {
            object.get("kind").and_then(Value::as_str) == Some(kind)
                && object.metadata("name") == Some(name)
        };
        self.request.cluster.iter().find(is_it).cloned()
    }
}

impl Host for TestHost<'_> {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        if let Some(found) = self.read("Namespace", name) {
            return Ok(found);
        }
        if name != self.request.namespace {
            return Err(HostError::NotFound(format!("namespaces \"{name}\" not found")));
        }
        // The request's own Namespace is readable even where the corpus does not spell it out.
        let metadata: Object = [("name", Value::from(name))].into_iter().collect();
        let members = [
            ("apiVersion", Value::from("v1")),
            ("kind", Value::from("Namespace")),
            ("metadata", metadata.into()),
        ];
        Ok(members.into_iter().collect())
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.read("Node", name)
            .ok_or_else(|| HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}

/// `document` after an RFC 6902 patch, applied to the letter as the API server does.
fn patched(document: &Value, patch: &[PatchOperation]) -> Result<Value> {
    patch.iter().try_fold(document.clone(), |document, operation| {
        let PatchOperation { op, path, value } = operation;
        let value = match op {
            Op::Remove => None,
            Op::Add | Op::Replace => Some(value.as_ref().context("no value")?),
        };
        let segments: Vec<_> = path.split('/').skip(1).collect();
        change(&document, &segments, *op, value).with_context(|| format!("{op:?} at `{path}`"))
    })
}

fn change(node: &Value, path: &[&str], op: Op, value: Option<&Value>) -> Result<Value> {
    let Some((segment, rest)) = path.split_first() else {
        return value.cloned().context("the root cannot be removed");
    };
    match node {
        Value::Object(members) => {
            let key = pointer::unescape(segment).into_owned();
            let mut members = members.clone();
            let exists = members.contains_key(&key);
            ensure!(exists || (op == Op::Add && rest.is_empty()), "`{key}` is missing");
            match (rest.is_empty(), value, members.get(&key)) {
                (true, None, _) => {
                    members.remove(&key);
                }
                (true, Some(value), _) => {
                    members.insert(key, value.clone());
                }
                (false, _, Some(child)) => {
                    let child = change(child, rest, op, value)?;
                    members.insert(key, child);
                }
                (false, _, None) => bail!("`{key}` is missing"),
            }
            Ok(members.into())
        }
        Value::Array(elements) => {
            let mut elements = elements.to_vec();
            let len = elements.len();
            let inserts = op == Op::Add && rest.is_empty();
            let index = match *segment {
                "-" if inserts => len,
                text => text.parse::<usize>().with_context(|| format!("`{text}` is no index"))?,
            };
            ensure!(index < len || (inserts && index == len), "{index} is out of range");
            match (rest.is_empty(), value) {
                (true, None) => {
                    elements.remove(index);
                }
                (true, Some(value)) if inserts => elements.insert(index, value.clone()),
                (whole, value) => {
                    let element = elements.get_mut(index).context("out of range")?;
                    *element = match value {
                        Some(value) if whole => value.clone(),
                        value => change(element, rest, op, value)?,
                    };
                }
            }
            Ok(elements.into())
        }
        _ => bail!("neither an object nor a list"),
    }
}
