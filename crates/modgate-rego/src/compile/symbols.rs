//! The documents that rules define: the tree of names, its groups, and conflicts between rules.

use std::{collections::BTreeMap, sync::Arc};

use modgate_value::{Str, Value};

use super::errors::Errors;
use crate::{
    ast::{self, HeadKind, Module, Span, TermKind},
    builtins,
    error::Code,
    ir::{Builtin, BuiltinId, ConstId, Group, GroupId, GroupKind, Node, NodeId, RuleId},
    mistake::Mistake,
};

/// The constants of a program, each once.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    values: Vec<Value>,
    ids: BTreeMap<String, ConstId>,
}

impl Constants {
    pub(crate) fn from_values(values: &[Value]) -> Self {
        let mut constants = Self::default();
        for value in values {
            constants.add(value.clone());
        }
        constants
    }

    pub(crate) fn add(&mut self, value: Value) -> ConstId {
        let next = ConstId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        let id = *self.ids.entry(value.to_json()).or_insert(next);
        if id == next {
            self.values.push(value);
        }
        id
    }

    pub(crate) fn string(&mut self, text: &Str) -> ConstId {
        self.add(Value::String(text.clone()))
    }

    pub(crate) fn get(&self, id: ConstId) -> Option<&Value> {
        self.values.get(id.0 as usize)
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    pub(crate) fn into_values(self) -> Vec<Value> {
        self.values
    }
}

/// The facts about a built-in that resolution uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) arity: u32,
    /// Yields any number of values.
    pub(super) relation: bool,
    /// Yields nothing.
    pub(super) void: bool,
    /// Only version 0 may call it.
    pub(super) deprecated: bool,
}

/// Where a rule came from: module and position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleSource {
    pub(super) module: usize,
    pub(super) rule: usize,
    /// The node of the ground part of its name.
    pub(super) node: NodeId,
    /// How many terms of its name lead to the node.
    pub(super) ground: usize,
}

/// Everything that can be named.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    pub(super) constants: Constants,
    /// Constant sets.
    pub(super) sets: Vec<Arc<[Value]>>,
    pub(super) nodes: Vec<Node>,
    /// For each node, the rules whose ground name ends there.
    pub(super) own: Vec<Vec<RuleId>>,
    pub(super) groups: Vec<Group>,
    /// For each rule, its group.
    pub(super) group_of: Vec<GroupId>,
    pub(super) sources: Vec<RuleSource>,
    pub(super) builtins: Vec<Builtin>,
    pub(super) builtin_ids: BTreeMap<Str, BuiltinId>,
    /// Functions of the host, by name.
    pub(super) host: BTreeMap<Str, u32>,
    /// Whether `print` prints.
    pub(super) print: bool,
}

impl Symbols {
    /// The tree of the modules' rules.
    pub(super) fn new(modules: &[Module], host: BTreeMap<Str, u32>) -> Self {
        let mut symbols = Self { host, ..Self::default() };
        symbols.nodes.push(Node::default());
        symbols.own.push(Vec::new());
        for (module_index, module) in modules.iter().enumerate() {
            let mut package = NodeId(0);
            for name in &module.package {
                let key = symbols.constants.string(name);
                package = symbols.child_or_new(package, key);
            }
            for (rule_index, rule) in module.rules.iter().enumerate() {
                let mut node = package;
                let mut ground = 0;
                for (index, term) in rule.head.name.iter().enumerate() {
                    let key = match (&term.kind, index) {
                        (TermKind::Var(name), 0) => symbols.constants.string(name),
                        (kind, _) => match scalar(kind) {
                            Some(value) if index > 0 => symbols.constants.add(value),
                            _ => break,
                        },
                    };
                    node = symbols.child_or_new(node, key);
                    ground = index + 1;
                }
                let id = RuleId(u32::try_from(symbols.sources.len()).unwrap_or(u32::MAX));
                symbols.sources.push(RuleSource {
                    module: module_index,
                    rule: rule_index,
                    node,
                    ground,
                });
                if let Some(own) = symbols.own.get_mut(node.0 as usize) {
                    own.push(id);
                }
            }
        }
        symbols.group_of = vec![GroupId(u32::MAX); symbols.sources.len()];
        symbols
    }

