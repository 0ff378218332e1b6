//! Compares figures with those of an earlier run.

use std::{fmt::Write as _, time::Duration};

use modgate_value::{Value, yaml};

use super::{
    measure::Figures,
    report::{bytes, short},
};
use crate::print::align;

/// Saved figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Baseline {
    results: Vec<Saved>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Saved {
    engine: String,
    latencies: [f64; 4],
    mean: f64,
    throughput: f64,
    bytes_per_review: Option<f64>,
}

/// The figures of one engine, now and before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    engine: String,
    metrics: Vec<Metric>,
}

#[derive(Debug, Clone, PartialEq)]
struct Metric {
    name: &'static str,
    unit: Unit,
    baseline: f64,
    current: f64,
    /// In percent.
    delta: f64,
    passed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanoseconds,
    PerSecond,
    Bytes,
}

impl Baseline {
    /// Reads a file that `--save` wrote.
    pub(super) fn read(text: &str, is_yaml: bool) -> Result<Self, String> {
        let failed = |reason: String| format!("unmarshaling baseline: {reason}");
        let value = if is_yaml {
            yaml::value(text).map_err(|error| failed(error.to_string()))?
        } else {
            Value::from_json(text.as_bytes()).map_err(|error| failed(error.to_string()))?
        };
        let results =
            value.as_array().ok_or_else(|| failed("expected a list of results".to_owned()))?;
        Ok(Self { results: results.iter().map(Saved::of).collect() })
    }
}

impl Saved {
    /// Missing members are zero, as in the original.
    fn of(value: &Value) -> Self {
        let number = |path: &[&str]| {
            value.path(path).and_then(Value::as_number).map(|number| number.as_f64())
        };
        let latency = |name| number(&["latencies", name]).unwrap_or_default();
        let engine = value.get("engine").and_then(Value::as_str).unwrap_or_default();
        Self {
            engine: engine.to_owned(),
            latencies: ["p50", "p95", "p99", "mean"].map(latency),
            mean: latency("mean"),
            throughput: number(&["reviewsPerSecond"]).unwrap_or_default(),
            bytes_per_review: number(&["memoryStats", "bytesPerReview"]),
        }
    }
}

/// Compares the engines that both have. `threshold` is in percent.
pub(super) fn compare(
    baseline: &Baseline,
    current: &[Figures],
    threshold: f64,
    min_threshold: Duration,
) -> Vec<Comparison> {
    let comparison = |current: &Figures| {
        let before = baseline.results.iter().rfind(|saved| saved.engine == current.engine)?;
        Some(Comparison {
            engine: current.engine.to_ascii_uppercase(),
            metrics: metrics(before, current, threshold, min_threshold),
        })
    };
    current.iter().filter_map(comparison).collect()
}

fn metrics(
    before: &Saved,
    current: &Figures,
    threshold: f64,
    min_threshold: Duration,
) -> Vec<Metric> {
    let least = min_threshold.as_nanos() as f64;
    let now = current.latencies;
    let names = ["P50 Latency", "P95 Latency", "P99 Latency", "Mean Latency"];
    let mut metrics: Vec<Metric> = names
        .into_iter()
        .zip(before.latencies)
        .zip([now.p50, now.p95, now.p99, now.mean])
        .map(|((name, baseline), current)| {
            let mut metric = Metric::new(name, Unit::Nanoseconds, baseline, current as f64);
            metric.passed = metric.delta <= threshold
                || (least > 0.0 && metric.current - metric.baseline < least);
            metric
        })
        .collect();
    let rate = current.reviews_per_second;
    let mut throughput = Metric::new("Throughput", Unit::PerSecond, before.throughput, rate);
    throughput.passed = -throughput.delta <= threshold
        || (least > 0.0
            && before.mean > 0.0
            && before.throughput - rate < before.throughput * least / before.mean);
    metrics.push(throughput);
    if let (Some(before), Some(now)) = (before.bytes_per_review, current.bytes_per_review()) {
        let mut memory = Metric::new("Bytes/Review", Unit::Bytes, before, now as f64);
        memory.passed = memory.delta <= threshold;
        metrics.push(memory);
    }
    metrics
}

impl Metric {
    fn new(name: &'static str, unit: Unit, baseline: f64, current: f64) -> Self {
        let delta = match (baseline == 0.0, current == 0.0) {
            (true, true) => 0.0,
            (true, false) => 100.0,
            (false, _) => (current - baseline) / baseline * 100.0,
        };
        Self { name, unit, baseline, current, delta, passed: true }
    }

    fn show(&self, number: f64) -> String {
        match self.unit {
            Unit::Nanoseconds => short(number as u64),
            Unit::PerSecond => format!("{number:.2}/sec"),
            Unit::Bytes => bytes(number as u64),
        }
    }
}

impl Comparison {
    pub(super) fn passed(&self) -> bool {
        self.metrics.iter().all(|metric| metric.passed)
    }

