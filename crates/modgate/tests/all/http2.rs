//! Error answers over HTTP/2: a client that sends its body in a frame of its own, as curl does, gets the whole
//! answer.

use std::{
    io::{Read as _, Write as _},
    thread,
    time::Duration,
};

use modgate_testkit::client;

use crate::served::{Folder, Serving};

const RULE: &str = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r, namespace: ns}\n\
                    spec: {type: Reject, match: [{select: '$.kind'}]}\n";

// Types and flags of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of a POST: those of the static table by number, without compression (RFC 7541).
fn fields(path: &str, content_type: &str, length: usize) -> Vec<u8> {
    let mut fields = vec![0x83, 0x87];
    let mut literal = |name: &[u8], value: &str| {
        fields.extend(name);
        fields.push(u8::try_from(value.len()).expect("a short value"));
        fields.extend(value.as_bytes());
    };
    literal(&[0x04], path);
    literal(&[0x01], "localhost");
    literal(&[0x0f, 0x10], content_type);
    literal(&[0x0f, 0x0d], &length.to_string());
    fields
}

/// Sends a request; whether the answer came in full, else what came.
fn answered(serving: &Serving, path: &str, content_type: &str, body: &str) -> Result<(), String> {
    let config = client::trusting(rustls::DEFAULT_VERSIONS).expect("versions");
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = client::connect(serving.address, config).expect("TLS");
    let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    start.extend(frame(SETTINGS, 0, 0, &[]));
    start.extend(frame(HEADERS, END_HEADERS, 1, &fields(path, content_type, body.len())));
    stream.write_all(&start).and_then(|()| stream.flush()).map_err(|it| it.to_string())?;
    // The server may answer before the body is there.
    thread::sleep(Duration::from_millis(5));
    let data = frame(DATA, END_STREAM, 1, body.as_bytes());
    stream.write_all(&data).and_then(|()| stream.flush()).map_err(|it| it.to_string())?;
    let mut seen = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).map_err(|error| format!("{seen:?}: {error}"))?;
        let [a, b, c, kind, flags, _, _, _, id] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).map_err(|error| format!("{seen:?}: {error}"))?;
        seen.push((kind, flags, id));
        match kind {
            RESET => return Err(format!("{seen:?}: reset {payload:?}")),
            HEADERS | DATA if id == 1 && flags & END_STREAM != 0 => return Ok(()),
            _ => {}
        }
    }
}

#[test]
fn errors_arrive() {
    let folder = Folder::new(&[("policies.yaml", RULE)]);
    let serving = folder.serve(&[]);
    for (path, content_type, body) in [
        ("/dragnet-webhook", "text/plain", "{}"),
        ("/dragnet-webhook", "application/json", "{"),
        ("/v1/admit", "text/plain", "{}"),
        ("/v1/mutate", "application/x-www-form-urlencoded", "{}"),
        ("/nowhere", "application/json", "{}"),
    ] {
        for attempt in 0..20 {
            let answer = answered(&serving, path, content_type, body);
            assert_eq!(answer, Ok(()), "{path} {content_type}, attempt {attempt}");
        }
    }
}
