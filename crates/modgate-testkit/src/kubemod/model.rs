//! A second, plain reading of one KubeMod request (spec `kubemod.md`, 3 to 6), with every deliberate
//! difference as a switch.
//!
//! This is what makes a deliberate difference a *predicate over the input*: a decision applies to
//! an input exactly if the model answers otherwise with the decision taken back, and the result
//! required is the model's. Nothing here knows a case by name, so that the same decisions hold for
//! cases that have not occurred yet. Where no decision applies the recorded result is what counts,
//! and a model that strays from it fails the run too.
//!
//! Expressions, templates and YAML come from their own crates, which have corpora of their own.

mod patches;
mod rules;

use std::collections::BTreeMap;

use modgate_api::meta::ObjectExt as _;
use modgate_api::modrule::ModRule;
use modgate_engine::jsonpatch;
use modgate_template::{Env, Isolated, RejectContext, Template};
use modgate_value::{Budget, Object, Value};

use self::rules::{is_cluster_namespace, matches};
use crate::{
    compare::same,
    decision::{self as decisions, Decision},
};

/// One admission request, its Namespace and the time.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub(crate) operation: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old_object: Option<&'a Value>,
    /// Objects that can be read from the API server.
    pub(crate) cluster: &'a [Value],
}

impl Request<'_> {
    /// The object under review.
    pub(crate) fn subject(&self) -> Option<&Value> {
        let subject = if self.operation == "DELETE" { self.old_object } else { self.object };
        subject.filter(|object| !object.is_null())
    }
}

/// The result of a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// An answer a webhook would give.
    Decided(Decided),
    /// No answer, or one not worth imitating: a crash, garbled text, an invalid response.
    Broken(&'static str),
}

/// An answer of a webhook.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    pub(crate) allowed: bool,
    pub(crate) code: i64,
    pub(crate) reason: String,
    /// The object afterwards; nothing when denied.
    pub(crate) object: Option<Value>,
    /// Whether some rule could not do its work.
    pub(crate) failed: bool,
}

/// A part of the original's behaviour that modgate does not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Original {
    ///
    FailureSpreads,
    /// Q-02, items turned by so many places.
    Rotated(usize),
    /// 5.3
    LoadOrder,
    /// AS-02
    MatchesEverything,
    /// 1.3
    NoSchema,
    ///
    GluesOperators,
    ///
    QuotesOneCharacter,
    ///
    SelectsTwice,
    ///
    KeysUnescaped,
    ///
    KeysNormalised,
    ///
    PercentInterpreted,
    ///
    QuotesInterpreted,
    ///
    EscapedParent,
    ///
    BelowNewNull,
    ///
    CrashesOnAnnotation,
    ///
    PatchesDeletions,
    ///
    ReferencesLeak,
    ///
    Unchecked,
    /// KM-6.1
    WholeNode,
    ///
    BareTarget,
    ///
    NullElements,
    ///
    QuotedKeys,
    ///
    Padding,
}

/// The name of the annotation kubectl keeps.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How many items of one select are worth rotating.
const MOST_ROTATIONS: usize = 8;

/// The parts of the original's behaviour that are one of a kind, with the decision against each.
static SINGLES: &[(Original, &Decision)] = &[
    (Original::FailureSpreads, &decisions::Q_01),
    (Original::GluesOperators, &decisions::Q_10),
    (Original::QuotesOneCharacter, &decisions::Q_11),
    (Original::MatchesEverything, &decisions::AS_02),
    (Original::NoSchema, &decisions::SCHEMA),
    (Original::SelectsTwice, &decisions::Q_19),
    (Original::KeysUnescaped, &decisions::Q_25),
    (Original::KeysNormalised, &decisions::Q_26),
    (Original::PercentInterpreted, &decisions::Q_27),
    (Original::QuotesInterpreted, &decisions::Q_28),
    (Original::EscapedParent, &decisions::Q_29),
    (Original::BelowNewNull, &decisions::Q_31),
    (Original::CrashesOnAnnotation, &decisions::Q_33),
    (Original::PatchesDeletions, &decisions::Q_34),
    (Original::ReferencesLeak, &decisions::Q_35),
    (Original::Unchecked, &decisions::Q_36),
    (Original::WholeNode, &decisions::NODE_SUMMARY),
    (Original::BareTarget, &decisions::Q_46),
    (Original::NullElements, &decisions::Q_61),
    (Original::QuotedKeys, &decisions::Q_62),
    (Original::Padding, &decisions::Q_77),
];

