//! The state of one rendering that functions share: budget, host, data, and the maps it made.

use std::collections::BTreeMap;

use modgate_value::{
    Budget, MAX_DEPTH, Object, Str,
    regex::{DEFAULT_SIZE_LIMIT, GoRegex, Uncompiled},
};

pub(crate) use crate::fault::{Fault, Result};

use crate::{
    Data, Env, KeyPart, PatchContext,
    text::Text,
    val::{Items, List, ListKind, Map, MapId, MapKind, Val},
};

/// How deep lists and maps may nest when a template prints, compares or copies them.
pub(crate) const MAX_NESTING: usize = MAX_DEPTH + 64;

/// The bytes that a list or map costs besides its elements.
const CONTAINER_COST: usize = 48;

/// A map the template made or changed.
#[derive(Debug)]
struct OwnMap<'a> {
    entries: BTreeMap<Str, Val<'a>>,
}

/// The state of one rendering that functions share.
pub(crate) struct Cx<'a> {
    pub(crate) env: Env<'a>,
    pub(crate) data: Data<'a>,
    maps: Vec<OwnMap<'a>>,
    /// Changed copies of maps of the data, by the address of the original. The data outlives the
    /// rendering, so an address names one map. This is what keeps `set` and `merge` off the
    /// engine's data (spec `kubemod.md` Q-45) and yet visible to the rest of the template.
    changed: BTreeMap<usize, MapId>,
    /// Expressions compiled so far.
    regexes: BTreeMap<String, GoRegex>,
    /// Expressions the template spells out, compiled when it was parsed.
    constant_regexes: &'a BTreeMap<Box<str>, GoRegex>,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(
        env: Env<'a>,
        data: Data<'a>,
        constant_regexes: &'a BTreeMap<Box<str>, GoRegex>,
    ) -> Self {
        Self {
            env,
            data,
            maps: Vec::new(),
            changed: BTreeMap::new(),
            regexes: BTreeMap::new(),
            constant_regexes,
        }
    }

    /// The remaining budget of this rendering.
    pub(crate) fn budget(&self) -> &Budget<'a> {
        self.env.budget
    }

    pub(crate) fn spend(&self, steps: usize) -> Result<()> {
        Ok(self.env.budget.spend(steps as u64)?)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<()> {
        Ok(self.env.budget.allocate(bytes)?)
    }

    /// A string, charged for.
    pub(crate) fn text(&self, text: String) -> Result<Val<'a>> {
        self.allocate(text.len())?;
        Ok(Val::text(text))
    }

    /// Bytes as a string, charged for.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Result<Val<'a>> {
        self.allocate(bytes.len())?;
        Ok(Val::bytes(bytes))
    }

    /// A slice, charged for.
    pub(crate) fn list(&self, items: Vec<Val<'a>>, kind: ListKind) -> Result<Val<'a>> {
        self.spend(items.len())?;
        self.allocate(CONTAINER_COST + items.len() * size_of::<Val<'a>>())?;
        let below = items.iter().map(|item| match item {
            Val::List(List::Own(list)) => list.depth,
            _ => 0,
        });
        let depth = below.max().unwrap_or(0) + 1;
        check_depth(depth)?;
        Ok(Val::List(List::Own(Items { items, kind, depth }.into())))
    }

    /// `[]interface {}`
    pub(crate) fn any_list(&self, items: Vec<Val<'a>>) -> Result<Val<'a>> {
        self.list(items, ListKind::Any)
    }

    /// `.SelectKeyParts` of a patch, as a list.
    pub(crate) fn key_parts(&self, context: &PatchContext<'a>) -> Result<Val<'a>> {
        let parts = context.select_key_parts.iter().map(|part| match part {
            KeyPart::Index(index) => Val::Int(*index),
            KeyPart::Key(key) => Val::Text(Text::Ref(key)),
        });
        self.any_list(parts.collect())
    }

    /// `[]string`, with the texts charged for.
    pub(crate) fn texts<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Val<'a>> {
        let texts = texts.into_iter();
        // What is known of their number is charged for before room is made, so that no copy is needed to grow.
        let (known, _) = texts.size_hint();
        self.allocate(known.saturating_mul(size_of::<Val<'a>>()))?;
        let mut items = Vec::with_capacity(known);
        for (index, text) in texts.enumerate() {
            if index >= known {
                self.allocate(size_of::<Val<'a>>())?;
            }
            items.push(self.text(text.into())?);
        }
        self.list(items, ListKind::Texts)
    }

    /// A new map, charged for.
    pub(crate) fn map(
        &mut self,
        entries: BTreeMap<Str, Val<'a>>,
        kind: MapKind,
    ) -> Result<Map<'a>> {
        self.spend(entries.len())?;
        self.allocate(CONTAINER_COST)?;
        for key in entries.keys() {
            self.allocate(Self::entry_cost(key))?;
        }
        let id = MapId(self.maps.len());
        self.maps.push(OwnMap { entries });
        Ok(Map::Own(id, kind))
    }

    /// A new `map[string]interface {}`, charged for.
    pub(crate) fn any_map(&mut self, entries: BTreeMap<Str, Val<'a>>) -> Result<Val<'a>> {
        Ok(Val::Map(self.map(entries, MapKind::Any)?))
    }

    fn entry_cost(key: &str) -> usize {
        CONTAINER_COST + key.len() + size_of::<Val<'a>>()
    }

    fn changed_copy(&self, original: &'a Object) -> Option<MapId> {
        if self.changed.is_empty() {
            return None;
        }
        self.changed.get(&address(original)).copied()
    }

    /// Whether no map of the data has been changed, so that borrowed data is what it was.
    pub(crate) fn is_pristine(&self) -> bool {
        self.changed.is_empty()
    }

    fn own(&self, id: MapId) -> Option<&BTreeMap<Str, Val<'a>>> {
        self.maps.get(id.0).map(|map| &map.entries)
    }

    /// The member `key` of a map.
    pub(crate) fn get(&self, map: Map<'a>, key: &str) -> Option<Val<'a>> {
        let id = match map {
            Map::Nil => return None,
            Map::Own(id, _) => id,
            Map::Json(object) => match self.changed_copy(object) {
                Some(id) => id,
                None => return object.get(key).map(Val::of_json),
            },
        };
        self.own(id)?.get(key).cloned()
    }

    pub(crate) fn len(&self, map: Map<'a>) -> usize {
        let id = match map {
            Map::Nil => return 0,
            Map::Own(id, _) => id,
            Map::Json(object) => match self.changed_copy(object) {
                Some(id) => id,
                None => return object.len(),
            },
        };
        self.own(id).map_or(0, BTreeMap::len)
    }

    /// The members of a map, sorted by key; charged one step each, and the bytes of [`Cx::entries_size`].
    pub(crate) fn entries(&self, map: Map<'a>) -> Result<Vec<(Str, Val<'a>)>> {
        self.spend(self.len(map))?;
        self.allocate(self.entries_size(map))?;
        let id = match map {
            Map::Nil => return Ok(Vec::new()),
            Map::Own(id, _) => id,
            Map::Json(object) => match self.changed_copy(object) {
                Some(id) => id,
                None => {
                    let entries = object.iter();
                    return Ok(entries
                        .map(|(key, value)| (key.clone(), Val::of_json(value)))
                        .collect());
                }
            },
        };
        let own = self.own(id).into_iter().flatten();
        Ok(own.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// The bytes of a copy of its members.
    pub(crate) fn entries_size(&self, map: Map<'a>) -> usize {
        self.len(map).saturating_mul(size_of::<(Str, Val<'a>)>())
    }

    /// The map itself for changing: a map of the data is copied the first time.
    fn writable(&mut self, map: Map<'a>) -> Result<&mut BTreeMap<Str, Val<'a>>> {
        let id = match map {
            Map::Nil => return Err(Fault::new("assignment to entry in nil map")),
            Map::Own(id, _) => id,
            Map::Json(object) => match self.changed_copy(object) {
                Some(id) => id,
                None => {
                    let entries = self.entries(map)?.into_iter().collect();
                    let Map::Own(id, _) = self.map(entries, MapKind::Any)? else {
                        return Err(Fault::new("map was not made"));
                    };
                    self.changed.insert(address(object), id);
                    id
                }
            },
        };
        let map = self.maps.get_mut(id.0).map(|map| &mut map.entries);
        map.ok_or_else(|| Fault::new("map of another rendering"))
    }

    /// `map[key] = value`
    pub(crate) fn set(&mut self, map: Map<'a>, key: &str, value: Val<'a>) -> Result<()> {
        self.allocate(Self::entry_cost(key))?;
        self.writable(map)?.insert(key.into(), value);
        Ok(())
    }

    /// `delete(map, key)`
    pub(crate) fn unset(&mut self, map: Map<'a>, key: &str) -> Result<()> {
        if self.get(map, key).is_some() {
            self.writable(map)?.remove(key);
        }
        Ok(())
    }

    /// The compiled expression; compiled once per rendering, or once per template where the
    /// template spells it out.
    pub(crate) fn regex(&mut self, pattern: &str) -> Result<GoRegex> {
        if let Some(regex) =
            self.constant_regexes.get(pattern).or_else(|| self.regexes.get(pattern))
        {
            return Ok(regex.clone());
        }
        // Compiling takes time and memory in proportion to the pattern, with a large factor.
        self.spend(pattern.len().saturating_mul(64))?;
        self.allocate(pattern.len().saturating_mul(64))?;
        let left = usize::try_from(self.budget().bytes_left()).unwrap_or(usize::MAX);
        let limit = DEFAULT_SIZE_LIMIT.min(left);
        let regex = match GoRegex::within(pattern, limit, self.budget()) {
            Ok(regex) => regex,
            Err(Uncompiled::Exhausted(exhausted)) => return Err(exhausted.into()),
            Err(Uncompiled::Invalid(error)) => {
                if error.is_too_large() {
                    // It took as much, and where less is left the budget is what stops it.
                    self.allocate(DEFAULT_SIZE_LIMIT)?;
                }
                return Err(Fault::new(error.to_string()));
            }
        };
        // It is kept until the rendering ends.
        self.allocate(regex.memory())?;
        self.regexes.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

fn address(object: &Object) -> usize {
    std::ptr::from_ref(object).addr()
}

/// An error for what nests deeper than [`MAX_NESTING`].
pub(crate) fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_NESTING {
        return Err(Fault::new(format!("more than {MAX_NESTING} nested levels")));
    }
    Ok(())
}
