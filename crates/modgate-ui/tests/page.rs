//! Pages as files.

#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use modgate_ui::{Page, live};
use modgate_value::Value;

/// The text between the tags of a page's data.
fn data(html: &str) -> &str {
    let start = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = html.split_once(start).expect("a page with data");
    rest.split_once("</script>").expect("the end of the data").0
}

#[test]
fn data_stay_data() {
    for hostile in [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "@DATA@ @SCRIPT@",
        "\u{2028}\u{2029} ]]> &amp; \" \\ \u{0}",
    ] {
        let html = Page::new("audit", "1.2.3", hostile.into()).html();
        let data = data(&html);
        assert!(!data.contains('<') && !data.contains('&'), "{data}");
        let read = Value::from_json(data.as_bytes()).expect(data);
        assert_eq!(read.get("document").and_then(Value::as_str), Some(hostile));
    }
}

#[test]
fn the_page_loads_nothing() {
    let html = Page::new("audit", "1.2.3", Value::Null).html();
    let policy = "default-src 'none'; script-src 'sha256-";
    assert!(html.contains(policy), "its content policy names the script by its hash");
    for outside in ["http-equiv=\"refresh\"", " src=", "url(", "@import", "<iframe", "fetch("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.len() < 300_000, "{} bytes without data", html.len());
}

#[test]
fn the_live_page_asks_its_own_server_alone() {
    let policy = live::content_security_policy();
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    for outside in [
        "http-equiv=\"refresh\"",
        " src=",
        "url(",
        "@import",
        "<iframe",
        "localStorage",
        "sessionStorage",
    ] {
        assert!(!live::PAGE.contains(outside), "{outside}");
    }
    assert!(live::PAGE.len() < 300_000, "{} bytes", live::PAGE.len());
}
