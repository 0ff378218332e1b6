//! From a ConstraintTemplate to a [`CompiledTemplate`]: the checks, in the original's order and
//! with its texts (spec 2.1 and 2.2).

use std::collections::BTreeSet;

use modgate_api::templates::{
    self as wire, CelSourceError, ConstraintTemplate, FailurePolicy, RegoSource, Target,
};
use modgate_rego::Mistake;
use modgate_value::{DecodeError, Str, Value, diag::Span, gofmt, near};

use super::{
    cel::CelDriver,
    crd::{ConstraintSchema, SchemaError},
    driver::Driver,
    source::{self, advice},
};
use crate::{Code, PolicyId, Severity, coverage::Coverage, policy::pointer};

/// The options of an installation for templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateOptions {
    /// Whether `data.inventory` may be read (`--enable-referential-rules`).
    pub referential_rules: bool,
    /// Whether `external_data` may be called (`--enable-external-data`).
    pub external_data: bool,
    /// Built-ins that do not exist (`--disable-opa-builtin`).
    pub disabled_builtins: BTreeSet<Str>,
    /// Whether `print` in Rego prints, to the host; otherwise it costs nothing.
    pub print: bool,
    /// Whether the CEL engine is there (`--enable-k8s-native-validation`). A template that has a
    /// source for it is evaluated by it alone (TC-11).
    pub cel: bool,
    /// The effect of errors of CEL sources that set none
    /// (`--default-k8s-native-validation-failure-policy`).
    pub failure_policy: FailurePolicy,
    /// Whether CEL sources may say `matchConditions` for `matchCondition`.
    pub plural_match_conditions: bool,
    /// Whether templates and constraints count what evaluations reach
    /// ([`CompiledTemplate::coverage`]), and with them the Go templates of ModRules and the cluster's own policies
    /// ([`Snapshot::coverage`](crate::Snapshot::coverage)). Otherwise counting costs nothing.
    pub observed: bool,
}

impl TemplateOptions {
    /// Switches built-ins off, as `--disable-opa-builtin` names them: one, several with commas, and
    /// in the braces that the original's manifests put around the name.
    pub fn disable_builtins(&mut self, names: &str) {
        let names = names.trim().trim_start_matches('{').trim_end_matches('}');
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        self.disabled_builtins.extend(names.map(Str::from));
    }
}

impl Default for TemplateOptions {
    /// All but what reaches the network.
    fn default() -> Self {
        Self {
            referential_rules: true,
            external_data: true,
            disabled_builtins: ["http.send", "net.lookup_ip_addr"].map(Str::from).into(),
            print: false,
            cel: true,
            failure_policy: FailurePolicy::default(),
            plural_match_conditions: false,
            observed: false,
        }
    }
}

/// A template whose policy is ready to run. Holding one is the proof that it is valid.
#[derive(Debug)]
pub struct CompiledTemplate {
    name: Str,
    kind: Str,
    generation: i64,
    schema: ConstraintSchema,
    /// Empty stands for all.
    operations: Vec<Str>,
    driver: Driver,
    problems: Vec<TemplateProblem>,
    /// The field of its main Rego module and the beginning of the fields of its libraries.
    rego_fields: (String, String),
    observed: bool,
}

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A member has the wrong type.
    #[error("invalid ConstraintTemplate: {0}")]
    Decode(#[from] DecodeError),
    /// It does not hang together (TC-1, and the Rego checks that need no compiler).
    #[error("invalid ConstraintTemplate: {0}")]
    Invalid(InvalidTemplate),
    /// No CRD can be made of it (TC-1, 6).
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Its source does not, whatever its engine.
    #[error("invalid ConstraintTemplate: {error}")]
    Source {
        /// Its error.
        error: InvalidSource,
        /// Where, if it is at one place.
        place: Option<SourcePlace>,
    },
    /// `operations` has `*` and something else (TC-50).
    #[error("if '*' is present, must not specify other operations")]
    Operations,
    /// No installed engine has a source.
    #[error(
        "no language driver is installed that handles this constraint template: available \
         drivers: map[{}], wanted \"\"",
        if *.cel { "K8sNativeValidation:1 Rego:2" } else { "Rego:1" }
    )]
    NoDriver {
        /// Whether the CEL engine is installed.
        cel: bool,
    },
    /// The CEL source is not what it should be (CE-2).
    #[error("{error}")]
    Cel {
        /// The field of the template.
        field: String,
        /// Its error.
        error: CelSourceError,
    },
    /// The Rego does not parse or compile.
    #[error("{message}")]
    Rego {
        /// The whole text.
        message: String,
        /// Each error with its place.
        errors: Vec<modgate_rego::Error>,
    },
}

