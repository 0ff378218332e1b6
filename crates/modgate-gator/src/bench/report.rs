//! How figures are printed and saved.

use std::{fmt::Write as _, time::Duration};

use modgate_engine::cost::{Cost, PolicyCost};
use modgate_value::{Number, Value, gotime};

use super::{
    args::Engine,
    measure::{Figures, Stat},
    policies,
};
use crate::print::{self, Layout, Node, Style, align};

/// Names of the parts of the setup: in tables, and as members.
const PARTS: [(&str, &str); 4] = [
    ("Client Creation", "clientCreation"),
    ("Template Compilation", "templateCompilation"),
    ("Constraint Loading", "constraintLoading"),
    ("Data Loading", "dataLoading"),
];

/// Tables for people.
pub(super) fn table(figures: &[Figures]) -> String {
    let mut tables: Vec<String> = figures.iter().map(one_table).collect();
    let of_engines: Vec<_> =
        figures.iter().filter(|it| it.engine != policies::NAME).cloned().collect();
    if of_engines.len() > 1 {
        tables.push(engines(&of_engines));
    }
    tables.join("\n")
}

fn one_table(figures: &Figures) -> String {
    let mut out = String::new();
    let _ = write_table(figures, &mut out);
    let title = match figures.engine {
        policies::NAME => "=== Benchmark Results: Admission Policies ===\n\n".to_owned(),
        engine => format!("=== Benchmark Results: {} Engine ===\n\n", upper(engine)),
    };
    title + &align(&out)
}

fn write_table(figures: &Figures, out: &mut String) -> std::fmt::Result {
    writeln!(out, "Configuration:")?;
    let is_own = figures.engine == policies::NAME;
    let [policies, bindings] =
        if is_own { ["Policies", "Bindings"] } else { ["Templates", "Constraints"] };
    writeln!(out, "  {policies}:\t{}", figures.templates)?;
    writeln!(out, "  {bindings}:\t{}", figures.constraints)?;
    writeln!(out, "  Objects:\t{}", figures.objects)?;
    writeln!(out, "  Iterations:\t{}", figures.iterations)?;
    if figures.concurrency > 1 {
        writeln!(out, "  Concurrency:\t{}", figures.concurrency)?;
    }
    writeln!(out, "  Total Reviews:\t{}\n", figures.reviews())?;
    let skipped =
        [("Templates", &figures.skipped_templates), ("Constraints", &figures.skipped_constraints)];
    if skipped.iter().any(|(_, names)| !names.is_empty()) {
        writeln!(out, "Warnings:")?;
        for (what, names) in skipped.iter().filter(|(_, names)| !names.is_empty()) {
            writeln!(out, "  Skipped {what}:\t{} ({})", names.len(), names.join(", "))?;
        }
        writeln!(out)?;
    }
    if !figures.referential_data {
        writeln!(out, "Note:")?;
        writeln!(out, "  Referential Data:\tNot supported by {} engine", figures.engine)?;
        writeln!(out, "  \t(Referential constraints cannot be exercised with this engine)\n")?;
    }
    writeln!(out, "Timing:")?;
    writeln!(out, "  Setup Duration:\t{}", duration(figures.setup))?;
    for ((name, _), took) in PARTS.iter().zip(figures.setup_parts) {
        writeln!(out, "    └─ {name}:\t{}", duration(took))?;
    }
    writeln!(out, "  Total Duration:\t{}", duration(figures.total))?;
    writeln!(out, "  Throughput:\t{:.2} reviews/sec\n", figures.reviews_per_second)?;
    writeln!(out, "Latency (per review):")?;
    for (_, name, nanoseconds) in latencies(figures) {
        writeln!(out, "  {name}:\t{}", short(nanoseconds))?;
    }
    writeln!(out, "\nResults:")?;
    writeln!(out, "  Violations Found:\t{}", figures.violations)?;
    if let (Some(total), Some(each)) = (figures.bytes, figures.bytes_per_review()) {
        writeln!(out, "\nMemory:")?;
        writeln!(out, "  Bytes/Review:\t{}", bytes(each))?;
        writeln!(out, "  Total Bytes:\t{}", bytes(total))?;
    }
    if !figures.costs.is_empty() {
        let [title, heading] = match is_own {
            true => ["Costliest Policies", "Policy"],
            false => ["Costliest Constraints", "Constraint"],
        };
        writeln!(out, "\n{title}:")?;
        writeln!(out, "  {heading}\tTime\tShare\tEvaluations\tPer Evaluation\tSteps\tBytes")?;
        for PolicyCost { policy, cost } in &figures.costs {
            let share = share(cost, figures) * 100.0;
            writeln!(
                out,
                "  {}/{}\t{}\t{share:.1}%\t{}\t{}\t{}\t{}",
                policy.kind,
                policy.name,
                duration(cost.time),
                cost.evaluations,
                short(nanoseconds(cost.time) / cost.evaluations.max(1)),
                cost.steps,
                bytes(cost.bytes)
            )?;
        }
    }
    if !figures.stats.is_empty() {
        writeln!(out, "\nPer-Constraint Statistics (from first iteration):")?;
        for Stat { kind, nanoseconds, constraints } in &figures.stats {
            writeln!(out, "  Constraint: {kind} (Scope: template)")?;
            writeln!(out, "    templateRunTimeNS:\t{nanoseconds} engine")?;
            writeln!(out, "    constraintCount:\t{constraints} engine")?;
        }
    }
    Ok(())
}

