//! The binary in a folder, and its output.

use std::{
    path::Path,
    process::{Command, Output},
};

pub(crate) fn modgate(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("modgate runs")
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
