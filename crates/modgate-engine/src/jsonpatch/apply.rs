//! Applying operations with KubeMod's extensions (spec `kubemod.md`, 4.5 to 4.7).
//!
//! They are those of its fork of evanphx/json-patch: removing what is not there is ignored,
//! negative indexes count from the end, `add` creates missing parents. Where the original crashes
//! or produces nonsense the specification's fixes apply: Q-28, Q-29, Q-31, Q-77.

use modgate_value::{Budget, Exhausted, MAX_DEPTH, Str, Value, pointer::unescape};

use super::{
    Op, PatchOperation, Tree,
    find::step,
    pointer,
    tree::{Editor, ONLY, Opened, Shape},
};

/// How many nulls one `add` may put in front of the index it names (Q-77).
pub const MAX_PADDING: usize = 1000;

/// Why an operation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The path has no `/` and so addresses nothing.
    #[error("{op} at `{path}`: a path must start with `/`")]
    NoPath {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
    },
    /// The target of a `replace`, or its parent, is missing.
    #[error("{op} at `{path}`: there is nothing at `{missing}`")]
    Missing {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// How far there is nothing.
        missing: String,
    },
    /// The path leads through a string, number or boolean.
    #[error("{op} at `{path}`: `{scalar}` is neither an object nor a list")]
    Scalar {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// Where the scalar is.
        scalar: String,
    },
    /// A list was addressed by something that is not an index.
    #[error("{op} at `{path}`: `{segment}` is not an index of a list")]
    NotAnIndex {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// The offending segment.
        segment: String,
    },
    /// An index beyond the end of a list, or too far from its end.
    #[error("{op} at `{path}`: index {index} is out of range in a list of {len}")]
    OutOfRange {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// The index as written.
        index: i64,
        /// Length of the list.
        len: usize,
    },
    /// A list would have to be filled with too many nulls.
    #[error("{op} at `{path}`: index {index} would fill a list with more than {MAX_PADDING} nulls")]
    Padding {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// The index as written.
        index: i64,
    },
    /// The result would nest too deeply.
    #[error("{op} at `{path}`: the result would nest deeper than {MAX_DEPTH} levels")]
    Depth {
        /// Operation.
        op: &'static str,
        /// Its path.
        path: String,
    },
    /// The budget ran out.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// Applies one operation. A failing operation may leave parents it created behind: discard the
/// tree.
///
/// # Errors
///
/// When the operation does not apply.
pub fn apply(
    tree: &mut Tree<'_>,
    operation: &PatchOperation,
    budget: &Budget<'_>,
) -> Result<(), ApplyError> {
    apply_in(tree, operation, ONLY, budget).map(|_| ())
}

