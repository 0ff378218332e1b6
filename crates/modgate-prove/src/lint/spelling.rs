//! The same offence in other words.

use modgate_engine::Code;
use modgate_value::Value;

use super::{
    Bypass, Subject, bypass,
    moves::Offence,
    probe::{Prober, Request},
};
use crate::{
    objects::{
        images,
        pods::{List, spec_path, with_containers},
    },
    value::{Path, Step, at, paths, replaced},
};

pub(super) fn tried(
    prober: &mut Prober<'_>,
    offence: &Offence,
    subject: &Subject<'_>,
    report: &mut dyn FnMut(Bypass),
) {
    for path in paths(&offence.object) {
        let Some(text) = at(&offence.object, &path).and_then(Value::as_str) else { continue };
        let keys: Vec<&str> = path
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
            .collect();
        let found = match keys.as_slice() {
            [.., "image"] => image(prober, &offence.object, &path, text),
            [.., "capabilities", "add"] => capability(prober, &offence.object, &path, text),
            [.., "limits" | "requests" | "hard" | "capacity", _] | [.., "sizeLimit"] => {
                quantity(prober, &offence.object, &path, text)
            }
            _ => Vec::new(),
        };
        found.into_iter().for_each(&mut *report);
    }
    if let Some(found) = beyond_prefix(prober, offence, subject) {
        report(found);
    }
}

/// The object with another text at a path is denied no longer.
fn respelt(
    prober: &mut Prober<'_>,
    code: Code,
    object: &Value,
    path: &Path,
    text: &str,
) -> Option<Bypass> {
    let witness = Request::create(replaced(object, path, text.into()));
    bypass(prober, code, path, Request::create(object.clone()), witness)
}

/// Other names for the image, where the policy denies this image and not every other one.
fn image(prober: &mut Prober<'_>, object: &Value, path: &Path, image: &str) -> Vec<Bypass> {
    let with = |image: &str| Request::create(replaced(object, path, image.into()));
    if !prober.admits(&with(images::UNRELATED)) {
        return Vec::new();
    }
    let alias = images::aliases(image)
        .into_iter()
        .find_map(|alias| respelt(prober, Code::BypassImageName, object, path, &alias));
    let mut found: Vec<Bypass> = alias.into_iter().collect();
    // A digest takes the place of a tag, so it hides no offence of the tag.
    if prober.denies(&with(&images::retagged(image)))
        && let Some(pinned) = images::with_digest(image)
    {
        found.extend(respelt(prober, Code::BypassImageDigest, object, path, &pinned));
    }
    found
}

/// Runtimes read the names of capabilities without regard to case, and ALL has every capability.
fn capability(prober: &mut Prober<'_>, object: &Value, path: &Path, text: &str) -> Vec<Bypass> {
    let lower = text.to_lowercase();
    let other = if lower == text { text.to_uppercase() } else { lower };
    let case = respelt(prober, Code::BypassCase, object, path, &other);
    let all = (text != "ALL").then(|| respelt(prober, Code::BypassAll, object, path, "ALL"));
    case.into_iter().chain(all.flatten()).collect()
}

/// The other canonical forms of a quantity: an API server keeps the format and normalises the rest.
fn quantity(prober: &mut Prober<'_>, object: &Value, path: &Path, text: &str) -> Vec<Bypass> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (Some(number), Some(unit)) = (text.get(..digits), text.get(digits..)) else {
        return Vec::new();
    };
    let Ok(amount) = number.parse::<u64>() else { return Vec::new() };
    let bytes = |shift: u32| amount.checked_mul(1 << shift).map(|bytes| bytes.to_string());
    let other = match unit {
        "Ki" => bytes(10),
        "Mi" => bytes(20),
        "Gi" => bytes(30),
        "Ti" => bytes(40),
        "k" => Some(format!("{amount}e3")),
        "M" => Some(format!("{amount}e6")),
        "G" => Some(format!("{amount}e9")),
        "m" => Some(format!("{amount}e-3")),
        _ => None,
    };
    let found = other.and_then(|other| respelt(prober, Code::BypassQuantity, object, path, &other));
    found.into_iter().collect()
}

/// An image whose name starts with an allowed text that ends within a part of a name.
fn beyond_prefix(
    prober: &mut Prober<'_>,
    offence: &Offence,
    subject: &Subject<'_>,
) -> Option<Bypass> {
    let offender = offence.container.as_ref()?;
    let with = |image: &str| {
        let container = replaced(&offender.good, &["image".into()], image.into());
        Request::create(with_containers(&offender.clean, List::Containers, vec![container]))
    };
    let denied = with(images::UNRELATED);
    if !prober.denies(&denied) {
        return None;
    }
    subject.parameters.iter().find_map(|allowed| {
        let beyond = images::beyond(allowed)?;
        let witness = with(&beyond);
        let mut place = spec_path(&witness.object)?;
        place.extend([Step::from(List::Containers.name()), Step::from(0), Step::from("image")]);
        bypass(prober, Code::BypassPrefix, &place, denied.clone(), witness)
    })
}
