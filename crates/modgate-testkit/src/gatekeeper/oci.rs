//! A registry of OCI artifacts on loopback, over plain HTTP, that can only be pulled from.
//!
//! It holds what the cases of `gatekeeper/cases.json` that begin with `oci/` want to have pushed:
//! folders as archives, and files as they are.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
use modgate_value::Value;
use sha2::{Digest as _, Sha256};

/// A running registry; it serves for as long as the process lives.
pub(crate) struct Registry {
    address: SocketAddr,
}

/// The content that is served: content type and content by path.
type Contents = BTreeMap<String, (&'static str, Vec<u8>)>;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BLOB: &str = "application/octet-stream";

impl Registry {
    /// Serves the artifacts of the cases, made from Gatekeeper's own files.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let artifacts = root.join("test/gator/oci-artifacts");
        let input = root.join("test/gator/expand/fixtures/basic-expansion/input");
        let mut contents = Contents::new();
        let folder = |name| archive(&artifacts, name);
        push(&mut contents, "my-bundle", vec![folder("templates")?, folder("constraints")?])?;
        push(&mut contents, "templates", vec![folder("templates")?])?;
        push(&mut contents, "constraints", vec![folder("constraints")?])?;
        push(&mut contents, "http-only-bundle", vec![folder("templates")?])?;
        push(&mut contents, "expansion-bundle", files(&input)?)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let contents = Arc::new(contents);
        thread::Builder::new().name("registry".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let contents = Arc::clone(&contents);
                thread::spawn(move || answer(&stream, &contents));
            }
        })?;
        Ok(Self { address })
    }

    /// A text of a case, which takes the registry to be at `localhost:5000`.
    pub(crate) fn replaced(&self, text: &str) -> String {
        text.replace("localhost:5000", &self.address.to_string())
    }
}

/// One layer: its annotations and content.
struct Layer {
    annotations: Value,
    content: Vec<u8>,
}

fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

/// A folder as one layer, packed.
fn archive(above: &Path, name: &str) -> Result<Layer> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(name, above.join(name)).with_context(|| name.to_owned())?;
    let tar = tar.into_inner()?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&tar)?;
    Ok(Layer {
        annotations: object([
            ("org.opencontainers.image.title", name.into()),
            ("io.deis.oras.content.unpack", "true".into()),
            ("io.deis.oras.content.digest", digest(&tar).into()),
        ]),
        content: packed.finish()?,
    })
}

/// The files of a folder, each as one layer.
fn files(folder: &Path) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        layers.push(Layer {
            annotations: object([("org.opencontainers.image.title", name.into())]),
            content: fs::read(&path)?,
        });
    }
    Ok(layers)
}

/// Makes an artifact available under the tag `v1`.
fn push(contents: &mut Contents, repository: &str, layers: Vec<Layer>) -> Result<()> {
    let mut blob = |content: Vec<u8>| -> Result<Value> {
        let digest = digest(&content);
        let size = i64::try_from(content.len())?;
        contents.insert(format!("/v2/{repository}/blobs/{digest}"), (BLOB, content));
        Ok(object([("digest", digest.into()), ("size", size.into()), ("mediaType", BLOB.into())]))
    };
    let config = blob(b"{}".to_vec())?;
    let mut described = Vec::new();
    for Layer { annotations, content } in layers {
        let descriptor = blob(content)?;
        let mut descriptor = descriptor.as_object().cloned().unwrap_or_default();
        descriptor.insert("annotations", annotations);
        described.push(Value::Object(descriptor));
    }
    let manifest = object([
        ("schemaVersion", 2.into()),
        ("mediaType", MANIFEST.into()),
        ("config", config),
        ("layers", described.into()),
    ]);
    let path = format!("/v2/{repository}/manifests/v1");
    contents.insert(path, (MANIFEST, manifest.to_json().into_bytes()));
    Ok(())
}

/// Answers one HTTP request; closes the connection on anything else.
fn answer(stream: &TcpStream, contents: &Contents) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(request)) = lines.next() else { return };
    let Some(path) = request.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()) else {
        return;
    };
    // The head ends with an empty line.
    for line in lines.by_ref() {
        if line.map_or(true, |line| line.is_empty()) {
            break;
        }
    }
    let (status, content_type, content) = match contents.get(path) {
        Some((content_type, content)) => ("200 OK", *content_type, content.as_slice()),
        None => ("404 Not Found", "application/json", &b"{}"[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        content.len()
    );
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(content));
}
