//! Modules to a [`Program`].
//!
//! The stages, in OPA's order as far as it shows: names and conflicts between rules, resolution of
//! names, expansion of calls, safety and order, lowering, recursion. A stage that finds errors is
//! the last one.

mod ahead;
mod errors;
mod expand;
mod hir;
mod hoist;
mod index;
mod lower;
mod recursion;
mod resolve;
mod safety;
mod symbols;
mod types;

use std::{collections::BTreeMap, sync::Arc};

use modgate_value::Str;

use self::{
    errors::{Errors, Later, Text},
    hir::{Term, TermKind, Visit, walk_body, walk_term},
    lower::Lowerer,
    recursion::Dependencies,
    resolve::{Globals, Resolver},
    safety::{Unsafe, VarSet},
    symbols::Symbols,
};
pub(crate) use self::{index::of_group as index, symbols::Constants};
use crate::{
    ast::{self, HeadKind, Module, RegoVersion, Span},
    error::{Code, Error},
    ir::{
        Branch, GroupId, GroupKind, Keyed, Leaf, Pattern, Program, Query, Rule, RuleId, SourceText,
        effects, types::Environment,
    },
    mistake::Mistake,
    parser,
};

/// The functions that policies may call besides the built-ins.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// Functions of the host by name, such as `external_data`, with the number of their arguments.
    pub host_functions: BTreeMap<Str, u32>,
    /// Whether `print` prints, to the host; otherwise it is left out, as in OPA unless configured
    /// otherwise.
    pub print: bool,
}

impl Program {
    /// Compiles modules together.
    ///
    /// # Errors
    ///
    /// At most ten, all of the first stage that found any.
    pub fn compile(modules: &[Module], capabilities: &Capabilities) -> Result<Self, Vec<Error>> {
        Compiler::new(modules, capabilities).run()
    }

    /// The module that a [`Span::module`] names.
    pub fn module(&self, index: u32) -> Option<&SourceText> {
        self.modules.get(index as usize)
    }

    /// The rules that define the document or function at a path below `data`, such as
    /// `["k8srequiredlabels", "violation"]`.
    pub fn group(&self, path: &[&str]) -> Option<GroupId> {
        let mut node = self.nodes.first()?;
        for name in path {
            let child = node.children.iter().find(|(key, _)| {
                let key = self.constants.get(key.0 as usize);
                key.and_then(modgate_value::Value::as_str) == Some(name)
            });
            node = self.nodes.get(child?.1.0 as usize)?;
        }
        node.group
    }

    /// All documents and functions that rules define.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..u32::try_from(self.groups.len()).unwrap_or(u32::MAX)).map(GroupId)
    }

    /// Compiles a query to run against this program, such as `data.example.allow = x`.
    ///
    /// # Errors
    ///
    /// As for modules; locations are those in `text`.
    pub fn query(
        &self,
        text: &str,
        version: RegoVersion,
        capabilities: &Capabilities,
    ) -> Result<Query, Vec<Error>> {
        compile_query(self, text, version, capabilities)
    }
}

/// For how many known keys a partial rule gets a body of its own.
const MAX_KEYED: usize = 4;

struct Compiler<'m> {
    modules: &'m [Module],
    symbols: Symbols,
    errors: Errors<'m>,
}

/// A rule between resolution and lowering.
struct Draft {
    id: RuleId,
    vars: hir::Vars,
    args: Vec<Term>,
    branches: Vec<DraftBranch>,
}

struct DraftBranch {
    body: hir::Body,
    keys: Vec<Term>,
    leaf: Term,
    span: Span,
}

impl<'m> Compiler<'m> {
    fn new(modules: &'m [Module], capabilities: &Capabilities) -> Self {
        Self {
            modules,
            symbols: Symbols {
                print: capabilities.print,
                ..Symbols::new(modules, capabilities.host_functions.clone())
            },
            errors: Errors::new(modules),
        }
    }

