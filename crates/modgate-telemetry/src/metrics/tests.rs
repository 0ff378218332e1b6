//! Holds the metrics to the specification, and to their own description.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use modgate_engine::{
    Change, Evaluation, NoopObserver, OnError, PolicySource, Review, Stages,
    api::meta::Operation,
    constraint::{Arena, Inventory},
};
use modgate_value::Value;

use super::*;
use modgate_policies::Objects;

/// Metrics in which every method was called once.
fn touched() -> Metrics {
    let metrics = Metrics::new();
    let took = Duration::from_millis(2);
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    drop(metrics.start(Webhook::Dragnet));
    metrics.answered(Webhook::Dragnet, 200, took);
    metrics.answered(Webhook::Dragnet, 500, took);
    metrics.evaluated(Webhook::Dragnet, took);
    metrics.undecided(Webhook::Dragnet, UndecidedCause::NoSlot);
    metrics.decided(
        Webhook::Dragnet,
        &Decision {
            failures: vec![modgate_engine::RuleFailure {
                kind: modgate_engine::FailureKind::Budget,
                rule: "a".to_owned(),
                message: String::new(),
            }],
            ..Decision::unchanged(Value::Null)
        },
    );
    metrics.reloaded(&[("ModRule".to_owned(), 1)], 0);
    metrics.warned(&[
        Diagnostic::warning("counted").code("never-matches"),
        Diagnostic::warning("without a code"),
        Diagnostic::error("no warning").code("unknown-kind"),
    ]);
    for status in [AdmissionStatus::Allow, AdmissionStatus::Deny, AdmissionStatus::Error] {
        metrics.validated(status, false, took);
        metrics.validated(status, true, took);
    }
    metrics.not_validated(took);
    for status in [MutationStatus::Success, MutationStatus::Skip, MutationStatus::Error] {
        metrics.mutated(status, Some(1), took);
    }
    for loaded in [true, false] {
        for group in ["templates", "mutations", "constraints"] {
            let policy = PolicyId {
                group: format!("{group}.gatekeeper.sh").into(),
                kind: "Kind".into(),
                namespace: "".into(),
                name: "name".into(),
            };
            metrics.compiled(&[Compiled { policy, loaded, time: took }]);
        }
    }
    metrics.gatekeeper_loaded(&asked(), &BTreeSet::new());
    metrics.audit().started(now);
    metrics.audit().finished(now, took, [("deny", 2), ("what", 3)]);
    metrics.audit().by_namespace([("shop", 2), ("", 3)]);
    metrics.found(&denied("r"));
    metrics.shadow().differs("allow-to-deny", "/v1/admit");
    metrics.shadow().candidates(1, 0);
    metrics.report_certificate(|| Some(1_800_000_000));
    metrics.report_leader(|| true);
    metrics.sync().objects("Pod", 3, 1);
    metrics.sync().ran(now, took);
    metrics.watches().watched(2);
    metrics.watches().intended(3);
    metrics.admission_policies().policies(1, 2);
    metrics.admission_policies().bindings(3, 4);
    metrics.export().queued();
    metrics.export().published(1);
    metrics.export().failed(1);
    metrics.export().dropped(DropReason::QueueFull, 1);
    metrics.export().waiting(1, 100);
    metrics.export().unpublished(1);
    metrics.events().became(EventResult::Merged, 2);
    metrics.controllers().reconciled("modrule", Reconciled::Error, took);
    metrics.controllers().requested("10.0.0.1:443", "GET", Some(200));
    metrics.controllers().requested("10.0.0.1:443", "GET", None);
    metrics
}

/// The decision of a rule that rejects.
fn denied(rule: &str) -> Decision {
    let rejection = modgate_engine::Rejection {
        rule: format!("default/{rule}").into(),
        message: None,
        guidance: Default::default(),
    };
    Decision {
        allowed: false,
        rejections: vec![rejection.clone(), rejection],
        ..Decision::unchanged(Value::Null)
    }
}