/// Decisions that make a difference only together: a patch that fails in the original alone, and that
/// failure, which spreads there alone. None if one alone makes a difference.
pub(super) fn together(rules: &[Value], request: &Request<'_>) -> Vec<&'static Decision> {
    let ours = answer(rules, request, &[]);
    let pair = SINGLES.iter().find(|(original, _)| {
        let theirs = answer(rules, request, &[Original::FailureSpreads, *original]);
        !same_answer(&ours, &theirs)
    });
    pair.map(|(_, decision)| vec![&decisions::Q_01, *decision]).unwrap_or_default()
}

/// modgate's answer, and the decisions by which it differs from the original's.
pub(crate) fn required(rules: &[Value], request: &Request<'_>) -> (Answer, Vec<&'static Decision>) {
    use Original::{LoadOrder, Rotated};
    let ours = answer(rules, request, &[]);
    let mut applying: Vec<&'static Decision> = Vec::new();
    // What was recorded ran the rules in the order they were loaded in, so that is the order the
    // other decisions apply to.
    let in_load_order = answer(rules, request, &[LoadOrder]);
    if !same_answer(&ours, &in_load_order) {
        applying.push(&decisions::ORDER);
    }
    let rotations = (0..MOST_ROTATIONS).map(|by| (Rotated(by), &decisions::Q_02));
    for (original, decision) in SINGLES.iter().copied().chain(rotations) {
        let known = applying.contains(&decision);
        if !known && !same_answer(&in_load_order, &answer(rules, request, &[LoadOrder, original])) {
            applying.push(decision);
        }
    }
    (ours, applying)
}

/// modgate's answer alone.
#[cfg(test)]
pub(super) fn answer_of_ours(rules: &[Value], request: &Request<'_>) -> Answer {
    answer(rules, request, &[])
}

/// Whether two answers are the same decision with the same effect.
pub(crate) fn same_answer(a: &Answer, b: &Answer) -> bool {
    let (Answer::Decided(a), Answer::Decided(b)) = (a, b) else { return false };
    let same_object = match (&a.object, &b.object) {
        (Some(a), Some(b)) => same(&with_annotation_read(a), &with_annotation_read(b)),
        (None, None) => true,
        _ => false,
    };
    (a.allowed, a.code, &a.reason, a.failed) == (b.allowed, b.code, &b.reason, b.failed)
        && same_object
}

/// The object with its last-applied annotation as a document rather than as text, because the
/// order of members inside that text is not part of what the model knows.
fn with_annotation_read(object: &Value) -> Value {
    let Some(text) = annotation(object) else { return object.clone() };
    match Value::from_json(text.as_bytes()) {
        Ok(document) => with_annotation(object, document).unwrap_or_else(|| object.clone()),
        Err(_) => object.clone(),
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.path(&["metadata", "annotations", LAST_APPLIED])?.as_str()
}

/// The object with the annotation set; nothing if it has no map of annotations.
fn with_annotation(object: &Value, value: Value) -> Option<Value> {
    let mut annotations = object.path(&["metadata", "annotations"])?.as_object()?.clone();
    annotations.insert(LAST_APPLIED, value);
    let mut metadata = object.get("metadata")?.as_object()?.clone();
    metadata.insert("annotations", annotations.into());
    let mut members = object.as_object()?.clone();
    members.insert("metadata", metadata.into());
    Some(members.into())
}

fn answer(rules: &[Value], request: &Request<'_>, original: &[Original]) -> Answer {
    let model = Model { request, original };
    match model.run(rules) {
        Ok(decided) => Answer::Decided(decided),
        Err(Broken(how)) => Answer::Broken(how),
    }
}

struct Broken(&'static str);

struct Rule {
    rule: ModRule,
    /// Where it stands among the rules loaded.
    loaded: usize,
}

struct Model<'a> {
    request: &'a Request<'a>,
    /// Where it behaves as the original does.
    original: &'a [Original],
}

/// The document under way through the Patch rules.
struct State {
    document: Value,
    /// The text of the last-applied annotation, while it can still be patched: after a failure it is
    /// given up (4.8).
    annotation: Option<String>,
    failed: bool,
    /// the original's document text has become empty.
    lost: bool,
}

impl Model<'_> {
    fn like(&self, original: Original) -> bool {
        self.original.contains(&original)
    }

    fn run(&self, rules: &[Value]) -> Result<Decided, Broken> {
        let object = self.request.subject().cloned().unwrap_or_default();
        let reason = "failed to inject syntheticRefs into object manifest";
        let unchecked = object.is_null() || self.like(Original::Unchecked);
        let (working, missing) = match self.working_document(&object) {
            Some(made) => made,
            None if unchecked => return Ok(decided(true, 200, reason, Some(object), true)),
            None => {
                let reason = format!("{reason}: the object is not a JSON object");
                return Ok(decided(false, 403, &reason, None, true));
            }
        };
        let rules = self.load(rules);
        let mut state = State {
            document: working.clone(),
            annotation: annotation(&object).map(str::to_owned),
            failed: missing,
            lost: false,
        };
        self.patch(&rules, &mut state)?;
        if state.lost && state.annotation.is_none() {
            return Ok(decided(true, 200, "failed to calculate patch", Some(object), true));
        }
        self.restore_annotation(&object, &mut state)?;
        let changed = !same(&self.back_to_object(&object, &state.document), &object);
        if changed && self.request.operation == "DELETE" && !self.like(Original::PatchesDeletions) {
            state.failed = true;
        }
        let rejections = self.rejections(&rules, &mut state);
        if !rejections.is_empty() {
            let reason =
                format!("operation rejected by the following ModRule(s): {}", rejections.join(","));
            return Ok(decided(false, 403, &reason, None, state.failed));
        }
        self.finish(&object, &working, state)
    }

    fn finish(&self, object: &Value, working: &Value, state: State) -> Result<Decided, Broken> {
        let references = |document: &Value| document.get("syntheticRefs").cloned();
        if references(working) != references(&state.document) && self.like(Original::ReferencesLeak)
        {
            return Err(Broken("the patch addresses /syntheticRefs"));
        }
        let patched = self.back_to_object(object, &state.document);
        if same(&patched, object) {
            return Ok(decided(true, 200, "non-patched ok", Some(patched), state.failed));
        }
        if self.request.operation == "DELETE" && !self.like(Original::PatchesDeletions) {
            return Ok(decided(true, 200, "non-patched ok", Some(object.clone()), state.failed));
        }
        if self.like(Original::NullElements) && fills_null_element(object, &patched) {
            return Err(Broken("the patch inserts where it should replace"));
        }
        if self.like(Original::QuotedKeys)
            && jsonpatch::diff(object, &patched).iter().any(|op| op.path.contains(['"', '\\']))
        {
            return Err(Broken("the response is not JSON"));
        }
        Ok(decided(true, 200, "patched ok", Some(patched), state.failed))
    }

    // ---- the working document (6.1) ----

    fn store_namespace(&self) -> &str {
        let text = |key| self.request.subject().and_then(|object| object.get(key)?.as_str());
        if text("kind") == Some("Namespace") && text("apiVersion") == Some("v1") {
            return "";
        }
        self.request.namespace
    }

    /// The document, and whether it lacks a reference.
    fn working_document(&self, object: &Value) -> Option<(Value, bool)> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind.is_empty() && self.like(Original::Unchecked) {
            return None;
        }
        let mut references: BTreeMap<&str, Value> = BTreeMap::new();
        let mut missing = false;
        let namespace = self.store_namespace();
        if !namespace.is_empty() {
            let found = self.read("Namespace", namespace).unwrap_or_else(|| {
                let metadata: Value = [("name", Value::from(namespace))].into_iter().collect();
                [
                    ("apiVersion", Value::from("v1")),
                    ("kind", Value::from("Namespace")),
                    ("metadata", metadata),
                ]
                .into_iter()
                .collect()
            });
            let found = without(&found, &["metadata", "managedFields"]);
            references
                .insert("namespace", without(&found, &["metadata", "annotations", LAST_APPLIED]));
        }
        let node = object.path(&["metadata", "annotations", "ref.kubemod.io/nodename"]);
        let node = node.and_then(Value::as_str).filter(|name| !name.is_empty());
        if let Some(name) = node.filter(|_| kind == "Pod") {
            let found = self.read("Node", name);
            if found.is_none() && self.like(Original::Unchecked) {
                return None;
            }
            missing = found.is_none();
            let found = found.unwrap_or_else(|| Object::default().into());
            references.insert("node", without(&found, &["metadata", "managedFields"]));
        }
        let mut working = without(object, &["metadata", "managedFields"]).as_object()?.clone();
        working.insert("syntheticRefs", references.into_iter().collect());
        Some((working.into(), missing))
    }

    /// The document as a rule sees it: rules of one namespace see of a Node who it is and what it
    /// has (KM-6.1).
    fn seen_by(&self, rule: &ModRule, document: &Value) -> Value {
        let node = document.path(&["syntheticRefs", "node"]).and_then(Value::as_object);
        let whole = is_cluster_namespace(&rule.metadata.namespace);
        let Some(node) = node.filter(|_| !whole && !self.like(Original::WholeNode)) else {
            return document.clone();
        };
        let all = Value::from(node.clone());
        let mut shown = Object::default();
        for path in [
            &["apiVersion"][..],
            &["kind"],
            &["metadata", "name"],
            &["metadata", "labels"],
            &["status", "capacity"],
        ] {
            let Some((first, rest)) = path.split_first() else { continue };
            match (all.get(first), rest.first()) {
                (Some(value), None) => {
                    shown.insert(*first, value.clone());
                }
                (Some(Value::Object(from)), Some(key)) => {
                    let into = shown.get(first).and_then(Value::as_object);
                    let mut into = into.cloned().unwrap_or_default();
                    if let Some(value) = from.get(key) {
                        into.insert(*key, value.clone());
                    }
                    shown.insert(*first, into.into());
                }
                _ => {}
            }
        }
        with_member(document, &["syntheticRefs", "node"], &shown.into())
    }

    fn read(&self, kind: &str, name: &str) -> Option<Value> {
        let is_it = |object: &&Value| {
            object.get("kind").and_then(Value::as_str) == Some(kind)
                && object.metadata("name") == Some(name)
        };
        self.request.cluster.iter().find(is_it).cloned()
    }

    /// The object again: without references, with the managed fields it came with.
    fn back_to_object(&self, object: &Value, document: &Value) -> Value {
        let Some(members) = document.as_object() else { return document.clone() };
        let mut members = members.clone();
        members.remove("syntheticRefs");
        if let Some(sent) = object.get("syntheticRefs") {
            members.insert("syntheticRefs", sent.clone());
        }
        if let (Some(managed), Some(Value::Object(metadata))) =
            (object.path(&["metadata", "managedFields"]), members.get_mut("metadata"))
        {
            metadata.insert("managedFields", managed.clone());
        }
        members.into()
    }

    // ---- loading and selecting rules (1.5, 5) ----

    // ---- Patch rules (4) ----

    // ---- Reject rules (5.4, 5.6) ----

    fn rejections(&self, rules: &[Rule], state: &mut State) -> Vec<String> {
        let mut entries = Vec::new();
        for rule in self.tiers(rules, "Reject").into_iter().flatten() {
            let rule = &rule.rule;
            let seen = self.seen_by(rule, &state.document);
            if !matches(rule, &seen) {
                continue;
            }
            let mut entry = format!("{}/{}", rule.metadata.namespace, rule.metadata.name);
            if let Some(text) = &rule.spec.reject_message {
                match self.message(text, &seen) {
                    Some(message) => entry.push_str(&format!(": \"{message}\"")),
                    None => state.failed = true,
                }
            }
            entries.push(entry);
        }
        entries
    }

    fn message(&self, text: &str, document: &Value) -> Option<String> {
        let context = RejectContext { target: document, namespace: self.store_namespace() };
        let budget = Budget::unlimited();
        let template = Template::parse("rejectMessage", text).ok()?;
        template.render_lossy(context, &Env { budget: &budget, host: &Isolated }).ok()
    }
}

