//! Which documents have the same value in the programs that are evaluated for one input.
//!
//! Policies repeat one another: the list of all containers, the exemptions, whole policies without
//! parameters. The key of a group of rules is a digest of its rules and of all that they lead to. So
//! groups of different programs that have the same key have the same value for one input, as long as
//! the programs were [specialized](crate::specialize) for what the inputs differ in.
//!
//! A group has no key if it depends on base documents or on the outside, or changes its input.

use modgate_value::{Str, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::ir::{
    Base, Branch, Call, Callee, Collect, Comprehension, ConstId, DataBase, Every, Group, GroupId,
    GroupKind, Keyed, Leaf, Operand, Pattern, Program, Ref, Rule, RuleId, SetId, Source, Stmt,
    StmtKind, Term, Whole,
    shared::{Key, Keys},
};

/// How deep rules may lead to one another in what is shared.
const MAX_DEPTH: u32 = 64;

/// Functions of fewer statements, with those of the functions that they call, are as soon computed as
/// looked up.
const MIN_STATEMENTS: u32 = 8;

/// The keys of a program that was specialized for inputs whose member `known` is `value`.
pub(crate) fn keys(program: &Program, known: &str, value: &Json) -> Keys {
    let mut digester = Digester {
        program,
        known: (known, Text::default().and(&value.to_json()).key()),
        constants: vec![None; program.constants.len()],
        sets: vec![None; program.sets.len()],
        keys: vec![None; program.groups.len()],
        depth: 0,
        size: Size::default(),
    };
    let groups = program.groups.len();
    let ids = (0..u32::try_from(groups).unwrap_or(u32::MAX)).map(GroupId);
    let found: Vec<Option<(Key, Size)>> = ids.clone().map(|id| digester.group(id)).collect();
    let keys: Box<[Option<Key>]> = found.iter().map(|it| it.map(|(key, _)| key)).collect();
    let function = |(id, found): (GroupId, &Option<(Key, Size)>)| {
        let (key, size) = (*found)?;
        let group = program.groups.get(id.0 as usize)?;
        let worth = !size.reads_documents && size.statements >= MIN_STATEMENTS;
        (worth && matches!(group.kind, GroupKind::Function { .. })).then_some(key)
    };
    let functions = ids.clone().zip(&found).map(function).collect();
    Keys::new(keys, functions)
}

/// The key of the place in the input that these fields lead to.
pub(crate) fn path_key(names: &[Str]) -> Key {
    names.iter().fold(Text::default(), |text, name| text.and(name)).key()
}

impl Program {
    /// Whether a document of a program that was [specialized](crate::specialize) depends on nothing but the rest of the
    /// input, and on what it was specialized for.
    pub fn is_closed(&self, id: GroupId) -> bool {
        self.shared.of_group(id).is_some()
    }
}

struct Digester<'p> {
    program: &'p Program,
    /// The known member of the input, and its value.
    known: (&'p str, Key),
    /// Of each constant and each set that has been looked at: they may be large.
    constants: Vec<Option<Key>>,
    sets: Vec<Option<Key>>,
    /// By group, once it has been looked at.
    keys: Vec<Option<Option<(Key, Size)>>>,
    depth: u32,
    /// Of the group that is looked at.
    size: Size,
}

/// The parts of a group, with all that it leads to.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    statements: u32,
    reads_documents: bool,
}

/// Texts and numbers, whose digests differ whatever they are.
#[derive(Default)]
struct Text(Sha256);

impl Text {
    fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    fn and(mut self, text: &str) -> Self {
        self.text(text);
        self
    }

    fn inner(&mut self, key: Key) {
        self.0.update(key.digest().to_le_bytes());
    }

    fn key(self) -> Key {
        let digest = self.0.finalize();
        Key::new(u128::from_le_bytes(digest.first_chunk().copied().unwrap_or_default()))
    }
}

impl<'p> Digester<'p> {
    fn group(&mut self, id: GroupId) -> Option<(Key, Size)> {
        if let Some(known) = self.keys.get(id.0 as usize)? {
            return *known;
        }
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let outer = std::mem::take(&mut self.size);
        let key = self.group_key(id).map(|key| (key, self.size));
        self.size = outer;
        self.depth -= 1;
        *self.keys.get_mut(id.0 as usize)? = Some(key);
        key
    }

