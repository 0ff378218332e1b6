//! `modgate render`: the objects that are generated from templates and constraints, so that they can
//! be shipped together with them.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use modgate_engine::{
    Problem, Severity,
    api::{
        config::{self, Config},
        constraints,
        meta::split_api_version,
        templates::{self, ConstraintTemplate, FailurePolicy},
    },
    constraint::{
        CompiledTemplate, ConstraintSchema, TemplateOptions, TemplateProblem,
        vap::{self, VapError, VapOptions, VapScope, VapVersion},
    },
    gatekeeper::ExemptNamespaces,
};
use modgate_gator::flags::GoBool as _;
use modgate_policies::manifest::{self, Manifest};
use modgate_value::{Str, Value, diag::Source};

use crate::{
    args::PathArgs,
    exit::Exit,
    inputs::{self, manifests},
    outputs::{ObjectsOutput, print_objects},
    terminal::Terminal,
};

/// The objects to render.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RenderVerb {
    /// Print the CustomResourceDefinitions of the constraints of templates.
    ///
    /// Objects of other kinds are skipped. The Rego and CEL of templates is not compiled.
    #[command(after_help = CRDS_EXAMPLES)]
    Crds(CrdsArgs),
    /// Print the ValidatingAdmissionPolicies of templates written in CEL, and the bindings of their
    /// constraints.
    ///
    /// A Config and a ValidatingWebhookConfiguration among the input limit the scope of the policies,
    /// as in a cluster.
    #[command(after_help = VAP_EXAMPLES)]
    Vap(VapArgs),
}

const CRDS_EXAMPLES: &str = "\
Examples:
  # Create the CRDs first, so that constraints can be applied at once
  modgate render crds templates/ | kubectl apply -f -
  kubectl apply -f constraints/

  # Render the CRDs of the templates of a chart
  helm template policies | modgate render crds -o json -

Exit codes:
  0  everything is rendered
  2  arguments, files or templates are not valid";

const VAP_EXAMPLES: &str = "\
Examples:
  # Render the policies and bindings that modgate would create
  modgate render vap templates/ constraints/

  # Render them with the exclusions of an installation
  modgate render vap policies/ gatekeeper.yaml --exempt-namespace gatekeeper-system

Exit codes:
  0  everything is rendered
  2  arguments, files, templates or constraints are not valid";

/// Arguments of `modgate render crds`.
#[derive(Debug, clap::Args)]
pub(crate) struct CrdsArgs {
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Files or folders with templates, constraints and related objects, or `-` for standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Output format.
    #[arg(short, long, default_value = "yaml")]
    output: ObjectsOutput,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    strict: bool,
}

/// Arguments of `modgate render vap`.
#[derive(Debug, clap::Args)]
pub(crate) struct VapArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Version of admissionregistration.k8s.io.
    #[arg(long, value_name = "VERSION", default_value = "v1")]
    api_version: ApiVersion,
    /// Generate policies for templates without `generateVAP`.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_for_templates: bool,
    /// Generate bindings for constraints without scoped actions.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_binding_for_constraints: bool,
    /// Failure policy of templates without `failurePolicy`: Fail or Ignore.
    #[arg(long, value_name = "POLICY", default_value = "Fail")]
    default_k8s_native_validation_failure_policy: FailurePolicy,
    /// Apply the exclusions of the Config, the ValidatingWebhookConfiguration and the exempt
    /// namespaces to the policies.
    #[arg(long, go_bool = Some(true))]
    sync_vap_enforcement_scope: bool,
    /// Name of the ValidatingWebhookConfiguration whose scope is applied.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "gatekeeper-validating-webhook-configuration"
    )]
    validating_webhook_configuration_name: String,
    /// Namespace that is exempt from the webhook if it has the exemption label; repeat for more.
    #[arg(long, value_name = "NAMESPACE")]
    exempt_namespace: Vec<Str>,
    /// As `--exempt-namespace`, for all that begin with this.
    #[arg(long, value_name = "PREFIX")]
    exempt_namespace_prefix: Vec<String>,
    /// As `--exempt-namespace`, for all that end with this.
    #[arg(long, value_name = "SUFFIX")]
    exempt_namespace_suffix: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApiVersion {
    V1,
    V1beta1,
}

