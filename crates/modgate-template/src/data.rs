//! The data that a template is rendered with.

use modgate_value::Value;

/// The data of one rendering: `.` at the top of the template.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// Any JSON value; a missing member of an object renders as `<no value>`.
    Value(&'a Value),
    /// KubeMod's context of a patch value.
    Patch(PatchContext<'a>),
    /// KubeMod's context of a reject message.
    Reject(RejectContext<'a>),
}

/// The fields a patch value template sees (spec `kubemod.md` 4.3); any other field is an error.
#[derive(Debug, Clone, Copy)]
pub struct PatchContext<'a> {
    /// `.Target`: the working document.
    pub target: &'a Value,
    /// `.Namespace`: the store namespace of the request.
    pub namespace: &'a str,
    /// `.SelectedItem`: the item selected for this operation; null without `select`.
    pub selected_item: Option<&'a Value>,
    /// `.SelectKeyParts`: the captured keys; empty without `select`.
    pub select_key_parts: &'a [KeyPart<'a>],
}

/// The fields a reject message template sees (spec `kubemod.md` 4.3); any other field is an error.
#[derive(Debug, Clone, Copy)]
pub struct RejectContext<'a> {
    /// `.Target`: the working document.
    pub target: &'a Value,
    /// `.Namespace`: the store namespace of the request.
    pub namespace: &'a str,
}

/// One captured key of a patch `select`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart<'a> {
    /// An array index, or a map key that is a canonical decimal.
    Index(i64),
    /// A map key.
    Key(&'a str),
}

impl<'a> From<&'a Value> for Data<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(value)
    }
}

impl<'a> From<PatchContext<'a>> for Data<'a> {
    fn from(context: PatchContext<'a>) -> Self {
        Self::Patch(context)
    }
}

impl<'a> From<RejectContext<'a>> for Data<'a> {
    fn from(context: RejectContext<'a>) -> Self {
        Self::Reject(context)
    }
}

/// Stands for `.#` where digits follow; they and `)` come behind.
const KEY_PART: &str = "(index .SelectKeyParts ";

/// A patch value text with every `.#N` replaced by `(index .SelectKeyParts N)`, inside and outside
/// of actions alike (spec `kubemod.md` 4.3, Q-48).
pub fn preprocess(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(".#") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(".#") {
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (index, tail) = after.split_at(digits);
        if index.is_empty() {
            out.push_str(".#");
        } else {
            out.push_str(KEY_PART);
            out.push_str(index);
            out.push(')');
        }
        rest = tail;
    }
    out.push_str(rest);
    out.into()
}

/// The byte of a patch value text from which the byte `at` of its [preprocessed](preprocess) form comes.
pub fn offset_before(text: &str, at: usize) -> usize {
    let mut rest = text;
    let (mut before, mut after) = (0, 0);
    while let Some((in_front, behind)) = rest.split_once(".#") {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let (is, becomes) = (2 + digits, if digits == 0 { 2 } else { KEY_PART.len() + digits + 1 });
        if at < after + in_front.len() + becomes {
            // What stands in the call is at the placeholder.
            return before + (at - after).min(in_front.len());
        }
        before += in_front.len() + is;
        after += in_front.len() + becomes;
        rest = behind.get(digits..).unwrap_or_default();
    }
    (before + (at - after)).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::{offset_before, preprocess};

    #[test]
    fn offsets_before_placeholders_were_replaced() {
        let text = "{{ if .#0 }}a{{ .#1 }}.#{{ .Target }}";
        let after = preprocess(text);
        for part in ["if", "}}a", "}}.#", ".Target"] {
            let at = after.find(part).expect(part);
            assert_eq!(Some(offset_before(text, at)), text.find(part), "{part}");
        }
        let inside = after.find("SelectKeyParts 1").expect("there");
        assert_eq!(Some(offset_before(text, inside)), text.find(".#1"));
        assert_eq!(offset_before(text, after.len()), text.len());
        assert_eq!(offset_before("", 3), 0);
    }

    #[test]
    fn placeholders_become_index_calls() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{{ .#0 }}", "{{ (index .SelectKeyParts 0) }}"),
            ("v1.#0", "v1(index .SelectKeyParts 0)"),
            (".#10x", "(index .SelectKeyParts 10)x"),
            (".#0.#1", "(index .SelectKeyParts 0)(index .SelectKeyParts 1)"),
            (".#", ".#"),
            (".#a .##1", ".#a .##1"),
            ("..#1", ".(index .SelectKeyParts 1)"),
            ("#1", "#1"),
            (".#é", ".#é"),
        ] {
            assert_eq!(preprocess(text), expected, "{text}");
        }
    }
}