/// A snapshot of one rule that was evaluated once.
fn asked() -> Snapshot {
    let rule = r#"{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"type": "Reject", "match": [{"select": "$.kind", "matchValue": "Pod"}]}}"#;
    let value = |text: &str| Value::from_json(text.as_bytes()).expect(text);
    let rule = PolicySource::of_object(value(rule));
    let update = Snapshot::default().apply(vec![Change::Upsert(rule)], OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    let pod = value(r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}"#);
    let review = Review::of_object(pod, Operation::Create, "default");
    let (objects, inventory, mut arena) = (Objects::default(), Inventory::default(), Arena::new());
    let mut evaluation = Evaluation::new(&objects, &inventory, &mut arena);
    let stages = Stages::REJECTIONS;
    update.snapshot.decide(&review, stages, &mut evaluation, &mut NoopObserver);
    update.snapshot
}

/// A version in force whose newest version does not load is an error, not a second policy.
#[test]
fn each_policy_is_counted_once() {
    let value = |text: &str| Value::from_json(text.as_bytes()).expect(text);
    let sources = [
        r#"{"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
            "metadata": {"name": "rule"}, "spec": {"crd": {"spec": {"names": {"kind": "Rule"}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh",
                "rego": "package rule\nviolation[{\"msg\": \"m\"}] { true }"}]}}"#,
        r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Rule",
            "metadata": {"name": "c"}, "spec": {"enforcementAction": "warn"}}"#,
        r#"{"apiVersion": "mutations.gatekeeper.sh/v1", "kind": "AssignMetadata",
            "metadata": {"name": "m"}, "spec": {"location": "metadata.labels.a",
            "parameters": {"assign": {"value": "b"}}}}"#,
    ]
    .map(|text| PolicySource::of_object(value(text)));
    let ids: BTreeSet<PolicyId> = sources.iter().map(PolicySource::id).collect();
    let changes = sources.into_iter().map(Change::Upsert).collect();
    let update = Snapshot::default().apply(changes, OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    for (broken, active, error) in [(BTreeSet::new(), 1, 0), (ids, 0, 1)] {
        let metrics = Metrics::new();
        metrics.gatekeeper_loaded(&update.snapshot, &broken);
        let text = metrics.encode();
        let unrecognized = r#"enforcement_action="unrecognized",status="error""#;
        for line in [
            format!("gatekeeper_constraint_templates{{status=\"active\"}} {active}"),
            format!("gatekeeper_constraint_templates{{status=\"error\"}} {error}"),
            format!("gatekeeper_mutators{{status=\"active\"}} {active}"),
            format!("gatekeeper_mutators{{status=\"error\"}} {error}"),
            format!(
                r#"gatekeeper_constraints{{enforcement_action="warn",status="active"}} {active}"#
            ),
            format!("gatekeeper_constraints{{{unrecognized}}} {error}"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}

#[test]
fn what_a_policy_cost_is_shown_by_its_name() {
    let metrics = Metrics::new();
    metrics.gatekeeper_loaded(&asked(), &BTreeSet::new());
    let text = metrics.encode();
    let labels = r#"{kind="ModRule",name="default/r"}"#;
    let evaluations = format!("modgate_policy_evaluations_total{labels} 1");
    assert!(text.lines().any(|line| line == evaluations), "{text}");
    for name in ["evaluation_seconds", "evaluation_steps"] {
        let series = format!("modgate_policy_{name}_total{labels} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&series)).expect(name);
        assert!(found.parse::<f64>().expect(found) > 0.0, "{name} {found}");
    }
    assert!(text.contains("modgate_policies_unlisted 0"), "{text}");
}

/// The names and values of the labels of each series, and its bounds, by metric.
#[derive(Debug, Default)]
struct Exposed {
    labels: BTreeMap<String, BTreeSet<String>>,
    bounds: BTreeSet<String>,
}

fn exposed(text: &str) -> BTreeMap<String, Exposed> {
    let mut all: BTreeMap<String, Exposed> = BTreeMap::new();
    let mut histograms = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            if kind == "histogram" {
                histograms.insert(name.to_owned());
            }
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, _) = line.rsplit_once(' ').expect(line);
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|base| histograms.contains(*base)));
        let entry = all.entry(base.unwrap_or(name).to_owned()).or_default();
        let pairs = labels.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty());
        for (label, value) in pairs.map(|pair| pair.split_once('=').expect(line)) {
            let value = value.trim_matches('"').to_owned();
            if label == "le" {
                entry.bounds.insert(value);
            } else {
                entry.labels.entry(label.to_owned()).or_default().insert(value);
            }
        }
    }
    all
}

#[test]
fn every_metric_is_described_as_it_is() {
    let metrics = touched();
    let exposed = exposed(&metrics.encode());
    let described: BTreeMap<&str, &Descriptor> =
        metrics.descriptors().iter().map(|each| (each.name, *each)).collect();
    assert_eq!(described.len(), metrics.descriptors().len(), "a metric is described twice");
    let names: Vec<&str> = exposed.keys().map(String::as_str).collect();
    let all: Vec<&str> = described.keys().copied().collect();
    assert_eq!(names, all, "what is exposed, and what is described");
    for (name, found) in &exposed {
        let descriptor = described[name.as_str()];
        let labels: BTreeSet<&str> = descriptor.labels.iter().map(|label| label.name).collect();
        let found: BTreeSet<&str> = found.labels.keys().map(String::as_str).collect();
        assert_eq!(found, labels, "labels of {name}");
        assert!(!descriptor.help.is_empty() && !descriptor.help.ends_with('.'), "{name}");
        assert!(metrics.documentation().contains(&format!("| `{name}` |")), "{name}");
    }
}