/// As [`apply`], for one of several editors of the tree. Returns whether it may have changed anything.
///
/// # Errors
///
/// The same.
pub(crate) fn apply_in(
    tree: &mut Tree<'_>,
    operation: &PatchOperation,
    editor: Editor,
    budget: &Budget<'_>,
) -> Result<bool, ApplyError> {
    budget.spend(1)?;
    budget.allocate(operation.path.len())?;
    budget.spend(cost_of(operation.path.len()))?;
    let at = At { op: operation.op, path: &operation.path, editor };
    let Some(segments) = pointer::segments(&operation.path) else {
        return match operation.op {
            Op::Remove => Ok(false),
            Op::Add | Op::Replace => {
                Err(ApplyError::NoPath { op: at.name(), path: at.path.to_owned() })
            }
        };
    };
    // Most paths are short, and need no list of their own.
    let (mut few, mut many) = ([""; 8], Vec::new());
    let count = operation.path.bytes().filter(|byte| *byte == b'/').count();
    let segments: &[&str] = match few.get_mut(..count) {
        Some(few) => {
            few.iter_mut().zip(segments).for_each(|(place, segment)| *place = segment);
            few
        }
        None => {
            many.extend(segments);
            &many
        }
    };
    let Some((last, parents)) = segments.split_last() else { return Ok(false) };
    let value = operation.value.clone().unwrap_or_default();
    // A scalar counts as a level. Opened parts of a document are walked by recursion.
    let below = if operation.op == Op::Remove { 0 } else { depth(&value, budget)?.max(1) };
    if segments.len() + below > MAX_DEPTH {
        return Err(ApplyError::Depth { op: at.name(), path: at.path.to_owned() });
    }
    let (tree, level) = at.skip_opened(tree, parents)?;
    let (_, parents) = parents.split_at_checked(level).unwrap_or((parents, &[]));
    let (_, segments) = segments.split_at_checked(level).unwrap_or((segments, &[]));
    if changes_nothing(tree, operation.op, segments, &value, editor) {
        return Ok(false);
    }
    // The steps of what was skipped.
    budget.spend(level as u64)?;
    match operation.op {
        Op::Add => {
            let mut node = tree;
            for (below, segment) in parents.iter().enumerate() {
                let next = segments.get(below + 1).copied().unwrap_or_default();
                node = at.walk_or_create(node, level + below, segment, next, budget)?;
            }
            at.add(node, level + parents.len(), last, value, budget)?;
        }
        Op::Replace => {
            let mut node = tree;
            for (below, segment) in parents.iter().enumerate() {
                node = at.walk(node, segment, budget)?.ok_or_else(|| at.missing(level + below))?;
            }
            let missing = || at.missing(level + parents.len());
            let slot = at.walk(node, last, budget)?.ok_or_else(missing)?;
            *slot = value.into();
        }
        Op::Remove => {
            let mut node = tree;
            for segment in parents {
                match at.walk(node, segment, budget)? {
                    Some(next) => node = next,
                    None => return Ok(false),
                }
            }
            at.remove(node, last, budget)?;
        }
    }
    Ok(true)
}

/// Bytes that a step compares, or moves.
const BYTES_PER_STEP: usize = 64;

/// Elements of a container that a step moves.
const MOVED_PER_STEP: usize = 8;

/// The steps that reading a text of so many bytes takes, as far as they exceed the one of its value.
fn cost_of(bytes: usize) -> u64 {
    (bytes / BYTES_PER_STEP) as u64
}

/// Charges an insertion or a removal in front of so many elements.
fn moves(elements: usize, budget: &Budget<'_>) -> Result<(), Exhausted> {
    budget.spend((elements / MOVED_PER_STEP) as u64)
}

/// The depth of the value of an operation. Charges for every value in it: it is compared with the
/// document, too.
fn depth(value: &Value, budget: &Budget<'_>) -> Result<usize, Exhausted> {
    let mut depth = 0;
    for visit in value.walk() {
        let text = visit.value.as_str().map_or(0, str::len) + visit.key.map_or(0, |key| key.len());
        budget.spend(1 + cost_of(text))?;
        if matches!(visit.value, Value::Array(_) | Value::Object(_)) {
            depth = depth.max(visit.depth + 1);
        }
    }
    Ok(depth)
}

/// Up to this many members a scan that compares lengths first beats bisection.
const SCAN_LIMIT: usize = 12;

