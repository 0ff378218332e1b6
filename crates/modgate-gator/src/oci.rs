//! OCI artifacts for `--image`, pulled into a folder (7.3).
//!
//! A small client of the distribution protocol that can do one thing: fetch a manifest, then its
//! layers, each held to the size and digest the manifest gives. Everything is written below one
//! folder; nothing in a manifest or archive can name a place outside of it, and links are refused.

mod credentials;
mod reference;
mod registry;
mod unpack;

use std::path::Path;

use modgate_value::gofmt;

use self::{
    credentials::Credentials,
    reference::Reference,
    registry::{Descriptor, Registry},
};

/// Annotation with the name of a layer's file or folder.
const TITLE: &str = "org.opencontainers.image.title";
/// Annotation of a layer that is an archive of a folder.
const UNPACK: &str = "io.deis.oras.content.unpack";
/// Annotation with the digest of such an archive before compression.
const UNPACKED_DIGEST: &str = "io.deis.oras.content.digest";

/// How compressed archives begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Manifests an artifact may have, its indexes included.
const MAX_MANIFESTS: usize = 64;
/// Layers an artifact may have.
const MAX_LAYERS: usize = 4096;

/// Unpacks an archive of policies, compressed with gzip or not, into a folder.
///
/// # Errors
///
/// When it is none, is too large, or has links or files outside of the folder.
pub fn unpack(content: &[u8], folder: &Path) -> Result<(), String> {
    let mut left = unpack::Allowance::default();
    match content.starts_with(&GZIP) {
        true => unpack::archive(content, ".", None, folder, &mut left),
        false => unpack::tar(content, ".", folder, &mut left),
    }
}

/// Pulls an image's layers into a folder.
///
/// # Errors
///
/// When the registry does not have it, or it cannot be unpacked.
pub fn pull(
    image: &str,
    plain_http: bool,
    folder: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let shown = gofmt::quote(image);
    let reference = Reference::parse(image)
        .map_err(|error| format!("parsing OCI reference {shown}: {error}"))?;
    let credentials = Credentials::read(&reference.registry, env)
        .map_err(|error| format!("new auth client: {error}"))?;
    Registry::new(&reference, plain_http, credentials)
        .and_then(|mut registry| pull_from(&mut registry, &reference, folder))
        .map_err(|error| format!("pulling artifact {shown}: {error}"))
}

fn pull_from(registry: &mut Registry, reference: &Reference, folder: &Path) -> Result<(), String> {
    let mut left = unpack::Allowance::default();
    let mut waiting = vec![registry.manifest(&reference.selector)?];
    let (mut manifests, mut layers) = (0, 0);
    while let Some(manifest) = waiting.pop() {
        manifests += 1;
        if manifests > MAX_MANIFESTS {
            return Err(format!("more than {MAX_MANIFESTS} manifests"));
        }
        for descriptor in manifest.manifests.iter().rev() {
            waiting.push(registry.manifest_of(descriptor)?);
        }
        for descriptor in manifest.config.iter().chain(&manifest.layers) {
            layers += 1;
            if layers > MAX_LAYERS {
                return Err(format!("more than {MAX_LAYERS} layers"));
            }
            // A layer without a name is not a file.
            if let Some(title) = descriptor.annotation(TITLE) {
                let content = registry.blob(descriptor)?;
                write(descriptor, title, &content, folder, &mut left)
                    .map_err(|error| format!("{}: {error}", gofmt::quote(title)))?;
            }
        }
    }
    Ok(())
}

fn write(
    descriptor: &Descriptor,
    title: &str,
    content: &[u8],
    folder: &Path,
    left: &mut unpack::Allowance,
) -> Result<(), String> {
    if descriptor.annotation(UNPACK) == Some("true") {
        let digest = descriptor.annotation(UNPACKED_DIGEST);
        return unpack::archive(content, title, digest, folder, left);
    }
    unpack::file(content, title, folder, left)
}
