//! Locations of mutators and sources of expansion templates that no object has.

use modgate_value::{Value, near};

use super::{
    Lints, matching, types,
    values::{OPERATORS, SELECTORS, point_at},
};
use crate::constraint::METADATA;
use crate::mutation::location::{Location, Node};
use crate::{Code, PolicySource, Problem};

/// The kinds whose Pods stand at `spec.template`.
const WORKLOADS: [&str; 6] =
    ["DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// The lists of containers of a Pod.
const CONTAINERS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

/// Fields of a Pod's `spec`.
const POD: [&str; 42] = [
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
];

/// Fields of a container.
const CONTAINER: [&str; 26] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "targetContainerName",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Members of every object, as far as they can be mistaken for one another.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Checks `applyTo`, the location, and that there is something to set.
pub(super) fn lint(lints: &mut Lints<'_>) {
    matching::apply_to(lints);
    let Some(spec) = lints.object().get("spec") else { return };
    if lints.id.kind == "ModifySet" && spec.path(&["parameters", "values", "fromList"]).is_none() {
        let members = spec.path(&["parameters", "values"]).and_then(Value::as_object);
        let mut names = members.into_iter().flat_map(|members| members.keys());
        let (field, help) = match names.next() {
            Some(name) => (
                format!("spec.parameters.values.{name}"),
                near::did_you_mean_or(name, &["fromList"], "the values are in"),
            ),
            None => (
                "spec.parameters.values.fromList".to_owned(),
                "the values are in `spec.parameters.values.fromList`".to_owned(),
            ),
        };
        let message = "there are no values, so this changes nothing";
        lints.push_key(Code::NoEffect, &field, message.to_owned(), Some(help));
    }
    let text = spec.get("location").and_then(Value::as_str).unwrap_or_default();
    let Ok(location) = Location::parse(text) else { return };
    let steps: Vec<&str> = location
        .nodes()
        .iter()
        .map(|node| match node {
            Node::Field(name) => name.as_str(),
            Node::List { .. } => "",
        })
        .collect();
    let entries = spec.get("applyTo").and_then(Value::as_array);
    let kinds: Vec<&str> = entries
        .into_iter()
        .flat_map(|entries| entries.iter())
        .filter_map(|entry| entry.get("kinds")?.as_array())
        .flat_map(|kinds| kinds.iter().filter_map(Value::as_str))
        .collect();
    value_type(lints, spec, &kinds, location.nodes());
    let found = misspelt(&kinds, &steps);
    if let Some((name, meant)) = found.or_else(|| of_definitions(lints, spec, location.nodes())) {
        lints.push(
            Code::UnknownPath,
            "spec.location",
            format!("no kind that this applies to has the field `{name}`"),
            Some(format!("did you mean `{meant}`?")),
        );
    }
}

/// A value that does not have the type of the field that it is for.
fn value_type(lints: &mut Lints<'_>, spec: &Value, kinds: &[&str], nodes: &[Node]) {
    let of_kubernetes = |group: &&str| modgate_api::kinds::of_group(group).is_some();
    let groups = matching::entries(spec, "applyTo").into_iter();
    let mut groups = groups.flat_map(|entry| matching::texts(entry, "groups"));
    if !groups.all(|(_, group)| of_kubernetes(&group)) {
        return;
    }
    let mut steps: Vec<types::Step<'_>> = Vec::new();
    for node in nodes {
        match node {
            Node::Field(name) => steps.push(types::Step::Member(name)),
            // The location names the list, too.
            Node::List { .. } => steps.push(types::Step::Element),
        }
    }
    let values: Vec<(String, &Value)> = match lints.id.kind.as_str() {
        "Assign" => {
            let value = spec.path(&["parameters", "assign", "value"]);
            value
                .map(|value| ("spec.parameters.assign.value".to_owned(), value))
                .into_iter()
                .collect()
        }
        "ModifySet" => {
            steps.push(types::Step::Element);
            let list = spec.path(&["parameters", "values", "fromList"]).and_then(Value::as_array);
            let items = list.into_iter().flat_map(|list| list.iter()).enumerate();
            items
                .map(|(at, value)| (format!("spec.parameters.values.fromList[{at}]"), value))
                .collect()
        }
        _ => return,
    };
    for (field, value) in values {
        if let Some(expected) = types::mismatch(kinds, &steps, value) {
            let message =
                format!("the field is {expected}, and the value is {}", types::shown(value));
            lints.push(Code::ValueType, &field, message, None);
        }
    }
}

/// The first step that no kind of the definitions of custom resources has to which this applies, and the
/// field that is near; nothing if one of them has all steps.
fn of_definitions<'a, 'n: 'a>(
    lints: &Lints<'a>,
    spec: &Value,
    nodes: &'n [Node],
) -> Option<(&'n str, &'a str)> {
    let mut found = None;
    for entry in matching::entries(spec, "applyTo") {
        let of = |key: &str| matching::texts(entry, key).into_iter().map(|(_, text)| text);
        for group in of("groups") {
            for (version, kind) in
                of("versions").flat_map(|it| of("kinds").map(move |kind| (it, kind)))
            {
                let api_version = format!("{group}/{version}");
                found = Some(lints.definitions.misspelt(&api_version, kind, nodes)?);
            }
        }
    }
    found
}

/// As [`misspelt`], also for metadata: a field on the way to one that exists in no object.
pub(crate) fn misspelt_field<'s>(
    kinds: &[&str],
    steps: &[&'s str],
) -> Option<(&'s str, &'static str)> {
    if let ["metadata", name, ..] = steps {
        let meant = near::nearest(name, METADATA).filter(|_| !METADATA.contains(name));
        return Some((*name, meant?));
    }
    misspelt(kinds, steps)
}