    fn group_key(&mut self, id: GroupId) -> Option<Key> {
        let program = self.program;
        let Group { path: _, kind, rules, default, exits_early, index: _, whole } =
            program.groups.get(id.0 as usize)?;
        let mut text = Text::default();
        text.tag(u8::from(*exits_early));
        match kind {
            GroupKind::Complete => text.tag(0),
            GroupKind::Set => text.tag(1),
            GroupKind::Object => text.tag(2),
            GroupKind::Part => text.tag(4),
            GroupKind::Function { arity } => {
                text.tag(3);
                text.number(*arity);
            }
        }
        text.number(rules.len());
        rules.iter().try_for_each(|rule| self.rule(*rule, &mut text))?;
        if let Some(default) = default {
            self.rule(*default, &mut text)?;
        }
        // Two forms of the same rules take other steps.
        text.tag(u8::from(whole.is_some()));
        if let Some(Whole { part, rules }) = whole {
            text.tag(u8::from(part.is_some()));
            text.number(rules.len());
            rules.iter().try_for_each(|rule| self.rule(*rule, &mut text))?;
            if let Some(part) = part {
                self.other(*part, &mut text)?;
            }
        }
        Some(text.key())
    }

    fn rule(&mut self, id: RuleId, text: &mut Text) -> Option<()> {
        let program = self.program;
        let rule = program.rules.get(id.0 as usize)?;
        let Rule { group: _, frame, args, keys, branches, keyed, names: _, span: _ } = rule;
        text.number(*frame as usize);
        self.patterns(args, text)?;
        self.terms(keys, text)?;
        text.number(branches.len());
        for Branch { body, leaf, span: _ } in branches {
            self.body(body, text)?;
            self.leaf(leaf, text)?;
        }
        text.number(keyed.len());
        for Keyed { patterns, body, keys, leaf } in keyed {
            self.patterns(patterns, text)?;
            self.body(body, text)?;
            self.terms(keys, text)?;
            self.leaf(leaf, text)?;
        }
        Some(())
    }

    fn leaf(&mut self, leaf: &Leaf, text: &mut Text) -> Option<()> {
        let (tag, term) = match leaf {
            Leaf::Value(term) => (0, term),
            Leaf::Member(term) => (1, term),
        };
        text.tag(tag);
        self.term(term, text)
    }

