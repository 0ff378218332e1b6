//! modgate-api
