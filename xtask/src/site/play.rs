//! Addresses of the playground: what `explain --playground` prints, for the files of an example.

use std::{collections::BTreeMap, io::Write as _};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use flate2::{Compression, write::DeflateEncoder};
use modgate_value::{
    Value,
    json::{self, Escape},
};

/// The parts of the playground's state that are texts, and the files of `examples/playground` that hold them.
pub(crate) const PARTS: [(&str, &str); 7] = [
    ("policies", "policies.yaml"),
    ("object", "object.yaml"),
    ("oldObject", "old-object.yaml"),
    ("namespace", "namespace.yaml"),
    ("user", "user.yaml"),
    ("params", "params.yaml"),
    ("inventory", "inventory.yaml"),
];

/// The texts of an example by their parts.
pub(crate) type Texts = BTreeMap<String, Vec<String>>;

/// The fragment of the address that shows these texts: JSON, deflated, as base64 for addresses.
///
/// # Errors
///
/// When the text cannot be compressed.
pub(crate) fn fragment(texts: &Texts) -> Result<String> {
    let joined = |texts: &[String]| {
        let texts: Vec<String> =
            texts.iter().map(|text| format!("{}\n", text.trim_end())).collect();
        texts.join("---\n")
    };
    let mut state: Value =
        texts.iter().map(|(part, texts)| (part.as_str(), Value::from(joined(texts)))).collect();
    if let (Value::Object(state), true) = (&mut state, texts.contains_key("oldObject")) {
        state.insert("operation", Value::from("UPDATE"));
    }
    let mut text = String::new();
    json::write(&state, &mut text, Escape::Minimal);
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(format!("s={}", BASE64_URL_SAFE_NO_PAD.encode(encoder.finish()?)))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read as _};

    use flate2::read::DeflateDecoder;
    use modgate_corpus::corpus;

    use super::*;

    /// The page of the playground has the same parts, in the same files.
    #[test]
    fn parts_are_those_of_the_page() {
        let path = corpus::repository().join("ui/src/playground/state.ts");
        let page = fs::read_to_string(path).expect("state.ts");
        for (part, file) in PARTS {
            assert!(page.contains(&format!("  {part}: \"{file}\",\n")), "{part}");
        }
    }

    #[test]
    fn a_fragment_holds_the_texts() {
        let texts = Texts::from([
            ("policies".to_owned(), vec!["a: 1\n\n".to_owned(), "b: 2".to_owned()]),
            ("oldObject".to_owned(), vec!["c".to_owned()]),
        ]);
        let fragment = fragment(&texts).expect("a fragment");
        let packed = BASE64_URL_SAFE_NO_PAD.decode(fragment.strip_prefix("s=").unwrap()).unwrap();
        let mut text = String::new();
        DeflateDecoder::new(&packed[..]).read_to_string(&mut text).expect("deflated text");
        let state = Value::from_json(text.as_bytes()).expect("JSON");
        assert_eq!(state.get("policies").and_then(Value::as_str), Some("a: 1\n---\nb: 2\n"));
        assert_eq!(state.get("operation").and_then(Value::as_str), Some("UPDATE"));
    }
}
