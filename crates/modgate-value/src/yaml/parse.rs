//! Tokens to values: libyaml's grammar, go-yaml v2's decoding, and the conversion to JSON of
//! `sigs.k8s.io/yaml`, in one pass.
//!
//! In Go these are three passes, so that a syntax error anywhere in a document is reported before
//! a decoding error, and that before a value that JSON cannot express. [`Faults`] restores that
//! order.

mod build;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Document, Error, Place, Places, Positions,
    scalar::Scalar,
    scan::{Kind, Mark, Problem, Scanner},
};
use crate::{MAX_DEPTH, Object, Str, Value};

/// Which way to read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    /// Whether a repeated key is an error.
    pub(super) strict: bool,
    /// Whether to note where things stand.
    pub(super) positions: bool,
    /// Whether only `true` and `false` are booleans, not `yes`, `no`, `on`, `off`, `y` and `n`.
    pub(super) few_booleans: bool,
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
    /// Offset of the document being read.
    document: usize,
}

enum Anchor {
    /// Its node is still being read: an alias to it would contain itself.
    Open,
    Done(Node),
}

/// Mistakes in a document besides its syntax, the first of each kind.
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
    size: Size,
    /// Levels of containers in it.
    height: usize,
    /// Whether it is the plain scalar `<<`, which as a key merges.
    merge: bool,
    aliased: bool,
    places: Places,
}

/// The content of a node, aliases expanded.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    /// Bytes of text.
    bytes: usize,
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
}

/// The beginning of a container.
struct Opening<'a> {
    shape: Shape,
    /// Where its node starts, anchor and tag included, and where the container itself.
    start: Mark,
    open: Mark,
    anchor: Option<&'a str>,
}

/// A container being read.
struct Frame<'a> {
    opening: Opening<'a>,
    items: Vec<Value>,
    list_places: Vec<Place>,
    members: Members,
    /// The key whose value comes next.
    key: Option<Node>,
    size: Size,
    height: usize,
}

enum Shape {
    BlockSequence,
    /// A block sequence as the value of a key at the same indentation.
    Indentless,
    FlowSequence {
        first: bool,
    },
    BlockMapping,
    /// `valued` is whether a value can follow the key: not after a key without `?` and `:`.
    FlowMapping {
        first: bool,
        valued: bool,
    },
    /// `key: value` as an element of a flow sequence: a mapping with one member.
    Pair {
        done: bool,
    },
}

enum Begun<'a> {
    Done(Node),
    Open(Opening<'a>),
}

enum Next<'a> {
    Node {
        block: bool,
        indentless: bool,
    },
    Open(Opening<'a>),
    /// A node that is not written, at this place.
    Empty(Mark),
    End,
}

impl Next<'_> {
    const FLOW: Self = Self::Node { block: false, indentless: false };
}

impl Shape {
    fn is_sequence(&self) -> bool {
        matches!(self, Self::BlockSequence | Self::Indentless | Self::FlowSequence { .. })
    }
}

impl<'a> Frame<'a> {
    fn new(opening: Opening<'a>) -> Self {
        Self {
            opening,
            items: Vec::new(),
            list_places: Vec::new(),
            members: Members::default(),
            key: None,
            size: Size::default(),
            height: 0,
        }
    }
}