/// The place of the member `key`.
fn find_member(members: &[(Str, Tree<'_>)], key: &str) -> Option<usize> {
    if members.len() <= SCAN_LIMIT {
        return members.iter().position(|(name, _)| name.as_str() == key);
    }
    members.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()
}

/// The place of the member `key`, or the one where it belongs.
fn place_of(members: &[(Str, Tree<'_>)], key: &str) -> Result<usize, usize> {
    match find_member(members, key) {
        Some(at) => Ok(at),
        None => Err(members.partition_point(|(name, _)| name.as_str() < key)),
    }
}

/// Whether an operation only confirms what an untouched part of the document says already: then
/// nothing needs to be opened. Text is left to be opened, because that shows when it is printed.
///
/// A part that an earlier editor touched counts as untouched.
fn changes_nothing(
    tree: &Tree<'_>,
    op: Op,
    segments: &[&str],
    value: &Value,
    editor: Editor,
) -> bool {
    let mut node = tree;
    let mut rest = segments;
    loop {
        let is_open =
            matches!(node, Tree::Object(_, last) | Tree::Array(_, last) if *last == editor);
        match rest {
            // An open part is edited in place: comparing it would save nothing.
            [_] if is_open => return false,
            [segment, tail @ ..] if is_open => {
                let Some(Node::Tree(member)) = Node::Tree(node).step(segment) else { return false };
                (node, rest) = (member, tail);
            }
            _ => break,
        }
    }
    let [parents @ .., last] = rest else { return false };
    if matches!(node, Tree::Text(_)) {
        return false;
    }
    let parent = parents.iter().try_fold(Node::Tree(node), |node, segment| node.step(segment));
    let Some(parent) = parent else { return op == Op::Remove };
    let key = unescape(last);
    match (op, parent.member(&key)) {
        (_, None) => false,
        (Op::Add | Op::Replace, Some(found)) => found.is_some_and(|found| found.holds(value)),
        (Op::Remove, Some(found)) => found.is_none(),
    }
}

/// A part of a tree, opened or not.
#[derive(Clone, Copy)]
enum Node<'n, 't> {
    Tree(&'n Tree<'t>),
    Value(&'n Value),
}

impl<'n, 't> Node<'n, 't> {
    /// The member that one segment names.
    fn step(self, segment: &str) -> Option<Self> {
        match self {
            Self::Value(value) | Self::Tree(Tree::Value(value)) => {
                step(value, segment).map(Self::Value)
            }
            Self::Tree(Tree::Object(..)) => self.member(&unescape(segment))?,
            Self::Tree(Tree::Array(elements, _)) => {
                let at = pointer::resolve(pointer::index(segment)?, elements.len())?;
                elements.get(at).map(Self::Tree)
            }
            Self::Tree(Tree::Text(_)) => None,
        }
    }

    /// The member `key` of an object; the outer `None` for anything else.
    fn member(self, key: &str) -> Option<Option<Self>> {
        match self {
            Self::Value(Value::Object(members))
            | Self::Tree(Tree::Value(Value::Object(members))) => {
                Some(members.get(key).map(Self::Value))
            }
            Self::Tree(Tree::Object(members, _)) => {
                let found = find_member(members, key).and_then(|at| members.get(at));
                Some(found.map(|(_, member)| Self::Tree(member)))
            }
            _ => None,
        }
    }

    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Value(own) => own == value,
            Self::Tree(tree) => tree.holds(value),
        }
    }
}

/// The operation being applied, for its error messages.
struct At<'p> {
    op: Op,
    path: &'p str,
    editor: Editor,
}

impl At<'_> {
    fn name(&self) -> &'static str {
        self.op.as_str()
    }

    /// The pointer of the node `level` segments deep.
    fn prefix(&self, level: usize) -> String {
        let segments = self.path.split('/').skip(1).take(level);
        segments.flat_map(|segment| ["/", segment]).collect()
    }

    fn missing(&self, level: usize) -> ApplyError {
        ApplyError::Missing {
            op: self.name(),
            path: self.path.to_owned(),
            missing: self.prefix(level + 1),
        }
    }

    fn scalar(&self, level: usize) -> ApplyError {
        ApplyError::Scalar {
            op: self.name(),
            path: self.path.to_owned(),
            scalar: self.prefix(level),
        }
    }

    fn not_an_index(&self, segment: &str) -> ApplyError {
        ApplyError::NotAnIndex {
            op: self.name(),
            path: self.path.to_owned(),
            segment: segment.to_owned(),
        }
    }

    fn out_of_range(&self, index: i64, len: usize) -> ApplyError {
        ApplyError::OutOfRange { op: self.name(), path: self.path.to_owned(), index, len }
    }

    /// Goes as far as `parents` lead through containers that this editor has opened, to what is no null. Walking
    /// there opens nothing, and takes a step for each of the levels that this returns.
    fn skip_opened<'n, 't>(
        &self,
        tree: &'n mut Tree<'t>,
        parents: &[&str],
    ) -> Result<(&'n mut Tree<'t>, usize), ApplyError> {
        let mut node = tree;
        for (level, segment) in parents.iter().enumerate() {
            let place = match &*node {
                Tree::Object(members, last) if *last == self.editor => {
                    find_member(members, &unescape(segment)).filter(|at| {
                        members.get(*at).is_some_and(|(_, it)| it.shape() != Shape::Null)
                    })
                }
                Tree::Array(elements, last) if *last == self.editor => pointer::index(segment)
                    .and_then(|index| pointer::resolve(index, elements.len()))
                    .filter(|at| elements.get(*at).is_some_and(|it| it.shape() != Shape::Null)),
                _ => None,
            };
            let Some(place) = place else { return Ok((node, level)) };
            let below = match node {
                Tree::Object(members, _) => members.get_mut(place).map(|(_, member)| member),
                Tree::Array(elements, _) => elements.get_mut(place),
                Tree::Value(_) | Tree::Text(_) => None,
            };
            node = below.ok_or_else(|| self.missing(level))?;
        }
        Ok((node, parents.len()))
    }

    /// The member a segment names, where there is one. Below a scalar there is none.
    fn walk<'n, 't>(
        &self,
        node: &'n mut Tree<'t>,
        segment: &str,
        budget: &Budget<'_>,
    ) -> Result<Option<&'n mut Tree<'t>>, ApplyError> {
        budget.spend(1)?;
        Ok(match node.open(self.editor, budget)? {
            None => None,
            Some(Opened::Object(members)) => {
                let key = unescape(segment);
                let found = find_member(members, &key);
                found.and_then(|at| members.get_mut(at)).map(|(_, member)| member)
            }
            Some(Opened::Array(elements)) => pointer::index(segment)
                .and_then(|index| pointer::resolve(index, elements.len()))
                .and_then(|index| elements.get_mut(index)),
        })
    }

    /// The member a segment names, made where it is missing or null: a list if the next segment is
    /// an index, else an object.
    fn walk_or_create<'n, 't>(
        &self,
        node: &'n mut Tree<'t>,
        level: usize,
        segment: &str,
        next: &str,
        budget: &Budget<'_>,
    ) -> Result<&'n mut Tree<'t>, ApplyError> {
        budget.spend(1)?;
        let created = || -> Result<Tree<'t>, ApplyError> {
            match pointer::index(next) {
                None => Ok(Tree::Object(Vec::new(), self.editor)),
                Some(index) if index < -1 => Err(self.out_of_range(index, 0)),
                Some(index) => {
                    let padding = self.padding(index, index.max(0).unsigned_abs(), budget)?;
                    Ok(Tree::Array(padding, self.editor))
                }
            }
        };
        match node.open(self.editor, budget)? {
            None => Err(self.scalar(level)),
            Some(Opened::Object(members)) => {
                let key = unescape(segment);
                let at = match place_of(members, &key) {
                    Ok(at) => {
                        if let Some((_, member)) = members.get_mut(at)
                            && member.shape() == Shape::Null
                        {
                            *member = created()?;
                        }
                        at
                    }
                    Err(at) => {
                        moves(members.len() - at, budget)?;
                        members.insert(at, (key.into(), created()?));
                        at
                    }
                };
                members.get_mut(at).map(|(_, member)| member).ok_or_else(|| self.missing(level))
            }
            Some(Opened::Array(elements)) => {
                let index = pointer::index(segment).ok_or_else(|| self.not_an_index(segment))?;
                let len = elements.len();
                let at = match pointer::resolve(index, len) {
                    Some(at) => {
                        // A null element counts as missing, and the new container goes next to
                        // it: `add` on a list inserts (Q-32).
                        if elements.get(at).is_some_and(|element| element.shape() == Shape::Null) {
                            let at = insertion(index, len).unwrap_or(at);
                            moves(len - at, budget)?;
                            elements.insert(at, created()?);
                            at
                        } else {
                            at
                        }
                    }
                    None => {
                        let wanted = index.max(0).unsigned_abs();
                        let gap = wanted.saturating_sub(len as u64);
                        elements.extend(self.padding(index, gap, budget)?);
                        let at = insertion(index, elements.len())
                            .ok_or_else(|| self.out_of_range(index, len))?;
                        elements.insert(at, created()?);
                        at
                    }
                };
                elements.get_mut(at).ok_or_else(|| self.missing(level))
            }
        }
    }

    fn padding<'t>(
        &self,
        index: i64,
        count: u64,
        budget: &Budget<'_>,
    ) -> Result<Vec<Tree<'t>>, ApplyError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > MAX_PADDING {
            let path = self.path.to_owned();
            return Err(ApplyError::Padding { op: self.name(), path, index });
        }
        budget.allocate(count * size_of::<Value>())?;
        moves(count, budget)?;
        Ok(vec![Tree::Value(Value::Null); count])
    }

    fn add(
        &self,
        node: &mut Tree<'_>,
        level: usize,
        segment: &str,
        value: Value,
        budget: &Budget<'_>,
    ) -> Result<(), ApplyError> {
        match node.open(self.editor, budget)? {
            None => return Err(self.scalar(level)),
            Some(Opened::Object(members)) => {
                let key = unescape(segment);
                match place_of(members, &key) {
                    Ok(at) => {
                        if let Some((_, member)) = members.get_mut(at) {
                            *member = value.into();
                        }
                    }
                    Err(at) => {
                        moves(members.len() - at, budget)?;
                        members.insert(at, (key.into(), value.into()));
                    }
                }
            }
            Some(Opened::Array(elements)) if segment == "-" => elements.push(value.into()),
            Some(Opened::Array(elements)) => {
                let index = pointer::index(segment).ok_or_else(|| self.not_an_index(segment))?;
                let at = insertion(index, elements.len())
                    .ok_or_else(|| self.out_of_range(index, elements.len()))?;
                moves(elements.len() - at, budget)?;
                elements.insert(at, value.into());
            }
        }
        Ok(())
    }

    fn remove(
        &self,
        node: &mut Tree<'_>,
        segment: &str,
        budget: &Budget<'_>,
    ) -> Result<(), ApplyError> {
        match node.open(self.editor, budget)? {
            None => {}
            Some(Opened::Object(members)) => {
                let key = unescape(segment);
                if let Some(at) = find_member(members, &key) {
                    moves(members.len() - at, budget)?;
                    members.remove(at);
                }
            }
            Some(Opened::Array(elements)) => {
                let index = pointer::index(segment).ok_or_else(|| self.not_an_index(segment))?;
                if let Some(at) = pointer::resolve(index, elements.len()) {
                    moves(elements.len() - at, budget)?;
                    elements.remove(at);
                }
            }
        }
        Ok(())
    }
}

