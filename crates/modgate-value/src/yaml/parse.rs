//! Tokens to values: libyaml's grammar, go-yaml v2's decoding, and the conversion to JSON of
//! `sigs.k8s.io/yaml`, in one pass.
//!
//! In Go these are three passes, so that a syntax error anywhere in a document is reported before
//! a decoding error, and that before a value that JSON cannot express. [`Faults`] restores that
//! order.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Document, Error, Place, Places, Positions,
    scalar::{self, Scalar},
    scan::{Kind, Mark, Problem, Scanner},
};
use crate::{MAX_DEPTH, Object, Str, Value, gofmt};

/// Which way to read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    /// Whether a repeated key is an error.
    pub(super) strict: bool,
    /// Whether to note where things stand.
    pub(super) positions: bool,
}

/// Text that aliases may repeat, in bytes: go-yaml bounds how many nodes aliases add, but not how
/// long they print.
const MAX_ALIASED_BYTES: usize = 16 << 20;

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    options: Options,
    /// Handles and prefixes of the current document's `%TAG` directives.
    tags: Vec<(&'a str, String)>,
    anchors: HashMap<&'a str, Anchor>,
    faults: Faults,
    /// Nodes decoded, and how many of them inside aliases; go-yaml's measure against documents
    /// that grow exponentially.
    decoded: usize,
    aliased: usize,
    aliased_bytes: usize,
    first: bool,
}

enum Anchor {
    /// Its node is still being read: an alias to it would contain itself.
    Open,
    Done(Node),
}

/// What is wrong with a document besides its syntax, the first of each kind.
#[derive(Default)]
struct Faults {
    decoding: Option<Error>,
    repeated_keys: Vec<String>,
    first_repeated: Option<Mark>,
    conversion: Option<Error>,
}

#[derive(Clone)]
struct Node {
    content: Content,
    start: Mark,
    /// Nodes, bytes of text and levels in it, aliases expanded.
    nodes: usize,
    bytes: usize,
    height: usize,
    /// Whether it is the plain scalar `<<`, which as a key merges.
    merge: bool,
    aliased: bool,
    places: Places,
}

#[derive(Clone)]
enum Content {
    Scalar(Scalar),
    List(Value),
    Map(Object),
}

/// The members of a mapping being read.
#[derive(Default)]
struct Members {
    entries: Vec<(Str, Value)>,
    places: Vec<(Str, Place)>,
    /// In strict mode, the keys seen; Go tells `1` and `"1"` apart.
    seen: HashSet<(&'static str, Str)>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(scanner: Scanner<'a>, options: Options) -> Self {
        Self {
            scanner,
            options,
            tags: Vec::new(),
            anchors: HashMap::new(),
            faults: Faults::default(),
            decoded: 0,
            aliased: 0,
            aliased_bytes: 0,
            first: true,
        }
    }

    pub(super) fn mark(&self) -> Mark {
        self.scanner.mark()
    }

    /// The next document; `None` at the end of the stream.
    ///
    /// Only a syntax error (the inner one being `true`) makes it impossible to go on.
    pub(super) fn document(&mut self) -> Option<Result<Document, (Error, bool)>> {
        let root = match self.document_node() {
            Ok(None) => return None,
            Ok(Some(root)) => root,
            Err(problem) => return Some(Err((problem.into(), true))),
        };
        let (start, places) = (root.start, root.places.clone());
        let value = self.json(root);
        self.anchors.clear();
        (self.decoded, self.aliased, self.aliased_bytes) = (0, 0, 0);
        if let Err(error) = std::mem::take(&mut self.faults).check() {
            return Some(Err((error, false)));
        }
        let positions = Positions { root: Place { key: None, value: start.into(), places } };
        Some(Ok(Document { value, positions }))
    }