/// Why a template does not hang together. Displays as the original's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTemplate {
    /// It has no target, or several.
    #[error("must declare exactly one target")]
    Targets,
    /// Its target has no name.
    #[error("target name must not be empty")]
    NoTarget,
    /// Its target is not the one that Gatekeeper has.
    #[error("target {} not recognized, known targets [{}]", gofmt::quote(.0), wire::TARGET)]
    Target(Str),
    /// The kind of its constraints is missing; it has this name.
    #[error("ConstraintTemplate {} does not specify CRD Kind", gofmt::quote(.0))]
    NoKind(Str),
    /// Its name is not the kind of its constraints.
    #[error(
        "the ConstraintTemplate's name {} is not equal to the lowercase of CRD's Kind: {}",
        gofmt::quote(name),
        gofmt::quote(&kind.to_lowercase())
    )]
    Name {
        /// The name.
        name: Str,
        /// The kind.
        kind: Str,
    },
}

/// Why the Rego of a template is refused before it is compiled. Displays as the original's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSource {
    /// There is none.
    #[error("rego source missing required field: source")]
    Missing,
    /// No rule has the name `violation`.
    #[error("invalid rego: invalid module: missing required rules: [violation]")]
    NoViolation,
    /// A library whose package is not below `lib`.
    #[error("invalid lib prefix: path {0} not found in lib prefixes")]
    Library(String),
    /// An import of `input`.
    #[error("invalid import: cannot import input: \"{0}\"")]
    ImportOfInput(String),
    /// An import of something that templates do not see.
    #[error("invalid import: bad import: \"{0}\"")]
    Import(String),
    /// A reference to data that templates do not see.
    #[error(
        "invalid data references: check refs failed on module {{{module}}}: errors (1):\n\
         disallowed ref {reference}\n"
    )]
    Reference {
        /// The module.
        module: Str,
        /// The reference as it is written.
        reference: String,
    },
    /// Its entry in `code` has a member of the wrong type.
    #[error("{0}")]
    Entry(String),
}

/// A place in a Rego module of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePlace {
    /// The module, as errors name it: `template` or `libs["lib_0"]`.
    pub file: Str,
    /// The bytes of its text.
    pub span: Span,
}

/// One thing wrong with a template, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateProblem {
    /// An error if the template is refused, or accepted and can only fail; else a warning.
    pub severity: Severity,
    /// The stable name of a warning.
    pub code: Option<Code>,
    /// The field, as Kubernetes writes paths: `spec.targets[0].rego`.
    pub field: String,
    /// The field's own text, if the message points at a part of it.
    pub text: Option<Str>,
    /// That part.
    pub span: Option<Span>,
    /// The error, without the place.
    pub message: String,
    /// Advice for its author.
    pub help: Option<String>,
}