/// Engines side by side.
fn engines(figures: &[Figures]) -> String {
    let mut out = String::new();
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells: Vec<String> = figures.iter().map(cell).collect();
        out.push_str(&format!("{name}\t{}\n", cells.join("\t")));
    };
    row("Metric", &|figures| upper(figures.engine));
    row("------", &|_| "------".to_owned());
    row("Templates", &|figures| figures.templates.to_string());
    row("Constraints", &|figures| figures.constraints.to_string());
    row("Setup Time", &|figures| duration(figures.setup));
    row("Throughput", &|figures| format!("{:.2}/sec", figures.reviews_per_second));
    row("Mean Latency", &|figures| short(figures.latencies.mean));
    row("P95 Latency", &|figures| short(figures.latencies.p95));
    row("P99 Latency", &|figures| short(figures.latencies.p99));
    row("Violations", &|figures| figures.violations.to_string());
    if figures.iter().any(|figures| figures.bytes.is_some()) {
        row("Bytes/Review", &|figures| {
            figures.bytes_per_review().map_or_else(|| "-".to_owned(), bytes)
        });
    }
    let mut text = format!("=== Engine Comparison ===\n\n{}", align(&out));
    if let [first, second] = figures
        && first.reviews_per_second > 0.0
        && second.reviews_per_second > 0.0
    {
        let (fast, slow) = match first.reviews_per_second >= second.reviews_per_second {
            true => (first, second),
            false => (second, first),
        };
        text.push_str(&if fast.reviews_per_second > slow.reviews_per_second {
            format!(
                "\nPerformance: {} is {:.2}x faster than {}\n",
                upper(fast.engine),
                fast.reviews_per_second / slow.reviews_per_second,
                upper(slow.engine)
            )
        } else {
            "\nPerformance: Both engines have similar throughput\n".to_owned()
        });
    }
    text
}

/// The document of `--output json` and `yaml`; durations are texts.
pub(super) fn printed(figures: &[Figures]) -> Node {
    Node::List(figures.iter().map(|figures| map(members(figures))).collect())
}

