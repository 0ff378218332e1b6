//! Suites over `languages/`: one language each, against what its reference implementation gave.

pub(crate) mod gotemplate;
pub(crate) mod regexp;
pub(crate) mod yaml;
