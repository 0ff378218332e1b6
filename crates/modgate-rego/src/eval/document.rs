//! References, and the documents under `data` that rules and base documents make together.

use std::collections::{BTreeMap, HashMap};

use modgate_value::Value as Json;

use super::{
    Machine, Stop,
    hash::Seed,
    room,
    run::{Found, Pending},
};
use crate::{
    error::{Code, Error},
    ir::{
        Base, ConstId, DataBase, GroupId, GroupKind, InputPath, NodeId, Operand, PathId, Pattern,
        Ref, Term,
    },
    value::{Heap, Value, View},
};

/// Where a reference has got to.
enum Place<'a> {
    /// At a value.
    Value(Value<'a>),
    /// Under `data`, where there may be more than one source of values.
    Data(DataPlace<'a>),
}

/// A place under `data`.
struct DataPlace<'a> {
    /// The rules here.
    at: DataBase,
    /// The base document here.
    base: Option<Value<'a>>,
    /// The replacements of the current overlay whose paths lead through here, by index.
    replaced: Vec<usize>,
    /// How many keys lead here from `data`.
    depth: usize,
}

impl<'a> Machine<'a> {
    /// Follows a reference up to its first iteration.
    #[inline(never)]
    pub(super) fn walk(&mut self, reference: &'a Ref) -> Result<Found<'a>, Stop> {
        let start = match &reference.base {
            Base::Term(term) => self.term(term)?,
            Base::InputAt(id) => match self.input_at(*id) {
                Some(value) => value,
                None => return Ok(Found::None),
            },
            // The document of rules, where nothing replaces it.
            Base::Data { at: DataBase::Group(group), .. } if !self.replaces_data() => {
                return self.follow_group(*group, &reference.path);
            }
            base => return self.walk_from(base, &reference.path),
        };
        self.follow_near(start, &reference.path)
    }

    /// As [`follow`](Self::follow), where the path mostly has one step.
    #[inline]
    fn follow_near(&mut self, start: Value<'a>, path: &'a [Operand]) -> Result<Found<'a>, Stop> {
        Ok(match path {
            [] => Found::One(start),
            [Operand::Key(Term::Const(id))] => match self.member(start, *id) {
                Some(value) => Found::One(value),
                None => Found::None,
            },
            [Operand::Each(pattern)] => self.entries(start, pattern, &[]),
            path => return self.follow(start, path),
        })
    }

