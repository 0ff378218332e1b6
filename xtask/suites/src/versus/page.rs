//! The report as a section of `docs/performance.md`, and its plot.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, ensure};

use super::{Answers, Report, Row, rounded};

const PAGE: &str = "docs/performance.md";
const PLOT: &str = "images/versus.svg";
const BEGIN: &str = "<!-- versus: `cargo xtask versus --write` writes from here -->";
const END: &str = "<!-- versus: to here -->";

/// Writes the report and its plot below the root of the repository.
///
/// # Errors
///
/// If there is nothing to write, answers differ, a part failed, or a file cannot be written.
pub(super) fn write(root: &Path, report: &Report) -> Result<()> {
    ensure!(!report.rows.is_empty(), "there is no row to write");
    ensure!(report.is_good(), "answers differ or a part failed: nothing is written");
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).context(PAGE)?;
    let text =
        format!("{}\n![How many times better modgate does the same work]({PLOT})", section(report));
    let page = between(&page, &text)?;
    fs::write(root.join("docs").join(PLOT), plot(&report.rows)).context(PLOT)?;
    fs::write(path, page).context(PAGE)
}

/// The page with another text between the markers.
fn between(page: &str, text: &str) -> Result<String> {
    let missing = |marker: &str| format!("{PAGE} has no line `{marker}`");
    let (before, rest) = page.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok(format!("{before}{BEGIN}\n\n{text}\n\n{END}{after}"))
}

/// The table, and what the answers say.
pub(super) fn section(report: &Report) -> String {
    let mut lines = vec![report.about.join("; ") + ".", String::new()];
    let head = ["original", "work", "the original", "modgate", "times better"].map(str::to_owned);
    let cells = report.rows.iter().map(|row| {
        let work = match row.unit {
            "/s" => row.work.clone() + " per second",
            _ => row.work.clone(),
        };
        let [theirs, ours] = [row.theirs, row.ours].map(|it| row.figure(it));
        [row.original.to_owned(), work, theirs, ours, rounded(row.ratio())]
    });
    lines.push(format!("| {} |", head.join(" | ")));
    lines.push("| --- | --- | ---: | ---: | ---: |".to_owned());
    lines.extend(cells.map(|cells| format!("| {} |", cells.join(" | "))));
    lines.push(String::new());
    lines.extend(report.answers.iter().map(|it| format!("- {}", said(it))));
    lines.extend(report.left_out.iter().map(|it| format!("- Left out: {it}.")));
    lines.join("\n") + "\n"
}

/// A sentence about answers.
fn said(answers: &Answers) -> String {
    let mut parts = vec![format!("{}: {} equal", answers.of, answers.equal)];
    let declared = answers.declared.iter();
    parts.extend(declared.map(|(id, count)| format!("{count} different as {id} declares")));
    if !answers.different.is_empty() {
        parts.push(format!("{} different otherwise", answers.different.len()));
    }
    parts.join(", ") + "."
}

const WIDTH: f64 = 860.0;
/// Where bars begin, and how far they may reach.
const BARS: (f64, f64) = (400.0, 270.0);
const STEP: f64 = 30.0;
const TOP: f64 = 80.0;
const STYLE: &str = ".ground{fill:#fff}.ink{fill:#1a202c}.dim{fill:#4a5568}.better{fill:#2b6cb0}.worse{fill:#c05621}\
    .line{stroke:#cbd5e0}.one{stroke:#1a202c}\n@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.ink{fill:#e6edf3}\
    .dim{fill:#9da7b3}.better{fill:#58a6ff}.worse{fill:#f0883e}.line{stroke:#30363d}.one{stroke:#e6edf3}}";