impl<'a> Parser<'a> {
    pub(super) fn new(scanner: Scanner<'a>, options: Options) -> Self {
        Self {
            document: scanner.mark().offset,
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

    /// Offset of the document that was read last; only the next `---` is sure to lie outside it.
    pub(super) fn document_offset(&self) -> usize {
        self.document
    }

    fn mark(&self) -> Mark {
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
        let positions = Positions::new(start.into(), &places);
        Some(Ok(Document { value, positions }))
    }

    fn document_node(&mut self) -> Result<Option<Node>, Box<Problem>> {
        let implicit_allowed = std::mem::replace(&mut self.first, false);
        if !implicit_allowed {
            while self.peek()?.kind == Kind::DocumentEnd {
                self.scanner.take()?;
            }
        }
        self.document = self.peek()?.start.offset;
        match self.peek()?.kind {
            Kind::StreamEnd => return Ok(None),
            Kind::Version { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.directives()?;
                if self.peek()?.kind != Kind::DocumentStart {
                    return Err(self.unexpected("did not find expected <document start>", None));
                }
                self.document = self.scanner.take()?.end.offset;
            }
            // Without `---` a document cannot be empty, hence `...` alone is an error.
            _ if implicit_allowed => {
                let root = self.tree()?;
                return self.document_end(root);
            }
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
            _ => self.tree()?,
        };
        self.document_end(root)
    }

    fn document_end(&mut self, root: Node) -> Result<Option<Node>, Box<Problem>> {
        if self.peek()?.kind == Kind::DocumentEnd {
            self.scanner.take()?;
        }
        Ok(Some(root))
    }

    fn directives(&mut self) -> Result<(), Box<Problem>> {
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

    /// A whole tree of nodes. The containers it is in the middle of lie on a stack of its own, so
    /// that nesting costs heap, not call stack.
    fn tree(&mut self) -> Result<Node, Box<Problem>> {
        let mut stack: Vec<Frame<'a>> = Vec::new();
        let mut next = Next::Node { block: true, indentless: false };
        loop {
            let node = match next {
                Next::Node { block, indentless } => match self.begin(block, indentless)? {
                    Begun::Done(node) => node,
                    Begun::Open(opening) => {
                        self.open(&mut stack, opening)?;
                        next = self.advance(&mut stack)?;
                        continue;
                    }
                },
                Next::Open(opening) => {
                    self.open(&mut stack, opening)?;
                    next = self.advance(&mut stack)?;
                    continue;
                }
                Next::Empty(mark) => self.empty(mark),
                Next::End => match stack.pop() {
                    Some(frame) => self.close(frame),
                    None => self.empty(self.mark()),
                },
            };
            let depth = stack.len();
            let Some(frame) = stack.last_mut() else {
                return Ok(node);
            };
            self.feed(frame, node, depth)?;
            next = self.advance(&mut stack)?;
        }
    }

    fn open(&self, stack: &mut Vec<Frame<'a>>, opening: Opening<'a>) -> Result<(), Box<Problem>> {
        if stack.len() == MAX_DEPTH {
            return Err(too_deep(opening.start));
        }
        stack.push(Frame::new(opening));
        Ok(())
    }

    /// The beginning of a node: an alias or a scalar whole, of a container its opening token.
    ///
    /// `block` is whether block collections may start here, `indentless` whether a sequence may
    /// that is not indented more than the mapping it is in.
    fn begin(&mut self, block: bool, indentless: bool) -> Result<Begun<'a>, Box<Problem>> {
        if let Kind::Alias(name) = self.peek()?.kind {
            let start = self.scanner.take()?.start;
            return self.alias(name, start).map(Begun::Done);
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
                    let token = self.scanner.take()?;
                    tag = Some((handle, suffix, token.start));
                    end = token.end;
                }
                _ => break,
            }
        }
        let tag = match tag {
            None => None,
            Some((handle, suffix, mark)) => Some(self.resolve_tag(handle, suffix, start, mark)?),
        };
        let shape = match &self.peek()?.kind {
            Kind::BlockEntry if indentless => Shape::Indentless,
            Kind::FlowSequenceStart => Shape::FlowSequence { first: true },
            Kind::FlowMappingStart => Shape::FlowMapping { first: true, valued: true },
            Kind::BlockSequenceStart if block => Shape::BlockSequence,
            Kind::BlockMappingStart if block => Shape::BlockMapping,
            Kind::Scalar { .. } => {
                let Kind::Scalar { text, plain } = self.scanner.take()?.kind else {
                    return Ok(Begun::Done(self.empty(start)));
                };
                // A plain scalar resolves by its looks, and so does any other with the tag `!`.
                let implicit = (tag.is_none() && plain) || tag.as_deref() == Some("!");
                let tag = tag.as_deref().unwrap_or("");
                let node = self.scalar(text.into(), tag, implicit, start);
                return Ok(Begun::Done(self.anchored(anchor, node)));
            }
            _ if anchor.is_some() || tag.is_some() => {
                let tag = tag.as_deref().unwrap_or("");
                let node = self.scalar(Str::default(), tag, tag.is_empty(), end);
                return Ok(Begun::Done(self.anchored(anchor, Node { start, ..node })));
            }
            _ => return Err(self.unexpected("did not find expected node content", Some(start))),
        };
        // Of an indentless sequence the token is its first entry.
        let open = match shape {
            Shape::Indentless => self.peek()?.start,
            _ => self.scanner.take()?.start,
        };
        if let Some(name) = anchor {
            self.anchors.insert(name, Anchor::Open);
        }
        Ok(Begun::Open(Opening { shape, start, open, anchor }))
    }