/// The type of each family, by the name that its `# TYPE` line has.
fn families(text: &str) -> BTreeMap<&str, &str> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').expect(line)).collect()
}

#[test]
fn both_formats_say_the_same() {
    let metrics = touched();
    // What the process has used is read again for each.
    let stable = |line: &&str| !line.starts_with("process_");
    let open = metrics.encode_as(Format::OpenMetrics);
    let text = metrics.encode_as(Format::Text);
    assert!(open.ends_with("\n# EOF\n") && !text.contains("# EOF"), "{text}");
    let series = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(stable).filter(|line| !line.starts_with('#'));
        // A whole bound is spelled as each format has it.
        lines.map(|line| line.replacen(".0\"", "\"", 1)).collect()
    };
    assert_eq!(series(&text), series(&open));
    for (text, is_open) in [(&open, true), (&text, false)] {
        let families = families(text);
        assert_eq!(families.len(), metrics.descriptors().len());
        for descriptor in metrics.descriptors() {
            let is_info = descriptor.name.ends_with("_info");
            let (name, kind) = match (is_open, is_info) {
                (true, true) => (descriptor.name.trim_end_matches("_info"), "info"),
                (true, false) => (descriptor.family(), descriptor.kind.as_str()),
                (false, _) => (descriptor.name, descriptor.kind.as_str()),
            };
            assert_eq!(families.get(name), Some(&kind), "{name}");
            assert!(text.contains(&format!("# HELP {name} {}", descriptor.help)), "{name}");
        }
    }
}

/// Spec `gatekeeper-validation`, 9.7, and `gatekeeper-mutation…`, 4.3 and 4.4: name, type, labels,
/// and the bounds of histograms.
const GATEKEEPERS: &str = "\
gatekeeper_validation_request_count_total C admission_status=allow,deny,error,unknown admission_dryrun=false,true
gatekeeper_validation_request_duration_seconds H admission_status=allow,deny,error,unknown \
le=0.001..0.009/0.001,0.01..0.09/0.01,0.1..0.9/0.1,1..10/0.5
gatekeeper_constraints G enforcement_action=deny,dryrun,warn,scoped,unrecognized status=active,error
gatekeeper_constraint_templates G status=active,error
gatekeeper_constraint_templates_with_cel G
gatekeeper_constraint_template_ingestion_count_total C status=active,error
gatekeeper_constraint_template_ingestion_duration_seconds H status=active,error \
le=0.01..0.09/0.01,0.1..0.5/0.1,1..5/1
gatekeeper_validating_admission_policies G status=active,error
gatekeeper_validating_admission_policy_bindings G status=active,error
gatekeeper_violations G enforcement_action=deny,dryrun,warn,scoped,unrecognized
gatekeeper_audit_duration_seconds H le=60,180,300,600,900,1200,2400,4800,9600,19200
gatekeeper_audit_last_run_time G
gatekeeper_audit_last_run_end_time G
gatekeeper_sync G kind=* status=active,error
gatekeeper_sync_duration_seconds H le=0.0001..0.001/0.0001,0.002..0.005/0.001,0.01..0.05/0.01
gatekeeper_sync_last_run_time_seconds G
gatekeeper_watch_manager_watched_gvk G
gatekeeper_watch_manager_intended_watch_gvk G
gatekeeper_expansion_templates G status=active,error
gatekeeper_providers G status=active,error
gatekeeper_provider_error_count_total C
gatekeeper_mutation_request_count_total C mutation_status=success,skip,error
gatekeeper_mutation_request_duration_seconds H mutation_status=success,skip,error le=*
gatekeeper_mutator_ingestion_count_total C status=active,error
gatekeeper_mutator_ingestion_duration_seconds H status=active,error le=*
gatekeeper_mutators G status=active,error
gatekeeper_mutator_conflicting_count G
gatekeeper_mutation_system_iterations H success=true,false le=1..10/1,20,50,100,200,500
gatekeeper_admission_export_queued_count_total C
gatekeeper_admission_export_queue_full_count_total C
gatekeeper_admission_export_published_count_total C
gatekeeper_admission_export_publish_error_count_total C
gatekeeper_admission_export_dropped_count_total C \
reason=marshal_error,message_too_large,queue_bytes_full,queue_full,shutdown
gatekeeper_admission_export_queue_depth G
gatekeeper_admission_export_queue_bytes G
target_info G service_name=* service_version=*";

