//! modgate-select