impl TemplateError {
    /// Everything that is wrong with `resource`, the template that was refused.
    pub fn problems(&self, resource: &Value) -> Vec<TemplateProblem> {
        let plain = |field: &str, message: String| TemplateProblem {
            severity: Severity::Error,
            code: None,
            field: field.to_owned(),
            text: None,
            span: None,
            message,
            help: None,
        };
        let part = |place: &SourcePlace| {
            let field = rego_field(&rego_fields(resource), &place.file);
            let text = resource.pointer(&pointer(&field)).and_then(Value::as_str);
            (field, text.map(Str::from), text.map(|_| place.span))
        };
        match self {
            Self::Decode(DecodeError { path, message }) => vec![plain(path, message.clone())],
            Self::Operations => vec![plain("spec.targets[0].operations", self.to_string())],
            Self::NoDriver { .. } => vec![no_driver(resource, plain("", self.to_string()))],
            Self::Cel { field, error } => {
                let problem = plain(field, error.to_string());
                vec![match error {
                    CelSourceError::FailurePolicy(policy) => failure_policy(policy, problem),
                    _ => problem,
                }]
            }
            Self::Source { error: InvalidSource::NoViolation, .. } => {
                vec![missing_rule(resource, plain(&rego_fields(resource).0, self.to_string()))]
            }
            Self::Source { place: None, .. } => {
                vec![plain(&rego_fields(resource).0, self.to_string())]
            }
            Self::Source { place: Some(place), error } => {
                let (field, text, span) = part(place);
                let help = match error {
                    InvalidSource::Reference { reference, .. } => {
                        Some(advice::reference(reference))
                    }
                    InvalidSource::Import(path) if path == "rego.v1" => {
                        Some(match advice::version_of(resource, &field) {
                            modgate_rego::RegoVersion::V1 => {
                                "delete the import: `version: v1` has its effect".to_owned()
                            }
                            modgate_rego::RegoVersion::V0 => {
                                "delete the import, and write `code: [{engine: Rego, \
                                                source: {version: v1, rego: …}}]` instead of `rego`"
                                    .to_owned()
                            }
                        })
                    }
                    _ => {
                        Some("a template imports `data.lib.NAME` and `future.keywords`".to_owned())
                    }
                };
                let message = self.to_string().replace("errors (1):\n", "").trim_end().to_owned();
                vec![TemplateProblem { text, span, help, ..plain(&field, message) }]
            }
            Self::Invalid(error) => {
                let (field, help) = invalid_field(error);
                vec![TemplateProblem { help, ..plain(field, self.to_string()) }]
            }
            Self::Schema(error) => {
                let problems = error.problems();
                problems.into_iter().map(|(field, message)| plain(&field, message)).collect()
            }
            Self::Rego { errors, .. } => rego_problems(resource, errors),
        }
    }

    /// An error of the Rego as a whole.
    pub(super) fn source(error: InvalidSource) -> Self {
        Self::Source { error, place: None }
    }

    /// Whether it concerns the policy itself, which Gatekeeper looks at only once the template is
    /// stored (TC-1, 8 and 9).
    pub fn is_of_source(&self) -> bool {
        !matches!(self, Self::Decode(_) | Self::Invalid(_) | Self::Schema(_) | Self::Operations)
    }

    /// The HTTP status with which admission refuses the template (TC-50).
    pub fn code(&self) -> u16 {
        if matches!(self, Self::Operations | Self::Schema(SchemaError::Items(_))) {
            500
        } else {
            422
        }
    }
}