    fn run(mut self) -> Result<Program, Vec<Error>> {
        self.check_imports();
        self.errors.finish()?;
        // Groups are needed to resolve calls, but conflicts are reported after names.
        let mut conflicts = Errors::new(self.modules);
        self.symbols.group(self.modules, &mut conflicts);
        let mut later = Later::default();
        let mut drafts = self.resolve(&mut later);
        self.errors.finish()?;
        conflicts.finish()?;
        for late in later.calls {
            self.errors.push_late(late);
        }
        self.errors.finish()?;

        let mut dependencies = Vec::with_capacity(drafts.len());
        let mut total = 0;
        for draft in &mut drafts {
            let mut rules = Dependencies::default();
            draft.expand();
            for branch in &draft.branches {
                rules.body(&self.symbols, &branch.body);
            }
            total += rules.0.len();
            if total > recursion::MAX_DEPENDENCIES {
                let span = self.symbols.span(self.modules, draft.id);
                let message = "rules may depend on one another in too many ways";
                self.errors.push(Code::Compile, span, message);
                break;
            }
            dependencies.push(rules);
            draft.check_safety(&mut self.errors);
        }
        self.errors.finish()?;
        let equal = self.symbols.builtin_id("equal");
        let is_equal = |callee| matches!(callee, hir::Callee::Builtin(id, _) if Some(id) == equal);
        for draft in &mut drafts {
            for branch in &mut draft.branches {
                hoist::body(&mut draft.vars, &mut branch.body, &is_equal);
            }
        }
        let order = recursion::check(&self.symbols, self.modules, &dependencies, &mut self.errors);
        self.errors.finish()?;
        let environment = self.check_types(&drafts, &order);
        self.errors.sort();
        self.errors.finish()?;
        if later.is_deprecated_checked {
            for late in later.deprecated {
                self.errors.push_late(late);
            }
        }
        self.errors.sort();
        self.errors.finish()?;

        let mut rules = Vec::with_capacity(drafts.len());
        let mut replaces_functions = false;
        let mut replaces_data = false;
        for mut draft in drafts {
            let mut lowerer = Lowerer::new(&mut self.symbols, &mut draft.vars, false);
            let rule =
                lower_rule(self.modules, draft.id, &draft.args, &draft.branches, &mut lowerer);
            replaces_functions |= lowerer.replaces_functions;
            replaces_data |= lowerer.replaces_data;
            for (code, span, mistake) in lowerer.errors {
                self.errors.push(code, span, mistake);
            }
            rules.push(Rule {
                frame: u32::try_from(draft.vars.len()).unwrap_or(u32::MAX),
                names: draft.vars.0.into_iter().map(|info| info.name).collect(),
                ..rule
            });
        }
        self.errors.finish()?;
        let constants = self.symbols.constants.into_values();
        let mut groups = self.symbols.groups;
        for group in &mut groups {
            group.index = index::of_group(group, &rules, &constants);
            group.exits_early = effects::always_same_constant(group, &rules);
        }
        ahead::conditions(&constants, &groups, &self.symbols.builtins, &mut rules);
        Ok(Program {
            modules: texts(self.modules),
            constants: constants.into(),
            hints: [].into(),
            formats: [].into(),
            sets: self.symbols.sets.into(),
            // Clones have no spare memory; what was built has a fifth of all that a policy takes.
            rules: rules.iter().cloned().collect(),
            groups: groups.into(),
            nodes: self.symbols.nodes.into(),
            builtins: self.symbols.builtins.into(),
            paths: Arc::default(),
            replaces_functions,
            replaces_data,
            types: Arc::new(environment),
            shared: Arc::default(),
        })
    }

    fn check_types(&mut self, drafts: &[Draft], order: &[usize]) -> Environment {
        let mut environment = Environment::default();
        for draft in order.iter().filter_map(|rule| drafts.get(*rule)) {
            let rule = self.symbols.rule(self.modules, draft.id);
            let source = self.symbols.sources.get(draft.id.0 as usize);
            let group = self.symbols.group_of.get(draft.id.0 as usize);
            let (Some(rule), Some(source), Some(group)) = (rule, source, group) else { continue };
            for branch in &draft.branches {
                let checked = types::Checked {
                    group: *group,
                    node: source.node,
                    vars: &draft.vars,
                    args: &draft.args,
                    keys: &branch.keys,
                    body: &branch.body,
                    leaf: &branch.leaf,
                    is_member: matches!(rule.head.kind, HeadKind::Member(_)),
                    is_function: self
                        .symbols
                        .groups
                        .get(group.0 as usize)
                        .is_some_and(|group| matches!(group.kind, GroupKind::Function { .. })),
                };
                types::check_rule(&self.symbols, &mut environment, &checked, &mut self.errors);
            }
        }
        environment
    }

