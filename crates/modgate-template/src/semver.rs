//! stub
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version(pub(crate) i64);
impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
