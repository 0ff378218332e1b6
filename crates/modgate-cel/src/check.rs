//! The type checker.

mod macros;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use modgate_value::{
    diag::Span,
    gotime::Duration,
    regex::{self, Allowance},
};

use crate::{
    ast::{Element, Entry, Expr, Field, Kind, Literal},
    error::Errors,
    functions::{Overload, overloads, read},
    issue::{Issue, Mistake},
    library::{
        Message,
        printing::{Clause, literal},
        read_any_time, read_timestamp, timestamp,
    },
    parser::{parse_with, qualified_name},
    release::Release,
    types::{JSON_PATCH, OBJECT, Solution, Type},
};

/// The names an expression may use, and their types. The patterns that all expressions of one environment
/// and its copies spell out share one [`Allowance`].
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<String, Type>,
    builds: bool,
    mixes: bool,
    observed: bool,
    release: Release,
    /// For the patterns that expressions spell out.
    patterns: Arc<Allowance>,
}

impl Env {
    /// Kubernetes' functions and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// With the results of another release of cel-go.
    #[must_use]
    pub fn with_release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    pub(crate) fn patterns(&self) -> &Allowance {
        &self.patterns
    }

    pub(crate) fn release(&self) -> Release {
        self.release
    }

    /// With what mutations have more: `Object{…}`, `JSONPatch{…}` and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.builds = true;
        self
    }

    /// With lists and maps whose elements have several types, which Kubernetes refuses.
    #[must_use]
    pub fn with_mixed_literals(mut self) -> Self {
        self.mixes = true;
        self
    }

    /// With counts of what evaluations reach: [`Program::places`](crate::Program::places) has them.
    /// Budgets pay for the counting, costs do not.
    #[must_use]
    pub fn observed(mut self, observed: bool) -> Self {
        self.observed = observed;
        self
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.observed
    }

    /// Whether expressions may build objects of this type.
    pub(crate) fn builds(&self, name: &str) -> bool {
        let rest = name.strip_prefix(OBJECT);
        self.builds
            && (name == JSON_PATCH
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }
}

/// The function that mutations have more.
const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// An expression whose types agree.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Its syntax.
    pub expr: Expr,
    /// The type of its result.
    pub ty: Type,
    /// The overload of each call, by the number of its expression, if only one fits.
    pub(crate) overloads: Vec<Option<&'static Overload>>,
    /// A name that stands for a type without being one; the original takes it for the type's name.
    pub(crate) undefined_type: Option<String>,
}

/// Reads `text` and finds its type.
///
/// # Errors
///
/// The errors of the checker, with cel-go's messages.
pub fn check(text: &str, env: &Env) -> Result<Checked, Errors> {
    let expr = parse_with(text, env.release == Release::V0_30)?;
    let mut checker = Checker {
        env,
        scope: Vec::new(),
        solution: Solution::default(),
        literals: Vec::new(),
        calls: Vec::new(),
        in_format: 0,
        formats: Vec::new(),
        types: HashMap::new(),
        overloads: Vec::new(),
        undefined_type: None,
        issues: Vec::new(),
    };
    let ty = checker.expr(&expr);
    let ty = checker.solution.resolve(&ty, true);
    if checker.issues.is_empty() {
        checker.validate();
    }
    let (overloads, issues) = (checker.overloads, checker.issues);
    let undefined_type = checker.undefined_type;
    if issues.is_empty() {
        Ok(Checked { expr, ty, overloads, undefined_type })
    } else {
        Err(Errors::new(text, issues))
    }
}

struct Checker<'e> {
    env: &'e Env,
    scope: Vec<(String, Type)>,
    solution: Solution,
    /// Parts of list and map literals that must have one type, that of the first, and how many of
    /// those with another one are reported.
    literals: Vec<(Vec<(Span, Type)>, usize)>,
    /// Constant arguments to be tried: function, argument, place.
    calls: Vec<(String, String, Span)>,
    in_format: usize,
    /// Calls of `format` whose text is constant: the text, the arguments, the place.
    formats: Vec<(&'e str, &'e [Element], Span)>,
    /// Types of the arguments of such calls, by number.
    types: HashMap<u32, Type>,
    overloads: Vec<Option<&'static Overload>>,
    undefined_type: Option<String>,
    issues: Vec<Issue>,
}

