//! The places of the document that an expression reads.

use modgate_value::{Str, Value, diag::Span};

use crate::ast::{Binary, Kind, Link, Node, Path, Root, Step};

/// A step to a place that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadStep {
    /// A member with this name.
    Member(Str),
    /// An element, or every one: `[0]`, `[*]`, a filter, a slice.
    Element,
}

/// A place that an expression reads, up to the first step that depends on the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The steps from the root, each with its part of the text.
    pub steps: Vec<(ReadStep, Span)>,
    /// The texts with which the expression compares the value, each with its part of the text.
    pub compared: Vec<(Str, Span)>,
    /// The texts, numbers and booleans of all comparisons, each with its part of the text, and whether it is one of an
    /// order, such as `<`.
    pub literals: Vec<(Value, Span, bool)>,
}

/// All places, the filters' included, in the order of the text.
pub(crate) fn reads(root: &Node) -> Vec<Read> {
    let mut found = Vec::new();
    visit(root, &[], &mut found);
    found
}

/// As [`reads`], of a bare path.
pub(crate) fn of_path(path: &Path) -> Vec<Read> {
    let mut found = Vec::new();
    visit_path(path, &[], &mut found);
    found
}

/// `current` leads to what `@` stands for. The parser bounds the depth.
fn visit(node: &Node, current: &[(ReadStep, Span)], found: &mut Vec<Read>) {
    match &node.kind {
        Kind::Path(path) => visit_path(path, current, found),
        Kind::Chain(first, links) => {
            let before = found.len();
            visit(first, current, found);
            // The path itself is the first that it adds; those of its filters follow.
            if let (Kind::Path(_), Some(read)) = (&first.kind, found.get_mut(before)) {
                read.compared = links.first().map(texts).unwrap_or_default();
                read.literals.extend(links.first().and_then(literal));
            }
            links.iter().for_each(|link| visit(&link.right, current, found));
        }
        _ => node.children(&mut |child| visit(child, current, found)),
    }
}

/// The texts on the right of a comparison.
fn texts(link: &Link) -> Vec<(Str, Span)> {
    let text = |node: &Node| match &node.kind {
        Kind::Text(text) => Some((text.text.clone(), node.span)),
        _ => None,
    };
    match (link.op, &link.right.kind) {
        (Binary::Equal | Binary::NotEqual, _) => text(&link.right).into_iter().collect(),
        (Binary::In, Kind::Array(elements)) => elements.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// The literal on the right of a comparison.
fn literal(link: &Link) -> Option<(Value, Span, bool)> {
    let is_order = match link.op {
        Binary::Equal | Binary::NotEqual => false,
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => true,
        _ => return None,
    };
    let value = match &link.right.kind {
        Kind::Text(text) => Value::from(text.text.as_str()),
        Kind::Number(number) => Value::from_json(number.to_string().as_bytes()).ok()?,
        Kind::Bool(value) => Value::Bool(*value),
        _ => return None,
    };
    Some((value, link.right.span, is_order))
}

fn visit_path(path: &Path, current: &[(ReadStep, Span)], found: &mut Vec<Read>) {
    let mut steps = match path.root {
        Root::Document => Vec::new(),
        Root::Current => current.to_vec(),
    };
    let index = found.len();
    found.push(Read { steps: Vec::new(), compared: Vec::new(), literals: Vec::new() });
    let mut known = true;
    for step in &path.steps {
        let next = match step {
            Step::Key(Node { kind: Kind::Text(name), span }) => {
                Some((ReadStep::Member(name.text.clone()), *span))
            }
            Step::Key(node @ Node { kind: Kind::Number(_), .. }) => {
                Some((ReadStep::Element, node.span))
            }
            Step::Star => Some((ReadStep::Element, Span::at(0))),
            Step::Slice(_) => Some((ReadStep::Element, Span::at(0))),
            Step::Filter(condition) => {
                let element = (ReadStep::Element, condition.span);
                if known {
                    let mut inner = steps.clone();
                    inner.push(element.clone());
                    visit(condition, &inner, found);
                }
                Some(element)
            }
            Step::Key(_) | Step::Script(_) | Step::Union(_) | Step::Descend => None,
        };
        match next.filter(|_| known) {
            Some(step) => steps.push(step),
            None => known = false,
        }
    }
    if let Some(read) = found.get_mut(index) {
        read.steps = steps;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Expr, PatchSelect, ReadStep};

    fn shown(reads: &[super::Read]) -> String {
        let one = |read: &super::Read| {
            let steps = read.steps.iter().map(|(step, _)| match step {
                ReadStep::Member(name) => name.as_str(),
                ReadStep::Element => "*",
            });
            let texts: Vec<&str> = read.compared.iter().map(|(text, _)| text.as_str()).collect();
            let compared =
                if texts.is_empty() { String::new() } else { format!("={}", texts.join(",")) };
            format!("{}{compared}", steps.collect::<Vec<_>>().join("."))
        };
        reads.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn places_and_comparisons() {
        for (text, expected) in [
            ("$.kind", "kind"),
            (r#"$.kind == "Pod""#, "kind=Pod"),
            (
                r#"$.spec.containers[?@.image == "x"].name"#,
                "spec.containers.*.name spec.containers.*.image=x",
            ),
            ("$.a[0].b[*].c[1:2].d", "a.*.b.*.c.*.d"),
            ("$.a..b.c", "a"),
            (r#"$.a in ["x", "y"] && !isDefined($.b.c)"#, "a=x,y b.c"),
            (r#"$.spec["a.b"] > 1"#, "spec.a.b"),
        ] {
            let reads = Expr::parse(text).expect(text).reads();
            assert_eq!(shown(&reads), expected, "{text}");
        }
        let select = PatchSelect::parse("$.a[?@.b].c").expect("a path");
        assert_eq!(shown(&select.reads()), "a.*.c a.*.b");
    }
}