/// The object with another value at `path`, all but the last of whose members exist.
fn with_member(object: &Value, path: &[&str], value: &Value) -> Value {
    let Some((key, rest)) = path.split_first() else { return value.clone() };
    let mut members = object.as_object().cloned().unwrap_or_default();
    let inner = members.get(key).cloned().unwrap_or_default();
    members.insert(*key, with_member(&inner, rest, value));
    members.into()
}

/// A rule and where it stands within its tier: its group, then its place in it.
type Placed<'r> = ((bool, Position<'r>), &'r Rule);

/// Where a rule stands within its group of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Position<'r> {
    Loaded(usize),
    Named(&'r str),
}

fn decided(allowed: bool, code: i64, reason: &str, object: Option<Value>, failed: bool) -> Decided {
    Decided { allowed, code, reason: reason.to_owned(), object, failed }
}

/// The object without the member at `path`.
fn without(object: &Value, path: &[&str]) -> Value {
    let (Some(members), Some((key, rest))) = (object.as_object(), path.split_first()) else {
        return object.clone();
    };
    let mut members = members.clone();
    if rest.is_empty() {
        members.remove(key);
    } else if let Some(member) = members.get_mut(key) {
        *member = without(member, rest);
    }
    members.into()
}

/// Whether a list element that was null has become something else.
fn fills_null_element(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => before
            .iter()
            .zip(after.iter())
            .any(|(b, a)| (b.is_null() && !a.is_null()) || fills_null_element(b, a)),
        (Value::Object(before), Value::Object(after)) => {
            before.iter().any(|(key, b)| after.get(key).is_some_and(|a| fills_null_element(b, a)))
        }
        _ => false,
    }
}

// ---- criteria (3) ----
