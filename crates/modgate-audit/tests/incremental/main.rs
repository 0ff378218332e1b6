//! Audits that keep results give the same report as audits that do not, whatever changes.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

mod fixture;

use std::sync::atomic::AtomicBool;

use modgate_audit::{
    AuditOptions, Incremental, Item, ObjectRef, Options, Policies, PolicyRef, Report, Sink, Texts,
    Told, Violation, audit,
};
use modgate_engine::api::{constraints::EnforcementAction, meta::GroupVersionKind};
use modgate_value::Value;
use proptest::prelude::*;

use self::fixture::{Edit, Fixture, Seen};

static NEVER: AtomicBool = AtomicBool::new(false);
const NAME: &str = "2026-01-02T03:04:05Z";
/// Violations listed for each policy.
const LIMIT: usize = 3;
const OPTIONS: Options =
    Options { expansion: true, modrules: true, mutators: true, admission_policies: true };

fn options(threads: usize) -> AuditOptions<'static> {
    AuditOptions { threads, limit: LIMIT, stop: &NEVER, statistics: None }
}

/// Everything a sink was told, in any order.
fn told(seen: Seen) -> Vec<String> {
    let mut lines: Vec<String> =
        seen.0.into_inner().expect("unpoisoned").iter().map(line).collect();
    lines.sort();
    lines
}

/// Everything a report says but how much work it was.
fn said(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for policy in &report.by_policy {
        let first: Vec<String> = policy.first.iter().map(line).collect();
        lines.push(format!(
            "{} {}: {} {:?} {} {first:?}",
            policy.policy.kind, policy.policy.name, policy.action, policy.actions, policy.total
        ));
    }
    lines.extend(report.errors.iter().map(|error| format!("{error:?}")));
    let counts = report.counts;
    lines.push(format!("{} {} {}", counts.objects, counts.excluded, counts.errors));
    lines.push(format!("{:?}", report.totals));
    lines
}

fn line(it: &Violation) -> String {
    let (policy, subject) = (&it.policy, &it.subject);
    format!(
        "{} {} {}/{} {} of {} {}/{}: {} {} {:?} {} {} {}",
        policy.kind,
        policy.kind.group,
        policy.namespace,
        policy.name,
        it.ordinal,
        subject.kind,
        subject.namespace,
        subject.name,
        it.message,
        it.action,
        it.actions,
        it.details,
        subject.labels,
        it.id(NAME),
    )
}

/// A sink that does not care.
struct Deaf;

impl Sink for Deaf {
    fn wants_violations(&self) -> bool {
        false
    }

    fn violation(&self, _: &str, violation: &Violation) {
        panic!("told of {violation:?}");
    }
}

/// A violation as [`Plain`] has it.
fn text(it: &Violation) -> String {
    let plain = Plain { padding: 0 };
    let start = plain.start();
    let policy = plain.policy(&it.policy, &it.action, it.scoped_actions());
    let object = plain.object(&it.subject);
    let details = it.details.to_json();
    let told = Told { subject: &it.subject, message: &it.message, details: &details };
    let mut out = String::new();
    plain.violation([&start, &policy, &object], &told, &mut out);
    out
}

struct Plain {
    /// Bytes that each text has besides.
    padding: usize,
}

impl Texts for Plain {
    fn start(&self) -> String {
        "-".repeat(self.padding)
    }

    fn policy(&self, policy: &PolicyRef, action: &str, scoped: &[EnforcementAction]) -> String {
        format!("{} {}/{} {action} {scoped:?}", policy.kind, policy.namespace, policy.name)
    }

    fn object(&self, subject: &ObjectRef) -> String {
        let ObjectRef { kind, namespace, name, uid, labels, .. } = subject;
        format!("{kind} {namespace}/{name} {uid} {labels}")
    }

    fn violation(&self, [start, policy, object]: [&str; 3], told: &Told<'_>, out: &mut String) {
        let Told { subject, message, details } = told;
        let text = format!("{start}{policy} of {object} ({}): {message} {details}\n", subject.name);
        out.push_str(&text);
    }
}

/// All texts; each part has whole ones, and bounded many.
fn tell(incremental: &Incremental, plain: Plain, threads: usize) -> String {
    let mut all = String::new();
    incremental.tell(&plain, threads, &mut |part| {
        assert!(part.is_empty() || part.ends_with('\n'), "a text is whole");
        assert!(part.len() < 256 << 10, "{} bytes at once", part.len());
        all.push_str(part);
    });
    all
}

