//! stub
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}