    fn check_imports(&mut self) {
        for (index, module) in self.modules.iter().enumerate().filter(|(_, module)| module.strict) {
            let at = |span: Span| Span { module: u32::try_from(index).unwrap_or(u32::MAX), ..span };
            let mut seen: BTreeMap<&str, &ast::Import> = BTreeMap::new();
            for import in &module.imports {
                if let Some(before) = seen.insert(import.name(), import) {
                    let written = module
                        .text
                        .get(before.span.start as usize..before.span.end as usize)
                        .unwrap_or("");
                    let message = format!("import must not shadow {written}");
                    self.errors.push(Code::Compile, at(import.span), message);
                    seen.insert(import.name(), before);
                }
            }
            for rule in &module.rules {
                if let Some(ast::Term { kind: ast::TermKind::Var(name), .. }) =
                    rule.head.name.first()
                    && (name == "input" || name == "data")
                {
                    let message =
                        format!("rules must not shadow {name} (use a different rule name)");
                    self.errors.push(Code::Compile, at(rule.span), message);
                }
                let bodies = rule.els.iter().map(|branch| &branch.body).chain([&rule.body]);
                for body in bodies {
                    self.check_shadowing(body, index);
                }
            }
        }
    }

    /// Version 1 does not let variables hide `input` and `data`.
    fn check_shadowing(&mut self, body: &[ast::Expr], module: usize) {
        for expr in body {
            if let ast::ExprKind::Every { body, .. } | ast::ExprKind::Not(body) = &expr.kind {
                self.check_shadowing(body, module);
            }
            let ast::ExprKind::Term(ast::Term {
                kind: ast::TermKind::Call(operator, args), ..
            }) = &expr.kind
            else {
                continue;
            };
            if ast::operator_name(operator) == Some("assign")
                && let Some(ast::Term { kind: ast::TermKind::Ref(parts), .. }) = args.first()
                && let [ast::Term { kind: ast::TermKind::Var(name), .. }] = parts.as_slice()
            {
                let message =
                    format!("variables must not shadow {name} (use a different variable name)");
                let span = Span { module: u32::try_from(module).unwrap_or(u32::MAX), ..expr.span };
                self.errors.push(Code::Compile, span, message);
            }
        }
    }

    fn resolve(&mut self, late: &mut Later) -> Vec<Draft> {
        let mut drafts = Vec::new();
        let mut next = 0;
        for (index, module) in self.modules.iter().enumerate() {
            let module_index = u32::try_from(index).unwrap_or(u32::MAX);
            let globals = Globals::new(&mut self.symbols, self.modules, module);
            for rule in &module.rules {
                let id = RuleId(next);
                next += 1;
                let ground =
                    self.symbols.sources.get(id.0 as usize).map_or(1, |source| source.ground);
                let mut resolver = Resolver::new(
                    &mut self.symbols,
                    &globals,
                    &mut self.errors,
                    late,
                    module_index,
                    !module.strict,
                );
                let args = resolver.args(rule.head.args.as_deref().unwrap_or(&[]));
                let keys = rule.head.name.get(ground..).unwrap_or(&[]);
                let leaf = match &rule.head.kind {
                    HeadKind::Value { value, .. } => value,
                    HeadKind::Member(member) => member,
                };
                let at = |span: Span| Span { module: module_index, ..span };
                let first = resolver.branch(&rule.body, keys, leaf);
                let mut branches = vec![DraftBranch {
                    body: first.body,
                    keys: first.keys,
                    leaf: first.leaf,
                    span: at(rule.span),
                }];
                for branch in &rule.els {
                    let resolved = resolver.branch(&branch.body, &[], &branch.value);
                    branches.push(DraftBranch {
                        body: resolved.body,
                        keys: resolved.keys,
                        leaf: resolved.leaf,
                        span: at(branch.span),
                    });
                }
                drafts.push(Draft { id, vars: resolver.finish(), args, branches });
            }
        }
        drafts
    }
}

