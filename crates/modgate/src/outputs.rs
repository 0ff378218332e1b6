//! Where results go: standard output and files, each in its own format.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use modgate_report::{Format, Report, about_policies, write};
use modgate_review::{decision::document, findings::report};
use modgate_value::{Value, yaml};

use crate::{
    args::{Output, OutputFormat},
    terminal::Terminal,
};

/// The outputs of a run.
pub(crate) struct Outputs<F> {
    sinks: Vec<Sink<F>>,
}

/// One of them.
pub(crate) struct Sink<F> {
    pub(crate) format: F,
    file: Option<PathBuf>,
    /// The future contents of a file; it is written at the end.
    held: Vec<u8>,
    /// How text is coloured: not in files.
    pub(crate) terminal: Terminal,
}

impl<F: OutputFormat> Outputs<F> {
    /// # Errors
    ///
    /// When two of them go to standard output, or to one file.
    pub(crate) fn new(outputs: &[Output<F>], terminal: &Terminal) -> Result<Self> {
        for (index, output) in outputs.iter().enumerate() {
            let same = outputs.iter().skip(index + 1).any(|other| other.file == output.file);
            ensure!(
                !same,
                match &output.file {
                    Some(file) => format!("two outputs are written to `{}`", file.display()),
                    None => "two outputs are written to standard output; give one a file, such as \
                             `-o sarif=FILE`"
                        .to_owned(),
                }
            );
        }
        let sinks = outputs.iter().map(|output| Sink {
            format: output.format,
            file: output.file.clone(),
            held: Vec::new(),
            terminal: if output.file.is_some() { terminal.plain() } else { terminal.again() },
        });
        Ok(Self { sinks: sinks.collect() })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sink<F>> {
        self.sinks.iter_mut()
    }

    /// The format on standard output, if there is one.
    pub(crate) fn on_stdout(&self) -> Option<F> {
        self.sinks.iter().find(|sink| sink.file.is_none()).map(|sink| sink.format)
    }

    /// Writes the report where its formats are wanted.
    pub(crate) fn report(&mut self, report: &Report) -> Result<()> {
        for sink in &mut self.sinks {
            if let Some(format) = sink.format.report() {
                sink.write_all(write(report, format).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes the files.
    pub(crate) fn finish(self) -> Result<()> {
        for sink in self.sinks {
            match &sink.file {
                Some(file) => fs::write(file, &sink.held)
                    .with_context(|| format!("cannot write `{}`", file.display()))?,
                None => io::stdout().flush()?,
            }
        }
        Ok(())
    }
}

impl<F> Write for Sink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file {
            Some(_) => self.held.write(bytes),
            None => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.file {
            Some(_) => Ok(()),
            None => io::stdout().flush(),
        }
    }
}

/// Prints pretty JSON and a line break.
pub(crate) fn print_json(out: &mut impl Write, value: &Value) -> Result<()> {
    Ok(write!(out, "{}", document(value))?)
}

/// Prints the findings about policies and files of a command that has no results, as a list.
pub(crate) fn print_findings(
    out: &mut impl Write,
    terminal: &Terminal,
    format: Format,
) -> Result<()> {
    let findings = about_policies(&report(&terminal.heard())).into();
    match format {
        Format::Yaml => Ok(write!(out, "{}", yaml::write(&findings))?),
        _ => print_json(out, &findings),
    }
}

/// How objects are printed that a command makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectsOutput {
    /// YAML documents.
    Yaml,
    /// A JSON List.
    Json,
}

/// Prints objects to standard output.
pub(crate) fn print_objects(objects: Vec<Value>, output: ObjectsOutput) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        ObjectsOutput::Yaml => {
            for (index, object) in objects.iter().enumerate() {
                if index > 0 {
                    writeln!(out, "---")?;
                }
                write!(out, "{}", yaml::write(object))?;
            }
        }
        ObjectsOutput::Json => {
            let list = [
                ("apiVersion", Value::from("v1")),
                ("kind", "List".into()),
                ("items", objects.into()),
            ];
            print_json(&mut out, &list.into_iter().collect())?;
        }
    }
    out.flush()?;
    Ok(())
}