fn members(figures: &Figures) -> Members {
    let text = |nanoseconds: u64| Node::text(go_duration(nanoseconds));
    let mut members = head(figures);
    members.push(("totalReviews", int(figures.reviews())));
    members.extend(timing(figures, text));
    if let (Some(total), Some(each)) = (figures.bytes, figures.bytes_per_review()) {
        let memory =
            [("bytesPerReview", Node::text(bytes(each))), ("totalBytes", Node::text(bytes(total)))];
        members.push(("memoryStats", Node::map(memory)));
    }
    let stat = |name: &str, value: i64| {
        Node::map([
            ("name", Node::text(name)),
            ("value", Node::Value(value.into())),
            ("source", Node::text(format!("engine/{}", source(figures)))),
        ])
    };
    members.extend(stats(figures, &stat));
    members.extend(costs(figures));
    members.extend(skipped(figures));
    members.push(("referentialDataSupported", Node::Value(figures.referential_data.into())));
    members
}

/// For `--top`, which the original does not have.
fn costs(figures: &Figures) -> Option<(&'static str, Node)> {
    let list = figures.costs.iter().map(|PolicyCost { policy, cost }| {
        Node::map([
            ("kind", Node::text(policy.kind.as_str())),
            ("name", Node::text(policy.name.as_str())),
            ("time", Node::text(go_duration(nanoseconds(cost.time)))),
            ("share", Node::Value(float(share(cost, figures)))),
            ("evaluations", int(cost.evaluations)),
            ("steps", int(cost.steps)),
            ("bytes", int(cost.bytes)),
        ])
    });
    (!figures.costs.is_empty()).then(|| ("policyCosts", Node::List(list.collect())))
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Of the time of all constraints.
fn share(cost: &Cost, figures: &Figures) -> f64 {
    let all = figures.cost_time.as_secs_f64();
    if all > 0.0 { cost.time.as_secs_f64() / all } else { 0.0 }
}

/// The document of `--save`; durations are nanoseconds.
pub(super) fn saved(figures: &[Figures]) -> Node {
    let list = figures.iter().map(|figures| {
        let mut members = head(figures);
        members.extend(timing(figures, int));
        if let (Some(total), Some(each)) = (figures.bytes, figures.bytes_per_review()) {
            let memory = [("bytesPerReview", int(each)), ("totalBytes", int(total))];
            members.push(("memoryStats", Node::map(memory)));
        }
        let stat = |name: &str, value: i64| {
            let source = [("type", Node::text("engine")), ("value", Node::text(source(figures)))];
            Node::map([
                ("name", Node::text(name)),
                ("value", Node::Value(value.into())),
                ("source", Node::map(source)),
            ])
        };
        members.extend(stats(figures, &stat));
        members.extend(skipped(figures));
        members.push(("referentialDataSupported", Node::Value(figures.referential_data.into())));
        map(members)
    });
    Node::List(list.collect())
}

type Members = Vec<(&'static str, Node)>;

fn head(figures: &Figures) -> Members {
    vec![
        ("engine", Node::text(figures.engine)),
        ("templateCount", int(figures.templates as u64)),
        ("constraintCount", int(figures.constraints as u64)),
        ("objectCount", int(figures.objects as u64)),
        ("iterations", int(u64::from(figures.iterations))),
        ("concurrency", int(u64::from(figures.concurrency))),
    ]
}

fn timing(figures: &Figures, time: impl Fn(u64) -> Node) -> Members {
    let parts = PARTS.iter().zip(figures.setup_parts);
    let parts = parts.map(|((_, name), took)| (*name, time(nanoseconds(took)))).collect();
    let latencies = latencies(figures).map(|(name, _, took)| (name, time(took))).into();
    let rate = float(figures.reviews_per_second);
    vec![
        ("setupDuration", time(nanoseconds(figures.setup))),
        ("setupBreakdown", map(parts)),
        ("totalDuration", time(nanoseconds(figures.total))),
        ("latencies", map(latencies)),
        ("violationCount", int(figures.violations)),
        ("reviewsPerSecond", Node::Value(rate)),
    ]
}

fn stats(figures: &Figures, stat: &dyn Fn(&str, i64) -> Node) -> Option<(&'static str, Node)> {
    let entries = figures.stats.iter().map(|entry| {
        let stats = vec![
            stat("templateRunTimeNS", entry.nanoseconds),
            stat("constraintCount", entry.constraints),
        ];
        Node::map([
            ("scope", Node::text("template")),
            ("statsFor", Node::text(entry.kind.as_str())),
            ("stats", Node::List(stats)),
        ])
    });
    (!figures.stats.is_empty()).then(|| ("statsEntries", Node::List(entries.collect())))
}

fn skipped(figures: &Figures) -> Members {
    [
        ("skippedTemplates", &figures.skipped_templates),
        ("skippedConstraints", &figures.skipped_constraints),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(key, names)| {
        (key, Node::List(names.iter().map(|name| Node::text(name.as_str())).collect()))
    })
    .collect()
}

/// The figures as one HTML file: with the distributions, which the formats of the original do not have.
pub(super) fn html(figures: &[Figures]) -> String {
    let list = figures.iter().map(|figures| {
        let mut members = members(figures);
        let bins = figures.distribution.iter().map(|bin| {
            Node::map([("from", int(bin.from)), ("to", int(bin.to)), ("reviews", int(bin.reviews))])
        });
        members.push(("distribution", Node::List(bins.collect())));
        map(members)
    });
    // It is JSON that was just written.
    let document = json(&Node::List(list.collect()));
    let document = Value::from_json(document.as_bytes()).unwrap_or_default();
    modgate_ui::Page::new("bench", env!("CARGO_PKG_VERSION"), document).html()
}

pub(super) fn json(node: &Node) -> String {
    let mut out = String::new();
    print::json(node, "  ", &mut out);
    out
}

pub(super) fn yaml(node: &Node) -> String {
    print::yaml(node, Style::V3, Layout::Block)
}

/// As `sigs.k8s.io/yaml` writes.
pub(super) fn saved_yaml(node: &Node) -> String {
    print::yaml(node, Style::V2, Layout::Block)
}

fn map(members: Members) -> Node {
    Node::Map(members.into_iter().map(|(key, node)| (key.into(), node)).collect())
}

fn int(number: u64) -> Node {
    Node::Value(i64::try_from(number).unwrap_or(i64::MAX).into())
}

fn upper(engine: &str) -> String {
    engine.to_ascii_uppercase()
}

/// The engine's name in statistics, as in templates.
fn source(figures: &Figures) -> &'static str {
    match figures.engine {
        "cel" => Engine::Cel.in_templates(),
        _ => Engine::Rego.in_templates(),
    }
}

/// Member, name in tables, nanoseconds.
fn latencies(figures: &Figures) -> [(&'static str, &'static str, u64); 6] {
    let all = figures.latencies;
    [
        ("min", "Min", all.min),
        ("max", "Max", all.max),
        ("mean", "Mean", all.mean),
        ("p50", "P50", all.p50),
        ("p95", "P95", all.p95),
        ("p99", "P99", all.p99),
    ]
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn duration(duration: Duration) -> String {
    short(nanoseconds(duration))
}

/// A duration for tables, in the unit that fits it.
pub(super) fn short(nanoseconds: u64) -> String {
    let number = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{:.2}µs", number / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}ms", number / 1e6),
        _ => format!("{:.3}s", number / 1e9),
    }
}

fn go_duration(nanoseconds: u64) -> String {
    gotime::Duration(i64::try_from(nanoseconds).unwrap_or(i64::MAX)).to_string()
}

/// An amount of memory, in the unit that fits it.
pub(super) fn bytes(bytes: u64) -> String {
    let number = bytes as f64;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.2} KB", number / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2} MB", number / 1_048_576.0),
        _ => format!("{:.2} GB", number / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (nanoseconds, expected) in
            [(999, "999ns"), (1_500, "1.50µs"), (2_345_678, "2.35ms"), (1_234_567_890, "1.235s")]
        {
            assert_eq!(short(nanoseconds), expected);
        }
        for (amount, expected) in
            [(1023, "1023 B"), (1536, "1.50 KB"), (3 << 20, "3.00 MB"), (5 << 30, "5.00 GB")]
        {
            assert_eq!(bytes(amount), expected);
        }
    }
}