/// The first step that the kinds do not have, and the one that is near.
fn misspelt<'s>(kinds: &[&str], steps: &[&'s str]) -> Option<(&'s str, &'static str)> {
    let near = |name: &'s str, known: &'static [&'static str]| {
        let unknown = !name.is_empty() && !known.contains(&name);
        let meant = near::nearest(name, known.iter().copied()).filter(|_| unknown)?;
        Some((name, meant))
    };
    let (first, rest) = steps.split_first()?;
    if let Some(found) = near(first, &OBJECT) {
        return Some(found);
    }
    let all = |known: &[&str]| !kinds.is_empty() && kinds.iter().all(|kind| known.contains(kind));
    let rest = match rest {
        _ if *first != "spec" => return None,
        rest if all(&["Pod"]) => rest,
        ["template", "spec", rest @ ..] if all(&WORKLOADS) => rest,
        _ => return None,
    };
    let (field, rest) = rest.split_first()?;
    if let Some(found) = near(field, &POD) {
        return Some(found);
    }
    // The list and its element are one step of a location: `containers[name: *]`.
    let in_container = CONTAINERS.contains(field);
    let below = rest.iter().find(|name| !name.is_empty()).filter(|_| in_container)?;
    near(below, &CONTAINER)
}

/// Checks `templateSource` of an expansion template: where the generated object stands.
pub(super) fn template_source(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    let text = spec.get("templateSource").and_then(Value::as_str).unwrap_or_default();
    let known = ["spec.template", "spec.jobTemplate"];
    if let Some(meant) = near::nearest(text, known).filter(|_| !known.contains(&text)) {
        lints.push(
            Code::UnknownPath,
            "spec.templateSource",
            format!("no kind that this expands has `{text}`"),
            Some(format!("did you mean `{meant}`?")),
        );
    }
}

/// The conditions of path tests.
const CONDITIONS: [&str; 2] = ["MustExist", "MustNotExist"];

/// The operations of `applyTo`.
const OPERATIONS: [&str; 3] = ["CREATE", "UPDATE", "*"];

/// Adds place and advice to the problem of a mutator that does not compile.
pub(crate) fn advise(problem: &mut Problem, source: &PolicySource) {
    problem.help = advice(&source.object, &problem.field);
    let (places, known, otherwise): (&[&str], &[&str], &str) = match problem.field.as_str() {
        "spec.parameters.pathTests" => {
            (&["spec.parameters.pathTests.*.condition"], &CONDITIONS, "the conditions are")
        }
        "spec.applyTo" => (&["spec.applyTo.*.operations.*"], &OPERATIONS, "the operations are"),
        "spec.match" => (&SELECTORS, &OPERATORS, "the operators are"),
        _ => return,
    };
    point_at(problem, source, places, known, otherwise);
}

/// Advice about a mutator that does not compile because of this field.
fn advice(object: &Value, field: &str) -> Option<String> {
    let at = |field: &str| object.pointer(&crate::policy::pointer(field));
    let text = |field: &str| at(field).and_then(Value::as_str).unwrap_or_default();
    match field {
        "spec.location" => location_advice(text(field), object),
        "spec.parameters.operation" => {
            Some(near::did_you_mean_or(text(field), &["merge", "prune"], "the values are"))
        }
        "spec.parameters.assign.fromMetadata.field" => {
            Some(near::did_you_mean_or(text(field), &["name", "namespace"], "the values are"))
        }
        "spec.parameters.assign.value" => Some("put the value in quotes".to_owned()),
        "spec.parameters" if at("spec.parameters.value").is_some() => {
            Some("the value is `spec.parameters.assign.value`".to_owned())
        }
        "spec.applyTo" if at(field).is_none() => {
            Some("write `applyTo: [{groups: [\"\"], versions: [v1], kinds: [Pod]}]`".to_owned())
        }
        _ => None,
    }
}

fn location_advice(text: &str, object: &Value) -> Option<String> {
    if let Some(rest) = text.strip_prefix("$.").or_else(|| text.strip_prefix('$')) {
        return Some(format!("a location has no `$`: did you mean `{rest}`?"));
    }
    if text.starts_with('/') {
        return Some(
            "a location has dots, not slashes: `spec.containers[name: *].image`".to_owned(),
        );
    }
    let index =
        |part: &str| part.starts_with(|first: char| first.is_ascii_digit() || "*]".contains(first));
    if text.split('[').skip(1).any(index) {
        let advice = "name the elements of a list by a field: `[name: x]`, or `[name: *]` for all";
        return Some(advice.to_owned());
    }
    if text.matches('[').count() > text.matches(']').count() {
        return Some("a `]` is missing".to_owned());
    }
    let mut steps = text.splitn(3, '.');
    let (first, map, name) = (steps.next()?, steps.next()?, steps.next());
    if first != "metadata" {
        let of_metadata = object.get("kind").and_then(Value::as_str) == Some("AssignMetadata");
        return of_metadata.then(|| {
            "the location is `metadata.labels.NAME` or `metadata.annotations.NAME`".to_owned()
        });
    }
    if object.get("kind").and_then(Value::as_str) != Some("AssignMetadata") {
        return Some("labels and annotations are set by an `AssignMetadata`".to_owned());
    }
    let maps = ["annotations", "labels"];
    if !maps.contains(&map) {
        return near::did_you_mean(map, maps);
    }
    let name = name.filter(|name| name.contains('.') || name.contains('/'))?;
    let name = name.trim_matches('"');
    Some(format!("names with dots need quotes: `metadata.{map}.\"{name}\"`"))
}