/// A bar for each row on a logarithmic scale, but for latencies, which the rates show already.
fn plot(rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.unit != "ms").collect();
    let logarithms = rows.iter().map(|row| row.ratio().log10()).filter(|it| it.is_finite());
    let most = logarithms.clone().fold(1.0, f64::max).ceil().min(6.0);
    let least = logarithms.fold(0.0, f64::min).floor().max(-3.0);
    let x = |logarithm: f64| {
        let share = (logarithm.clamp(least, most) - least) / (most - least);
        BARS.0 + share * BARS.1
    };
    let height = rows.iter().fold(TOP, |height, _| height + STEP) + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">How many times better modgate does the same work as the originals</title>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"ink\" x=\"20\" y=\"28\" font-size=\"16\" font-weight=\"bold\">Times better than the original</text>\n\
         <text class=\"dim\" x=\"20\" y=\"48\">logarithmic scale; the original, modgate</text>\n"
    );
    for exponent in -3_i32..=6 {
        let logarithm = f64::from(exponent);
        if logarithm < least || logarithm > most {
            continue;
        }
        let (at, class) = (x(logarithm), if exponent == 0 { "one" } else { "line" });
        // Writing into a text does not fail.
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>\
             <text class=\"dim\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}×</text>",
            height - 12.0,
            TOP - 8.0,
            10_f64.powi(exponent)
        );
    }
    let mut y = TOP;
    for row in rows {
        let (one, end) = (x(0.0), x(row.ratio().log10()));
        let class = if row.ratio() >= 1.0 { "better" } else { "worse" };
        let (left, right) = (one.min(end), one.max(end));
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"20\" y=\"{:.1}\">{}</text>\
             <text class=\"dim\" x=\"20\" y=\"{:.1}\" font-size=\"11\">{}</text>\
             <rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"/>\
             <text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\">{}× \
             <tspan class=\"dim\" font-size=\"11\">({}, {})</tspan></text>",
            y + 13.0,
            escaped(&row.work),
            y + 25.0,
            escaped(row.original),
            y + 6.0,
            (right - left).max(1.0),
            right + 6.0,
            y + 18.0,
            rounded(row.ratio()),
            row.figure(row.theirs),
            row.figure(row.ours)
        );
        y += STEP;
    }
    out + "</svg>\n"
}

/// Text for XML, without the marks of code.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('`', "")
}

#[cfg(test)]
mod tests {
    use modgate_testkit::corpus;

    use super::*;

    fn report() -> Report {
        let mut report = Report { about: vec!["here".to_owned()], ..Report::default() };
        report.row("Gatekeeper", "Pods <1>", "/s", (40.0, 2000.0));
        report.row("Gatekeeper", "Pods: 99th percentile", "ms", (1.0, 4.0));
        report.row("gator", "`verify`", "s", (1.0, 4.0));
        let mut answers = Answers::of("Pods");
        answers.equal = 3;
        answers.declared.insert("GK-1", 2);
        report.answers.push(answers);
        report.left_out.push("KubeMod's webhook: `--kubemod` takes its program".to_owned());
        report
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = between(&page, "new").expect("markers");
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(between(&new, "new").expect("markers"), new);
        for page in ["a", END, BEGIN] {
            assert!(between(page, "new").is_err(), "{page}");
        }
        let page = fs::read_to_string(corpus::repository().join(PAGE)).expect(PAGE);
        assert!(between(&page, "").is_ok(), "{PAGE}");
    }

    #[test]
    fn the_section_has_figures_answers_and_what_was_left_out() {
        let section = section(&report());
        for line in [
            "here.",
            "| Gatekeeper | Pods <1> per second | 40.0/s | 2000/s | 50.0 |",
            "| gator | `verify` | 1.00 s | 4.00 s | 0.250 |",
            "- Pods: 3 equal, 2 different as GK-1 declares.",
            "- Left out: KubeMod's webhook: `--kubemod` takes its program.",
        ] {
            assert!(section.lines().any(|it| it == line), "{line}\n{section}");
        }
    }

    #[test]
    fn the_plot_has_a_bar_for_each_row_but_latencies() {
        let plot = plot(&report().rows);
        assert!(plot.contains("Pods &lt;1>") && !plot.contains("percentile"), "{plot}");
        assert!(plot.contains("prefers-color-scheme:dark"), "{plot}");
        // The ground, a bar to the right and a bar to the left.
        assert_eq!(plot.matches("<rect class").count(), 3);
        assert_eq!((plot.matches("\"better\"").count(), plot.matches("\"worse\"").count()), (1, 1));
        for text in ["0.1×", "1×", "10×", "100×", "50.0×", "0.250×"] {
            assert!(plot.contains(&format!(">{text}")), "{text}: {plot}");
        }
    }

    #[test]
    fn only_good_reports_are_written() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("docs/images")).expect("folders");
        let page = root.path().join(PAGE);
        fs::write(&page, format!("{BEGIN}\n{END}\n")).expect("written");
        write(root.path(), &report()).expect("written");
        let text = fs::read_to_string(&page).expect("read");
        assert!(text.contains("| Gatekeeper |") && text.contains(PLOT), "{text}");
        assert!(root.path().join("docs").join(PLOT).is_file());
        let mut bad = report();
        bad.failed.push("Audit".to_owned());
        assert!(write(root.path(), &bad).is_err());
        assert!(write(root.path(), &Report::default()).is_err());
    }
}