impl CompiledTemplate {
    /// Compiles a ConstraintTemplate of any version.
    ///
    /// # Errors
    ///
    /// The first check that fails (TC-1).
    pub fn compile(resource: &Value, options: &TemplateOptions) -> Result<Self, TemplateError> {
        let template = ConstraintTemplate::from_value(resource)?;
        let cel = template.cel_source().filter(|_| options.cel);
        let cel = cel.map(|(index, source)| (index, source.clone()));
        let mut targets = template.spec.targets.unwrap_or_default().into_iter();
        let (Some(target), None) = (targets.next(), targets.next()) else {
            return Err(TemplateError::Invalid(InvalidTemplate::Targets));
        };
        if target.target.is_empty() {
            return Err(TemplateError::Invalid(InvalidTemplate::NoTarget));
        }
        let name = template.metadata.name;
        let crd = template.spec.crd.spec;
        let kind = crd.names.kind;
        if kind.is_empty() {
            return Err(TemplateError::Invalid(InvalidTemplate::NoKind(name)));
        }
        if name.to_lowercase() != kind.to_lowercase() {
            return Err(TemplateError::Invalid(InvalidTemplate::Name { name, kind }));
        }
        if target.target != wire::TARGET {
            return Err(TemplateError::Invalid(InvalidTemplate::Target(target.target)));
        }
        let operations = target.operations.clone().unwrap_or_default();
        if operations.len() > 1 && operations.iter().any(|operation| operation == "*") {
            return Err(TemplateError::Operations);
        }
        let schema = ConstraintSchema::of_template(resource)?;
        let parameters = resource.pointer("/spec/crd/spec/validation/openAPIV3Schema");
        let (driver, problems) = match cel {
            Some((index, source)) => {
                let (driver, problems) = CelDriver::compile(&source, index, parameters, options)?;
                (Driver::Cel(driver), problems)
            }
            None => {
                let source = rego_source(target)?;
                let source = source.ok_or(TemplateError::NoDriver { cel: options.cel })?;
                let (driver, lints) = source::compile(&source, parameters, options)?;
                let lints = lints.into_iter().map(|lint| rego_lint(resource, lint));
                (Driver::Rego(driver), lints.collect())
            }
        };
        Ok(Self {
            name,
            kind,
            generation: template.metadata.generation,
            schema,
            operations,
            driver,
            problems,
            rego_fields: rego_fields(resource),
            observed: options.observed,
        })
    }

    /// Forgets what only compiling constraints needs, until the next one comes.
    pub(crate) fn rest(&self) {
        if let Driver::Rego(driver) = &self.driver {
            driver.rest();
        }
        self.schema.rest();
    }

    /// Which policy it is.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: wire::GROUP.into(),
            kind: wire::KIND.into(),
            namespace: Str::default(),
            name: self.name.clone(),
        }
    }

    /// The template's name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The kind of its constraints.
    pub fn kind(&self) -> &Str {
        &self.kind
    }

    /// Its `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// The schema of its constraints, and their CRD.
    pub fn schema(&self) -> &ConstraintSchema {
        &self.schema
    }

    /// Whether admission requests with this operation concern it (EV-20).
    #[inline]
    pub fn covers(&self, operation: &str) -> bool {
        self.operations.is_empty()
            || self.operations.iter().any(|known| known == "*" || known == operation)
    }

    /// Its evaluator.
    #[inline]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Its errors although it was accepted: CEL that does not compile, hence fails when
    /// it is evaluated, and members of its source that are never read.
    pub fn problems(&self) -> &[TemplateProblem] {
        &self.problems
    }

    /// Whether it counts what evaluations reach.
    pub(super) fn is_observed(&self) -> bool {
        self.observed
    }

    /// The places of its code, with what evaluations reached; empty unless it is
    /// [observed](TemplateOptions::observed).
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        match &self.driver {
            Driver::Rego(driver) => {
                driver.places(&|module| self.rego_field(module), &mut coverage);
            }
            Driver::Cel(driver) => driver.places(&mut coverage),
        }
        coverage
    }

    /// The field that holds a Rego module, by the name errors give the module.
    pub(super) fn rego_field(&self, module: &str) -> String {
        rego_field(&self.rego_fields, module)
    }
}

/// The field of a template that does not hang together, and the advice.
fn invalid_field(error: &InvalidTemplate) -> (&'static str, Option<String>) {
    match error {
        InvalidTemplate::NoKind(_) => ("spec.crd.spec.names.kind", None),
        InvalidTemplate::Name { kind, .. } => {
            ("metadata.name", Some(format!("name it `{}`", kind.to_lowercase())))
        }
        InvalidTemplate::Targets => ("spec.targets", None),
        InvalidTemplate::Target(_) | InvalidTemplate::NoTarget => {
            ("spec.targets[0].target", Some(format!("the target is `{}`", wire::TARGET)))
        }
    }
}