    #[inline(never)]
    fn walk_from(&mut self, base: &'a Base, path: &'a [Operand]) -> Result<Found<'a>, Stop> {
        match base {
            Base::Term(term) => {
                let value = self.term(term)?;
                self.follow(value, path)
            }
            Base::Input => match self.input() {
                Some(input) => self.follow(input, path),
                None => Ok(Found::None),
            },
            Base::InputAt(id) => match self.input_at(*id) {
                Some(value) => self.follow(value, path),
                None => Ok(Found::None),
            },
            Base::Data { prefix, at } => {
                // When something is replaced, it may be on the way, so every step has to look.
                if self.replaces_data() {
                    return self.walk_replaced(prefix, path);
                }
                if let DataBase::Group(group) = at {
                    return self.follow_group(*group, path);
                }
                let mut base = self.data;
                for key in prefix {
                    base = match base {
                        Some(base) => self.base_get(base, self.constant(*key))?,
                        None => None,
                    };
                }
                match (at, base) {
                    (DataBase::Document, None) => Ok(Found::None),
                    (DataBase::Document, Some(value)) => self.follow_base(value, path),
                    (at, base) => {
                        let (at, depth) = (*at, prefix.len());
                        let place = DataPlace { at, base, replaced: Vec::new(), depth };
                        self.walk_data(place, path)
                    }
                }
            }
        }
    }

    /// The value at a place in the input.
    #[inline]
    pub(super) fn input_at(&mut self, id: PathId) -> Option<Value<'a>> {
        match self.places.get(id.0 as usize) {
            Some(Some(known)) if self.overlay == 0 => *known,
            _ => self.go_to(id),
        }
    }

    fn go_to(&mut self, id: PathId) -> Option<Value<'a>> {
        let path = self.program.paths.get(id.0 as usize)?;
        if self.overlay > 0 {
            return self.follow_names(path);
        }
        let shared = self.memo.zip(path.key);
        let found = match shared.and_then(|(memo, key)| memo.place(key)) {
            Some(known) => known,
            None => {
                let found = self.follow_names(path);
                if let Some((memo, key)) = shared {
                    memo.keep_place(key, found);
                }
                found
            }
        };
        if let Some(place) = self.places.get_mut(id.0 as usize) {
            *place = Some(found);
        }
        found
    }

    fn follow_names(&mut self, path: &'a InputPath) -> Option<Value<'a>> {
        let start = match path.from {
            Some(place) => self.input_at(place),
            None => self.input(),
        };
        let mut value = start?;
        for (name, hint) in &path.names {
            value = match value.as_json_object() {
                Some(object) => Value::json(hint.member(object, name)?),
                None => value.get_name(name)?,
            };
        }
        Some(value)
    }

    /// Follows the known keys of a path from a value.
    #[inline]
    pub(super) fn follow(
        &mut self,
        mut value: Value<'a>,
        path: &'a [Operand],
    ) -> Result<Found<'a>, Stop> {
        let mut steps = path.iter();
        while let Some(step) = steps.next() {
            let next = match step {
                // A field by name, which is what most steps are.
                Operand::Key(Term::Const(id)) => self.member(value, *id),
                Operand::Key(Term::Local(slot)) => value.get(self.slot(*slot)),
                Operand::Key(term) => value.get(self.build(term)?),
                Operand::Each(pattern) => {
                    return Ok(self.entries(value, pattern, steps.as_slice()));
                }
            };
            match next {
                Some(next) => value = next,
                None => return Ok(Found::None),
            }
        }
        Ok(Found::One(value))
    }

    /// The entries of a collection that match, to be followed from there.
    #[inline]
    fn entries(&mut self, of: Value<'a>, key: &'a Pattern, path: &'a [Operand]) -> Found<'a> {
        self.pending = Pending::Entries(of, key, path);
        Found::Several
    }

    /// The member that a constant names.
    #[inline]
    fn member(&self, value: Value<'a>, id: ConstId) -> Option<Value<'a>> {
        match self.constants.get(id.0 as usize)? {
            Json::String(name) => match (value.as_json_object(), self.hints.get(id.0 as usize)) {
                (Some(object), Some(hint)) => hint.member(object, name).map(Value::json),
                _ => value.get_name(name),
            },
            other => value.get(Value::json(other)),
        }
    }

    /// The same in a base document.
    fn follow_base(
        &mut self,
        mut value: Value<'a>,
        path: &'a [Operand],
    ) -> Result<Found<'a>, Stop> {
        let mut rest = path;
        while let Some((step, after)) = rest.split_first() {
            let key = match step {
                Operand::Key(key) => self.term(key)?,
                Operand::Each(pattern) => return Ok(self.entries(value, pattern, after)),
            };
            let Some(next) = self.base_get(value, key)? else { return Ok(Found::None) };
            value = next;
            rest = after;
        }
        Ok(Found::One(value))
    }

    /// A member of a base document: OPA's store takes numbers for text there.
    fn base_get(&self, base: Value<'a>, key: Value<'a>) -> Result<Option<Value<'a>>, Stop> {
        let found = base.get(key);
        if found.is_none()
            && matches!(key.view(), View::Number(_))
            && matches!(base.view(), View::Object(_))
        {
            let text = key.to_text(self.heap.budget())?;
            return Ok(base.get(Value::str(self.heap.text(&text)?)));
        }
        Ok(found)
    }

    fn walk_replaced(
        &mut self,
        prefix: &'a [ConstId],
        path: &'a [Operand],
    ) -> Result<Found<'a>, Stop> {
        let mut place = DataPlace {
            at: DataBase::Node(NodeId(0)),
            base: self.data,
            replaced: (0..self.replacements().len()).collect(),
            depth: 0,
        };
        let mut keys = prefix.iter();
        while let Some(key) = keys.next() {
            match self.step(place, self.constant(*key))? {
                None => return Ok(Found::None),
                Some(Place::Data(next)) => place = next,
                Some(Place::Value(mut value)) => {
                    for key in keys {
                        let Some(next) = value.get(self.constant(*key)) else {
                            return Ok(Found::None);
                        };
                        value = next;
                    }
                    return self.follow(value, path);
                }
            }
        }
        self.walk_data(place, path)
    }

    /// Follows the known keys of a path under `data`.
    fn walk_data(
        &mut self,
        mut place: DataPlace<'a>,
        path: &'a [Operand],
    ) -> Result<Found<'a>, Stop> {
        let mut rest = path;
        loop {
            if let DataBase::Group(group) = place.at {
                return self.follow_group(group, rest);
            }
            let Some((Operand::Key(key), after)) = rest.split_first() else {
                return match self.whole(Place::Data(place))? {
                    Some(value) => self.follow(value, rest),
                    None => Ok(Found::None),
                };
            };
            let key = self.term(key)?;
            match self.step(place, key)? {
                None => return Ok(Found::None),
                Some(Place::Value(value)) => return self.follow(value, after),
                Some(Place::Data(next)) => (place, rest) = (next, after),
            }
        }
    }

    fn follow_group(&mut self, group: GroupId, path: &'a [Operand]) -> Result<Found<'a>, Stop> {
        let (value, rest) = self.group_walk(group, path)?;
        match value {
            Some(value) => self.follow_near(value, rest),
            None => Ok(Found::None),
        }
    }

    /// The value of a group under the known keys that follow, and what is left of the path.
    fn group_walk(
        &mut self,
        id: GroupId,
        path: &'a [Operand],
    ) -> Result<(Option<Value<'a>>, &'a [Operand]), Stop> {
        let partial = self
            .group(id)
            .is_some_and(|group| matches!(group.kind, GroupKind::Set | GroupKind::Object));
        if !partial {
            return Ok((self.group_value(id)?, path));
        }
        let mut keys = Vec::new();
        let mut rest = path;
        while let Some((Operand::Key(key), after)) = rest.split_first() {
            keys.push(self.term(key)?);
            rest = after;
        }
        if keys.is_empty() {
            return Ok((self.group_value(id)?, path));
        }
        Ok((self.group_at(id, &keys)?, rest))
    }

    /// The place one key further; `None` when undefined.
    fn step(&mut self, data: DataPlace<'a>, key: Value<'a>) -> Result<Option<Place<'a>>, Stop> {
        let replaced: Vec<usize> = data
            .replaced
            .into_iter()
            .filter(|index| {
                let path = self.replacements().get(*index).map(|(path, _)| path.as_slice());
                path.and_then(|path| path.get(data.depth)) == Some(&key)
            })
            .collect();
        let depth = data.depth + 1;
        let here = replaced
            .first()
            .and_then(|index| self.replacements().get(*index))
            .filter(|(path, _)| path.len() == depth);
        if let Some((_, value)) = here {
            return Ok(Some(Place::Value(*value)));
        }
        let at = match data.at {
            DataBase::Node(node) => self.child(node, key),
            DataBase::Document => DataBase::Document,
            DataBase::Group(group) => {
                return Ok(self.group_at(group, &[key])?.map(Place::Value));
            }
        };
        let base = match data.base {
            Some(base) => self.base_get(base, key)?,
            None => None,
        };
        Ok(match (at, base, replaced.is_empty()) {
            (DataBase::Document, None, true) => None,
            (DataBase::Document, Some(value), true) => Some(Place::Value(value)),
            (at, base, _) => Some(Place::Data(DataPlace { at, base, replaced, depth })),
        })
    }

    fn child(&self, node: NodeId, key: Value<'a>) -> DataBase {
        let Some(node) = self.node(node) else { return DataBase::Document };
        let child = node.children.iter().find(|(name, _)| self.constant(**name) == key);
        let Some((_, id)) = child else { return DataBase::Document };
        match self.node(*id).and_then(|child| child.group) {
            Some(group) => DataBase::Group(group),
            None => DataBase::Node(*id),
        }
    }

    /// The whole value at a place: base documents, what rules add to them, replacements over both.
    fn whole(&mut self, place: Place<'a>) -> Result<Option<Value<'a>>, Stop> {
        let data = match place {
            Place::Value(value) => return Ok(Some(value)),
            Place::Data(data) => data,
        };
        let node = match data.at {
            DataBase::Group(group) => return self.group_value(group),
            DataBase::Document if data.replaced.is_empty() => return Ok(data.base),
            DataBase::Document => None,
            DataBase::Node(node) => self.node(node),
        };
        let mut members: BTreeMap<Value<'a>, Value<'a>> = BTreeMap::new();
        if !data.replaced.is_empty() && data.base.is_some_and(|base| base.as_object().is_none()) {
            let message = "real and replacement data could not be merged";
            return Err(Error::new(Code::WithMerge, message).into());
        }
        if let Some(base) = data.base.and_then(Value::as_object) {
            self.spend(base.len() as u64)?;
            members.extend(base);
        }
        let ruled = node.into_iter().flat_map(|node| node.children.keys());
        let mut keys: Vec<Value<'a>> = ruled.map(|key| self.constant(*key)).collect();
        keys.extend(data.replaced.iter().filter_map(|index| {
            self.replacements().get(*index).and_then(|(path, _)| path.get(data.depth)).copied()
        }));
        for key in keys {
            let here = DataPlace {
                at: data.at,
                base: data.base,
                replaced: data.replaced.clone(),
                depth: data.depth,
            };
            let member = self.nested(|machine| {
                let next = machine.step(here, key)?;
                let ruled =
                    matches!(next, Some(Place::Data(DataPlace { at: DataBase::Group(_), .. })));
                let member = next.map_or(Ok(None), |next| machine.whole(next))?;
                Ok(member.map(|member| (member, ruled)))
            })?;
            let Some((member, ruled)) = member else { continue };
            let member = match members.get(&key) {
                Some(base) if ruled => self.merge(*base, member)?,
                _ => member,
            };
            members.insert(key, member);
        }
        let entries: Vec<_> = members.into_iter().collect();
        Ok(Some(self.heap.object_from_sorted(&entries)?))
    }

    /// A base document, and what a rule adds to it.
    fn merge(&mut self, base: Value<'a>, ruled: Value<'a>) -> Result<Value<'a>, Stop> {
        let (Some(first), Some(second)) = (base.as_object(), ruled.as_object()) else {
            return Ok(base);
        };
        self.spend((first.len() + second.len()) as u64)?;
        let mut members: BTreeMap<Value<'a>, Value<'a>> = first.into_iter().collect();
        for (key, value) in second {
            let value = match members.get(&key) {
                Some(base) => {
                    let base = *base;
                    self.nested(|machine| machine.merge(base, value))?
                }
                None => value,
            };
            members.insert(key, value);
        }
        let entries: Vec<_> = members.into_iter().collect();
        Ok(self.heap.object_from_sorted(&entries)?)
    }
}