#[test]
fn gatekeepers_metrics_are_those_of_the_specification() {
    let metrics = touched();
    let exposed = exposed(&metrics.encode());
    let text = metrics.encode_as(Format::Text);
    let families = families(&text);
    let mut names = BTreeSet::new();
    for line in GATEKEEPERS.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().expect(line);
        names.insert(name);
        let kind = match words.next() {
            Some("C") => MetricType::Counter,
            Some("G") => MetricType::Gauge,
            Some("H") => MetricType::Histogram,
            other => panic!("{other:?}"),
        };
        let descriptor = metrics.descriptors().iter().find(|each| each.name == name);
        assert_eq!(descriptor.map(|each| each.kind), Some(kind), "{name}");
        assert_eq!(families.get(name), Some(&kind.as_str()), "{name}");
        let found = &exposed[name];
        let mut labels = BTreeSet::new();
        for (label, values) in words.filter_map(|word| word.split_once('=')) {
            let found = if label == "le" {
                &found.bounds
            } else {
                labels.insert(label);
                &found.labels[label]
            };
            let expected = match (label, values) {
                (_, "*") => continue,
                ("le", ranges) => bounds(ranges),
                (_, values) => list(values),
            };
            assert_eq!(*found, expected, "{name} {label}");
        }
        let found: BTreeSet<&str> = found.labels.keys().map(String::as_str).collect();
        assert_eq!(found, labels, "{name}");
    }
    let of_gatekeeper =
        metrics.descriptors().iter().filter(|each| each.origin == Origin::Gatekeeper);
    assert_eq!(of_gatekeeper.map(|each| each.name).collect::<BTreeSet<_>>(), names);
}

fn list(values: &str) -> BTreeSet<String> {
    values.split(',').map(str::to_owned).collect()
}

/// `0.1..0.3/0.1,1` is 0.1, 0.2, 0.3, 1.0 and infinity, as the text format writes them.
fn bounds(ranges: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from(["+Inf".to_owned()]);
    for range in ranges.split(',') {
        let number = |text: &str| text.parse::<f64>().expect(range);
        let (from, to, step) = match range.split_once("..") {
            Some((from, rest)) => {
                let (to, step) = rest.split_once('/').expect(range);
                (number(from), number(to), number(step))
            }
            None => (number(range), number(range), 1.0),
        };
        let count = ((to - from) / step).round() as u32;
        all.extend((0..=count).map(|index| {
            let digits = 6;
            let scale = 10_f64.powi(digits);
            let bound = ((from + f64::from(index) * step) * scale).round() / scale;
            format!("{bound:?}")
        }));
    }
    all
}

#[test]
fn kubemods_names_and_labels() {
    let metrics = Metrics::new();
    let guard = metrics.start(Webhook::Dragnet);
    metrics.answered(Webhook::Dragnet, 200, Duration::from_millis(2));
    metrics.answered(Webhook::Dragnet, 500, Duration::from_millis(2));
    metrics.controllers().reconciled("modrule", Reconciled::Success, Duration::from_millis(2));
    let text = metrics.encode();
    drop(guard);
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="200"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="500"} 1"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/dragnet-webhook"} 2"#,
        r#"controller_runtime_webhook_latency_seconds_bucket{le="0.005",webhook="/dragnet-webhook"} 2"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} 1"#,
        r#"controller_runtime_reconcile_total{controller="modrule",result="success"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="modrule"} 0"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="modrule"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(metrics.encode().contains(
        r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} 0"#
    ));
}

