//! Checked syntax into code.

use std::sync::Arc;

use bumpalo::Bump;
use modgate_value::{Budget, Hint};

use crate::{
    ast::{Expr, Kind, Literal, Macro},
    check::{Checked, Env, type_name},
    code::{
        Attribute, Base, Call, Fold, Key, Node, Observed, OptionalMap, Qualifier, Set, SortBy,
        Usual,
    },
    cost,
    error::EvalError,
    functions::{Guard, Overload, overloads},
    heap::{Heap, hashable},
    library::{self, Message},
    parser::qualified_name,
    probe::Probe,
    release::Release,
    types::Type,
    value::{Owned, go_type, qualifies},
};

/// The most lists of a join that is kept.
pub(crate) const MAX_PARTS: usize = 4;

/// The code of an expression.
///
/// # Errors
///
/// The error that a constant part fails with.
pub(crate) fn lower(checked: &Checked, env: &Env) -> Result<(Node, Vec<Arc<Probe>>), String> {
    if let Some(name) = &checked.undefined_type {
        return Err(format!("reference to undefined type: {name}"));
    }
    let mut lowering = Lowering { checked, env, scope: Vec::new(), probes: Vec::new() };
    let node = lowering.expr(&checked.expr)?;
    let node = lowering.probed(&checked.expr, node, checked.ty == Type::BOOL);
    let mut probes = lowering.probes;
    // The whole comes first.
    let whole = probes.pop();
    probes.sort_by_key(|probe| probe.place().span.start);
    Ok((node, whole.into_iter().chain(probes).collect()))
}

struct Lowering<'c> {
    checked: &'c Checked,
    env: &'c Env,
    /// Names of macros, outermost first.
    scope: Vec<String>,
    /// Of a program that is observed.
    probes: Vec<Arc<Probe>>,
}