/// The results computed under one overlay.
#[derive(Default)]
pub(super) struct Cache<'a> {
    documents: &'a mut [Option<Option<Value<'a>>>],
    /// None until there is one.
    entries: Option<HashMap<(GroupId, Value<'a>), Option<Value<'a>>, Seed>>,
    pub(super) calls: Calls<'a>,
}

/// The latest calls of functions. Rules of one policy tend to ask the same of the same part of the
/// request, one after the other.
#[derive(Default)]
pub(super) struct Calls<'a> {
    known: Vec<(Call<'a>, Option<Value<'a>>)>,
    /// Where the next one goes.
    next: usize,
}

/// Room for more entries is not kept.
const ENTRIES: usize = 256;

/// How many calls are remembered, and up to how many arguments.
const CALLS: usize = 16;
pub(super) const CALL_ARGS: usize = 2;

/// A call that can be recognised without looking inside its arguments.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    function: GroupId,
    args: [Value<'a>; CALL_ARGS],
    /// Equal for the same calls.
    tag: u32,
}

impl<'a> Call<'a> {
    /// `None` for calls with more arguments than are worth comparing.
    pub(super) fn new(function: GroupId, args: &[Value<'a>]) -> Option<Self> {
        let args = match args {
            [] => [Value::NULL, Value::NULL],
            [a] => [*a, Value::NULL],
            [a, b] => [*a, *b],
            _ => return None,
        };
        let [first, second] = &args;
        let tag = (function.0.wrapping_mul(31) ^ first.tag()).wrapping_mul(31) ^ second.tag();
        Some(Self { function, args, tag })
    }

    pub(super) fn args(&self) -> [Value<'a>; CALL_ARGS] {
        self.args
    }

    fn is_same(&self, other: &Self) -> bool {
        let ([a, b], [c, d]) = (self.args, other.args);
        self.function == other.function && a.is_identical(c) && b.is_identical(d)
    }
}

impl<'a> Calls<'a> {
    pub(super) fn get(&self, call: &Call<'a>) -> Option<Option<Value<'a>>> {
        let same = |(known, _): &&(Call<'a>, _)| known.tag == call.tag && known.is_same(call);
        self.known.iter().find(same).map(|(_, value)| *value)
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.next = 0;
    }

    pub(super) fn put(&mut self, call: Call<'a>, value: Option<Value<'a>>) {
        match self.known.get_mut(self.next) {
            Some(oldest) => *oldest = (call, value),
            None => {
                if self.known.is_empty() {
                    self.known.reserve(CALLS / 2);
                }
                self.known.push((call, value));
            }
        }
        self.next = (self.next + 1) % CALLS;
    }
}

impl<'a> Cache<'a> {
    /// Nothing yet, for a program of so many groups.
    pub(super) fn new(heap: Heap<'a>, groups: usize) -> Self {
        let mut new = Self::default();
        new.clear(heap, groups);
        new
    }

    /// Forgets everything, for a program of so many groups.
    pub(super) fn clear(&mut self, heap: Heap<'a>, groups: usize) {
        let documents = std::mem::take(&mut self.documents);
        self.documents = room::cleared(heap, documents, groups, None);
        // Clearing takes as long as the largest evaluation so far.
        self.entries.take_if(|entries| entries.capacity() > ENTRIES);
        if let Some(entries) = &mut self.entries {
            entries.clear();
        }
        self.calls.clear();
    }

    pub(super) fn document(&self, id: GroupId) -> Option<Option<Value<'a>>> {
        self.documents.get(id.0 as usize).copied().flatten()
    }

    pub(super) fn set_document(&mut self, id: GroupId, value: Option<Value<'a>>) {
        if let Some(place) = self.documents.get_mut(id.0 as usize) {
            *place = Some(value);
        }
    }

    pub(super) fn entry(&self, id: GroupId, key: Value<'a>) -> Option<Option<Value<'a>>> {
        let entries = self.entries.as_ref().filter(|entries| !entries.is_empty())?;
        entries.get(&(id, key)).copied()
    }

    pub(super) fn set_entry(&mut self, id: GroupId, key: Value<'a>, value: Option<Value<'a>>) {
        self.entries.get_or_insert_default().insert((id, key), value);
    }
}