/// Where `add` inserts: the element will stand at that index of the longer list.
fn insertion(index: i64, len: usize) -> Option<usize> {
    pointer::resolve(index, len + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DOC: &str =
        r#"{"o": {"k": "v", "n": null}, "l": ["a", "b", "c"], "c": [{"x": 1}, null], "s": "text"}"#;

    /// `ops` are `op path value`, separated by `;`.
    fn patched(ops: &str) -> Result<String, String> {
        let mut tree = Tree::from(Value::from_json(DOC.as_bytes()).expect(DOC));
        let budget = Budget::unlimited();
        for op in ops.split(';') {
            let mut words = op.trim().splitn(3, ' ');
            let name = words.next().expect(op);
            let operation = PatchOperation {
                op: *Op::ALL.iter().find(|op| op.as_str() == name).expect(op),
                path: words.next().unwrap_or_default().to_owned(),
                value: words.next().map(|json| Value::from_json(json.as_bytes()).expect(json)),
            };
            apply(&mut tree, &operation, &budget).map_err(|error| error.to_string())?;
        }
        Ok(tree.into_value().to_json())
    }

    fn check(ops: &str, pointer: &str, expected: &str) {
        let after = patched(ops).unwrap_or_else(|error| panic!("{ops}: {error}"));
        let after = Value::from_json(after.as_bytes()).expect("json");
        let at = after.pointer(pointer).map(Value::to_json);
        assert_eq!(at.as_deref().unwrap_or("missing"), expected, "{ops}");
    }

    fn fails(ops: &str, message: &str) {
        assert_eq!(patched(ops), Err(message.to_owned()));
    }

    #[test]
    fn add_creates_parents() {
        check("add /a/b/c 1", "/a", r#"{"b":{"c":1}}"#);
        check("add /a/0 1", "/a", "[1]");
        check("add /a/-1 1", "/a", "[1]");
        check("add /a/2 1", "/a", "[null,null,1]");
        check("add /a/2/name 1", "/a", r#"[null,null,{"name":1}]"#);
        check("add /a/- 1", "/a", r#"{"-":1}"#);
        check("add /a/1/1 1", "/a", "[null,[null,1]]");
        check("add /x~1y/z 1", "/x~1y", r#"{"z":1}"#);
        check("add /o/n/x 1", "/o/n", r#"{"x":1}"#);
        check("add o/x 1", "/x", "1");
        check("add / 1", "/", "1");
    }

    #[test]
    fn null_counts_as_missing() {
        check("add /q null; add /q/x 1", "/q", r#"{"x":1}"#);
        check("add /a/2 1; add /a/0/x 2", "/a", r#"[{"x":2},null,null,1]"#);
        check("add /c/1/y 2", "/c", r#"[{"x":1},{"y":2},null]"#);
    }

    #[test]
    fn add_in_lists() {
        check("add /l/0 1", "/l", r#"[1,"a","b","c"]"#);
        check("add /l/3 1", "/l", r#"["a","b","c",1]"#);
        check("add /l/-1 1", "/l", r#"["a","b","c",1]"#);
        check("add /l/- 1", "/l", r#"["a","b","c",1]"#);
        check("add /l/-2 1", "/l", r#"["a","b",1,"c"]"#);
        check("add /l/-4 1", "/l", r#"[1,"a","b","c"]"#);
        check("add /l/01 1", "/l", r#"["a",1,"b","c"]"#);
        check("add /c/-2/x 2", "/c", r#"[{"x":2},null]"#);
        check("add /c/-3/x 2", "/c", r#"[{"x":2},{"x":1},null]"#);
        check("add /c/2/x 2", "/c", r#"[{"x":1},null,{"x":2}]"#);
        check("add /c/3/x 2", "/c", r#"[{"x":1},null,null,{"x":2}]"#);
        fails("add /l/4 1", "add at `/l/4`: index 4 is out of range in a list of 3");
        fails("add /l/-5 1", "add at `/l/-5`: index -5 is out of range in a list of 3");
        fails("add /c/-4/x 1", "add at `/c/-4/x`: index -4 is out of range in a list of 2");
        fails("add /l/foo 1", "add at `/l/foo`: `foo` is not an index of a list");
        fails("add /l/-/x 1", "add at `/l/-/x`: `-` is not an index of a list");
        fails("add /a/-2 1", "add at `/a/-2`: index -2 is out of range in a list of 0");
    }

    #[test]
    fn replace() {
        check("replace /o/k 1", "/o/k", "1");
        check("replace /o/n 1", "/o/n", "1");
        check("replace /l/-1 1", "/l", r#"["a","b",1]"#);
        check("replace /l/-3 1", "/l", r#"[1,"b","c"]"#);
        fails("replace /o/z 1", "replace at `/o/z`: there is nothing at `/o/z`");
        fails("replace /z/y/x 1", "replace at `/z/y/x`: there is nothing at `/z`");
        fails("replace /l/3 1", "replace at `/l/3`: there is nothing at `/l/3`");
        fails("replace /l/- 1", "replace at `/l/-`: there is nothing at `/l/-`");
        fails("replace /s/x 1", "replace at `/s/x`: there is nothing at `/s/x`");
        fails("replace foo 1", "replace at `foo`: a path must start with `/`");
    }

    #[test]
    fn remove() {
        check("remove /o/k", "/o", r#"{"n":null}"#);
        check("remove /l/1", "/l", r#"["a","c"]"#);
        check("remove /l/-1", "/l", r#"["a","b"]"#);
        check("remove /l/0; remove /l/1", "/l", r#"["b"]"#);
        for nothing in ["/o/z", "/z/y/x", "/l/3", "/l/-4", "/s/x", "/o/n/x", "/c/9/x", "/c/-/x", ""]
        {
            check(&format!("remove {nothing}"), "/l", r#"["a","b","c"]"#);
        }
        fails("remove /l/foo", "remove at `/l/foo`: `foo` is not an index of a list");
        fails("remove /l/-", "remove at `/l/-`: `-` is not an index of a list");
    }

    #[test]
    fn bounds() {
        fails("add /s/x 1", "add at `/s/x`: `/s` is neither an object nor a list");
        fails("add foo 1", "add at `foo`: a path must start with `/`");
        fails(
            "add /a/1001 1",
            "add at `/a/1001`: index 1001 would fill a list with more than 1000 nulls",
        );
        fails(
            "add /l/1004/x 1",
            "add at `/l/1004/x`: index 1004 would fill a list with more than 1000 nulls",
        );
        assert!(patched("add /a/1000 1").is_ok());
        let deep = format!("add {} 1", "/a".repeat(MAX_DEPTH));
        assert!(patched(&deep).is_err_and(|error| error.ends_with("deeper than 512 levels")));
        assert!(patched(&format!("add {} 1", "/a".repeat(MAX_DEPTH - 1))).is_ok());
    }

    fn operation() -> impl Strategy<Value = PatchOperation> {
        let op = prop_oneof![Just(Op::Add), Just(Op::Add), Just(Op::Replace), Just(Op::Remove)];
        let paths = [
            "/o/k",
            "/o/n",
            "/o/new",
            "/o/new/x",
            "/o/new/x/y",
            "/o",
            "/l/0",
            "/l/-1",
            "/l/9",
            "/c/0/x",
            "/c/1/x",
            "/c/-",
            "/s/x",
            "/s",
            "/new/0/x",
            "/new",
            "none",
        ];
        let values = ["1", "null", r#""v""#, r#"{"x": {"y": 1}}"#, r#"["a", "b"]"#];
        (op, prop::sample::select(paths.to_vec()), prop::sample::select(values.to_vec())).prop_map(
            |(op, path, value)| PatchOperation {
                op,
                path: path.to_owned(),
                value: Value::from_json(value.as_bytes()).ok(),
            },
        )
    }

    proptest! {
        /// Rules that change one tree in turn come to the same, and pay the same, as those that open the
        /// document anew.
        #[test]
        fn editors_are_as_good_as_trees(
            rules in prop::collection::vec(prop::collection::vec(operation(), 1..4), 1..8),
        ) {
            let mut document = Value::from_json(DOC.as_bytes()).expect(DOC);
            let mut shared = Tree::from(document.clone());
            for (editor, operations) in (1..).zip(&rules) {
                let (mut own, alone) = (Tree::from(document.clone()), Budget::unlimited());
                let together = Budget::unlimited();
                for operation in operations {
                    let before = own.clone().into_value();
                    let one = apply(&mut own, operation, &alone);
                    let other = apply_in(&mut shared, operation, editor, &together);
                    let changed = *other.as_ref().unwrap_or(&true);
                    prop_assert_eq!(&one, &other.map(|_| ()));
                    prop_assert_eq!(alone.steps_spent(), together.steps_spent());
                    prop_assert_eq!(alone.bytes_spent(), together.bytes_spent());
                    let after = own.clone().into_value();
                    prop_assert!(changed || before == after);
                    prop_assert_eq!(shared.clone().into_value(), after);
                    if one.is_err() {
                        break;
                    }
                }
                document = own.into_value();
            }
        }
    }
}