    fn document_node(&mut self) -> Result<Option<Node>, Problem> {
        let implicit_allowed = std::mem::replace(&mut self.first, false);
        if !implicit_allowed {
            while self.peek()?.kind == Kind::DocumentEnd {
                self.scanner.take()?;
            }
        }
        let token = self.peek()?;
        match token.kind {
            Kind::StreamEnd => return Ok(None),
            Kind::Version { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.directives()?;
                if self.peek()?.kind != Kind::DocumentStart {
                    return Err(self.unexpected("did not find expected <document start>", None));
                }
                self.scanner.take()?;
            }
            _ if implicit_allowed => self.tags.clear(),
            _ => return Err(self.unexpected("did not find expected <document start>", None)),
        }
        let token = self.peek()?;
        let root = match token.kind {
            Kind::Version { .. }
            | Kind::TagDirective { .. }
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd => {
                let start = token.start;
                self.empty(start)
            }
            _ => self.node(true, false, 1)?,
        };
        if self.peek()?.kind == Kind::DocumentEnd {
            self.scanner.take()?;
        }
        Ok(Some(root))
    }

    fn directives(&mut self) -> Result<(), Problem> {
        self.tags.clear();
        let mut versioned = false;
        loop {
            match &self.peek()?.kind {
                Kind::Version { major, minor } => {
                    if versioned {
                        return Err(self.unexpected("found duplicate %YAML directive", None));
                    }
                    if (*major, *minor) != (1, 1) {
                        return Err(self.unexpected("found incompatible YAML document", None));
                    }
                    versioned = true;
                }
                Kind::TagDirective { handle, prefix } => {
                    let (handle, prefix) = (*handle, prefix.to_string());
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(self.unexpected("found duplicate %TAG directive", None));
                    }
                    self.tags.push((handle, prefix));
                }
                _ => return Ok(()),
            }
            self.scanner.take()?;
        }
    }

    /// One node. `block` is whether block collections may start here, `indentless` whether a
    /// sequence may that is not indented more than the mapping it is in.
    fn node(&mut self, block: bool, indentless: bool, depth: usize) -> Result<Node, Problem> {
        if depth > MAX_DEPTH {
            let message = format!("exceeded max depth of {MAX_DEPTH}").into();
            let at = Some(self.mark());
            return Err(Problem { message, at, context: Mark::default(), scanner: true });
        }
        if let Kind::Alias(name) = self.peek()?.kind {
            let start = self.scanner.take()?.start;
            return self.alias(name, start);
        }
        let start = self.peek()?.start;
        let mut end = start;
        let mut anchor = None;
        let mut tag = None;
        loop {
            match &self.peek()?.kind {
                Kind::Anchor(name) if anchor.is_none() => {
                    anchor = Some(*name);
                    end = self.scanner.take()?.end;
                }
                Kind::Tag { handle, suffix } if tag.is_none() => {
                    let (handle, suffix) = (*handle, suffix.to_string());
                    let mark = self.peek()?.start;
                    tag = Some(self.resolve_tag(handle, suffix, start, mark)?);
                    end = self.scanner.take()?.end;
                }
                _ => break,
            }
        }
        if let Some(name) = anchor {
            self.anchors.insert(name, Anchor::Open);
        }
        let token = self.peek()?;
        let mut node = match &token.kind {
            Kind::BlockEntry if indentless => self.indentless_sequence(depth)?,
            Kind::Scalar { .. } => match self.scanner.take()?.kind {
                Kind::Scalar { text, plain } => {
                    // A plain scalar resolves by its looks, and so does any other with the tag `!`.
                    let implicit = (tag.is_none() && plain) || tag.as_deref() == Some("!");
                    self.scalar(text.into(), tag.as_deref().unwrap_or(""), implicit, start)
                }
                _ => self.empty(start),
            },
            Kind::FlowSequenceStart => self.flow_sequence(depth)?,
            Kind::FlowMappingStart => self.flow_mapping(depth)?,
            Kind::BlockSequenceStart if block => self.block_sequence(depth)?,
            Kind::BlockMappingStart if block => self.block_mapping(depth)?,
            _ if anchor.is_some() || tag.is_some() => {
                let tag = tag.as_deref().unwrap_or("");
                self.scalar(Str::default(), tag, tag.is_empty(), end)
            }
            _ => return Err(self.unexpected("did not find expected node content", Some(start))),
        };
        node.start = start;
        if let Some(name) = anchor {
            self.anchors.insert(name, Anchor::Done(node.clone()));
        }
        Ok(node)
    }

    fn resolve_tag(
        &self,
        handle: &str,
        suffix: String,
        context: Mark,
        at: Mark,
    ) -> Result<String, Problem> {
        let prefix = match self.tags.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => prefix.as_str(),
            None if handle.is_empty() => "",
            None if handle == "!" => "!",
            None if handle == "!!" => scalar::TAG_PREFIX,
            None => {
                let message = "found undefined tag handle".into();
                return Err(Problem { message, at: Some(at), context, scanner: false });
            }
        };
        Ok(format!("{prefix}{suffix}"))
    }

    fn alias(&mut self, name: &str, start: Mark) -> Result<Node, Problem> {
        let Some(anchor) = self.anchors.get(name) else {
            let message = format!("unknown anchor '{name}' referenced").into();
            return Err(Problem { message, at: None, context: Mark::default(), scanner: false });
        };
        let Anchor::Done(node) = anchor else {
            let message = format!("anchor '{name}' value contains itself");
            self.faults.decoding(message, start);
            return Ok(self.empty(start));
        };
        let node = Node { merge: false, aliased: true, start, ..node.clone() };
        self.decoded += node.nodes + 1;
        self.aliased += node.nodes;
        self.aliased_bytes += node.bytes;
        if self.excessive_aliases() || self.aliased_bytes > MAX_ALIASED_BYTES {
            self.faults.decoding("document contains excessive aliasing".to_owned(), start);
            return Ok(self.empty(start));
        }
        Ok(node)
    }

    /// go-yaml's rule: up to 400,000 nodes nearly all of them may come from aliases, from 4,000,000
    /// on a tenth, and a share in between in between.
    #[expect(clippy::cast_precision_loss, reason = "a ratio; no document has 2^53 nodes")]
    fn excessive_aliases(&self) -> bool {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        let (decoded, aliased) = (self.decoded as f64, self.aliased as f64);
        let allowed = 0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
        self.aliased > 100 && self.decoded > 1000 && aliased / decoded > allowed
    }

    fn scalar(&mut self, text: Str, tag: &str, implicit: bool, start: Mark) -> Node {
        self.decoded += 1;
        let merge = text == "<<" && (implicit || tag == scalar::MERGE_TAG);
        let bytes = text.len();
        let content = if tag.is_empty() && !implicit {
            Scalar::String(text)
        } else {
            scalar::resolve(tag, text).unwrap_or_else(|message| {
                self.faults.decoding(message, start);
                Scalar::Null
            })
        };
        Node {
            content: Content::Scalar(content),
            start,
            nodes: 1,
            bytes,
            height: 0,
            merge,
            aliased: false,
            places: Places::None,
        }
    }

    fn empty(&mut self, start: Mark) -> Node {
        self.scalar(Str::default(), "", true, start)
    }

    // Sequences.

    fn block_sequence(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.scanner.take()?.start;
        let mut list = List::default();
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::BlockEntry => {
                    let mark = self.scanner.take()?.end;
                    let next = &self.peek()?.kind;
                    let item = if matches!(next, Kind::BlockEntry | Kind::BlockEnd) {
                        self.empty(mark)
                    } else {
                        self.node(true, false, depth + 1)?
                    };
                    self.push(&mut list, item, depth)?;
                }
                Kind::BlockEnd => {
                    self.scanner.take()?;
                    return Ok(self.list(list, start));
                }
                _ => {
                    let message = "did not find expected '-' indicator";
                    return Err(self.unexpected(message, Some(start)));
                }
            }
        }
    }

    fn indentless_sequence(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.peek()?.start;
        let mut list = List::default();
        while self.peek()?.kind == Kind::BlockEntry {
            let mark = self.scanner.take()?.end;
            let next = &self.peek()?.kind;
            let item =
                if matches!(next, Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd) {
                    self.empty(mark)
                } else {
                    self.node(true, false, depth + 1)?
                };
            self.push(&mut list, item, depth)?;
        }
        Ok(self.list(list, start))
    }

    fn flow_sequence(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.scanner.take()?.start;
        let mut list = List::default();
        loop {
            if self.peek()?.kind != Kind::FlowSequenceEnd && !list.items.is_empty() {
                if self.peek()?.kind != Kind::FlowEntry {
                    let message = "did not find expected ',' or ']'";
                    return Err(self.unexpected(message, Some(start)));
                }
                self.scanner.take()?;
            }
            let item = match self.peek()?.kind {
                Kind::FlowSequenceEnd => {
                    self.scanner.take()?;
                    return Ok(self.list(list, start));
                }
                Kind::Key => self.single_pair(depth + 1)?,
                _ => self.node(false, false, depth + 1)?,
            };
            self.push(&mut list, item, depth)?;
        }
    }

    /// `key: value` as an element of a flow sequence: a mapping with one member.
    fn single_pair(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.scanner.take()?.start;
        let token = self.peek()?;
        let key = match token.kind {
            Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                // libyaml drops this token: `[? , a]` and the like mean something odd, but the same.
                let end = self.scanner.take()?.end;
                self.empty(end)
            }
            _ => self.node(false, false, depth + 1)?,
        };
        let at = self.peek()?.start;
        let value = if self.peek()?.kind == Kind::Value {
            self.scanner.take()?;
            match self.peek()?.kind {
                Kind::FlowEntry | Kind::FlowSequenceEnd => {
                    let at = self.peek()?.start;
                    self.empty(at)
                }
                _ => self.node(false, false, depth + 1)?,
            }
        } else {
            self.empty(at)
        };
        let mut members = Members::default();
        self.member(&mut members, key, value, depth)?;
        Ok(self.map(members, start))
    }

    fn push(&mut self, list: &mut List, item: Node, depth: usize) -> Result<(), Problem> {
        list.nodes += item.nodes + usize::from(item.aliased);
        list.bytes += item.bytes;
        list.height = list.height.max(item.height);
        self.check_height(depth + 1, &item)?;
        if self.options.positions {
            list.places.push(item.place(None));
        }
        let value = self.json(item);
        list.items.push(value);
        Ok(())
    }

    fn list(&mut self, list: List, start: Mark) -> Node {
        self.decoded += 1;
        Node {
            content: Content::List(list.items.into()),
            start,
            nodes: list.nodes + 1,
            bytes: list.bytes,
            height: list.height + 1,
            merge: false,
            aliased: false,
            places: Places::list(list.places),
        }
    }

    // Mappings.

    fn block_mapping(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.scanner.take()?.start;
        let mut members = Members::default();
        loop {
            match self.peek()?.kind {
                Kind::Key => {
                    let mark = self.scanner.take()?.end;
                    let key = self.block_member_node(mark, depth)?;
                    let token = self.peek()?;
                    let at = token.start;
                    let value = if token.kind == Kind::Value {
                        let mark = self.scanner.take()?.end;
                        self.block_member_node(mark, depth)?
                    } else {
                        self.empty(at)
                    };
                    self.member(&mut members, key, value, depth)?;
                }
                Kind::BlockEnd => {
                    self.scanner.take()?;
                    return Ok(self.map(members, start));
                }
                _ => return Err(self.unexpected("did not find expected key", Some(start))),
            }
        }
    }

    fn block_member_node(&mut self, mark: Mark, depth: usize) -> Result<Node, Problem> {
        match self.peek()?.kind {
            Kind::Key | Kind::Value | Kind::BlockEnd => Ok(self.empty(mark)),
            _ => self.node(true, true, depth + 1),
        }
    }

    fn flow_mapping(&mut self, depth: usize) -> Result<Node, Problem> {
        let start = self.scanner.take()?.start;
        let mut members = Members::default();
        let mut first = true;
        loop {
            if self.peek()?.kind != Kind::FlowMappingEnd && !first {
                if self.peek()?.kind != Kind::FlowEntry {
                    let message = "did not find expected ',' or '}'";
                    return Err(self.unexpected(message, Some(start)));
                }
                self.scanner.take()?;
            }
            first = false;
            let (key, value) = match self.peek()?.kind {
                Kind::FlowMappingEnd => {
                    self.scanner.take()?;
                    return Ok(self.map(members, start));
                }
                Kind::Key => {
                    self.scanner.take()?;
                    let token = self.peek()?;
                    let at = token.start;
                    let key = match token.kind {
                        Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => self.empty(at),
                        _ => self.node(false, false, depth + 1)?,
                    };
                    (key, self.flow_member_value(depth)?)
                }
                _ => {
                    let key = self.node(false, false, depth + 1)?;
                    let at = self.peek()?.start;
                    (key, self.empty(at))
                }
            };
            self.member(&mut members, key, value, depth)?;
        }
    }

    fn flow_member_value(&mut self, depth: usize) -> Result<Node, Problem> {
        if self.peek()?.kind == Kind::Value {
            self.scanner.take()?;
            if !matches!(self.peek()?.kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                return self.node(false, false, depth + 1);
            }
        }
        let at = self.peek()?.start;
        Ok(self.empty(at))
    }

    fn member(
        &mut self,
        members: &mut Members,
        key: Node,
        value: Node,
        depth: usize,
    ) -> Result<(), Problem> {
        members.nodes += key.nodes + usize::from(key.aliased);
        members.nodes += value.nodes + usize::from(value.aliased);
        members.bytes += key.bytes + value.bytes;
        members.height = members.height.max(value.height);
        self.check_height(depth + 1, &value)?;
        if key.merge {
            self.merge(members, value);
            return Ok(());
        }
        let (start, line) = (key.start, value.start);
        let place = self.options.positions.then(|| value.place(Some(start)));
        let scalar = match key.content {
            Content::Scalar(scalar) => scalar,
            Content::List(list) => {
                let key = gofmt::go_syntax(&list, "interface {}");
                self.faults.decoding(format!("invalid map key: {key}"), start);
                return Ok(());
            }
            Content::Map(map) => {
                let key = gofmt::go_syntax(&Value::Object(map), "interface {}");
                self.faults.decoding(format!("invalid map key: {key}"), start);
                return Ok(());
            }
        };
        let value = self.json(value);
        let Some(key) = scalar.key() else {
            let (kind, key) = match scalar {
                Scalar::Uint(int) => ("uint64", format!("{int:#x}")),
                _ => ("%!s(<nil>)", "<nil>".to_owned()),
            };
            let value = gofmt::go_syntax(&value, "interface {}");
            let message =
                format!("unsupported map key of type: {kind}, key: {key}, value: {value}");
            self.faults.conversion(message, start);
            return Ok(());
        };
        if self.options.strict && !members.seen.insert((scalar.kind(), key.clone())) {
            self.faults.repeated_keys.push(format!(
                "line {}: key {} already set in map",
                line.line + 1,
                scalar.go_syntax()
            ));
            self.faults.first_repeated.get_or_insert(start);
            return Ok(());
        }
        if let Some(place) = place {
            members.places.push((key.clone(), place));
        }
        members.entries.push((key, value));
        Ok(())
    }

    /// `<<: map` or `<<: [map, map]`: of the maps in a list the earlier ones win, of the members
    /// of the mapping itself the later ones, wherever `<<` stands.
    fn merge(&mut self, members: &mut Members, source: Node) {
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

    fn cannot_merge(&mut self, start: Mark) {
        let message = "map merge requires map or sequence of maps as the value";
        self.faults.decoding(message.to_owned(), start);
    }

    fn merge_map(&mut self, members: &mut Members, map: &Object, places: &Places, start: Mark) {
        for (key, value) in map {
            if self.options.strict && !members.seen.insert(("string", key.clone())) {
                let key = gofmt::quote(key);
                let message = format!("line {}: key {key} already set in map", start.line + 1);
                self.faults.repeated_keys.push(message);
                self.faults.first_repeated.get_or_insert(start);
                continue;
            }
            if let Some(place) = places.member(key) {
                members.places.push((key.clone(), place.clone()));
            }
            members.entries.push((key.clone(), value.clone()));
        }
    }

    fn map(&mut self, members: Members, start: Mark) -> Node {
        self.decoded += 1;
        Node {
            content: Content::Map(Object::from_entries(members.entries)),
            start,
            nodes: members.nodes + 1,
            bytes: members.bytes,
            height: members.height + 1,
            merge: false,
            aliased: false,
            places: Places::map(members.places),
        }
    }

    /// An alias may bring a tall tree to a deep place.
    fn check_height(&self, depth: usize, node: &Node) -> Result<(), Problem> {
        if node.aliased && depth + node.height > MAX_DEPTH {
            let message = format!("exceeded max depth of {MAX_DEPTH}").into();
            let at = Some(node.start);
            return Err(Problem { message, at, context: Mark::default(), scanner: true });
        }
        Ok(())
    }

    fn json(&mut self, node: Node) -> Value {
        match node.content {
            Content::List(list) => list,
            Content::Map(map) => Value::Object(map),
            Content::Scalar(scalar) => scalar.json().unwrap_or_else(|name| {
                self.faults.conversion(format!("json: unsupported value: {name}"), node.start);
                Value::Null
            }),
        }
    }

    fn peek(&mut self) -> Result<&super::scan::Token<'a>, Problem> {
        self.scanner.peek()
    }

    /// A grammar error at the next token.
    fn unexpected(&mut self, message: &'static str, context: Option<Mark>) -> Problem {
        let at = match self.scanner.peek() {
            Ok(token) => token.start,
            Err(problem) => return problem,
        };
        let context = context.unwrap_or_default();
        Problem { message: message.into(), at: Some(at), context, scanner: false }
    }
}