/// A CEL source whose failure policy does not exist.
fn failure_policy(policy: &str, problem: TemplateProblem) -> TemplateProblem {
    let field = format!("{}.failurePolicy", problem.field);
    let help = near::did_you_mean_or(policy, &["Fail", "Ignore"], "the values are");
    TemplateProblem { field, help: Some(help), ..problem }
}

/// A template without a source that an engine takes: a misspelt engine, most of the time.
fn no_driver(resource: &Value, problem: TemplateProblem) -> TemplateProblem {
    let code = resource.pointer("/spec/targets/0/code").and_then(Value::as_array);
    let engines = code.into_iter().flat_map(|code| code.iter()).enumerate();
    let mut engines = engines.filter_map(|(at, code)| Some((at, code.get("engine")?.as_str()?)));
    match engines.next() {
        Some((at, engine)) => TemplateProblem {
            field: format!("spec.targets[0].code[{at}].engine"),
            help: Some(near::did_you_mean_or(engine, &["K8sNativeValidation", "Rego"], "engines")),
            ..problem
        },
        None => {
            let is_empty = resource.pointer("/spec/targets/0/rego").is_some();
            let field = if is_empty { "spec.targets[0].rego" } else { "spec.targets[0]" };
            let help = "write the policy in `rego`, or in `code` with its `engine`".to_owned();
            TemplateProblem { field: field.to_owned(), help: Some(help), ..problem }
        }
    }
}

/// A module without `violation`: the rule that was meant, if one looks like it.
fn missing_rule(resource: &Value, problem: TemplateProblem) -> TemplateProblem {
    let text = resource.pointer(&pointer(&problem.field)).and_then(Value::as_str);
    let Some(text) = text else { return problem };
    let Some((at, name)) = advice::meant_as_violation(text) else { return problem };
    TemplateProblem {
        text: Some(text.into()),
        span: Some(Span::new(at, at + name.len())),
        help: Some(format!("Gatekeeper evaluates the rule `violation`: rename `{name}`")),
        ..problem
    }
}

/// Errors of Rego with their text, each place once.
fn rego_problems(resource: &Value, errors: &[modgate_rego::Error]) -> Vec<TemplateProblem> {
    let mut problems: Vec<TemplateProblem> = Vec::new();
    // One rule that is wrong gives the engine's own module several errors; the last concerns the result.
    let of_rule = |error: &modgate_rego::Error| error.file == source::WRAPPER_NAME;
    let last = errors.iter().rposition(of_rule);
    for (index, error) in errors.iter().enumerate() {
        let of_rule = of_rule(error);
        if of_rule && last != Some(index) {
            continue;
        }
        let field = rego_field(&rego_fields(resource), &error.file);
        let text = resource.pointer(&pointer(&field)).and_then(Value::as_str);
        let span = error.span.unwrap_or_default();
        let span = Span::new(span.start as usize, span.end as usize);
        // What follows from the first error is not another one.
        if problems.iter().any(|known| known.field == field && known.span == Some(span)) {
            continue;
        }
        let version = advice::version_of(resource, &field);
        if follows(text, error, errors) {
            continue;
        }
        let help = text.and_then(|text| advice::advice(text, version, error));
        let of_package = text.filter(|_| error.code == modgate_rego::Code::Parse);
        let of_package = of_package.and_then(advice::package).map(|(span, _)| span);
        let span = of_package.unwrap_or(span);
        // Rego of another version is one mistake, of which OPA reports each statement.
        let is_reported = |known: &TemplateProblem| known.field == field && known.help == help;
        if error.code == modgate_rego::Code::Parse
            && help.is_some()
            && problems.iter().any(is_reported)
        {
            continue;
        }
        // The engine's own module uses the rule as the template should have written it.
        let rule = text.and_then(|text| text.find("violation[")).filter(|_| of_rule);
        let span = rule.map_or(span, |at| Span::new(at, at + "violation".len()));
        let wrong = text.filter(|_| of_rule).and_then(|text| advice::wrong_rule(text, version));
        let (span, help) = match wrong {
            Some((span, advice)) => (span, Some(advice)),
            None => (span, help),
        };
        let details = advice::details(error).map(|types| format!("; {types}")).unwrap_or_default();
        problems.push(TemplateProblem {
            severity: Severity::Error,
            code: None,
            text: text.map(Str::from),
            span: text.map(|_| span),
            field,
            message: format!("{}: {}{details}", error.code, error.mistake),
            help,
        });
    }
    problems
}

