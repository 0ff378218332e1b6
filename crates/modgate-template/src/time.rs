//! stub
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Time(pub(crate) i64);
impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Duration(pub(crate) i64);
impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Month(pub(crate) u8);
impl Month {
    pub(crate) fn name(self) -> &'static str {
        ""
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weekday(pub(crate) u8);
impl Weekday {
    pub(crate) fn name(self) -> &'static str {
        ""
    }
}