impl Lowering<'_> {
    /// The node, counted if the program is observed.
    fn probed(&mut self, expr: &Expr, node: Node, decides: bool) -> Node {
        if !self.env.is_observed() {
            return node;
        }
        let probe = Arc::new(Probe::new(expr, decides));
        self.probes.push(Arc::clone(&probe));
        Node::Probe(Box::new(Observed { probe, node }))
    }

    /// The operands of `&&`, `||` and `?:`, counted if the program is observed. Of a chain, each
    /// link counts once.
    fn operands(&mut self, name: &str, exprs: &[&Expr], nodes: Vec<Node>) -> Vec<Node> {
        if !self.env.is_observed() || !matches!(name, "_&&_" | "_||_" | "_?_:_") {
            return nodes;
        }
        let parts = exprs.iter().zip(nodes).enumerate();
        parts
            .map(|(index, (expr, node))| match (name, &node) {
                ("_?_:_", _) => self.probed(expr, node, index == 0),
                (_, Node::Logic { .. }) => node,
                _ => self.probed(expr, node, true),
            })
            .collect()
    }

    fn expr(&mut self, expr: &Expr) -> Result<Node, String> {
        Ok(match &expr.kind {
            Kind::Literal(literal) => Node::Constant(match literal {
                Literal::Null => Owned::Null,
                Literal::Bool(value) => Owned::Bool(*value),
                Literal::Int(value) => Owned::Int(*value),
                Literal::Uint(value) => Owned::Uint(*value),
                Literal::Double(value) => Owned::Double(*value),
                Literal::String(text) => Owned::String(text.as_str().into()),
                Literal::Bytes(bytes) => Owned::Bytes(bytes.as_slice().into()),
            }),
            Kind::Ident(name) => self.name(name),
            Kind::Select { operand, field, optional } => {
                if !optional
                    && let Some(name) = qualified_name(expr)
                    && let Some(name) = type_name(&name)
                {
                    return Ok(Node::Constant(Owned::Type(name)));
                }
                if !optional && let Some(base) = self.dotted(expr) {
                    let attribute = Attribute { base, path: Vec::new(), test: false };
                    return Ok(Node::Attribute(Box::new(attribute)));
                }
                let key = Key::Field(field.as_str().into());
                self.step(operand, Qualifier::new(key, *optional), false)?
            }
            Kind::Has(operand, field) => {
                let key = Key::Field(field.as_str().into());
                self.step(operand, Qualifier::new(key, false), true)?
            }
            Kind::Index { operand, index, optional } => {
                let key = match self.expr(index)? {
                    Node::Constant(Owned::String(text)) => Key::Field((*text).into()),
                    Node::Constant(value) if !qualifies(value.value()) => {
                        return Err(format!("invalid qualifier type: {}", go_type(value.value())));
                    }
                    Node::Constant(value) => Key::Constant(value),
                    node => Key::Computed(node),
                };
                self.step(operand, Qualifier::new(key, *optional), false)?
            }
            Kind::Call { function, target, args } => {
                self.call(expr.id, function, target.as_deref(), args)?
            }
            Kind::List(elements) => {
                let mut parts = Vec::with_capacity(elements.len());
                for element in elements {
                    parts.push((self.expr(&element.value)?, element.optional));
                }
                list(parts)
            }
            Kind::Map(entries) => {
                let mut parts = Vec::with_capacity(entries.len());
                for entry in entries {
                    parts.push((self.expr(&entry.key)?, self.expr(&entry.value)?, entry.optional));
                }
                map(parts)
            }
            Kind::Struct { name, fields } => {
                let name = name.trim_start_matches('.');
                let which = match Message::find(name) {
                    Some(which) => which,
                    None if self.env.builds(name) => Message::Built(name.into()),
                    None => return Err(format!("unknown type: {name}")),
                };
                let mut parts = Vec::with_capacity(fields.len());
                for field in fields {
                    let value = self.expr(&field.value)?;
                    parts.push((field.name.as_str().into(), value, field.optional));
                }
                Node::Message { which, fields: parts.into() }
            }
            Kind::Macro { which, target, names, args } => {
                self.fold(expr.id, *which, target, names, args)?
            }
        })
    }

    fn name(&self, name: &str) -> Node {
        let attribute =
            |base| Node::Attribute(Box::new(Attribute { base, path: Vec::new(), test: false }));
        if let Some(index) = self.scope.iter().rposition(|local| local == name) {
            return attribute(Base::Local(index));
        }
        let name = name.trim_start_matches('.');
        match (self.env.variable(name), type_name(name)) {
            (Some(Type::Object(_)), _) if name == "variables" => {
                attribute(Base::Variables(Hint::default()))
            }
            (None, Some(name)) => Node::Constant(Owned::Type(name)),
            _ => attribute(Base::Input(name.into())),
        }
    }

    /// A variable whose name has dots.
    fn dotted(&self, expr: &Expr) -> Option<Base> {
        let name = qualified_name(expr)?;
        let root = name.split('.').next().unwrap_or_default();
        let hidden = self.scope.iter().any(|local| local == root);
        self.env.variable(&name).filter(|_| !hidden)?;
        Some(Base::Input(name.into()))
    }

    /// One more step into what `operand` gives.
    fn step(&mut self, operand: &Expr, step: Qualifier, test: bool) -> Result<Node, String> {
        let mut attribute = match self.expr(operand)? {
            Node::Attribute(attribute) if !attribute.test => attribute,
            node => {
                Box::new(Attribute { base: Base::Computed(node), path: Vec::new(), test: false })
            }
        };
        attribute.path.push(step);
        attribute.test = test;
        Ok(Node::Attribute(attribute))
    }

    fn overload(&self, id: u32) -> Option<&'static Overload> {
        self.checked.overloads.get(id as usize).copied().flatten()
    }

    fn call(
        &mut self,
        id: u32,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Node, String> {
        let qualified = target.and_then(qualified_name).map(|name| format!("{name}.{function}"));
        let qualified = qualified.filter(|name| overloads(name).is_some());
        let (name, target) = match &qualified {
            Some(name) => (name.trim_start_matches('.'), None),
            None => (function.trim_start_matches('.'), target),
        };
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.expr(arg)?);
        }
        let exprs: Vec<&Expr> = target.into_iter().chain(args).collect();
        let nodes = self.operands(name, &exprs, nodes);
        let nodes = match (name, <[Node; 2]>::try_from(nodes)) {
            ("_&&_" | "_||_", Ok(terms)) => {
                return Ok(Node::Logic { stop: name == "_||_", terms: Box::new(terms) });
            }
            ("_==_" | "_!=_", Ok(sides)) => {
                return Ok(Node::Equal { negated: name == "_!=_", sides: Box::new(sides) });
            }
            ("or" | "orValue", Ok(sides)) => {
                let any = self.env.release() == Release::V0_26;
                return Ok(Node::OrElse { value: name == "orValue", any, sides: Box::new(sides) });
            }
            (_, Ok(nodes)) => nodes.into(),
            (_, Err(nodes)) => nodes,
        };
        let nodes = match (name, <[Node; 3]>::try_from(nodes)) {
            ("_?_:_", Ok(parts)) => {
                let base = Base::Choice(Box::new(parts));
                let attribute = Attribute { base, path: Vec::new(), test: false };
                return Ok(Node::Attribute(Box::new(attribute)));
            }
            (_, Ok(nodes)) => nodes.into(),
            (_, Err(nodes)) => nodes,
        };
        let overload = self.overload(id);
        if name == "@in" && overload.is_some_and(Overload::takes_list) {
            return Ok(membership(nodes));
        }
        let nodes = match (name, <[Node; 1]>::try_from(nodes)) {
            ("!_", Ok([node])) => return Ok(Node::Not(Box::new(node))),
            (_, Ok(nodes)) => nodes.into(),
            (_, Err(nodes)) => nodes,
        };
        let name = if name == "ip" && target.is_some() { "@ip" } else { name };
        self.plain(name, overload, nodes)
    }

    fn plain(
        &self,
        name: &str,
        overload: Option<&'static Overload>,
        args: Vec<Node>,
    ) -> Result<Node, String> {
        let native = library::native(name, self.env.release())
            .ok_or_else(|| format!("no such overload: {name}(...)"))?;
        let converts = matches!(
            name,
            "bool"
                | "bytes"
                | "double"
                | "duration"
                | "dyn"
                | "int"
                | "string"
                | "timestamp"
                | "type"
                | "uint"
        );
        if let ([Node::Constant(value)], true) = (args.as_slice(), converts) {
            let (arena, budget) = (Bump::new(), Budget::unlimited());
            let heap = Heap::new(&arena, &budget);
            let args = [value.value()];
            if !Guard::of(name, overload).accepts(&args) {
                return Err(library::no_overload(name, &args).to_string());
            }
            return match native(heap, &args) {
                Ok(value) => Owned::of(value)
                    .map(Node::Constant)
                    .ok_or_else(|| format!("no such overload: {name}(...)")),
                Err(EvalError::NoOverload) => Err(library::no_overload(name, &args).to_string()),
                Err(error) => Err(error.to_string()),
            };
        }
        let regex = match (name, args.get(1)) {
            ("matches" | "find" | "findAll", Some(Node::Constant(Owned::String(pattern)))) => {
                Some(self.env.patterns().compile(pattern).map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        let cost = cost::call(name, overload);
        let guard = Guard::of(if name == "@ip" { "ip" } else { name }, overload);
        let usual = Usual::of(name, overload);
        let (name, args) = (name.into(), args.into());
        let of_variables = false;
        let call = Call { name, guard, native, cost, args, regex, usual, of_variables };
        let mut node = Node::Call(Box::new(call));
        let of_variables = (2..=MAX_PARTS).contains(&node.summands().unwrap_or(0));
        if let (Node::Call(call), true) = (&mut node, of_variables) {
            call.of_variables = true;
            if let Some(Node::Call(first)) = call.args.first_mut() {
                first.of_variables = false;
            }
        }
        Ok(node)
    }

    fn fold(
        &mut self,
        id: u32,
        which: Macro,
        target: &Expr,
        names: &[String],
        args: &[Expr],
    ) -> Result<Node, String> {
        let range = self.expr(target)?;
        let depth = self.scope.len();
        if which == Macro::SortBy {
            // The list has a name of its own.
            self.scope.push(String::new());
        }
        self.scope.extend(names.iter().cloned());
        let mut nodes = Vec::with_capacity(args.len());
        for (index, arg) in args.iter().enumerate() {
            let node = self.expr(arg)?;
            let is_condition = index + 1 < args.len() || which.decides();
            // Costs depend on whether it is a constant.
            nodes.push(match node {
                node @ (Node::Constant(_) | Node::Logic { .. }) => node,
                node => self.probed(arg, node, is_condition),
            });
        }
        self.scope.truncate(depth);
        let Some(body) = nodes.pop() else { return Err("macro without an expression".to_owned()) };
        Ok(match which {
            Macro::OptMap | Macro::OptFlatMap => Node::OptionalMap(Box::new(OptionalMap {
                wrap: which == Macro::OptMap,
                target: range,
                body,
            })),
            Macro::SortBy => {
                let cost = cost::call("@sortByAssociatedKeys", self.overload(id));
                Node::SortBy(Box::new(SortBy { list: range, key: body, cost }))
            }
            _ => {
                let (two, filter) = (names.len() == 2, nodes.pop());
                Node::Fold(Box::new(Fold { which, range, two, filter, body }))
            }
        })
    }
}

fn list(parts: Vec<(Node, bool)>) -> Node {
    let constants: Option<Vec<Owned>> = parts
        .iter()
        .map(|(node, optional)| match node {
            Node::Constant(value) if !optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    match constants {
        Some(items) => Node::Constant(Owned::List(items.into())),
        None => Node::List(parts.into()),
    }
}

fn map(parts: Vec<(Node, Node, bool)>) -> Node {
    let mut constants: Vec<(Owned, Owned)> = Vec::with_capacity(parts.len());
    for part in &parts {
        let (Node::Constant(key), Node::Constant(value), false) = part else {
            return Node::Map(parts.into());
        };
        if hashable(key.value()).is_err() {
            return Node::Map(parts.into());
        }
        // Lists and maps are keys of their own, whatever is in them.
        let compound = matches!(key, Owned::List(_) | Owned::Map(_));
        match constants.iter_mut().find(|(old, _)| !compound && old == key) {
            Some((_, slot)) => *slot = value.clone(),
            None => constants.push((key.clone(), value.clone())),
        }
    }
    Node::Constant(Owned::Map(constants.into()))
}

/// `item in list`, looked up if the list is constant and of scalars.
fn membership(mut args: Vec<Node>) -> Node {
    let scalar = |item: &Owned| {
        matches!(
            item,
            Owned::Bool(_) | Owned::Int(_) | Owned::Uint(_) | Owned::Double(_) | Owned::String(_)
        )
    };
    match args.pop() {
        Some(Node::Constant(Owned::List(items))) if items.is_empty() => {
            Node::Constant(Owned::Bool(false))
        }
        Some(Node::Constant(Owned::List(items))) if items.iter().all(scalar) => {
            let texts: Option<Vec<Box<str>>> = items
                .iter()
                .map(|item| match item {
                    Owned::String(text) => Some(text.clone()),
                    _ => None,
                })
                .collect();
            let set = match texts {
                Some(mut texts) => {
                    texts.sort_unstable();
                    Set::Strings(texts.into())
                }
                None => Set::Other(Owned::List(items)),
            };
            let item = args.pop().unwrap_or(Node::Constant(Owned::Null));
            Node::InSet { item: Box::new(item), set }
        }
        range => {
            args.extend(range);
            let native = library::native("@in", Release::default())
                .unwrap_or(|_, _| Err(EvalError::NoOverload));
            let (name, args) = ("@in".into(), args.into());
            let cost = cost::CallCost::Search;
            let guard = Guard::None;
            Node::Call(Box::new(Call {
                name,
                guard,
                native,
                cost,
                args,
                regex: None,
                usual: Some(Usual::In),
                of_variables: false,
            }))
        }
    }
}
