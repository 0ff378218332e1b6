//! The values that nodes make: scalars, mappings, aliases and merged mappings.

use super::{
    super::{
        Place, Places,
        scalar::{self, Scalar},
        scan::{Mark, Problem},
    },
    Anchor, Content, Frame, MAX_ALIASED_BYTES, Members, Node, Parser, Size,
};
use crate::{Object, Str, Value, gofmt};

impl<'a> Parser<'a> {
    pub(super) fn close(&mut self, frame: Frame<'a>) -> Node {
        self.decoded += 1;
        let (content, places) = if frame.opening.shape.is_sequence() {
            (Content::List(frame.items.into()), Places::list(frame.list_places))
        } else {
            let members = frame.members;
            (Content::Map(Object::from_entries(members.entries)), Places::map(members.places))
        };
        let node = Node {
            content,
            start: frame.opening.start,
            size: Size { nodes: frame.size.nodes + 1, ..frame.size },
            height: frame.height + 1,
            merge: false,
            aliased: false,
            places,
        };
        self.anchored(frame.opening.anchor, node)
    }

    pub(super) fn resolve_tag(
        &self,
        handle: &str,
        suffix: String,
        context: Mark,
        at: Mark,
    ) -> Result<String, Box<Problem>> {
        let prefix = match self.tags.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => prefix.as_str(),
            None if handle.is_empty() => "",
            None if handle == "!" => "!",
            None if handle == "!!" => scalar::TAG_PREFIX,
            None => {
                let message = "found undefined tag handle".into();
                return Err(Box::new(Problem { message, at: Some(at), context, scanner: false }));
            }
        };
        Ok(format!("{prefix}{suffix}"))
    }

    pub(super) fn alias(&mut self, name: &str, start: Mark) -> Result<Node, Box<Problem>> {
        let Some(anchor) = self.anchors.get(name) else {
            let message = format!("unknown anchor '{name}' referenced").into();
            return Err(Box::new(Problem { message, at: None, context: start, scanner: false }));
        };
        let Anchor::Done(node) = anchor else {
            let message = format!("anchor '{name}' value contains itself");
            self.faults.decoding(message, start);
            return Ok(self.empty(start));
        };
        let node = Node { merge: false, aliased: true, start, ..node.clone() };
        self.decoded += node.size.nodes + 1;
        self.aliased += node.size.nodes;
        self.aliased_bytes += node.size.bytes;
        if self.excessive_aliases() || self.aliased_bytes > MAX_ALIASED_BYTES {
            self.faults.decoding("document contains excessive aliasing".to_owned(), start);
            return Ok(self.empty(start));
        }
        Ok(node)
    }

    /// go-yaml's rule: up to 400,000 nodes nearly all of them may come from aliases, from 4,000,000
    /// on a tenth, and a share in between in between.
    #[expect(clippy::cast_precision_loss, reason = "a ratio; no document has 2^53 nodes")]
    pub(super) fn excessive_aliases(&self) -> bool {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        let (decoded, aliased) = (self.decoded as f64, self.aliased as f64);
        let allowed = 0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
        self.aliased > 100 && self.decoded > 1000 && aliased / decoded > allowed
    }

    pub(super) fn scalar(&mut self, text: Str, tag: &str, implicit: bool, start: Mark) -> Node {
        self.decoded += 1;
        let merge = text == "<<" && (implicit || tag == scalar::MERGE_TAG);
        let bytes = text.len();
        let content = if tag.is_empty() && !implicit {
            Scalar::String(text)
        } else {
            let as_text =
                self.options.few_booleans && tag.is_empty() && scalar::is_old_boolean(&text);
            if as_text {
                Scalar::String(text)
            } else {
                scalar::resolve(tag, text).unwrap_or_else(|message| {
                    self.faults.decoding(message, start);
                    Scalar::Null
                })
            }
        };
        Node {
            content: Content::Scalar(content),
            start,
            size: Size { nodes: 1, bytes },
            height: 0,
            merge,
            aliased: false,
            places: Places::None,
        }
    }

    pub(super) fn empty(&mut self, start: Mark) -> Node {
        self.scalar(Str::default(), "", true, start)
    }

    pub(super) fn member(&mut self, members: &mut Members, key: Node, value: Node) {
        if key.merge {
            return self.merge(members, value);
        }
        let (start, line) = (key.start, value.start);
        let place = self.options.positions.then(|| value.place(Some(start)));
        let scalar = match key.content {
            Content::Scalar(scalar) => scalar,
            Content::List(list) => {
                let key = gofmt::go_syntax(&list, "interface {}");
                self.faults.decoding(format!("invalid map key: {key}"), start);
                return;
            }
            Content::Map(map) => {
                let key = gofmt::go_syntax(&Value::Object(map), "interface {}");
                self.faults.decoding(format!("invalid map key: {key}"), start);
                return;
            }
        };
        let value = self.json(value);
        let Some(key) = scalar.key() else {
            let (kind, key) = match scalar {
                Scalar::Uint(int) => ("uint64", format!("{int:#x}")),
                _ => ("%!s(<nil>)", "<nil>".to_owned()),
            };
            let value = match value {
                Value::Null => "<nil>".to_owned(),
                value => gofmt::go_syntax(&value, "interface {}"),
            };
            let message =
                format!("unsupported map key of type: {kind}, key: {key}, value: {value}");
            self.faults.conversion(message, start);
            return;
        };
        if self.options.strict && !members.seen.insert((scalar.kind(), key.clone())) {
            self.faults.repeated_keys.push(format!(
                "line {}: key {} already set in map",
                line.line + 1,
                scalar.go_syntax()
            ));
            self.faults.first_repeated.get_or_insert(start);
            return;
        }
        if let Some(place) = place {
            members.places.push((key.clone(), place));
        }
        members.entries.push((key, value));
    }

    /// `<<: map` or `<<: [map, map]`: of the maps in a list the earlier ones win, of the members
    /// of the mapping itself the later ones, wherever `<<` stands.
    pub(super) fn merge(&mut self, members: &mut Members, source: Node) {
        let start = source.start;
        match source.content {
            Content::Map(map) => self.merge_map(members, &map, &source.places, start),
            Content::List(Value::Array(list)) if !source.aliased => {
                for (index, item) in list.iter().enumerate().rev() {
                    let Value::Object(map) = item else {
                        return self.cannot_merge(start);
                    };
                    let places = match &source.places {
                        Places::List(places) => places.get(index).map(|place| &place.places),
                        _ => None,
                    };
                    let places = places.cloned().unwrap_or_default();
                    self.merge_map(members, map, &places, start);
                }
            }
            _ => self.cannot_merge(start),
        }
    }

    pub(super) fn cannot_merge(&mut self, start: Mark) {
        let message = "map merge requires map or sequence of maps as the value";
        self.faults.decoding(message.to_owned(), start);
    }

    pub(super) fn merge_map(
        &mut self,
        members: &mut Members,
        map: &Object,
        places: &Places,
        start: Mark,
    ) {
        for (key, value) in map {
            if self.options.strict && !members.seen.insert(("string", key.clone())) {
                let key = gofmt::quote(key);
                let message = format!("line {}: key {key} already set in map", start.line + 1);
                self.faults.repeated_keys.push(message);
                self.faults.first_repeated.get_or_insert(start);
                continue;
            }
            if let Some(place) = places.member(key) {
                members.places.push((key.clone(), Place { merged: true, ..place.clone() }));
            }
            members.entries.push((key.clone(), value.clone()));
        }
    }

    pub(super) fn json(&mut self, node: Node) -> Value {
        match node.content {
            Content::List(list) => list,
            Content::Map(map) => Value::Object(map),
            Content::Scalar(scalar) => scalar.json().unwrap_or_else(|name| {
                self.faults.conversion(format!("json: unsupported value: {name}"), node.start);
                Value::Null
            }),
        }
    }
}
