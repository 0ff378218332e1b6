//! modgate
fn main() {}
