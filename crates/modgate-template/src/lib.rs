//! modgate-template