#[test]
fn what_audits_report() {
    let metrics = Metrics::new();
    assert!(!metrics.encode().contains("gatekeeper_violations{"), "before the first audit");
    assert!(!metrics.encode().contains("\ngatekeeper_audit_last_run_time "));
    let at = |seconds: u64| UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 500);
    metrics.audit().started(at(1_700_000_000));
    let found = [("deny", 2), ("dryrun", 0), ("deny", 1), ("what", 3)];
    metrics.audit().finished(at(1_700_000_100), Duration::from_secs(100), found);
    let text = metrics.encode();
    for line in [
        "gatekeeper_audit_last_run_time 1700000000.5",
        "gatekeeper_audit_last_run_end_time 1700000100.5",
        r#"gatekeeper_audit_duration_seconds_bucket{le="60.0"} 0"#,
        r#"gatekeeper_audit_duration_seconds_bucket{le="180.0"} 1"#,
        r#"gatekeeper_violations{enforcement_action="deny"} 3"#,
        r#"gatekeeper_violations{enforcement_action="warn"} 0"#,
        r#"gatekeeper_violations{enforcement_action="unrecognized"} 3"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Violations that were fixed are gone.
    metrics.audit().finished(SystemTime::now(), Duration::from_secs(1), []);
    assert!(metrics.encode().contains(r#"gatekeeper_violations{enforcement_action="deny"} 0"#));
    // Another process audits.
    metrics.audit().forget();
    let text = metrics.encode();
    for gone in ["gatekeeper_violations{", "gatekeeper_audit_last_run_time ", "_last_run_end_time "]
    {
        assert!(!text.lines().any(|line| !line.starts_with('#') && line.contains(gone)), "{text}");
    }
    assert!(text.contains("gatekeeper_audit_duration_seconds_count 2"), "{text}");
    metrics.audit().started(at(1_700_000_200));
    assert!(metrics.encode().contains("gatekeeper_audit_last_run_time 1700000200.5"));
}

#[test]
fn kinds_that_are_not_synced_any_more_are_gone() {
    let metrics = Metrics::new();
    metrics.sync().objects("Pod", 3, 0);
    assert!(metrics.encode().contains(r#"gatekeeper_sync{kind="Pod",status="active"} 3"#));
    metrics.sync().forget("Pod");
    assert!(!metrics.encode().contains("gatekeeper_sync{"));
}

#[test]
fn what_export_drops_for_want_of_room_is_counted_as_such() {
    let metrics = Metrics::new();
    metrics.export().dropped(DropReason::QueueFull, 2);
    metrics.export().dropped(DropReason::QueueBytesFull, 3);
    metrics.export().dropped(DropReason::Shutdown, 4);
    let text = metrics.encode();
    for line in [
        "gatekeeper_admission_export_queue_full_count_total 5",
        r#"gatekeeper_admission_export_dropped_count_total{reason="queue_full"} 2"#,
        r#"gatekeeper_admission_export_dropped_count_total{reason="shutdown"} 4"#,
        r#"gatekeeper_admission_export_dropped_count_total{reason="marshal_error"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// A request counts once for a policy, policies beyond the bound share a series, and a policy that is gone
/// has none.
#[test]
fn decisions_by_policy() {
    let metrics = Metrics::new();
    assert!(!metrics.encode().contains("modgate_policy_decisions_total{"));
    metrics.found(&Decision { allowed: true, ..denied("r") });
    for number in 0..2 * cost::SHOWN {
        metrics.found(&denied(&format!("r{number}")));
    }
    metrics.found(&denied("r0"));
    let text = metrics.encode();
    for line in [
        r#"modgate_policy_decisions_total{kind="ModRule",name="default/r",result="warned"} 1"#
            .to_owned(),
        r#"modgate_policy_decisions_total{kind="ModRule",name="default/r0",result="denied"} 2"#
            .to_owned(),
        format!(
            r#"modgate_policy_decisions_total{{kind="ModRule",name="(others)",result="denied"}} {}"#,
            cost::SHOWN + 1
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    metrics.gatekeeper_loaded(&asked(), &BTreeSet::new());
    let text = metrics.encode();
    let series = text.lines().filter(|line| line.starts_with("modgate_policy_decisions_total{"));
    assert_eq!(series.count(), 2, "the loaded rule and the others");
}

#[test]
fn violations_of_most_namespaces_are_one_series() {
    let metrics = Metrics::new();
    let names: Vec<_> = (0..250).map(|number| format!("n{number:03}")).collect();
    let counts = names.iter().map(|name| (name.as_str(), 1)).chain([("", 7), ("shop", 2)]);
    metrics.audit().by_namespace(counts);
    let text = metrics.encode();
    let series = || text.lines().filter(|line| line.starts_with("modgate_violations{"));
    assert_eq!(series().count(), 201);
    for line in [
        r#"modgate_violations{object_namespace="(cluster-scoped)"} 7"#,
        r#"modgate_violations{object_namespace="shop"} 2"#,
        r#"modgate_violations{object_namespace="n197"} 1"#,
        r#"modgate_violations{object_namespace="(others)"} 52"#,
    ] {
        assert!(series().any(|found| found == line), "{line}\n{text}");
    }
    metrics.audit().by_namespace([("shop", 1)]);
    assert!(!metrics.encode().contains("n197"), "namespaces without violations are gone");
    metrics.audit().forget();
    assert!(!metrics.encode().contains("modgate_violations{"));
}