impl<'e> Checker<'e> {
    fn fail(&mut self, span: Span, mistake: Mistake) -> Type {
        self.issues.push(Issue::new(span, mistake));
        Type::Error
    }

    fn wrong_type(&mut self, span: Span, wanted: Type, found: &Type) -> Type {
        self.fail(span, Mistake::WrongType { wanted, found: found.clone() })
    }

    fn expr(&mut self, expr: &'e Expr) -> Type {
        let ty = self.infer(expr);
        if self.in_format > 0 {
            self.types.insert(expr.id, ty.clone());
        }
        ty
    }

    fn list(&mut self, items: &'e [Element]) -> Type {
        let mut element = None;
        let mut parts = Vec::new();
        for item in items {
            let mut ty = self.expr(&item.value);
            if item.optional {
                ty = self.unwrap(&ty, item.value.span);
            }
            parts.push((item.value.span, ty.clone()));
            element = Some(self.join(element, ty));
        }
        self.keep(parts, 1);
        Type::list(element.unwrap_or_else(|| self.solution.fresh()))
    }

    fn map(&mut self, entries: &'e [Entry]) -> Type {
        let (mut key, mut value) = (None, None);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            let key_type = self.expr(&entry.key);
            let mut value_type = self.expr(&entry.value);
            if entry.optional {
                value_type = self.unwrap(&value_type, entry.value.span);
            }
            keys.push((entry.key.span, key_type.clone()));
            values.push((entry.value.span, value_type.clone()));
            key = Some(self.join(key, key_type));
            value = Some(self.join(value, value_type));
        }
        self.keep(keys, usize::MAX);
        self.keep(values, usize::MAX);
        let key = key.unwrap_or_else(|| self.solution.fresh());
        Type::map(key, value.unwrap_or_else(|| self.solution.fresh()))
    }

    fn infer(&mut self, expr: &'e Expr) -> Type {
        let span = expr.span;
        match &expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::BOOL,
                Literal::Int(_) => Type::INT,
                Literal::Uint(_) => Type::UINT,
                Literal::Double(_) => Type::DOUBLE,
                Literal::String(_) => Type::STRING,
                Literal::Bytes(_) => Type::BYTES,
            },
            Kind::Ident(name) => {
                let Some(ty) = self.name(name) else {
                    let name = name.trim_start_matches('.').to_owned();
                    return self.fail(span, Mistake::Undeclared(name));
                };
                if matches!(self.solution.resolve(&ty, false), Type::Type(_))
                    && type_named(name.trim_start_matches('.')).is_none()
                {
                    self.undefined_type.get_or_insert_with(|| name.clone());
                }
                ty
            }
            Kind::Select { operand, field, optional } => {
                if !optional
                    && let Some(name) = qualified_name(expr)
                    && let Some(ty) = type_named(&name)
                {
                    return Type::Type(Arc::new(ty));
                }
                if !optional && let Some(ty) = self.dotted(expr) {
                    return ty;
                }
                let operand = self.expr(operand);
                self.field(&operand, field, *optional, span)
            }
            Kind::Index { operand, index, optional } => {
                let name = if *optional { "_[?_]" } else { "_[_]" };
                let args = [operand, index].map(|arg| self.expr(arg));
                self.resolve(name, false, &args, expr.id, span)
            }
            Kind::Call { function, target, args } => {
                self.call(expr.id, function, target.as_deref(), args, span)
            }
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => {
                let name = name.trim_start_matches('.');
                let message = Message::find(name);
                let builds = self.env.builds(name);
                for field in fields {
                    let mut value = self.expr(&field.value);
                    if field.optional {
                        value = self.unwrap(&value, field.value.span);
                    }
                    match message {
                        Some(ref message) => {
                            self.message_field(message.field(&field.name), field, &value);
                        }
                        None if builds && name == JSON_PATCH => {
                            let wanted = match field.name.as_str() {
                                "op" | "path" | "from" => Some("string"),
                                "value" => Some("dyn"),
                                _ => None,
                            };
                            self.message_field(wanted, field, &value);
                        }
                        None => {}
                    }
                }
                if builds {
                    return Type::Built(name.into());
                }
                match type_named(name) {
                    Some(ty) if name.contains('.') => ty,
                    Some(_) => self.fail(span, Mistake::NoMessage(name.to_owned())),
                    None => self.fail(span, Mistake::Undeclared(name.to_owned())),
                }
            }
            Kind::Has(operand, field) => {
                let operand = self.expr(operand);
                self.field(&operand, field, false, span);
                Type::BOOL
            }
            Kind::Macro { which, target, names, args } => {
                self.expanded(*which, target, names, args, expr)
            }
        }
    }

    fn message_field(&mut self, wanted: Option<&'static str>, field: &Field, found: &Type) {
        let Some(wanted) = wanted else {
            self.fail(field.span, Mistake::UndefinedField(field.name.clone()));
            return;
        };
        let wanted = read(wanted, &mut HashMap::new(), &mut self.solution);
        if !self.solution.unify(&wanted, found) {
            let (name, found) = (field.name.clone(), found.clone());
            self.fail(field.span, Mistake::WrongFieldType { field: name, wanted, found });
        }
    }

    fn name(&self, name: &str) -> Option<Type> {
        let local = self.scope.iter().rev().find(|(local, _)| local == name);
        let name = name.trim_start_matches('.');
        local
            .map(|(_, ty)| ty.clone())
            .or_else(|| self.env.variables.get(name).cloned())
            .or_else(|| type_named(name).map(|ty| Type::Type(Arc::new(ty))))
    }

    /// The type of a variable whose name has dots.
    fn dotted(&self, expr: &Expr) -> Option<Type> {
        let name = qualified_name(expr)?;
        let root = name.split('.').next().unwrap_or_default();
        let hidden = self.scope.iter().any(|(local, _)| local == root);
        self.env.variables.get(&name).filter(|_| !hidden).cloned()
    }

    /// Remembers the parts of a literal, of which at most `most` are reported.
    fn keep(&mut self, parts: Vec<(Span, Type)>, most: usize) {
        if self.in_format == 0 && parts.len() > 1 {
            self.literals.push((parts, most));
        }
    }

    /// The type that holds both.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if !self.solution.unify(&before, &next) {
            return Type::Dyn;
        }
        if before.is_no_more_specific_than(&next) { before } else { next }
    }

    /// The value of an optional element.
    fn unwrap(&mut self, ty: &Type, span: Span) -> Type {
        match ty {
            Type::Optional(inner) => return inner.as_ref().clone(),
            Type::Dyn => {}
            _ => {
                self.wrong_type(span, Type::optional(ty.clone()), ty);
            }
        }
        ty.clone()
    }

    fn field(&mut self, operand: &Type, name: &str, optional: bool, span: Span) -> Type {
        let operand = self.solution.resolve(operand, false);
        let (inner, wrapped) = match &operand {
            Type::Optional(inner) => (inner.as_ref().clone(), true),
            other => (other.clone(), false),
        };
        let value = match inner {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.fields.get(name) {
                Some(ty) => ty.clone(),
                None => self.fail(span, Mistake::UndefinedField(name.to_owned())),
            },
            Type::Param(_) => {
                self.solution.unify(&Type::Dyn, &inner);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Plain(name) if name.starts_with("kubernetes.") => {
                self.fail(span, Mistake::Unresolved(name))
            }
            other => {
                self.fail(span, Mistake::NoFields(other));
                Type::Dyn
            }
        };
        let value = if optional || wrapped { Type::optional(value) } else { value };
        self.solution.resolve(&value, false)
    }

    fn call(
        &mut self,
        id: u32,
        function: &str,
        target: Option<&'e Expr>,
        args: &'e [Expr],
        span: Span,
    ) -> Type {
        let qualified = target.and_then(qualified_name).map(|name| format!("{name}.{function}"));
        let is_known = |name: &String| {
            overloads(name).is_some() && (self.env.builds || name.as_str() != ESCAPE_KEY)
        };
        if let Some(name) = qualified.filter(is_known) {
            let args: Vec<_> = args.iter().map(|arg| self.expr(arg)).collect();
            return self.resolve(&name, false, &args, id, span);
        }
        if let ("_&&_" | "_||_", [left, right]) = (function, args) {
            let [found_left, found_right] = [left, right].map(|side| self.expr(side));
            return self.logical([(&found_left, left.span), (&found_right, right.span)]);
        }
        self.in_format += usize::from(function == "format");
        let mut types: Vec<_> = args.iter().map(|arg| self.expr(arg)).collect();
        if let Some(target) = target {
            types.insert(0, self.expr(target));
        }
        self.in_format -= usize::from(function == "format");
        if let ("timestamp", [Expr { kind: Kind::Literal(Literal::Int(seconds)), span, .. }]) =
            (function, args)
            && timestamp(*seconds, 0, 0).is_err()
        {
            self.calls.push((function.to_owned(), String::new(), *span));
        }
        if let ("timestamp" | "duration", [Expr { kind: Kind::Literal(Literal::Null), span, .. }]) =
            (function, args)
        {
            self.calls.push((function.to_owned(), String::new(), *span));
        }
        // The original looks at the first argument, also where the text stands there.
        let tried = args.first().or(target);
        if let Some(Expr { kind: Kind::Literal(Literal::String(text)), span, .. }) = tried {
            self.calls.push((function.to_owned(), text.clone(), *span));
        }
        if let ("format", Some(text), [Expr { kind: Kind::List(elements), .. }]) =
            (function, target, args)
            && let Kind::Literal(Literal::String(text)) = &text.kind
        {
            self.formats.push((text, elements, span));
        }
        self.resolve(function, target.is_some(), &types, id, span)
    }

    /// The type of `&&` and `||`, whose sides are of these types and stand at these places.
    fn logical(&mut self, sides: [(&Type, Span); 2]) -> Type {
        let mut result = Type::BOOL;
        for (found, span) in sides {
            if !self.solution.unify(found, &Type::BOOL) {
                result = self.wrong_type(span, Type::BOOL, found);
            }
        }
        result
    }

    /// The type of a call that the expression `id` is.
    fn resolve(
        &mut self,
        function: &str,
        member: bool,
        args: &[Type],
        id: u32,
        span: Span,
    ) -> Type {
        let (ty, only) = self.overload(function, member, args, span);
        if only.is_some() {
            let index = id as usize;
            if self.overloads.len() <= index {
                self.overloads.resize(index + 1, None);
            }
            if let Some(slot) = self.overloads.get_mut(index) {
                *slot = only;
            }
        }
        ty
    }

    /// The type of a call, and its overload if only one fits.
    fn overload(
        &mut self,
        function: &str,
        member: bool,
        args: &[Type],
        span: Span,
    ) -> (Type, Option<&'static Overload>) {
        let function = function.trim_start_matches('.');
        let unknown = function == ESCAPE_KEY && !self.env.builds;
        let Some(candidates) = overloads(function).filter(|_| !unknown) else {
            return (self.fail(span, Mistake::Undeclared(function.to_owned())), None);
        };
        let mut found: Option<Type> = None;
        let mut only = None;
        for overload in candidates {
            if overload.member != member {
                continue;
            }
            let (wanted, result) = overload.instance(&mut self.solution);
            if wanted.len() != args.len() || !self.solution.unify_all(args.iter().zip(&wanted)) {
                continue;
            }
            let result = self.solution.resolve(&result, false);
            only = found.is_none().then_some(overload);
            found = Some(match found {
                Some(before) if before != Type::Dyn && before != result => Type::Dyn,
                Some(before) => before,
                None => result,
            });
        }
        (found.unwrap_or_else(|| self.no_overload(function, member, args, span)), only)
    }

    fn no_overload(&mut self, function: &str, member: bool, args: &[Type], span: Span) -> Type {
        let mut types = args.iter().map(|arg| self.solution.resolve(arg, true));
        let target = if member { types.next() } else { None };
        let (function, arguments) = (function.to_owned(), types.collect());
        self.fail(span, Mistake::NoOverload { function, target, arguments })
    }

    /// The checks of constants that Kubernetes makes after the types agree.
    fn validate(&mut self) {
        let literals = std::mem::take(&mut self.literals);
        for (parts, most) in literals.into_iter().filter(|_| !self.env.mixes) {
            let mut types = parts
                .into_iter()
                .map(|(span, ty)| (span, self.solution.resolve(&ty, true)))
                .collect::<Vec<_>>()
                .into_iter();
            let Some((_, first)) = types.next() else { continue };
            for (span, ty) in types.filter(|(_, ty)| *ty != first).take(most) {
                self.wrong_type(span, first.clone(), &ty);
            }
        }
        for (function, text, span) in std::mem::take(&mut self.calls) {
            let valid = match function.as_str() {
                "timestamp" if self.env.release() == Release::V0_26 => read_any_time(&text).is_ok(),
                "timestamp" => read_timestamp(&text).is_ok(),
                "duration" => Duration::parse(&text).is_ok(),
                "matches" => regex::check(&text).is_ok(),
                _ => true,
            };
            if !valid {
                self.fail(span, Mistake::InvalidArgument { function, argument: text });
            }
        }
        for (text, elements, span) in std::mem::take(&mut self.formats) {
            if let Err((span, message)) = self.format(text, elements, span) {
                self.fail(span, Mistake::Format(message));
            }
        }
    }

    /// Whether constant clauses fit their arguments.
    fn format(&self, text: &str, elements: &[Element], span: Span) -> Result<(), (Span, String)> {
        let mut index = 0;
        let mut rest = literal(text).1;
        while let Some(after) = rest {
            if after.is_empty() {
                return Err((span, "unexpected end of string".to_owned()));
            }
            let Some(element) = elements.get(index) else {
                return Err((span, format!("index {index} out of range")));
            };
            let (clause, following) = Clause::read(after).map_err(|message| (span, message))?;
            self.format_argument(clause, &element.value)?;
            rest = literal(following).1;
            index += 1;
        }
        if elements.len() > index {
            let message = format!(
                "too many arguments supplied to string.format (expected {index}, got {})",
                elements.len()
            );
            return Err((span, message));
        }
        Ok(())
    }

    fn format_argument(&self, clause: Clause, arg: &Expr) -> Result<(), (Span, String)> {
        let ty = self.types.get(&arg.id).map_or(Type::Dyn, |ty| self.solution.resolve(ty, true));
        let name = match &ty {
            Type::Object(object) => &object.name,
            Type::Built(name) => &**name,
            ty => ty.name(),
        };
        if !clause.takes(name) {
            return Err((arg.span, clause.refusal(name)));
        }
        match &arg.kind {
            Kind::List(elements) if clause == Clause::Text => {
                elements.iter().try_for_each(|element| self.format_argument(clause, &element.value))
            }
            Kind::Map(entries) if clause == Clause::Text => entries.iter().try_for_each(|entry| {
                self.format_argument(clause, &entry.key)?;
                self.format_argument(clause, &entry.value)
            }),
            _ => Ok(()),
        }
    }
}

