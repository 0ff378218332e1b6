//! `-o FORMAT[=FILE]`, and what else commands that report findings have in common.

use std::{ffi::OsStr, marker::PhantomData, path::PathBuf};

use clap::{
    Arg, Command, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::ErrorKind,
};
use modgate_report::Format;

/// One output: a format, and the file it is written to; standard output without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output<F> {
    pub(crate) format: F,
    pub(crate) file: Option<PathBuf>,
}

/// Reads `FORMAT[=FILE]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputParser<F>(PhantomData<F>);

impl<F> OutputParser<F> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for OutputParser<F> {
    type Value = Output<F>;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Output<F>, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        let (format, file) = match text.split_once('=') {
            Some((format, file)) => (OsStr::new(format), Some(PathBuf::from(file))),
            None => (value, None),
        };
        let format_of = EnumValueParser::<F>::new();
        let (name, format) = (format, format_of.parse_ref(command, arg, format)?);
        if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            let name = name.to_string_lossy();
            let message = format!(
                "`{name}=` names no file: write `-o {name}=FILE`, or `-o {name}` for standard output\n"
            );
            return Err(clap::Error::raw(ErrorKind::InvalidValue, message));
        }
        Ok(Output { format, file })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(F::value_variants().iter().filter_map(F::to_possible_value)))
    }
}

/// A format of a command, which may be one of the formats of reports.
pub(crate) trait OutputFormat: ValueEnum + Copy + PartialEq + Send + Sync + 'static {
    /// The format of the report; `None` for a format of the command itself.
    fn report(self) -> Option<Format>;
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::AuditOutput;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(short, value_parser = OutputParser::<AuditOutput>::new(), default_value = "text")]
        output: Vec<Output<AuditOutput>>,
    }

    #[test]
    fn formats_and_files() {
        let output = |format, file: Option<&str>| Output { format, file: file.map(PathBuf::from) };
        for (line, expected) in [
            ("", vec![output(AuditOutput::Text, None)]),
            ("-o json", vec![output(AuditOutput::Json, None)]),
            (
                "-o sarif=a=b.sarif -otext",
                vec![
                    output(AuditOutput::Sarif, Some("a=b.sarif")),
                    output(AuditOutput::Text, None),
                ],
            ),
        ] {
            let words = std::iter::once("x").chain(line.split_whitespace());
            assert_eq!(Line::try_parse_from(words).expect(line).output, expected, "{line}");
        }
        for line in ["-o sarf", "-o sarf=x", "-o"] {
            let words = std::iter::once("x").chain(line.split_whitespace());
            Line::try_parse_from(words).expect_err(line);
        }
    }
}
