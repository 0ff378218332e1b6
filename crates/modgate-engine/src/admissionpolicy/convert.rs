//! Objects in another version or group of the same resource, as the API server converts them for policies on
//! `matchPolicy: Equivalent`.
//!
//! Of Kubernetes' own kinds, Events are in two groups and HorizontalPodAutoscalers in two versions. Custom
//! resources without a conversion webhook change their `apiVersion` only.

use modgate_api::meta::split_api_version;
use modgate_value::{Object, Str, Value};

/// The groups that have the same resource.
static GROUPS: [(&str, [&str; 2]); 1] = [("events", ["", "events.k8s.io"])];

/// Members of Events in the core group and in `events.k8s.io`.
const EVENTS: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// An object in this group and version.
pub(super) fn converted(object: &Value, group: &str, version: &str) -> Value {
    let Some(mut members) = object.as_object().cloned() else { return object.clone() };
    let text = |member| object.get(member).and_then(Value::as_str).unwrap_or_default();
    let Some(from) = object.get("apiVersion").and_then(Value::as_str) else {
        return object.clone();
    };
    let to = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    if from == to {
        return object.clone();
    }
    match (text("kind"), split_api_version(from).0, group) {
        ("Event", "", "events.k8s.io") => renamed(&mut members, &EVENTS),
        ("Event", "events.k8s.io", "") => renamed(&mut members, &EVENTS.map(|(a, b)| (b, a))),
        ("HorizontalPodAutoscaler", "autoscaling", "autoscaling") => match (from, to.as_str()) {
            ("autoscaling/v1", "autoscaling/v2") => to_metrics(&mut members),
            ("autoscaling/v2", "autoscaling/v1") => from_metrics(&mut members),
            _ => {}
        },
        _ => {}
    }
    members.insert("apiVersion", to.into());
    members.into()
}

fn renamed(members: &mut Object, names: &[(&str, &str)]) {
    for (from, to) in names {
        if let Some(value) = members.remove(from) {
            members.insert(*to, value);
        }
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

/// The one metric of version 1.
fn to_metrics(members: &mut Object) {
    let Some(Value::Object(spec)) = members.get_mut("spec") else { return };
    let Some(share) = spec.remove("targetCPUUtilizationPercentage").filter(|it| !it.is_null())
    else {
        return;
    };
    let target = object([("type", "Utilization".into()), ("averageUtilization", share)]);
    let resource = object([("name", "cpu".into()), ("target", target)]);
    let metric = object([("type", "Resource".into()), ("resource", resource)]);
    spec.insert("metrics", vec![metric].into());
}

/// Other metrics are in an annotation of version 1, which is not made here.
fn from_metrics(members: &mut Object) {
    let Some(Value::Object(spec)) = members.get_mut("spec") else { return };
    let metrics = spec.remove("metrics");
    let share = metrics.as_ref().and_then(Value::as_array).and_then(|metrics| {
        let cpu = |it: &&Value| {
            let name = it.path(&["resource", "name"]).and_then(Value::as_str);
            it.get("type").and_then(Value::as_str) == Some("Resource") && name == Some("cpu")
        };
        let target = metrics.iter().find(cpu)?.path(&["resource", "target"])?;
        target.get("averageUtilization").cloned()
    });
    if let Some(share) = share {
        spec.insert("targetCPUUtilizationPercentage", share);
    }
    spec.remove("behavior");
}

/// The groups beside this one that have the same resource.
pub(super) fn other_groups(group: &str, resource: &str) -> impl Iterator<Item = Str> {
    let shared = GROUPS.iter().find(|(name, groups)| *name == resource && groups.contains(&group));
    let others = shared.into_iter().flat_map(|(_, groups)| groups.iter());
    let own = Str::from(group);
    others.filter(move |other| own != **other).map(|other| Str::from(*other))
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn objects_go_both_ways() {
        for (from, group, version, to) in [
            (
                "{apiVersion: v1, kind: Event, message: a, involvedObject: {name: p}, reason: r}",
                "events.k8s.io",
                "v1",
                "{apiVersion: events.k8s.io/v1, kind: Event, note: a, regarding: {name: p}, reason: r}",
            ),
            (
                "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3, \
                 targetCPUUtilizationPercentage: 50}}",
                "autoscaling",
                "v2",
                "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3, \
                 metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, \
                 averageUtilization: 50}}}]}}",
            ),
            (
                "{apiVersion: example.com/v1, kind: Limit, spec: {a: 1}}",
                "example.com",
                "v2",
                "{apiVersion: example.com/v2, kind: Limit, spec: {a: 1}}",
            ),
        ] {
            let (from, to) = (yaml::value(from).expect(from), yaml::value(to).expect(to));
            assert_eq!(converted(&from, group, version), to);
            let back = from.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let (group, version) = split_api_version(back);
            assert_eq!(converted(&to, group, version), from);
        }
        let others: Vec<_> = other_groups("", "events").collect();
        assert_eq!(others, ["events.k8s.io"]);
        assert_eq!(other_groups("apps", "events").count(), 0);
        assert_eq!(other_groups("", "pods").count(), 0);
    }
}
