//! The files of the playground. `cargo xtask playground` builds them; a binary may be built without them.

/// A file as it is sent: compressed by gzip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub content_type: &'static str,
    /// Its content, compressed.
    pub gzip: &'static [u8],
}

/// Whether this binary contains the playground.
pub const IS_BUILT: bool = cfg!(playground);

/// Tells the files from those of other builds: the value of `ETag`.
#[cfg(playground)]
pub const TAG: &str = env!("PLAYGROUND_TAG");
/// Without the playground there are no files.
#[cfg(not(playground))]
pub const TAG: &str = "\"\"";

/// Pages of the playground may run their own scripts and the engine, and load nothing else.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
     worker-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// The file of a path such as `/main.js`; `/` is the page.
#[cfg(playground)]
pub fn asset(path: &str) -> Option<Asset> {
    macro_rules! file {
        ($name:literal, $content_type:literal) => {
            Asset {
                content_type: $content_type,
                gzip: include_bytes!(concat!("../dist/playground/", $name, ".gz")),
            }
        };
    }
    Some(match path {
        "/" | "/index.html" => file!("index.html", "text/html; charset=utf-8"),
        "/main.js" => file!("main.js", "text/javascript; charset=utf-8"),
        "/start.js" => file!("start.js", "text/javascript; charset=utf-8"),
        "/worker.js" => file!("worker.js", "text/javascript; charset=utf-8"),
        "/style.css" => file!("style.css", "text/css; charset=utf-8"),
        "/modgate.wasm" => file!("modgate.wasm", "application/wasm"),
        _ => return None,
    })
}

/// The file of a path: none, because this binary was built without the playground.
#[cfg(not(playground))]
pub fn asset(_: &str) -> Option<Asset> {
    None
}
