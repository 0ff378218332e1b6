//! modgate-server