/// The name of the type that an identifier names.
pub(crate) fn type_name(name: &str) -> Option<&'static str> {
    Some(match type_named(name)? {
        Type::Dyn => match name {
            "google.protobuf.BoolValue" => "bool",
            "google.protobuf.BytesValue" => "bytes",
            "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => "double",
            "google.protobuf.Int32Value" | "google.protobuf.Int64Value" => "int",
            "google.protobuf.UInt32Value" | "google.protobuf.UInt64Value" => "uint",
            "google.protobuf.StringValue" => "string",
            "google.protobuf.ListValue" => "list",
            "google.protobuf.Struct" => "map",
            _ => "google.protobuf.Any",
        },
        ty => ty.name(),
    })
}

/// The type that an identifier names.
fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::BOOL,
        "int" => Type::INT,
        "uint" => Type::UINT,
        "double" => Type::DOUBLE,
        "string" => Type::STRING,
        "bytes" => Type::BYTES,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(Arc::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Plain("timestamp"),
        "google.protobuf.Duration" => Type::Plain("duration"),
        "net.IP" => Type::Plain("net.IP"),
        "net.CIDR" => Type::Plain("net.CIDR"),
        "google.protobuf.BoolValue"
        | "google.protobuf.BytesValue"
        | "google.protobuf.DoubleValue"
        | "google.protobuf.FloatValue"
        | "google.protobuf.Int32Value"
        | "google.protobuf.Int64Value"
        | "google.protobuf.ListValue"
        | "google.protobuf.StringValue"
        | "google.protobuf.Struct"
        | "google.protobuf.UInt32Value"
        | "google.protobuf.UInt64Value"
        | "google.protobuf.Value"
        | "google.protobuf.Any" => Type::Dyn,
        _ => return None,
    })
}