/// Whether a variable is unsafe only because another one is that it is made of.
fn follows(
    text: Option<&str>,
    error: &modgate_rego::Error,
    errors: &[modgate_rego::Error],
) -> bool {
    let unsafe_in = |error: &modgate_rego::Error| match &*error.mistake {
        Mistake::UnsafeVariable { name, .. } => Some(name.clone()),
        _ => None,
    };
    let Some((text, name)) = text.zip(unsafe_in(error)) else { return false };
    let is_made = |name: &str| {
        text.lines().any(|line| {
            let parts = line.split(['{', ';', '}']).map(str::trim_start);
            let mut values = parts.filter_map(|part| part.strip_prefix(name));
            values.any(|rest| {
                let rest = rest.trim_start();
                rest.starts_with(":=") || (rest.starts_with('=') && !rest.starts_with("=="))
            })
        })
    };
    let of_file = errors.iter().filter(|other| other.file == error.file);
    let mut others = of_file.filter_map(unsafe_in).filter(|other| *other != name);
    is_made(&name) && others.any(|other| !is_made(&other))
}

/// A finding about a Rego module as one about the field that holds it.
fn rego_lint(resource: &Value, lint: source::lint::Lint) -> TemplateProblem {
    let field = rego_field(&rego_fields(resource), &lint.place.file);
    let text = resource.pointer(&pointer(&field)).and_then(Value::as_str);
    TemplateProblem {
        severity: Severity::Warning,
        code: Some(lint.code),
        text: text.map(Str::from),
        span: text.map(|_| lint.place.span),
        field,
        message: lint.message,
        help: lint.help,
    }
}

/// The Rego of a target: the legacy members win over `code` (TC-10).
fn rego_source(target: Target) -> Result<Option<RegoSource>, TemplateError> {
    if target.rego.as_ref().is_some_and(|rego| !rego.is_empty()) {
        return Ok(Some(RegoSource { rego: target.rego, version: None, libs: target.libs }));
    }
    let mut code = target.code.into_iter().flatten();
    let source = code.find(|code| code.engine == "Rego").map(|code| code.source);
    let source = source.map(|source| RegoSource::from_value(&source)).transpose();
    source.map_err(|error| TemplateError::source(InvalidSource::Entry(error.to_string())))
}

/// The fields of a template that hold its main module and its libraries.
fn rego_fields(resource: &Value) -> (String, String) {
    let target = resource.pointer("/spec/targets/0");
    let legacy = target.and_then(|target| target.get("rego")?.as_str());
    if legacy.is_some_and(|rego| !rego.is_empty()) {
        return ("spec.targets[0].rego".to_owned(), "spec.targets[0].libs".to_owned());
    }
    let code = target.and_then(|target| target.get("code")?.as_array());
    let index = code.and_then(|code| {
        code.iter().position(|code| code.get("engine").and_then(Value::as_str) == Some("Rego"))
    });
    let source = format!("spec.targets[0].code[{}].source", index.unwrap_or_default());
    (format!("{source}.rego"), format!("{source}.libs"))
}

/// The field of a module that errors call `template` or `libs["lib_0"]` (TC-30).
fn rego_field((main, libraries): &(String, String), module: &str) -> String {
    let library = module.strip_prefix("libs[\"lib_").and_then(|rest| rest.strip_suffix("\"]"));
    library.map_or_else(|| main.clone(), |index| format!("{libraries}[{index}]"))
}
