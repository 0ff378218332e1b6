//! The page itself: one file, embedded in the binary.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use modgate_ui::live;

use super::json;

pub(super) fn answer() -> Response {
    let mut response = json(StatusCode::OK, live::PAGE);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&live::content_security_policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
