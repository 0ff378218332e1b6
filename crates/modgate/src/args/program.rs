//! The names by which images of the originals call their program.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The name by which this program was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Program {
    /// `modgate`, or any other name.
    #[default]
    Modgate,
    /// `manager`, as Gatekeeper's is called: `serve` with Gatekeeper's addresses.
    Manager,
    /// `kubemod`: `serve` with KubeMod's modes.
    Kubemod,
}

impl Program {
    /// The name of this process.
    pub(crate) fn of_this_process() -> Self {
        Self::of(&PathBuf::from(env::args_os().next().unwrap_or_default()))
    }

    /// The program of this path.
    pub(crate) fn of(path: &Path) -> Self {
        match path.file_stem().and_then(|name| name.to_str()) {
            Some("manager") => Self::Manager,
            Some("kubemod") => Self::Kubemod,
            _ => Self::Modgate,
        }
    }
}
