//! Flags as Go programs read them.

use std::ffi::OsStr;

use clap::{
    Arg, ArgAction, Command,
    builder::{PossibleValue, TypedValueParser},
};

/// Boolean flags as Go's `flag` package has them: `--flag`, or `--flag=VALUE` in any spelling of Go's.
///
/// In scope, it lets an argument be declared with `#[arg(long, go_bool = Some(false))]`.
pub trait GoBool {
    /// The argument as such a flag, with its default.
    #[must_use]
    fn go_bool(self, default: Option<bool>) -> Self;
}

impl GoBool for Arg {
    fn go_bool(self, default: Option<bool>) -> Self {
        let arg = self
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(Parser)
            .action(ArgAction::Set)
            .required(false);
        match default {
            Some(true) => arg.default_value("true"),
            Some(false) => arg.default_value("false"),
            None => arg,
        }
    }
}

/// `strconv.ParseBool`
fn parse(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// [`parse`], with the spellings that help shows.
#[derive(Clone)]
struct Parser;

impl TypedValueParser for Parser {
    type Value = bool;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<bool, clap::Error> {
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["true", "false"].into_iter().map(PossibleValue::new)))
    }
}