impl Draft {
    fn expand(&mut self) {
        let mut support = Vec::new();
        for arg in &mut self.args {
            expand::head(&mut self.vars, arg, &mut support);
        }
        for branch in &mut self.branches {
            let mut body = expand::body(&mut self.vars, std::mem::take(&mut branch.body));
            for key in &mut branch.keys {
                expand::head(&mut self.vars, key, &mut body);
                // Keys that are collections are matched as values.
                if !matches!(key.kind, TermKind::Const(_) | TermKind::Var(_)) {
                    let span = key.span;
                    let local = self.vars.temporary(span);
                    let value = std::mem::replace(key, local.clone());
                    let kind = hir::ExprKind::Eq { left: local, right: value, assign: false };
                    expand::append(&mut body, vec![hir::Expr::generated(kind, span)]);
                }
            }
            expand::append(&mut body, support.clone());
            expand::head(&mut self.vars, &mut branch.leaf, &mut body);
            branch.body = body;
        }
    }

    fn bound_by_args(&self) -> VarSet {
        let mut bound = VarSet::new();
        for arg in &self.args {
            walk_term(arg, Visit::ALL, &mut |var, _| {
                bound.insert(var);
            });
        }
        bound
    }

    fn check_safety(&mut self, errors: &mut Errors<'_>) {
        let bound = self.bound_by_args();
        for branch in &mut self.branches {
            let mut known = bound.clone();
            walk_body(&branch.body, Visit::OUTER, &mut |var, _| {
                known.insert(var);
            });
            for term in branch.keys.iter().chain([&branch.leaf]) {
                walk_term(term, Visit::ALL, &mut |var, span| {
                    if !known.contains(&var) && !self.vars.is_temporary(var) {
                        let name = self.vars.name(var).to_owned();
                        let mistake = Mistake::UnsafeVariable { name, is_keyword: false };
                        errors.push(Code::UnsafeVar, span, mistake);
                    }
                });
            }
            let mut found = Unsafe::default();
            branch.body = safety::order(std::mem::take(&mut branch.body), &bound, &mut found);
            if !found.is_empty() {
                for (code, span, mistake) in found.errors(&self.vars) {
                    errors.push(code, span, mistake);
                }
            }
        }
    }
}

/// The texts of the modules, for locations.
fn texts(modules: &[Module]) -> Arc<[SourceText]> {
    let text =
        |module: &Module| SourceText { name: module.name.clone(), text: module.text.clone() };
    modules.iter().map(text).collect()
}

/// The rule, but for what is known only when all of it is lowered.
fn lower_rule(
    modules: &[Module],
    id: RuleId,
    args: &[Term],
    drafts: &[DraftBranch],
    lowerer: &mut Lowerer<'_>,
) -> Rule {
    let mut bound = VarSet::new();
    let args: Vec<Pattern> = args.iter().map(|arg| lowerer.pattern(arg, &mut bound)).collect();
    let group = lowerer.symbols.group_of.get(id.0 as usize).copied().unwrap_or(GroupId(0));
    let (depth, kind) = lowerer
        .symbols
        .groups
        .get(group.0 as usize)
        .map_or((0, GroupKind::Complete), |group| (group.path.len(), group.kind));
    let source = lowerer.symbols.sources.get(id.0 as usize).copied();
    let node_path = source
        .and_then(|source| lowerer.symbols.node(source.node))
        .map_or_else(Vec::new, |node| node.path.clone());
    let head = lowerer.symbols.rule(modules, id).map(|rule| &rule.head);
    let is_member = head.is_some_and(|head| matches!(head.kind, HeadKind::Member(_)));
    let span = lowerer.symbols.span(modules, id);

    let mut keys = Vec::new();
    let mut branches = Vec::new();
    let mut keyed = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        let mut inside = bound.clone();
        let body = lowerer.body(&draft.body, &mut inside);
        let plain = |lowerer: &mut Lowerer<'_>, term: &Term| {
            let value = lowerer.value(term, &inside);
            if value.is_none() {
                lowerer.errors.push((Code::UnsafeVar, term.span, Mistake::UnsafeExpression));
            }
            value
        };
        if index == 0 {
            // Constant keys between the group's document and the node of the rule.
            keys.extend(node_path.iter().skip(depth).map(|key| crate::ir::Term::Const(*key)));
            for key in &draft.keys {
                keys.extend(plain(lowerer, key));
            }
        }
        let Some(leaf) = plain(lowerer, &draft.leaf) else { continue };
        let leaf = if is_member { Leaf::Member(leaf) } else { Leaf::Value(leaf) };
        branches.push(Branch { body, leaf: leaf.clone(), span: draft.span });
        if index == 0 && matches!(kind, GroupKind::Set | GroupKind::Object) {
            let constant_keys: Vec<Pattern> = node_path
                .iter()
                .skip(depth)
                .map(|key| Pattern::Equal(crate::ir::Term::Const(*key)))
                .collect();
            let member = is_member.then_some(&draft.leaf);
            let positions: Vec<&Term> = draft.keys.iter().chain(member).collect();
            // Looking up longer paths is not worth a body each.
            for count in 1..=(constant_keys.len() + positions.len()).min(MAX_KEYED) {
                let mut known = bound.clone();
                let mut patterns: Vec<Pattern> =
                    constant_keys.iter().take(count).cloned().collect();
                for term in positions.iter().take(count.saturating_sub(constant_keys.len())) {
                    let can_match = lowerer.can_match(term, &known);
                    patterns.push(match can_match {
                        true => lowerer.pattern(term, &mut known),
                        // The body finds out what it is.
                        false => Pattern::Any,
                    });
                }
                let body = lowerer.body(&draft.body, &mut known);
                let (keys, leaf) = (keys.clone(), leaf.clone());
                keyed.push(Keyed { patterns, body, keys, leaf });
            }
        }
    }
    Rule { group, frame: 0, args, keys, branches, keyed, names: Vec::new(), span }
}