/// Runs the verb.
pub(crate) fn run(verb: &RenderVerb, terminal: &Terminal) -> Result<Exit> {
    match verb {
        RenderVerb::Crds(args) => crds(args, terminal),
        RenderVerb::Vap(args) => vaps(args, terminal),
    }
}

fn crds(args: &CrdsArgs, terminal: &Terminal) -> Result<Exit> {
    let mut input = Input::read(&args.common, terminal)?;
    let templates = input.templates();
    let rendered = templates.values().map(|template| template.schema.crd()).collect();
    input.require(!templates.is_empty(), "ConstraintTemplate", &args.common.paths);
    print_objects(rendered, args.common.output)?;
    Ok(input.exit())
}

fn vaps(args: &VapArgs, terminal: &Terminal) -> Result<Exit> {
    let mut input = Input::read(&args.common, terminal)?;
    let options = VapOptions {
        version: match args.api_version {
            ApiVersion::V1 => VapVersion::V1,
            ApiVersion::V1beta1 => VapVersion::V1Beta1,
        },
        for_templates: args.default_create_vap_for_templates,
        for_constraints: args.default_create_vap_binding_for_constraints,
        failure_policy: args.default_k8s_native_validation_failure_policy,
        scope: if args.sync_vap_enforcement_scope {
            input.scope(args)
        } else {
            VapScope::default()
        },
    };
    let templates = input.templates();
    input.require(!templates.is_empty(), "ConstraintTemplate", &args.common.paths);
    let mut rendered = Vec::new();
    // What a template has instead of a policy.
    let mut without: BTreeMap<&str, String> = BTreeMap::new();
    for (name, template) in &templates {
        match input.policy(template, &options) {
            Ok(policy) => rendered.push(policy),
            Err(reason) => drop(without.insert(name, reason)),
        }
    }
    let mut bindings = BTreeMap::new();
    for index in input.of_group(constraints::GROUP) {
        let Some((manifest, _)) = input.manifests.get(index) else { continue };
        let name = manifest.kind().to_lowercase();
        let key = (manifest.kind().to_owned(), manifest.name().to_owned());
        let Some(template) = templates.get(name.as_str()) else {
            let message = format!("missing ConstraintTemplate: template \"{name}\" not found");
            let help = "render constraints together with their templates";
            input.report(index, Severity::Error, "", message, Some(help));
            continue;
        };
        let without = without.get(name.as_str()).map(String::as_str);
        if let Some(binding) = input.binding(index, template, without, &options) {
            bindings.insert(key, binding);
        }
    }
    if rendered.is_empty() {
        for (name, reason) in &without {
            terminal.note(format_args!("note: nothing to render of `{name}`: {reason}"));
        }
    }
    rendered.extend(bindings.into_values());
    print_objects(rendered, args.common.output)?;
    Ok(input.exit())
}

/// A template whose CRD can be made.
struct Template {
    index: usize,
    resource: Value,
    schema: ConstraintSchema,
}

/// The input, and whether it had errors.
struct Input<'t> {
    manifests: Vec<(Manifest, Source)>,
    terminal: &'t Terminal,
    failed: bool,
}

impl<'t> Input<'t> {
    fn read(args: &CommonArgs, terminal: &'t Terminal) -> Result<Self> {
        let mut failed = false;
        let manifests = manifests(&PathArgs::of(&args.paths), terminal, &mut failed)?;
        let input = Self { manifests, terminal, failed };
        let failed = !input.has_good_policies(args.strict) || input.failed;
        Ok(Self { failed, ..input })
    }

    /// Prints the warnings about policies; whether they are bearable. Errors are reported where a
    /// template is rendered.
    fn has_good_policies(&self, strict: bool) -> bool {
        let is_warning = |problem: &Problem| problem.severity == Severity::Warning;
        let found = inputs::problems(&self.manifests, is_warning);
        inputs::are_good(found, strict, self.terminal)
    }