    fn anchored(&mut self, anchor: Option<&'a str>, node: Node) -> Node {
        if let Some(name) = anchor {
            self.anchors.insert(name, Anchor::Done(node.clone()));
        }
        node
    }

    /// The next step in the innermost container.
    fn advance(&mut self, stack: &mut [Frame<'a>]) -> Result<Next<'a>, Box<Problem>> {
        let Some(frame) = stack.last_mut() else {
            return Ok(Next::End);
        };
        let context = Some(frame.opening.open);
        let has_key = frame.key.is_some();
        match &mut frame.opening.shape {
            Shape::BlockSequence => match self.peek()?.kind {
                Kind::BlockEntry => {
                    let mark = self.scanner.take()?.end;
                    self.block_child(mark, false, |kind| {
                        matches!(kind, Kind::BlockEntry | Kind::BlockEnd)
                    })
                }
                Kind::BlockEnd => self.end(),
                _ => Err(self.unexpected("did not find expected '-' indicator", context)),
            },
            Shape::Indentless => {
                if self.peek()?.kind != Kind::BlockEntry {
                    return Ok(Next::End);
                }
                let mark = self.scanner.take()?.end;
                self.block_child(mark, false, |kind| {
                    matches!(kind, Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd)
                })
            }
            Shape::BlockMapping => {
                let token = self.peek()?;
                let start = token.start;
                match token.kind {
                    Kind::Key if !has_key => {}
                    Kind::Value if has_key => {}
                    _ if has_key => return Ok(Next::Empty(start)),
                    Kind::BlockEnd => return self.end(),
                    _ => return Err(self.unexpected("did not find expected key", context)),
                }
                let mark = self.scanner.take()?.end;
                self.block_child(mark, true, |kind| {
                    matches!(kind, Kind::Key | Kind::Value | Kind::BlockEnd)
                })
            }
            Shape::FlowSequence { first } => {
                let first = std::mem::replace(first, false);
                self.flow_item(first, context)
            }
            Shape::FlowMapping { first, valued } if !has_key => {
                let first = std::mem::replace(first, false);
                self.flow_key(first, valued, context)
            }
            Shape::FlowMapping { valued, .. } => {
                if *valued && self.peek()?.kind == Kind::Value {
                    self.scanner.take()?;
                    if !matches!(self.peek()?.kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                        return Ok(Next::FLOW);
                    }
                }
                Ok(Next::Empty(self.peek()?.start))
            }
            Shape::Pair { done: true } => Ok(Next::End),
            Shape::Pair { .. } if !has_key => match self.peek()?.kind {
                Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                    // libyaml drops this token: `[? , a]` means something odd, but the same.
                    Ok(Next::Empty(self.scanner.take()?.end))
                }
                _ => Ok(Next::FLOW),
            },
            Shape::Pair { done } => {
                *done = true;
                if self.peek()?.kind == Kind::Value {
                    self.scanner.take()?;
                    if !matches!(self.peek()?.kind, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                        return Ok(Next::FLOW);
                    }
                }
                Ok(Next::Empty(self.peek()?.start))
            }
        }
    }

    /// The next item of a sequence in brackets.
    fn flow_item(&mut self, first: bool, context: Option<Mark>) -> Result<Next<'a>, Box<Problem>> {
        if self.peek()?.kind != Kind::FlowSequenceEnd && !first {
            if self.peek()?.kind != Kind::FlowEntry {
                return Err(self.unexpected("did not find expected ',' or ']'", context));
            }
            self.scanner.take()?;
        }
        match self.peek()?.kind {
            Kind::FlowSequenceEnd => self.end(),
            Kind::Key => {
                let start = self.scanner.take()?.start;
                Ok(Next::Open(Opening {
                    shape: Shape::Pair { done: false },
                    start,
                    open: start,
                    anchor: None,
                }))
            }
            _ => Ok(Next::FLOW),
        }
    }