    fn body(&mut self, body: &[Stmt], text: &mut Text) -> Option<()> {
        text.number(body.len());
        self.size.statements =
            self.size.statements.saturating_add(u32::try_from(body.len()).unwrap_or(u32::MAX));
        body.iter().try_for_each(|stmt| match &stmt.kind {
            StmtKind::Test(source) => {
                text.tag(0);
                self.source(source, text)
            }
            StmtKind::Match(source, pattern) => {
                text.tag(1);
                self.source(source, text)?;
                self.pattern(pattern, text)
            }
            StmtKind::Not(body) => {
                text.tag(2);
                self.body(body, text)
            }
            StmtKind::Every(every) => {
                let Every { domain, key, value, body } = &**every;
                text.tag(3);
                self.term(domain, text)?;
                self.pattern(key, text)?;
                self.pattern(value, text)?;
                self.body(body, text)
            }
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                text.tag(if matches!(stmt.kind, StmtKind::Any(_)) { 4 } else { 5 });
                text.number(bodies.len());
                bodies.iter().try_for_each(|body| self.body(body, text))
            }
            StmtKind::With(..) => None,
        })
    }

    fn source(&mut self, source: &Source, text: &mut Text) -> Option<()> {
        match source {
            Source::Term(term) => {
                text.tag(0);
                self.term(term, text)
            }
            Source::Ref(Ref { base, path }) => {
                match base {
                    Base::Term(term) => {
                        text.tag(1);
                        self.term(term, text)?;
                    }
                    Base::Input => self.input(path.first(), text),
                    // Keys are made before there are any.
                    Base::InputAt(_) => return None,
                    Base::Data { prefix: _, at: DataBase::Group(group) } => {
                        text.tag(3);
                        self.other(*group, text)?;
                        self.size.reads_documents = true;
                    }
                    Base::Data { .. } => return None,
                }
                text.number(path.len());
                path.iter().try_for_each(|step| match step {
                    Operand::Key(term) => {
                        text.tag(0);
                        self.term(term, text)
                    }
                    Operand::Each(pattern) => {
                        text.tag(1);
                        self.pattern(pattern, text)
                    }
                })
            }
            Source::Comprehension(comprehension) => {
                let Comprehension { head, body, captures: _ } = &**comprehension;
                text.tag(4);
                self.body(body, text)?;
                match head {
                    Collect::Array(term) => {
                        text.tag(0);
                        self.term(term, text)
                    }
                    Collect::Set(term) => {
                        text.tag(1);
                        self.term(term, text)
                    }
                    Collect::Object(key, value) => {
                        text.tag(2);
                        self.term(key, text)?;
                        self.term(value, text)
                    }
                }
            }
            Source::Call(Call { callee, args }) => {
                text.tag(5);
                match callee {
                    Callee::Function(group) => {
                        text.tag(0);
                        self.other(*group, text)?;
                    }
                    Callee::Builtin(id) => {
                        let builtin = self.program.builtins.get(id.0 as usize)?;
                        let run = builtin.run?;
                        if !run.is_pure() {
                            return None;
                        }
                        text.tag(1);
                        text.text(run.name);
                    }
                }
                self.terms(args, text)
            }
        }
    }

    /// The facts that a reference into the input depends on beside the rest of the input.
    fn input(&self, first: Option<&Operand>, text: &mut Text) {
        let (known, value) = &self.known;
        let name = match first {
            Some(Operand::Key(Term::Const(id))) => self.constant(*id).and_then(Json::as_str),
            _ => None,
        };
        text.tag(2);
        if name.is_none_or(|name| name == *known) {
            text.tag(1);
            text.inner(*value);
        } else {
            text.tag(0);
        }
    }

    fn other(&mut self, group: GroupId, text: &mut Text) -> Option<()> {
        let (key, size) = self.group(group)?;
        self.size.statements = self.size.statements.saturating_add(size.statements);
        self.size.reads_documents |= size.reads_documents;
        text.inner(key);
        Some(())
    }

    fn terms(&mut self, terms: &[Term], text: &mut Text) -> Option<()> {
        text.number(terms.len());
        terms.iter().try_for_each(|term| self.term(term, text))
    }

    fn term(&mut self, term: &Term, text: &mut Text) -> Option<()> {
        match term {
            Term::Const(id) => {
                text.tag(0);
                let key = match self.constants.get(id.0 as usize)? {
                    Some(key) => *key,
                    None => Text::default().and(&self.constant(*id)?.to_json()).key(),
                };
                *self.constants.get_mut(id.0 as usize)? = Some(key);
                text.inner(key);
            }
            Term::ConstSet(SetId(id)) => {
                text.tag(1);
                let members = self.program.sets.get(*id as usize)?.iter();
                let key = match self.sets.get(*id as usize)? {
                    Some(key) => *key,
                    None => members.fold(Text::default(), |all, it| all.and(&it.to_json())).key(),
                };
                *self.sets.get_mut(*id as usize)? = Some(key);
                text.inner(key);
            }
            Term::Local(slot) => {
                text.tag(2);
                text.number(slot.0 as usize);
            }
            Term::Array(items) => {
                text.tag(3);
                self.terms(items, text)?;
            }
            Term::Set(items) => {
                text.tag(4);
                self.terms(items, text)?;
            }
            Term::Object(entries) => {
                text.tag(5);
                text.number(entries.len());
                for (key, value) in entries {
                    self.term(key, text)?;
                    self.term(value, text)?;
                }
            }
        }
        Some(())
    }

    fn patterns(&mut self, patterns: &[Pattern], text: &mut Text) -> Option<()> {
        text.number(patterns.len());
        patterns.iter().try_for_each(|pattern| self.pattern(pattern, text))
    }

    fn pattern(&mut self, pattern: &Pattern, text: &mut Text) -> Option<()> {
        match pattern {
            Pattern::Any => text.tag(0),
            Pattern::Bind(slot) => {
                text.tag(1);
                text.number(slot.0 as usize);
            }
            Pattern::Equal(term) => {
                text.tag(2);
                self.term(term, text)?;
            }
            Pattern::Array(items) => {
                text.tag(3);
                self.patterns(items, text)?;
            }
            Pattern::Object(entries) => {
                text.tag(4);
                text.number(entries.len());
                for (key, pattern) in entries {
                    self.term(key, text)?;
                    self.pattern(pattern, text)?;
                }
            }
        }
        Some(())
    }

    fn constant(&self, id: ConstId) -> Option<&'p Json> {
        self.program.constants.get(id.0 as usize)
    }
}