    fn child_or_new(&mut self, parent: NodeId, key: ConstId) -> NodeId {
        if let Some(child) = self.child(parent, key) {
            return child;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let mut path = Vec::new();
        if let Some(node) = self.nodes.get_mut(parent.0 as usize) {
            node.children.insert(key, id);
            path.clone_from(&node.path);
        }
        path.push(key);
        self.nodes.push(Node { path, ..Node::default() });
        self.own.push(Vec::new());
        id
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    pub(super) fn child(&self, parent: NodeId, key: ConstId) -> Option<NodeId> {
        self.node(parent)?.children.get(&key).copied()
    }

    pub(super) fn own(&self, node: NodeId) -> &[RuleId] {
        self.own.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn rule<'m>(&self, modules: &'m [Module], id: RuleId) -> Option<&'m ast::Rule> {
        let source = self.sources.get(id.0 as usize)?;
        modules.get(source.module)?.rules.get(source.rule)
    }

    /// Where a rule is written.
    pub(super) fn span(&self, modules: &[Module], id: RuleId) -> Span {
        let module = self.sources.get(id.0 as usize).map_or(0, |source| source.module);
        let span = self.rule(modules, id).map_or_else(Span::default, |rule| rule.span);
        Span { module: u32::try_from(module).unwrap_or(u32::MAX), ..span }
    }

    /// The node at a path, when there is one.
    pub(super) fn find(&self, path: &[ConstId]) -> Option<NodeId> {
        path.iter().try_fold(NodeId(0), |node, key| self.child(node, *key))
    }

    /// The functions of all modules, as references to them are written.
    pub(super) fn function_paths(&self) -> Vec<String> {
        self.groups
            .iter()
            .filter(|group| matches!(group.kind, GroupKind::Function { .. }))
            .map(|group| self.path_text(&group.path))
            .collect()
    }

    /// A path as a reference is written.
    pub(super) fn path_text(&self, path: &[ConstId]) -> String {
        let mut text = String::from("data");
        for key in path {
            match self.constants.get(*key) {
                Some(Value::String(name)) if is_name(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Some(other) => {
                    text.push('[');
                    text.push_str(&other.to_json());
                    text.push(']');
                }
                None => {}
            }
        }
        text
    }

    /// The name of a rule as a reference, keys that are not constant included.
    pub(super) fn rule_text(&self, modules: &[Module], id: RuleId) -> String {
        let Some(source) = self.sources.get(id.0 as usize) else { return String::new() };
        let mut text =
            self.node(source.node).map_or(String::new(), |node| self.path_text(&node.path));
        let Some(rule) = self.rule(modules, id) else { return text };
        let module = modules.get(source.module);
        for term in rule.head.name.iter().skip(source.ground) {
            let (start, end) = (term.span.start as usize, term.span.end as usize);
            let written = module.and_then(|module| module.text.get(start..end)).unwrap_or("_");
            match &term.kind {
                TermKind::String(name) if is_name(name) => text.push_str(&format!(".{name}")),
                _ => text.push_str(&format!("[{written}]")),
            }
        }
        text
    }

    /// Makes the groups, and reports rules that cannot stand side by side.
    pub(super) fn group(&mut self, modules: &[Module], errors: &mut Errors<'_>) {
        self.check_conflicts(modules, errors);
        let mut pending = vec![NodeId(0)];
        while let Some(id) = pending.pop() {
            let Some(node) = self.node(id) else { continue };
            let children: Vec<NodeId> = node.children.values().copied().collect();
            let path = node.path.clone();
            let own = self.own(id).to_vec();
            if own.is_empty() {
                pending.extend(children);
                continue;
            }
            let dynamic = own.iter().any(|rule| !self.is_ground(modules, *rule));
            let mut members = own.clone();
            if dynamic {
                let mut below: Vec<RuleId> = Vec::new();
                let mut nodes = children;
                while let Some(child) = nodes.pop() {
                    below.extend(self.own(child));
                    nodes.extend(
                        self.node(child).into_iter().flat_map(|node| node.children.values()),
                    );
                }
                below.sort_unstable();
                members.extend(below);
            } else {
                // Conflicting, or functions next to packages: keep them reachable.
                pending.extend(children);
            }
            let first = own.first().and_then(|rule| self.rule(modules, *rule));
            let arity = first.and_then(|rule| rule.head.args.as_ref()).map_or(0, Vec::len);
            let kind = match first {
                _ if dynamic => GroupKind::Object,
                Some(rule) if matches!(rule.head.kind, HeadKind::Member(_)) => GroupKind::Set,
                _ if arity > 0 => GroupKind::Function { arity },
                _ => GroupKind::Complete,
            };
            let group = GroupId(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
            let mut default = None;
            let mut rules = Vec::new();
            for rule in members {
                if let Some(slot) = self.group_of.get_mut(rule.0 as usize) {
                    *slot = group;
                }
                let is_default = self.rule(modules, rule).is_some_and(|rule| rule.default);
                if is_default && own.contains(&rule) {
                    default = Some(rule);
                } else {
                    rules.push(rule);
                }
            }
            self.groups.push(Group {
                path,
                kind,
                rules,
                default,
                exits_early: false,
                index: None,
                whole: None,
            });
            if let Some(node) = self.nodes.get_mut(id.0 as usize) {
                node.group = Some(group);
            }
        }
    }

    fn is_ground(&self, modules: &[Module], id: RuleId) -> bool {
        let Some(source) = self.sources.get(id.0 as usize) else { return true };
        self.rule(modules, id).is_none_or(|rule| rule.head.name.len() == source.ground)
    }

    fn check_conflicts(&self, modules: &[Module], errors: &mut Errors<'_>) {
        let arity = |rule: &ast::Rule| rule.head.args.as_ref().map_or(0, Vec::len);
        for (index, own) in self.own.iter().enumerate() {
            let id = NodeId(u32::try_from(index).unwrap_or(u32::MAX));
            let rules: Vec<&ast::Rule> =
                own.iter().filter_map(|rule| self.rule(modules, *rule)).collect();
            let (Some(first), Some(node)) = (own.first(), self.node(id)) else { continue };
            let first = self.span(modules, *first);
            let name = own.last().map_or(String::new(), |rule| self.rule_text(modules, *rule));
            let ground: Vec<bool> = own.iter().map(|rule| self.is_ground(modules, *rule)).collect();
            let any_ground = ground.iter().any(|ground| *ground);
            let all_ground = ground.iter().all(|ground| *ground);
            let mut below = Vec::new();
            let mut pending: Vec<NodeId> = node.children.values().copied().collect();
            while let Some(child) = pending.pop() {
                below.extend(self.own(child).iter().copied());
                pending
                    .extend(self.node(child).into_iter().flat_map(|node| node.children.values()));
            }
            below.sort_unstable();
            if !any_ground {
                below.retain(|rule| self.rule(modules, *rule).is_some_and(|rule| arity(rule) > 0));
            }
            let is_set = |rule: &&ast::Rule| matches!(rule.head.kind, HeadKind::Member(_));
            let sets = rules.iter().filter(|rule| is_set(rule)).count();
            let single = rules.len() - sets;
            let complete = rules
                .iter()
                .zip(&ground)
                .filter(|(rule, ground)| !is_set(rule) && **ground)
                .count();
            let mixed_sets = rules.iter().zip(&ground).any(|(rule, g)| is_set(rule) && *g)
                && rules.iter().zip(&ground).any(|(rule, g)| is_set(rule) && !*g);
            let defaults: Vec<Span> = own
                .iter()
                .filter(|id| self.rule(modules, **id).is_some_and(|rule| rule.default))
                .map(|id| self.span(modules, *id))
                .collect();
            let mut arities: Vec<usize> = rules.iter().map(|rule| arity(rule)).collect();
            arities.dedup();
            if !below.is_empty() && (any_ground || !all_ground) {
                let mut message = format!("rule {name} conflicts with:");
                for rule in below {
                    let place = errors.place(self.span(modules, rule));
                    let text = self.rule_text(modules, rule);
                    message.push_str(&format!("\n  rule {text} at {place}"));
                }
                errors.push(Code::Type, first, message);
            } else if (sets > 0 && single > 0)
                || arities.len() > 1
                || (complete > 0 && complete < rules.len())
                || mixed_sets
            {
                errors.push(Code::Type, first, Mistake::ConflictingRules(name));
            } else if let Some((first, rest)) = defaults.split_first()
                && !rest.is_empty()
            {
                let mut message = format!("multiple default rules {name} found at ");
                message.push_str(&errors.place(*first));
                for span in rest {
                    message.push_str(&format!(", {}", errors.place(*span)));
                }
                let module = modules.get(first.module as usize);
                let package = module.map_or(*first, |module| module.package_span);
                errors.push(Code::Type, Span { module: first.module, ..package }, message);
            }
        }
        self.check_packages(modules, errors);
    }

    /// Reports packages below the name of a rule.
    fn check_packages(&self, modules: &[Module], errors: &mut Errors<'_>) {
        for (id, source) in self.sources.iter().enumerate() {
            let id = RuleId(u32::try_from(id).unwrap_or(u32::MAX));
            if !self.is_ground(modules, id) {
                continue;
            }
            let Some(node) = self.node(source.node) else { continue };
            for module in modules {
                let same = module.package.len() == node.path.len()
                    && module.package.iter().zip(&node.path).all(|(name, key)| {
                        self.constants.get(*key).and_then(Value::as_str) == Some(name)
                    });
                if same && let Some(rule) = self.rule(modules, id) {
                    let written: String = rule
                        .head
                        .name
                        .iter()
                        .enumerate()
                        .map(|(index, term)| match &term.kind {
                            TermKind::String(name) if index > 0 => format!(".{name}"),
                            TermKind::Var(name) => name.to_string(),
                            _ => String::new(),
                        })
                        .collect();
                    let message = format!(
                        "package {} conflicts with rule {written} defined at {}",
                        module.package.join("."),
                        errors.place(self.span(modules, id))
                    );
                    let span = modules.get(source.module).map_or(rule.span, |m| m.package_span);
                    let span = Span { module: self.span(modules, id).module, ..span };
                    errors.push(Code::Type, span, message);
                }
            }
        }
    }

    /// The facts about a built-in or host function.
    pub(super) fn signature(&self, name: &str) -> Option<Signature> {
        if let Some(arity) = self.host.get(name) {
            let arity = *arity;
            return Some(Signature { arity, relation: false, void: false, deprecated: false });
        }
        let builtin = builtins::find(name)?;
        let declaration = builtin.declaration();
        Some(Signature {
            arity: u32::try_from(declaration.args.len()).unwrap_or(u32::MAX),
            relation: builtin.relation,
            void: declaration.result.is_none(),
            deprecated: builtin.deprecated,
        })
    }

    pub(super) fn builtin(&mut self, name: &str, arity: u32) -> BuiltinId {
        if let Some(id) = self.builtin_ids.get(name) {
            return *id;
        }
        let id = BuiltinId(u32::try_from(self.builtins.len()).unwrap_or(u32::MAX));
        let name = Str::from(name);
        self.builtins.push(Builtin {
            name: name.clone(),
            arity: arity as usize,
            run: builtins::find(&name),
            compares: builtins::Comparison::of(&name),
        });
        self.builtin_ids.insert(name, id);
        id
    }

    /// The id of a built-in that is called somewhere.
    pub(super) fn builtin_id(&self, name: &str) -> Option<BuiltinId> {
        self.builtin_ids.get(name).copied()
    }

    /// Knows again what a compiled program calls.
    pub(super) fn restore_builtins(&mut self, builtins: &[Builtin]) {
        for builtin in builtins {
            self.builtin(&builtin.name, u32::try_from(builtin.arity).unwrap_or(u32::MAX));
        }
    }

    /// The group whose document or function stands exactly at a path.
    pub(super) fn group_at(&self, path: &[ConstId]) -> Option<GroupId> {
        self.node(self.find(path)?)?.group
    }
}

/// The value of a scalar term.
pub(super) fn scalar(kind: &TermKind) -> Option<Value> {
    Some(match kind {
        TermKind::Null => Value::Null,
        TermKind::Bool(value) => Value::Bool(*value),
        TermKind::Number(number) => Value::Number(number.clone()),
        TermKind::String(text) => Value::String(text.clone()),
        _ => return None,
    })
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