fn compile_query(
    program: &Program,
    text: &str,
    version: RegoVersion,
    capabilities: &Capabilities,
) -> Result<Query, Vec<Error>> {
    let body = parser::parse_query(text, version)?;
    let name = Str::default();
    let mut texts: Vec<Text<'_>> = program
        .modules
        .iter()
        .map(|module| Text { name: &module.name, text: &module.text })
        .collect();
    let module = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    texts.push(Text { name: &name, text });
    let mut errors = Errors::of_texts(texts);
    let mut symbols = Symbols {
        constants: Constants::from_values(&program.constants),
        sets: program.sets.to_vec(),
        nodes: program.nodes.to_vec(),
        groups: program.groups.to_vec(),
        host: capabilities.host_functions.clone(),
        ..Symbols::default()
    };
    symbols.restore_builtins(&program.builtins);
    let globals = Globals::default();
    let mut late = Later::default();
    let mut resolver = Resolver::new(&mut symbols, &globals, &mut errors, &mut late, module, true);
    let (body, outputs) = resolver.query(&body);
    let mut vars = resolver.finish();
    errors.finish()?;
    for late in late.calls {
        errors.push_late(late);
    }
    errors.finish()?;
    let body = expand::body(&mut vars, body);
    let mut found = Unsafe::default();
    let body = safety::order(body, &VarSet::new(), &mut found);
    for (code, span, mistake) in found.errors(&vars) {
        errors.push(code, span, mistake);
    }
    errors.finish()?;
    let mut body = body;
    // In a query `==` stays a built-in like any other.
    hoist::body(&mut vars, &mut body, &|_| false);
    types::check_query(&symbols, &program.types, &vars, &body, &mut errors);
    errors.finish()?;
    let mut lowerer = Lowerer::new(&mut symbols, &mut vars, true);
    let mut bound = VarSet::new();
    let body = lowerer.body(&body, &mut bound);
    let replaces_functions = program.replaces_functions || lowerer.replaces_functions;
    let replaces_data = program.replaces_data || lowerer.replaces_data;
    for (code, span, mistake) in lowerer.errors {
        errors.push(code, span, mistake);
    }
    errors.finish()?;
    let outputs = outputs
        .into_iter()
        .filter(|(_, var)| bound.contains(var))
        .map(|(name, var)| (name, crate::ir::Slot(var)))
        .collect();
    Ok(Query {
        program: Program {
            constants: symbols.constants.into_values().into(),
            hints: [].into(),
            formats: [].into(),
            sets: symbols.sets.into(),
            builtins: symbols.builtins.into(),
            replaces_functions,
            replaces_data,
            shared: Arc::default(),
            ..program.clone()
        },
        body,
        frame: u32::try_from(vars.len()).unwrap_or(u32::MAX),
        outputs,
    })
}
