//! Rego sources of a template: what they may say, and their compilation (spec 2.3).

pub(super) mod advice;
mod foreign;
pub(super) mod lint;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use modgate_api::templates::RegoSource;
use modgate_rego::{
    Capabilities, Error, Program, RegoVersion,
    ast::{Module, Span, Term, TermKind},
    parse_module,
};
use modgate_value::{Str, Value};

use super::{
    driver::RegoDriver,
    inventory::InventoryPart,
    template::{InvalidSource, SourcePlace, TemplateError, TemplateOptions},
};

/// The rule every template defines.
const VIOLATION: &str = "violation";

/// The package of the main module, whatever it calls itself (TC-22).
const PACKAGE: &str = "template";

/// Uses `violation` as the engine does, so that the type checker sees what cannot work (TC-30). Errors
/// name the lines 15, 20 and 21, as Gatekeeper's do.
const WRAPPER: &str = concat!(
    "package hooks\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "result[found] {\n\tdata.template.violation[r]\n\n\n\n",
    "\tfound := [\n\t\tobject.get(r, \"details\", {}),\n\t\tr.msg,\n\t]\n}\n"
);

/// Its name in errors.
pub(super) const WRAPPER_NAME: &str = "hooks.hooks_builtin";

/// The text of [`WRAPPER`], once for all programs.
static WRAPPER_TEXT: LazyLock<Arc<str>> = LazyLock::new(|| WRAPPER.into());

/// The Rego of a template, from which its program can be compiled again.
#[derive(Debug)]
pub(super) struct Sources {
    /// The template's own text, and those of its libraries.
    texts: Box<[Arc<str>]>,
    version: RegoVersion,
    capabilities: Capabilities,
}

impl Sources {
    /// The program as it was compiled when the template came.
    pub(super) fn compile_again(&self) -> Option<Program> {
        let mut modules = Vec::with_capacity(self.texts.len() + 1);
        for (index, text) in self.texts.iter().enumerate() {
            let name = module_name(index);
            let mut module = parse_module(&name, text, self.version).ok()?;
            module.text = Arc::clone(text);
            if index == 0 {
                module.package = vec![PACKAGE.into()];
            }
            modules.push(module);
        }
        modules.push(wrapper().ok()?);
        Program::compile(&modules, &self.capabilities).ok()
    }
}

/// The name of a module in errors: the template's own comes first.
fn module_name(index: usize) -> String {
    match index.checked_sub(1) {
        None => "template".to_owned(),
        Some(library) => format!("libs[\"lib_{library}\"]"),
    }
}

fn wrapper() -> Result<Module, Vec<Error>> {
    let module = parse_module(WRAPPER_NAME, WRAPPER, RegoVersion::V0)?;
    Ok(Module { text: Arc::clone(&WRAPPER_TEXT), ..module })
}

/// Parses, checks and compiles, and finds what can only be a mistake although it compiles; the order and the texts of errors are the original's.
pub(super) fn compile(
    source: &RegoSource,
    schema: Option<&Value>,
    options: &TemplateOptions,
) -> Result<(RegoDriver, Vec<lint::Lint>), TemplateError> {
    let version = match source.version.as_deref() {
        Some("v1") => RegoVersion::V1,
        _ => RegoVersion::V0,
    };
    let Some(text) = source.rego.as_ref().filter(|text| !text.is_empty()) else {
        return Err(TemplateError::source(InvalidSource::Missing));
    };
    let mut main = parse(&module_name(0), text, version)?;
    if !main.rules.iter().any(|rule| name_of(rule.head.name.first()) == Some(VIOLATION)) {
        return Err(TemplateError::source(InvalidSource::NoViolation));
    }
    check_imports(&main, text)?;
    main.package = vec![PACKAGE.into()];
    let mut modules = vec![main];
    for (index, text) in source.libs.iter().flatten().enumerate() {
        let library = parse(&module_name(index + 1), text, version)?;
        if library.package.first().is_none_or(|first| first != "lib") || library.package.len() < 2 {
            let path: Vec<&str> =
                ["data"].into_iter().chain(library.package.iter().map(Str::as_str)).collect();
            return Err(TemplateError::source(InvalidSource::Library(path.join("."))));
        }
        check_imports(&library, text)?;
        modules.push(library);
    }
    for module in &modules {
        check_references(module, options)?;
    }
    let mut errors: Vec<Error> =
        modules.iter().filter_map(|module| disabled_call(module, options)).collect();
    let lints = lint::lint(&modules, schema);
    let texts = modules.iter().map(|module| Arc::clone(&module.text)).collect();
    modules.push(wrapper().map_err(refused)?);
    let capabilities = Capabilities {
        host_functions: options
            .external_data
            .then(|| ("external_data".into(), 1))
            .into_iter()
            .collect(),
        print: options.print,
    };
    let compiled = Program::compile(&modules, &capabilities);
    let program = match compiled {
        Ok(program) if errors.is_empty() => program,
        compiled => {
            // What else is wrong is reported with it.
            errors.extend(compiled.err().unwrap_or_default());
            let message = format!("unable to compile modules: {}", as_stored(&text_of(&errors)));
            return Err(TemplateError::Rego { message, errors });
        }
    };
    let Some(violation) = program.group(&[PACKAGE, VIOLATION]) else {
        return Err(TemplateError::source(InvalidSource::NoViolation));
    };
    let sources = Sources { texts, version, capabilities };
    let driver = RegoDriver::new(sources, program, violation, inventory_reads(&modules));
    Ok((if options.observed { driver.counting() } else { driver }, lints))
}

/// The parts of the inventory that the text refers to. Nothing else can be reached: `data` is never
/// mentioned but in references that were checked.
fn inventory_reads(modules: &[Module]) -> Vec<InventoryPart> {
    let mut reads = BTreeSet::new();
    for module in modules {
        module.visit_terms(&mut |term| {
            let TermKind::Ref(parts) = &term.kind else { return };
            if name_of(parts.first()) != Some("data") {
                return;
            }
            let literal = |part: &Term| match &part.kind {
                TermKind::String(text) => Some(text.clone()),
                _ => None,
            };
            let mut steps = parts.iter().skip(1).map(literal);
            if steps.next().flatten().is_some_and(|first| first == "inventory") {
                reads.insert(InventoryPart(steps.collect()));
            }
        });
    }
    reads.into_iter().collect()
}

/// The module, which shares its text with the template.
fn parse(name: &str, text: &Str, version: RegoVersion) -> Result<Module, TemplateError> {
    let module = parse_module(name, text, version).map_err(refused)?;
    Ok(Module { text: text.clone().into(), ..module })
}

fn refused(errors: Vec<Error>) -> TemplateError {
    let message = format!("invalid ConstraintTemplate: {}", text_of(&errors));
    TemplateError::Rego { message, errors }
}

/// The text with the packages of libraries as Gatekeeper compiles them, below `data.libs`.
fn as_stored(text: &str) -> String {
    let mut stored = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("data.lib.") {
        let (before, reference) = rest.split_at(at);
        stored.push_str(before);
        let is_inside =
            before.ends_with(|it: char| it.is_alphanumeric() || matches!(it, '_' | '.'));
        stored.push_str(if is_inside { "data.lib." } else { "data.libs.lib." });
        rest = reference.get("data.lib.".len()..).unwrap_or_default();
    }
    stored + rest
}

/// Errors as OPA prints a list of them.
fn text_of(errors: &[Error]) -> String {
    match errors {
        [error] => format!("1 error occurred: {}", error.detailed()),
        _ => {
            let mut text = format!("{} errors occurred:", errors.len());
            for error in errors {
                let _ = write!(text, "\n{}", error.detailed());
            }
            text
        }
    }
}

fn name_of(term: Option<&Term>) -> Option<&str> {
    match term.map(|term| &term.kind) {
        Some(TermKind::Var(name)) => Some(name),
        _ => None,
    }
}

/// Only `data.lib` and `future` may be imported (TC-24).
fn check_imports(module: &Module, text: &str) -> Result<(), TemplateError> {
    let refused = |error: InvalidSource, span: Option<Span>| TemplateError::Source {
        error,
        place: span.map(|span| place(module, span)),
    };
    let bad = |path: &str, span| refused(InvalidSource::Import(path.to_owned()), span);
    // The parser acts on `rego.v1` and drops it. Only that import makes a text of version 0 strict.
    let imports_v1 = match module.version {
        RegoVersion::V0 => module.strict,
        RegoVersion::V1 => {
            parse_module("", text, RegoVersion::V0).is_ok_and(|module| module.strict)
        }
    };
    if imports_v1 {
        let written = text.find("rego.v1").and_then(|start| u32::try_from(start).ok());
        let span = written.map(|start| Span { start, end: start + 7, module: 0 });
        return Err(bad("rego.v1", span));
    }
    for import in &module.imports {
        let path = import.path.iter().map(Str::as_str).collect::<Vec<_>>();
        let shown = path.join(".");
        match path.as_slice() {
            ["data", "lib", ..] | ["future", ..] => {}
            ["input", ..] => {
                return Err(refused(InvalidSource::ImportOfInput(shown), Some(import.span)));
            }
            _ => return Err(bad(&shown, Some(import.span))),
        }
    }
    Ok(())
}

/// Only the inventory and the libraries may be referred to, at any depth (TC-25, Q-1).
fn check_references(module: &Module, options: &TemplateOptions) -> Result<(), TemplateError> {
    let mut refused: Option<&Term> = None;
    let mut head: Option<&Term> = None;
    module.visit_terms(&mut |term| {
        let allowed = match &term.kind {
            TermKind::Ref(parts) => {
                // A reference is visited before its parts.
                head = parts.first();
                name_of(head) != Some("data")
                    || match parts.get(1).map(|part| &part.kind) {
                        Some(TermKind::String(name)) if name == "inventory" => {
                            options.referential_rules
                        }
                        Some(TermKind::String(name)) => name == "lib",
                        _ => false,
                    }
            }
            TermKind::Var(name) if name == "data" => {
                head.is_some_and(|head| std::ptr::eq(head, term))
            }
            _ => true,
        };
        if !allowed && refused.is_none() {
            refused = Some(term);
        }
    });
    let Some(term) = refused else { return Ok(()) };
    let (module_name, reference) = (module.name.clone(), slice(module, term.span).to_owned());
    Err(TemplateError::Source {
        error: InvalidSource::Reference { module: module_name, reference },
        place: Some(place(module, term.span)),
    })
}

/// The first call of a function that the installation disables (TC-28).
fn disabled_call(module: &Module, options: &TemplateOptions) -> Option<Error> {
    let mut refused: Option<(String, Span)> = None;
    module.visit_terms(&mut |term| {
        let TermKind::Call(operator, _) = &term.kind else { return };
        let Some(name) = dotted(operator) else { return };
        if refused.is_none() && options.disabled_builtins.contains(name.as_str()) {
            refused = Some((name, operator.span));
        }
    });
    let (name, span) = refused?;
    Some(Error::of_disabled_call(&module.name, &module.text, span, name, "use `external_data`"))
}

fn place(module: &Module, span: Span) -> SourcePlace {
    SourcePlace { file: module.name.clone(), span: (span.start as usize..span.end as usize).into() }
}

/// A name such as `http.send`.
fn dotted(operator: &Term) -> Option<String> {
    match &operator.kind {
        TermKind::Var(name) => Some(name.to_string()),
        TermKind::Ref(parts) => {
            let mut path = name_of(parts.first())?.to_owned();
            for part in parts.iter().skip(1) {
                let TermKind::String(name) = &part.kind else { return None };
                let _ = write!(path, ".{name}");
            }
            Some(path)
        }
        _ => None,
    }
}

fn slice(module: &Module, span: Span) -> &str {
    module.text.get(span.start as usize..span.end as usize).unwrap_or_default()
}
