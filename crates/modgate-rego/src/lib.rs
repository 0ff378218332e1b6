//! modgate-rego
