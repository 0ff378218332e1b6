//! From the text that is scraped to OTLP's metrics.

use std::{collections::BTreeMap, time::SystemTime};

use modgate_value::{Number, Value};

use crate::{
    metrics::{Descriptor, MetricType, Origin},
    otlp_json::{attribute, integer, nanoseconds, object, text},
};

/// One series: its labels, and what it is worth.
type Series<'t> = (Vec<(&'t str, &'t str)>, f64);

/// The metrics of a scrape. Gatekeeper's have the names that it sends itself, without the prefix
/// that its Prometheus exporter adds.
pub(super) fn of_text(
    scraped: &str,
    descriptors: &[&Descriptor],
    started: SystemTime,
    now: SystemTime,
) -> Value {
    let mut series: BTreeMap<&str, Vec<Series<'_>>> = BTreeMap::new();
    for line in scraped.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, found)) = read(line) {
            series.entry(name).or_default().push(found);
        }
    }
    let times = [("startTimeUnixNano", nanoseconds(started)), ("timeUnixNano", nanoseconds(now))];
    let metrics = descriptors.iter().filter_map(|descriptor| {
        let data = match descriptor.kind {
            MetricType::Histogram => histogram(descriptor, &series, &times)?,
            MetricType::Counter | MetricType::Gauge => numbers(descriptor, &series, &times)?,
        };
        let name = match descriptor.origin {
            Origin::Gatekeeper => {
                descriptor.family().strip_prefix("gatekeeper_").unwrap_or(descriptor.family())
            }
            _ => descriptor.family(),
        };
        let kind = match descriptor.kind {
            MetricType::Histogram => "histogram",
            MetricType::Counter => "sum",
            MetricType::Gauge => "gauge",
        };
        Some(object([("name", name.into()), ("description", descriptor.help.into()), (kind, data)]))
    });
    metrics.collect()
}

/// `name{label="value",…} 1.5`
fn read(line: &str) -> Option<(&str, Series<'_>)> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some((series, (Vec::new(), value)));
    };
    let mut rest = labels.strip_suffix('}')?;
    let mut found = Vec::new();
    while let Some((label, tail)) = rest.split_once("=\"") {
        let end = end_of_text(tail)?;
        found.push((label, tail.get(..end)?));
        rest = tail.get(end + 1..)?.trim_start_matches(',');
    }
    Some((name, (found, value)))
}

/// Where the closing quote is.
fn end_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn numbers(
    descriptor: &Descriptor,
    series: &BTreeMap<&str, Vec<Series<'_>>>,
    times: &[(&str, Value); 2],
) -> Option<Value> {
    let points = series.get(descriptor.name)?.iter().map(|(labels, value)| {
        let mut members = vec![("attributes", attributes(labels)), ("asDouble", float(*value))];
        members.extend(times.iter().map(|(key, time)| (*key, time.clone())));
        members.into_iter().collect::<Value>()
    });
    let points: Value = points.collect();
    Some(if descriptor.kind == MetricType::Counter {
        object([
            // Cumulative.
            ("aggregationTemporality", 2.into()),
            ("isMonotonic", true.into()),
            ("dataPoints", points),
        ])
    } else {
        object([("dataPoints", points)])
    })
}