/// The kept results are those of the reference, whether a report has every violation or only totals
/// and the first of them.
fn assert_report(incremental: &mut Incremental, fixture: &Fixture) {
    let (expected_told, expected_said) = reference(fixture);
    let texts = [1, 2, 3].map(|threads| tell(incremental, Plain { padding: 0 }, threads));
    let seen = Seen::default();
    let report = incremental.report(NAME, LIMIT, &seen).expect("policies");
    let in_order: String = seen.0.lock().expect("unpoisoned").iter().map(text).collect();
    for (threads, texts) in (1..).zip(&texts) {
        let differ = in_order.lines().zip(texts.lines()).find(|(one, other)| one != other);
        assert!(in_order == *texts, "{threads} threads: {differ:?}");
    }
    assert_same(&told(seen), &expected_told);
    assert_same(&said(&report), &expected_said);
    let report = incremental.report(NAME, LIMIT, &Deaf).expect("policies");
    assert_same(&said(&report), &expected_said);
}

fn assert_same(found: &[String], expected: &[String]) {
    let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
    let surplus: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(found == expected, "missing {missing:#?}, too much {surplus:#?}");
}

fn reference(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let policies = Policies::new(fixture.snapshot.clone(), fixture.inventory.clone(), OPTIONS);
    let mut objects = fixture.objects.values().cloned();
    let mut source = || {
        let batch: Vec<_> = objects.by_ref().take(3).map(Item::new).collect();
        (!batch.is_empty()).then_some(batch)
    };
    let seen = Seen::default();
    let report = audit(NAME, &policies, &mut source, &fixture.cluster, &seen, options(2));
    (told(seen), said(&report.expect("not stopped")))
}

fn hand_in(
    incremental: &mut Incremental,
    fixture: &Fixture,
    objects: impl IntoIterator<Item = Value, IntoIter: Send>,
) {
    let mut objects = objects.into_iter();
    let mut source = || {
        let batch: Vec<_> = objects.by_ref().take(2).map(Item::new).collect();
        (!batch.is_empty()).then_some(batch)
    };
    incremental.run(&mut source, &fixture.cluster, options(2));
}

fn kind(object: &Value) -> GroupVersionKind {
    ObjectRef::of_object(object).kind
}

/// Passes on the changes of a watched cluster: the changed objects, then those that are stale.
fn follow(incremental: &mut Incremental, fixture: &Fixture, edits: Vec<Edit>) {
    for edit in edits {
        match edit {
            Edit::Is(object) => hand_in(incremental, fixture, [object]),
            Edit::Gone((kind, namespace, name)) => {
                let group = if kind == "Deployment" { "apps" } else { "" };
                let kind = GroupVersionKind {
                    group: group.into(),
                    version: "v1".into(),
                    kind: kind.as_str().into(),
                };
                incremental.remove(&kind, &namespace, &name);
            }
        }
    }
    for stale in incremental.stale() {
        let wanted = fixture.objects.values().filter(|object| {
            let subject = ObjectRef::of_object(object);
            kind(object) == stale.kind
                && stale.objects.contains(&(subject.namespace.clone(), subject.name))
        });
        let wanted: Vec<Value> = wanted.cloned().collect();
        assert_eq!(wanted.len(), stale.objects.len(), "what is gone is not stale");
        hand_in(incremental, fixture, wanted);
    }
    assert_eq!(incremental.stale(), [], "everything is up to date");
}

/// Lists everything again.
fn list(incremental: &mut Incremental, fixture: &Fixture) {
    let kinds: Vec<_> =
        incremental.kinds().cloned().chain(fixture.objects.values().map(kind)).collect();
    kinds.iter().for_each(|kind| incremental.begin(kind));
    hand_in(incremental, fixture, fixture.objects.values().cloned().collect::<Vec<_>>());
    kinds.iter().for_each(|kind| incremental.end(kind));
}

type Pass = (bool, Vec<(u8, u8, u8)>);

