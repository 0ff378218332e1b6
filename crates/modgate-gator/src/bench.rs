//! `gator bench`: how fast policies are (7.8).

mod args;
mod compare;
mod measure;
mod policies;
mod report;

use std::{fs, io::Write as _, path::Path};

pub(crate) use self::args::BenchArgs;
use self::{
    args::{Engine, Engines, Format},
    measure::{Figures, Plan},
};
use crate::{
    Io, VerbFailure, files, finding,
    policies::{is_constraint, is_template},
    read::input,
    read::{self, Resource},
};

/// With fewer iterations, the 99th percentile means little.
const ENOUGH_ITERATIONS: u32 = 1000;

/// Runs the verb.
pub(crate) fn run(args: &BenchArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let settings = args.check(is_gator)?;
    if settings.warmup > settings.iterations {
        io.note(&format!(
            "Warning: warmup ({}) exceeds iterations ({}). Consider reducing warmup.\n",
            settings.warmup, settings.iterations
        ));
    }
    let baseline = args.compare.as_deref().filter(|path| !path.is_empty());
    if let Some(baseline) = baseline
        && !io.path(baseline).exists()
    {
        return Err(VerbFailure::plain(format!("baseline file does not exist: {baseline}")));
    }
    if settings.iterations < ENOUGH_ITERATIONS {
        io.note(&format!(
            "Warning: {} iterations may not provide statistically meaningful P99 metrics. Consider \
             using at least {ENOUGH_ITERATIONS} iterations.\n",
            settings.iterations
        ));
    }
    let resources = match is_gator {
        true => read::sources(&args.filenames, &args.images, io).map_err(|error| {
            VerbFailure::plain(format!("benchmark failed: reading sources: {error}"))
        })?,
        false => {
            let report = &mut finding::report();
            input::checked(&args.filenames, &args.images, &args.checks, report, io)?
        }
    };
    let figures = measure_all(args, &settings, &resources, is_gator, io)
        .map_err(|error| VerbFailure::plain(format!("benchmark failed: {error}")))?;
    for (format, file) in &settings.outputs {
        let text = match format {
            Format::Table => report::table(&figures),
            Format::Json => report::json(&report::printed(&figures)),
            Format::Yaml => report::yaml(&report::printed(&figures)),
            Format::Html => report::html(&figures),
        };
        finding::put(&text, file.as_deref(), io)?;
    }
    if let Some(path) = args.save.as_deref().filter(|path| !path.is_empty()) {
        save(&figures, path, &io.path(path))
            .map_err(|error| VerbFailure::plain(format!("saving results: {error}")))?;
        io.note(&format!("\nResults saved to: {path}"));
    }
    let Some(baseline) = baseline else { return Ok(0) };
    let text = fs::read_to_string(io.path(baseline)).map_err(|error| {
        let reason = files::os_text(&error);
        VerbFailure::plain(format!(
            "loading baseline: reading baseline from {baseline}: open {baseline}: {reason}"
        ))
    })?;
    let before = compare::Baseline::read(&text, is_yaml(baseline))
        .map_err(|error| VerbFailure::plain(format!("loading baseline: {error}")))?;
    let comparisons =
        compare::compare(&before, &figures, settings.threshold, settings.min_threshold);
    if comparisons.is_empty() {
        io.note("\nWarning: No matching engines found for comparison");
        return Ok(0);
    }
    let texts: Vec<String> =
        comparisons.iter().map(|comparison| comparison.render(settings.threshold)).collect();
    io.print(&format!("\n{}", texts.join("\n")))?;
    Ok(u8::from(comparisons.iter().any(|comparison| !comparison.passed())))
}

fn measure_all(
    args: &BenchArgs,
    settings: &args::Settings,
    resources: &[Resource],
    is_gator: bool,
    io: &mut Io<'_>,
) -> Result<Vec<Figures>, String> {
    if resources.is_empty() {
        return Err("no input data identified".to_owned());
    }
    let objects = || resources.iter().map(|resource| &resource.object);
    let plan = Plan {
        templates: objects().filter(|object| is_template(object)).collect(),
        constraints: objects().filter(|object| is_constraint(object)).collect(),
        objects: objects()
            .filter(|object| !is_template(object) && !is_constraint(object))
            .filter(|object| is_gator || !policies::is_about(object))
            .collect(),
        // gator takes them for objects.
        policies: objects().filter(|object| !is_gator && policies::is_about(object)).collect(),
        iterations: settings.iterations,
        warmup: settings.warmup,
        concurrency: settings.concurrency,
        stats: args.stats,
        memory: args.memory,
        top: args.top.unwrap_or_default(),
    };
    let has_policies = !plan.policies.is_empty() && settings.engines == Engines::All;
    for (list, is_needed, what) in [
        (&plan.templates, !has_policies, "no ConstraintTemplates found in input"),
        (&plan.constraints, !has_policies, "no Constraints found in input"),
        (&plan.objects, true, "no objects to review found in input"),
    ] {
        if list.is_empty() && is_needed {
            return Err(what.to_owned());
        }
    }
    let mut figures = Vec::new();
    if has_policies {
        let measured = policies::measure(&plan);
        figures.push(measured.map_err(|error| format!("benchmarking policies: {error}"))?);
        if plan.templates.is_empty() || plan.constraints.is_empty() {
            return Ok(figures);
        }
    }
    let engines = match settings.engines {
        Engines::One(engine) => {
            let figures = plan
                .measure(engine)
                .map_err(|error| format!("benchmarking {}: {error}", engine.name()))?;
            return Ok(vec![figures]);
        }
        Engines::All => [Engine::Rego, Engine::Cel],
    };
    let mut warnings = Vec::new();
    for engine in engines {
        match plan.measure(engine) {
            Ok(measured) => figures.push(measured),
            Err(error) => warnings.push(format!("{}: {error}", engine.name())),
        }
    }
    if figures.is_empty() {
        return Err(format!("no engines could process the templates: [{}]", warnings.join(" ")));
    }
    if !warnings.is_empty() {
        for warning in &warnings {
            io.note(&format!("Warning: Engine skipped - {warning}"));
        }
        io.note("");
    }
    Ok(figures)
}

fn is_yaml(path: &str) -> bool {
    matches!(Path::new(path).extension().and_then(|it| it.to_str()), Some("yaml" | "yml"))
}

/// Writes the figures for a later comparison; only their owner can read them.
fn save(figures: &[Figures], shown: &str, path: &Path) -> Result<(), String> {
    let saved = report::saved(figures);
    let text = if is_yaml(shown) { report::saved_yaml(&saved) } else { report::json(&saved) };
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        format!("writing results to {shown}: open {shown}: {}", files::os_text(&error))
    })
}
