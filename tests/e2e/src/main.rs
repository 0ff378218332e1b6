//! The command line of modgate, built for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    modgate::main()
}