    /// The next key of a mapping in braces; `valued` becomes whether a value may follow it.
    fn flow_key(
        &mut self,
        first: bool,
        valued: &mut bool,
        context: Option<Mark>,
    ) -> Result<Next<'a>, Box<Problem>> {
        *valued = true;
        if self.peek()?.kind != Kind::FlowMappingEnd && !first {
            if self.peek()?.kind != Kind::FlowEntry {
                return Err(self.unexpected("did not find expected ',' or '}'", context));
            }
            self.scanner.take()?;
        }
        match self.peek()?.kind {
            Kind::FlowMappingEnd => return self.end(),
            Kind::Key => {}
            // A key alone, as in `{a}`.
            _ => {
                *valued = false;
                return Ok(Next::FLOW);
            }
        }
        self.scanner.take()?;
        let token = self.peek()?;
        Ok(match token.kind {
            Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => Next::Empty(token.start),
            _ => Next::FLOW,
        })
    }

    /// A node after the indicator that ended at `mark`, or nothing if what follows ends it.
    fn block_child(
        &mut self,
        mark: Mark,
        indentless: bool,
        ends: impl Fn(&Kind<'a>) -> bool,
    ) -> Result<Next<'a>, Box<Problem>> {
        let empty = ends(&self.peek()?.kind);
        Ok(if empty { Next::Empty(mark) } else { Next::Node { block: true, indentless } })
    }

    fn end(&mut self) -> Result<Next<'a>, Box<Problem>> {
        self.scanner.take()?;
        Ok(Next::End)
    }

    /// Gives a finished node to the container it stands in, which is the `depth`th.
    fn feed(
        &mut self,
        frame: &mut Frame<'a>,
        node: Node,
        depth: usize,
    ) -> Result<(), Box<Problem>> {
        // An alias may bring a tall tree to a deep place.
        if node.aliased && depth + node.height > MAX_DEPTH {
            return Err(too_deep(node.start));
        }
        frame.size.nodes += node.size.nodes + usize::from(node.aliased);
        frame.size.bytes += node.size.bytes;
        frame.height = frame.height.max(node.height);
        if frame.opening.shape.is_sequence() {
            if self.options.positions {
                frame.list_places.push(node.place(None));
            }
            let value = self.json(node);
            frame.items.push(value);
        } else {
            match frame.key.take() {
                None => frame.key = Some(node),
                Some(key) => self.member(&mut frame.members, key, node),
            }
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<&super::scan::Token<'a>, Box<Problem>> {
        self.scanner.peek()
    }

    /// A grammar error at the next token.
    fn unexpected(&mut self, message: &'static str, context: Option<Mark>) -> Box<Problem> {
        let at = match self.scanner.peek() {
            Ok(token) => token.start,
            Err(problem) => return problem,
        };
        let context = context.unwrap_or_default();
        Box::new(Problem { message: message.into(), at: Some(at), context, scanner: false })
    }
}

fn too_deep(at: Mark) -> Box<Problem> {
    let message = format!("exceeded max depth of {MAX_DEPTH}").into();
    Box::new(Problem { message, at: Some(at), context: Mark::default(), scanner: true })
}

impl Node {
    fn place(&self, key: Option<Mark>) -> Place {
        Place {
            key: key.map(Into::into),
            value: self.start.into(),
            places: self.places.clone(),
            merged: false,
        }
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