fn check(passes: &[Pass]) {
    let mut fixture = Fixture::new();
    // Something of everything to begin with.
    for which in 0..48 {
        fixture.edit(0, which, which.wrapping_mul(37) | 1);
    }
    for which in 0..16 {
        fixture.edit(3, which, which.wrapping_mul(7) | 1);
        fixture.edit(5, which, 1 + 2 * which);
        fixture.edit(4, which, which.wrapping_mul(19) | 1);
        fixture.edit(6, which, which.wrapping_mul(3) | 1);
        fixture.edit(10, which, which.wrapping_mul(5) | 1);
        fixture.edit(11, which, which.wrapping_mul(3) | 1);
    }
    let mut incremental = Incremental::new(OPTIONS);
    incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
    list(&mut incremental, &fixture);
    for (is_listed, edits) in passes {
        assert_report(&mut incremental, &fixture);
        let edits: Vec<Edit> =
            edits.iter().filter_map(|(a, b, c)| fixture.edit(*a, *b, *c)).collect();
        fixture.cluster.tick();
        incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
        if *is_listed {
            list(&mut incremental, &fixture);
        } else {
            follow(&mut incremental, &fixture, edits);
        }
    }
    assert_report(&mut incremental, &fixture);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn incremental_audits_report_what_full_ones_do(
        passes in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<(u8, u8, u8)>(), 0..6)), 1..6)
    ) {
        check(&passes);
    }
}

#[test]
fn each_kind_of_change() {
    // Every edit of every kind, one at a time.
    for what in 0..12 {
        let passes: Vec<_> =
            (0..14_u8).map(|n| (n % 5 == 4, vec![(what, n, n.wrapping_mul(11))])).collect();
        check(&passes);
    }
}

#[test]
fn texts_of_many_objects_are_in_order() {
    let mut fixture = Fixture::new();
    for which in 0..8 {
        fixture.edit(3, which, 1);
        fixture.edit(5, which, 1);
        fixture.edit(4, which, 1);
    }
    let mut incremental = Incremental::new(OPTIONS);
    incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
    let pods = (0..333).map(|number| {
        fixture::value(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p{number:03}, namespace: team-a, uid: u{number}, \
             resourceVersion: '1', labels: {{app: a, team: c}}}}}}"
        ))
    });
    hand_in(&mut incremental, &fixture, pods);
    let one = tell(&incremental, Plain { padding: 9000 }, 1);
    let of: Vec<&str> = one.lines().filter_map(|line| line.split("(p").nth(1)?.get(..3)).collect();
    assert!(of.is_sorted() && of.len() > 333, "{of:?}");
    for threads in [2, 3, 20] {
        assert!(tell(&incremental, Plain { padding: 9000 }, threads) == one, "{threads} threads");
    }
    // Who takes no more ends it.
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        incremental.tell(&Plain { padding: 9000 }, 2, &mut |_| panic!("no more"));
    }));
    assert!(stopped.is_err());
}