fn histogram(
    descriptor: &Descriptor,
    series: &BTreeMap<&str, Vec<Series<'_>>>,
    times: &[(&str, Value); 2],
) -> Option<Value> {
    let of = |suffix: &str| series.get(format!("{}_{suffix}", descriptor.name).as_str());
    let buckets = of("bucket")?;
    let points = of("count")?.iter().map(|(labels, count)| {
        let sum = of("sum").into_iter().flatten().find(|(of, _)| of == labels);
        let (mut bounds, mut counts, mut below) = (Vec::new(), Vec::new(), 0.0);
        let mine = buckets.iter().filter(|(of, _)| {
            let others = of.iter().filter(|(label, _)| *label != "le");
            others.eq(labels.iter())
        });
        for (of, cumulative) in mine {
            let bound = of.iter().find(|(label, _)| *label == "le").map(|(_, bound)| *bound);
            if let Some(bound) = bound.and_then(|bound| bound.parse::<f64>().ok())
                && bound.is_finite()
            {
                bounds.push(float(bound));
            }
            // In the text each bucket counts those below it, too.
            counts.push(integer((cumulative - below) as u64));
            below = *cumulative;
        }
        let mut members = vec![
            ("attributes", attributes(labels)),
            ("count", integer(*count as u64)),
            ("sum", float(sum.map(|(_, sum)| *sum).unwrap_or_default())),
            ("explicitBounds", bounds.into_iter().collect()),
            ("bucketCounts", counts.into_iter().collect()),
        ];
        members.extend(times.iter().map(|(key, time)| (*key, time.clone())));
        members.into_iter().collect::<Value>()
    });
    let points: Value = points.collect();
    Some(object([("aggregationTemporality", 2.into()), ("dataPoints", points)]))
}

fn attributes(labels: &[(&str, &str)]) -> Value {
    let unescaped =
        |value: &str| value.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
    labels.iter().map(|(label, value)| attribute(label, text(&unescaped(value)))).collect()
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::metrics::{Metrics, Reconciled};

    #[test]
    fn lines_of_the_text() {
        for (line, name, labels, value) in [
            ("a 1", "a", vec![], 1.0),
            ("a{} 2.5", "a", vec![], 2.5),
            (r#"a{b="c",d="e f"} 3"#, "a", vec![("b", "c"), ("d", "e f")], 3.0),
            (r#"a{b="x\"}y",c=""} 4"#, "a", vec![("b", r#"x\"}y"#), ("c", "")], 4.0),
        ] {
            assert_eq!(read(line), Some((name, (labels, value))), "{line}");
        }
        assert_eq!(read("nonsense"), None);
    }

    #[test]
    fn every_metric_that_is_scraped_is_sent() {
        let metrics = Metrics::new();
        metrics.controllers().reconciled("modrule", Reconciled::Success, Duration::from_millis(7));
        metrics.controllers().reconciled("modrule", Reconciled::Success, Duration::from_secs(60));
        let now = UNIX_EPOCH + Duration::from_secs(5);
        let text = metrics.encode();
        let sent = of_text(&text, metrics.descriptors(), UNIX_EPOCH, now);
        let list = sent.as_array().expect("a list");
        let named = |name: &str| {
            let is_it = |metric: &&Value| metric.get("name").and_then(Value::as_str) == Some(name);
            list.iter().find(is_it).unwrap_or_else(|| panic!("{name}\n{}", sent.to_json()))
        };
        let first = |metric: &Value, kind: &str| {
            let points = metric.path(&[kind, "dataPoints"]).and_then(Value::as_array).cloned();
            points.and_then(|points| points.first().cloned()).expect("a data point")
        };
        let published = named("admission_export_published_count");
        assert_eq!(published.path(&["sum", "isMonotonic"]), Some(&Value::from(true)));
        assert_eq!(first(published, "sum").get("asDouble").map(Value::to_json), Some("0".into()));
        let time = named("controller_runtime_reconcile_time_seconds");
        let point = first(time, "histogram");
        assert_eq!(point.get("count").and_then(Value::as_str), Some("2"));
        let counts = point.get("bucketCounts").map(Value::to_json).expect("counts");
        assert!(
            counts.starts_with(r#"["0","1","0","#) && counts.ends_with(r#""0","1"]"#),
            "{counts}"
        );
        assert_eq!(point.get("timeUnixNano").and_then(Value::as_str), Some("5000000000"));
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        // Families without series are not sent.
        assert!(list.len() > families / 2, "{} of {families}", list.len());
    }
}
