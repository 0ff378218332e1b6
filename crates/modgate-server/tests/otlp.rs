//! Metrics and traces for a collector, which here is a socket.

#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use axum::{body::Body, http::Request};
use modgate_engine::EngineConfig;
use modgate_policies::{PolicyFiles, PolicyHandle, PolicyStore};
use modgate_server::{App, Routes, router};
use modgate_telemetry::{
    metrics::Metrics,
    otlp::{self, OtlpConfig},
};
use modgate_value::Value;
use tower::ServiceExt as _;

/// Longer than anything here takes, on any machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Takes whatever is posted: its path and its body.
fn collector() -> (String, mpsc::Receiver<(String, Value)>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("port");
    let endpoint = format!("http://{}", socket.local_addr().expect("address"));
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for stream in socket.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                loop {
                    let mut head = Vec::new();
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or_default() == 0 {
                            return;
                        }
                        match line.trim() {
                            "" => break,
                            line => head.push(line.to_lowercase()),
                        }
                    }
                    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
                    let length = length.and_then(|text| text.parse().ok()).unwrap_or_default();
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).expect("body");
                    let path = head.first().and_then(|line| line.split(' ').nth(1));
                    let body = Value::from_json(&body).expect("JSON");
                    let _ = sender.send((path.unwrap_or_default().to_owned(), body));
                    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                                  Content-Length: 2\r\n\r\n{}";
                    reader.get_mut().write_all(answer.as_bytes()).expect("answered");
                }
            });
        }
    });
    (endpoint, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_is_sent_metrics_and_spans() {
    let (endpoint, received) = collector();
    let current = Arc::new(PolicyHandle::default());
    let no_files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
    current.store(Arc::clone(PolicyStore::new(no_files, EngineConfig::default()).policies()));
    let app = Arc::new(App { current, ..App::default() });
    let config = OtlpConfig { endpoint, metrics: Some(Duration::from_millis(200)) };
    otlp::start(&config, &app.metrics).expect("started");
    let review = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE",
            "object": {"apiVersion": "v1", "kind": "Pod"}}}"#;
    let request = Request::post("/v1/admit")
        .header("content-type", "application/json")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .body(Body::from(review))
        .expect("request");
    let answer = router(Arc::clone(&app), Routes::All).oneshot(request).await.expect("answer");
    assert_eq!(answer.status(), 200);

    let waiting = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + TIMEOUT;
        let (mut metrics, mut spans) = (None, None);
        while metrics.is_none() || spans.is_none() {
            assert!(Instant::now() < deadline, "metrics {metrics:?}, spans {spans:?}");
            let Ok((path, body)) = received.recv_timeout(TIMEOUT) else { continue };
            let text = body.to_json();
            match path.as_str() {
                "/v1/metrics" => metrics = Some(text),
                "/v1/traces" => spans = Some(text),
                other => panic!("{other}"),
            }
        }
        (metrics.unwrap_or_default(), spans.unwrap_or_default())
    });
    let (metrics, spans) = waiting.await.expect("received");
    assert!(metrics.starts_with(r#"{"resourceMetrics":[{"#), "{metrics}");
    for expected in [r#""service.name""#, r#""name":"validation_request_count""#] {
        assert!(metrics.contains(expected), "{expected}\n{metrics}");
    }
    assert!(!metrics.contains("gatekeeper_"), "{metrics}");
    for expected in [
        r#""traceId":"0af7651916cd43dd8448eb211c80319c""#,
        r#""parentSpanId":"b7ad6b7169203331""#,
        r#""name":"POST /v1/admit""#,
    ] {
        assert!(spans.contains(expected), "{expected}\n{spans}");
    }
}

#[test]
fn an_endpoint_that_is_no_url_is_refused() {
    let config = OtlpConfig { endpoint: "collector:4318".to_owned(), metrics: None };
    let refused = otlp::start(&config, &Arc::new(Metrics::new())).expect_err("refused");
    let text = refused.to_string();
    assert!(text.starts_with("`collector:4318` is not the URL of a collector"), "{text}");
}
