//! `cargo xtask pair`: two builds of one bench in turn.
//!
//! The speed of a machine changes from minute to minute, so one figure after the other compares the
//! minutes. Here the programs run A B A B, and what counts is the ratio of each pair. Where the machine
//! is too busy even for that, `--instructions` counts instead of timing.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// Fewer and more samples; what lies between them is the work of the samples alone.
const SAMPLES: [u64; 2] = [3, 13];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The bench as it was: the program that `cargo bench --no-run` names.
    before: PathBuf,
    /// The bench as it is.
    after: PathBuf,
    /// How often each runs.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: u32,
    /// Count instructions per sample with Valgrind; of several benches, their sum.
    #[arg(long)]
    instructions: bool,
    /// Arguments of the bench, such as the names of its functions.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Prints the figures of both and the ratios of the pairs.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.instructions {
        let before = instructions(&args.before, &args.arguments)?;
        let after = instructions(&args.after, &args.arguments)?;
        println!("| | before | after | after / before |\n| --- | --- | --- | --- |");
        println!("| instructions | {before} | {after} | {:.2} |", ratio(after, before));
        return Ok(true);
    }
    ensure!(args.rounds > 0, "--rounds must be at least 1");
    let mut rows: BTreeMap<String, Vec<[u64; 2]>> = BTreeMap::new();
    for _ in 0..args.rounds {
        let before = medians(&output(Command::new(&args.before).args(bench(&args.arguments)))?);
        let after = medians(&output(Command::new(&args.after).args(bench(&args.arguments)))?);
        for (name, after) in after {
            if let Some(before) = before.get(&name) {
                rows.entry(name).or_default().push([*before, after]);
            }
        }
    }
    ensure!(!rows.is_empty(), "no bench ran in both programs");
    println!("| median of a run | before | after | after / before, pair by pair |");
    println!("| --- | --- | --- | --- |");
    for (name, pairs) in &rows {
        let mut ratios: Vec<f64> =
            pairs.iter().map(|[before, after]| ratio(*after, *before)).collect();
        ratios.sort_by(f64::total_cmp);
        let [first, last] = [ratios.first(), ratios.last()].map(|it| it.copied().unwrap_or(1.0));
        let middle = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
        let [before, after] = [0, 1].map(|side| {
            let mut times: Vec<u64> = pairs.iter().filter_map(|it| it.get(side)).copied().collect();
            times.sort_unstable();
            shown(times.get(times.len() / 2).copied().unwrap_or(0))
        });
        println!("| {name} | {before} | {after} | {middle:.2} ({first:.2} to {last:.2}) |");
    }
    Ok(true)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two decimals is shown")]
fn ratio(after: u64, before: u64) -> f64 {
    after as f64 / before.max(1) as f64
}

/// Cargo passes `--bench`; without it the program only tests that its benches run.
fn bench(arguments: &[OsString]) -> impl Iterator<Item = OsString> {
    ["--bench".into()].into_iter().chain(arguments.iter().cloned())
}

fn output(command: &mut Command) -> Result<String> {
    let run = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(run.status.success(), "{command:?}: {}\n{}", run.status, text(&run.stderr));
    Ok(text(&run.stdout) + &text(&run.stderr))
}

/// Instructions of one sample.
fn instructions(program: &Path, arguments: &[OsString]) -> Result<u64> {
    let count = |samples: u64| -> Result<u64> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        command.args(bench(arguments)).args(["--sample-size", "1", "--sample-count"]);
        let text = output(command.arg(samples.to_string()))?;
        collected(&text).with_context(|| format!("callgrind counts nothing: {text}"))
    };
    let [few, many] = SAMPLES;
    let more = count(many)?.saturating_sub(count(few)?) / (many - few);
    // Without a sample, or of a program that takes none.
    ensure!(more > 0, "`{}` ran no bench", program.display());
    Ok(more)
}

/// The total that callgrind prints.
fn collected(text: &str) -> Option<u64> {
    let (_, total) = text.lines().find_map(|line| line.split_once("Collected :"))?;
    total.trim().parse().ok()
}

/// The medians of the table that a bench prints, in picoseconds, by the names of its functions and arguments.
fn medians(table: &str) -> BTreeMap<String, u64> {
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut medians = BTreeMap::new();
    for line in table.lines() {
        let Some((indent, rest)) = line.split_once("─ ") else { continue };
        let depth = indent.chars().count();
        let mut cells = rest.split('│').map(str::trim);
        let name = cells.next().unwrap_or_default();
        let name = name.split_once("  ").map_or(name, |(name, _)| name);
        path.retain(|(level, _)| *level < depth);
        path.push((depth, name.to_owned()));
        // The columns are: fastest, slowest, median; the first shares its cell with the name.
        if let Some(median) = cells.nth(1).and_then(picoseconds) {
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            medians.insert(names.join(" "), median);
        }
    }
    medians
}

/// A time such as `12.3 µs`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are small")]
fn picoseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit {
        "ps" => 1.0,
        "ns" => 1e3,
        "µs" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * unit) as u64)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn shown(picoseconds: u64) -> String {
    let nanoseconds = picoseconds as f64 / 1e3;
    match nanoseconds {
        time if time < 1e3 => format!("{time:.0} ns"),
        time if time < 1e6 => format!("{:.1} µs", time / 1e3),
        time => format!("{:.2} ms", time / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_by_name() {
        let table = "\
constraints      fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ admit                       │               │               │               │         │
│  ├─ 0          500.1 µs      │ 1.2 ms        │ 604.5 µs      │ 610 µs        │ 100     │ 100
│  ╰─ 5000       510.1 µs      │ 1.3 ms        │ 1.5 ms        │ 620 µs        │ 100     │ 100
╰─ load          23 ms         │ 30 ms         │ 24 ms         │ 25 ms         │ 10      │ 10
";
        let expected = [("admit 0", 604_500_000), ("admit 5000", 1_500_000_000)];
        let mut expected: BTreeMap<String, u64> =
            expected.into_iter().map(|(name, time)| (name.to_owned(), time)).collect();
        expected.insert("load".to_owned(), 24_000_000_000);
        assert_eq!(medians(table), expected);
        assert_eq!(shown(604_500_000), "604.5 µs");
    }

    #[test]
    fn totals_of_callgrind() {
        let text = "==1== Events    : Ir\n==1== Collected : 4110000\n==1==\n";
        assert_eq!(collected(text), Some(4_110_000));
    }
}
