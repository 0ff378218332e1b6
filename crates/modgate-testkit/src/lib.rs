//! modgate-testkit
