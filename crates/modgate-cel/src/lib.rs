//! modgate-cel