#[derive(Default)]
struct List {
    items: Vec<Value>,
    places: Vec<Place>,
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Node {
    fn place(&self, key: Option<Mark>) -> Place {
        Place { key: key.map(Into::into), value: self.start.into(), places: self.places.clone() }
    }
}

impl Faults {
    fn decoding(&mut self, message: String, at: Mark) {
        self.decoding.get_or_insert_with(|| Error {
            message: format!("yaml: {message}"),
            position: Some(at.position()),
        });
    }

    fn conversion(&mut self, message: String, at: Mark) {
        self.conversion.get_or_insert_with(|| Error { message, position: Some(at.position()) });
    }

    fn check(self) -> Result<(), Error> {
        if let Some(error) = self.decoding {
            return Err(error);
        }
        if !self.repeated_keys.is_empty() {
            let lines = self.repeated_keys.join("\n  ");
            return Err(Error {
                message: format!("yaml: unmarshal errors:\n  {lines}"),
                position: self.first_repeated.map(Mark::position),
            });
        }
        self.conversion.map_or(Ok(()), Err)
    }
}

impl Places {
    fn list(places: Vec<Place>) -> Self {
        if places.is_empty() { Self::None } else { Self::List(Arc::from(places)) }
    }

    fn map(places: Vec<(Str, Place)>) -> Self {
        if places.is_empty() { Self::None } else { Self::Map(Arc::from(places)) }
    }
}