    fn exit(&self) -> Exit {
        if self.failed { Exit::BadInput } else { Exit::Success }
    }

    fn require(&mut self, found: bool, kind: &str, paths: &[PathBuf]) {
        if !found && !self.failed {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            self.terminal.error(&format!("there is no {kind} in `{}`", paths.join("`, `")));
            self.failed = true;
        }
    }

    /// The manifests of an API group.
    fn of_group(&self, group: &str) -> Vec<usize> {
        let of_group = |(_, (manifest, _)): &(usize, &(Manifest, Source))| {
            split_api_version(manifest.api_version()).0 == group
        };
        self.manifests.iter().enumerate().filter(of_group).map(|(index, _)| index).collect()
    }

    fn report(
        &mut self,
        index: usize,
        severity: Severity,
        field: &str,
        message: String,
        help: Option<&str>,
    ) {
        self.failed |= severity == Severity::Error;
        let Some((manifest, source)) = self.manifests.get(index) else { return };
        let policy = manifest.clone().into_policy();
        let problem = Problem {
            severity,
            code: None,
            policy: policy.id(),
            origin: policy.origin.clone(),
            field: field.to_owned(),
            position: policy.position(field),
            text: None,
            span: None,
            message,
            help: help.map(str::to_owned),
            missing: None,
        };
        self.terminal.diagnostic(&manifest::diagnose(&problem, Some(source)));
    }

    /// The templates by name; what is wrong with them but their Rego and CEL is reported.
    fn templates(&mut self) -> BTreeMap<Str, Template> {
        let mut templates: BTreeMap<Str, Template> = BTreeMap::new();
        for index in self.of_group(templates::GROUP) {
            let Some((manifest, _)) = self.manifests.get(index) else { continue };
            if manifest.kind() != templates::KIND {
                continue;
            }
            let resource = manifest.object.clone();
            let name = Str::from(manifest.name());
            let compiled = CompiledTemplate::compile(&resource, &TemplateOptions::default());
            let schema = match compiled {
                Ok(compiled) => Ok(compiled.schema().clone()),
                Err(error) if error.is_of_source() => {
                    ConstraintSchema::of_template(&resource).map_err(Into::into)
                }
                Err(error) => Err(error),
            };
            let schema = match schema {
                Ok(schema) => schema,
                Err(error) => {
                    for TemplateProblem { field, message, .. } in error.problems(&resource) {
                        self.report(index, Severity::Error, &field, message, None);
                    }
                    continue;
                }
            };
            if templates.contains_key(&name) {
                let message = "this template is given twice".to_owned();
                self.report(index, Severity::Error, "metadata.name", message, None);
                continue;
            }
            templates.insert(name, Template { index, resource, schema });
        }
        templates
    }

    /// The objects that the webhook of the installation leaves out.
    fn scope(&mut self, args: &VapArgs) -> VapScope {
        let mut scope = VapScope::default();
        for index in 0..self.manifests.len() {
            let Some((manifest, _)) = self.manifests.get(index) else { continue };
            let (group, _) = split_api_version(manifest.api_version());
            match (group, manifest.kind(), manifest.name()) {
                (config::GROUP, config::KIND, config::NAME) => {
                    match Config::from_value(&manifest.object) {
                        Ok(config) => {
                            let excluded = config.excluded_from(config::Process::Webhook);
                            scope.excluded_namespaces.extend(excluded.cloned());
                        }
                        Err(error) => {
                            let (field, message) = (error.path, error.message);
                            self.report(index, Severity::Error, &field, message, None);
                        }
                    }
                }
                ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", name)
                    if name == args.validating_webhook_configuration_name =>
                {
                    scope.webhook = vap::webhook_of(&manifest.object).cloned();
                }
                _ => {}
            }
        }
        let list = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
        let exempt = ExemptNamespaces {
            names: args.exempt_namespace.clone(),
            prefixes: list(&args.exempt_namespace_prefix),
            suffixes: list(&args.exempt_namespace_suffix),
        };
        scope.exempt_namespaces.extend(exempt.patterns());
        scope
    }