    pub(super) fn render(&self, threshold: f64) -> String {
        let mut rows = "Metric\tBaseline\tCurrent\tDelta\tStatus\n\
                        ------\t--------\t-------\t-----\t------\n"
            .to_owned();
        for metric in &self.metrics {
            let _ = writeln!(
                rows,
                "{}\t{}\t{}\t{:+.1}%\t{}",
                metric.name,
                metric.show(metric.baseline),
                metric.show(metric.current),
                metric.delta,
                if metric.passed { "✓" } else { "✗ REGRESSION" }
            );
        }
        let failed: Vec<&str> =
            self.metrics.iter().filter(|metric| !metric.passed).map(|metric| metric.name).collect();
        let summary = if failed.is_empty() {
            format!("✓ No significant regressions (threshold: {threshold:.1}%)")
        } else {
            format!("✗ Regressions detected in: {} (threshold: {threshold:.1}%)", failed.join(", "))
        };
        format!(
            "=== Baseline Comparison: {} Engine ===\n\n{}\n{summary}\n",
            self.engine,
            align(&rows)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Latencies;

    fn figures(nanoseconds: u64, per_second: f64, bytes: Option<u64>) -> Figures {
        Figures {
            engine: "rego",
            templates: 1,
            constraints: 1,
            objects: 1,
            iterations: 1,
            concurrency: 1,
            setup: Duration::ZERO,
            setup_parts: [Duration::ZERO; 4],
            total: Duration::ZERO,
            latencies: Latencies {
                min: nanoseconds,
                max: nanoseconds,
                mean: nanoseconds,
                p50: nanoseconds,
                p95: nanoseconds,
                p99: nanoseconds,
            },
            distribution: Vec::new(),
            violations: 0,
            reviews_per_second: per_second,
            bytes,
            stats: Vec::new(),
            costs: Vec::new(),
            cost_time: Duration::ZERO,
            skipped_templates: Vec::new(),
            skipped_constraints: Vec::new(),
            referential_data: true,
        }
    }

    /// Against 1 µs, 1000 reviews a second and 100 bytes, 10 percent worse at most.
    #[test]
    fn regressions() {
        let before = figures(1_000, 1_000.0, Some(100));
        let saved = super::super::report::json(&super::super::report::saved(&[before]));
        let baseline = Baseline::read(&saved, false).expect("a baseline");
        for (nanoseconds, per_second, bytes, min_threshold, failed) in [
            (1_000, 1_000.0, Some(100), 0, &[][..]),
            (1_100, 900.0, Some(110), 0, &[][..]),
            (
                1_101,
                1_000.0,
                None,
                0,
                &["P50 Latency", "P95 Latency", "P99 Latency", "Mean Latency"][..],
            ),
            (1_500, 1_000.0, None, 501, &[][..]),
            (1_000, 899.0, None, 0, &["Throughput"][..]),
            // A loss of 500 reviews a second is what half a microsecond more would cost.
            (1_000, 501.0, None, 500, &[][..]),
            (1_000, 499.0, None, 500, &["Throughput"][..]),
            (1_000, 1_000.0, Some(111), 1_000_000, &["Bytes/Review"][..]),
        ] {
            let now = figures(nanoseconds, per_second, bytes);
            let compared = compare(&baseline, &[now], 10.0, Duration::from_nanos(min_threshold));
            let found: Vec<&str> = compared[0]
                .metrics
                .iter()
                .filter(|metric| !metric.passed)
                .map(|metric| metric.name)
                .collect();
            assert_eq!(found, failed, "{nanoseconds} {per_second} {bytes:?}");
        }
        let other = Figures { engine: "cel", ..figures(1, 1.0, None) };
        assert!(compare(&baseline, &[other], 10.0, Duration::ZERO).is_empty());
        assert!(Baseline::read("{}", false).is_err());
    }

    #[test]
    fn a_comparison_in_words() {
        let baseline = Baseline::read("- {engine: rego, latencies: {p50: 1000, p95: 1000, p99: 0, mean: 1000}, reviewsPerSecond: 1000}", true).expect("a baseline");
        let now = figures(1_100, 2_000.0, None);
        let compared = compare(&baseline, &[now], 10.0, Duration::ZERO);
        assert_eq!(
            compared[0].render(10.0),
            "=== Baseline Comparison: REGO Engine ===\n\n\
             Metric        Baseline     Current      Delta    Status\n\
             ------        --------     -------      -----    ------\n\
             P50 Latency   1.00µs       1.10µs       +10.0%   ✓\n\
             P95 Latency   1.00µs       1.10µs       +10.0%   ✓\n\
             P99 Latency   0ns          1.10µs       +100.0%  ✗ REGRESSION\n\
             Mean Latency  1.00µs       1.10µs       +10.0%   ✓\n\
             Throughput    1000.00/sec  2000.00/sec  +100.0%  ✓\n\n\
             ✗ Regressions detected in: P99 Latency (threshold: 10.0%)\n"
        );
    }
}