#[test]
fn what_did_not_change_is_not_evaluated() {
    let mut fixture = Fixture::new();
    for which in 0..48 {
        fixture.edit(0, which, 1);
    }
    for which in 0..3 {
        fixture.edit(3, which, 1);
        fixture.edit(5, which, 1);
        fixture.edit(4, which, 1);
    }
    let mut incremental = Incremental::new(OPTIONS);
    incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
    list(&mut incremental, &fixture);
    let evaluated = |incremental: &mut Incremental| {
        let report = incremental.report(NAME, LIMIT, &Deaf).expect("policies");
        (report.counts.evaluated, report.counts.asked)
    };
    let (first, asked) = evaluated(&mut incremental);
    assert_eq!(first, fixture.objects.len() as u64);

    let mut pass = |fixture: &mut Fixture, change: &dyn Fn(&mut Fixture)| {
        change(fixture);
        incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
        list(&mut incremental, fixture);
        evaluated(&mut incremental)
    };
    assert_eq!(pass(&mut fixture, &|_| {}), (0, 0));
    let (objects, _) = pass(&mut fixture, &|fixture| {
        fixture.edit(0, 0, 9);
    });
    assert_eq!(objects, 1, "one object changed");
    let (objects, questions) = pass(&mut fixture, &|fixture| {
        fixture.edit(4, 0, 1 + 8);
    });
    let others = ["Deployment", "Service"];
    let concerned = fixture.objects.keys().filter(|(kind, ..)| others.contains(&kind.as_str()));
    let concerned = concerned.count() as u64;
    assert_eq!((objects, questions), (concerned, concerned), "one constraint changed");
    assert!(questions < asked);
    let (objects, _) = pass(&mut fixture, &|fixture| {
        fixture.edit(3, 2, 2);
    });
    assert!(objects > 0 && objects < first, "one Namespace changed: {objects}");
    let unread = |fixture: &mut Fixture| {
        fixture.edit(6, 0, 1);
    };
    assert_eq!(pass(&mut fixture, &unread), (0, 0), "no policy reads Pods of the inventory");
    let read = |fixture: &mut Fixture| {
        fixture.edit(6, 1, 1);
    };
    let (objects, questions) = pass(&mut fixture, &read);
    assert_eq!(objects, questions, "one constraint looks at Services of the inventory");
    assert!(objects > 1);
    let (one, _) = pass(&mut fixture, &|fixture| {
        fixture.edit(0, 0, 2);
    });
    assert_eq!(one, 1, "one Pod is other, and now the constraint does not look that far");
    let (fewer, _) = pass(&mut fixture, &|fixture| {
        fixture.edit(6, 1, 2);
    });
    assert_eq!(fewer, objects - 1, "only objects whose evaluation looked at the inventory");
    let kinds = |fixture: &Fixture, kind: &str| {
        fixture.objects.keys().filter(|(known, ..)| known == kind).count() as u64
    };
    let bound = |fixture: &mut Fixture| {
        fixture.edit(10, 0, 1);
        fixture.edit(10, 1, 1);
        fixture.edit(11, 0, 1);
    };
    let all = pass(&mut fixture, &bound);
    let pods = kinds(&fixture, "Pod");
    assert_eq!(all, (pods, pods), "one ValidatingAdmissionPolicy about Pods");
    let passed = |fixture: &mut Fixture| {
        fixture.edit(11, 0, 2);
    };
    assert_eq!(pass(&mut fixture, &passed), (pods, pods), "another object is passed");
    let same = |fixture: &mut Fixture| {
        fixture.edit(11, 0, 2);
    };
    assert_eq!(pass(&mut fixture, &same), (0, 0), "the same object is passed");
    let acts = |fixture: &mut Fixture| {
        fixture.edit(10, 1, 2);
    };
    assert_eq!(pass(&mut fixture, &acts), (pods, pods), "the binding is another one");
}

#[test]
fn an_object_that_cannot_be_read_is_named_until_it_can_be() {
    let fixture = Fixture::new();
    let mut incremental = Incremental::new(OPTIONS);
    let node =
        fixture::value("{apiVersion: v1, kind: Node, metadata: {name: p, resourceVersion: '1'}}");
    let nodes = kind(&node);
    let read = || Item::new(node.clone());
    let unread = || Item::unread(&nodes, &"".into(), &"p".into(), "it is too deep");
    for (item, is_read) in [(unread(), false), (unread(), false), (read(), true), (unread(), false)]
    {
        incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
        incremental.begin(&nodes);
        let mut batch = Some(vec![item]);
        incremental.run(&mut || batch.take(), &fixture.cluster, options(1));
        incremental.end(&nodes);
        let report = incremental.report(NAME, LIMIT, &Deaf).expect("policies");
        let errors = report.errors.iter().map(|error| {
            let ObjectRef { kind, namespace, name, .. } = &*error.subject;
            format!("{} {namespace}/{name}: {}", kind.kind, error.message)
        });
        let expected = "Node /p: cannot be read: it is too deep".to_owned();
        let expected = if is_read { vec![] } else { vec![expected] };
        assert_eq!(errors.collect::<Vec<_>>(), expected);
        assert_eq!(report.counts.objects, 1);
        // The next audit asks for it again.
        incremental.adopt(&fixture.snapshot, &fixture.inventory, &fixture.cluster);
        assert_eq!(incremental.stale().len(), usize::from(!is_read));
    }
    let policies = Policies::new(fixture.snapshot.clone(), fixture.inventory.clone(), OPTIONS);
    let mut batch = Some(vec![unread()]);
    let report = audit(NAME, &policies, &mut || batch.take(), &fixture.cluster, &Deaf, options(1));
    assert_eq!(report.expect("not stopped").counts.errors, 1);
    incremental.begin(&nodes);
    incremental.end(&nodes);
    let report = incremental.report(NAME, LIMIT, &Deaf).expect("policies");
    assert_eq!((report.counts.objects, report.errors.len()), (0, 0), "it is gone");
}