    /// The policy of a template, or why constraints of it have no binding.
    fn policy(&mut self, template: &Template, options: &VapOptions) -> Result<Value, String> {
        let wanted = ConstraintTemplate::from_value(&template.resource)
            .map_err(VapError::from)
            .and_then(|template| vap::cel_source(&template, options));
        match wanted {
            Ok((_, true)) => {}
            Ok((_, false)) => {
                return Err("conditions are not satisfied to generate ValidatingAdmissionPolicy \
                            and ValidatingAdmissionPolicyBinding"
                    .to_owned());
            }
            // A template in Rego has none, and nothing is wrong with that.
            Err(error @ VapError::NoCel) => return Err(error.to_string()),
            Err(error) => {
                let field = source_field(&template.resource);
                self.report(template.index, Severity::Error, &field, error.to_string(), None);
                return Err(error.to_string());
            }
        }
        match vap::policy(&template.resource, options) {
            Ok(policy) => {
                if let Some(warning) = policy.warning {
                    let field = "spec.targets[0].operations";
                    let warning = warning.to_owned();
                    self.report(template.index, Severity::Warning, field, warning, None);
                }
                Ok(policy.object)
            }
            Err(error) => {
                let field = match error {
                    VapError::Operations => "spec.targets[0].operations",
                    _ => "",
                };
                let message = format!("ValidatingAdmissionPolicy is not generated: {error}");
                self.report(template.index, Severity::Error, field, message, None);
                Err(error.to_string())
            }
        }
    }

    fn binding(
        &mut self,
        index: usize,
        template: &Template,
        without: Option<&str>,
        options: &VapOptions,
    ) -> Option<Value> {
        let resource = self.manifests.get(index)?.0.object.clone();
        if let Err(error) = template.schema.check(&resource) {
            self.report(index, Severity::Error, "", error.to_string(), None);
            return None;
        }
        let constraint = match constraints::Constraint::from_value(&resource) {
            Ok(constraint) => constraint,
            Err(error) => {
                self.report(index, Severity::Error, &error.path, error.message, None);
                return None;
            }
        };
        let actions = vap::binding_actions(&constraint, options);
        let is_scoped = constraint.spec.as_ref().is_some_and(|spec| {
            spec.enforcement_action.as_deref()
                == Some(constraints::EnforcementAction::Scoped.as_str())
        });
        if actions.is_empty() {
            return None;
        }
        let field =
            if is_scoped { "spec.scopedEnforcementActions" } else { "spec.enforcementAction" };
        if let Some(without) = without {
            // Upstream reports this of every constraint.
            if is_scoped {
                let message =
                    format!("cannot generate ValidatingAdmissionPolicyBinding: {without}");
                self.report(index, Severity::Warning, field, message, None);
            }
            return None;
        }
        if ["deny", "warn"].iter().all(|action| actions.iter().any(|given| given == action)) {
            let message = "deny and warn cannot stand in one ValidatingAdmissionPolicyBinding";
            let help = "leave one of them out at `vap.k8s.io`";
            self.report(index, Severity::Error, field, message.to_owned(), Some(help));
            return None;
        }
        for member in ["scope", "source"] {
            let given = resource.path(&["spec", "match", member]).and_then(Value::as_str);
            if given.is_some_and(|given| !["", "*", "All"].contains(&given)) {
                let message =
                    format!("`{member}` has no counterpart in a ValidatingAdmissionPolicy");
                let field = format!("spec.match.{member}");
                self.report(index, Severity::Warning, &field, message, None);
            }
        }
        match vap::binding(&resource, &actions, options) {
            Ok(binding) => Some(binding),
            Err(error) => {
                self.report(index, Severity::Error, field, error.to_string(), None);
                None
            }
        }
    }
}

/// Where the CEL of a template stands.
fn source_field(resource: &Value) -> String {
    let index = ConstraintTemplate::from_value(resource)
        .ok()
        .and_then(|template| template.cel_source().map(|(index, _)| index));
    match index {
        Some(index) => format!("spec.targets[0].code[{index}].source"),
        None => "spec.targets".to_owned(),
    }
}
