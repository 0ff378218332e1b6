//! Flags of Gatekeeper's webhooks, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 9.5).

use std::{collections::BTreeSet, time::Duration};

use clap::ValueEnum;
use modgate_engine::{
    EngineConfig, ServedPolicies, api::templates::FailurePolicy, constraint::TemplateOptions,
    gatekeeper::ExemptNamespaces, rego,
};
use modgate_gator::flags::GoBool as _;
use modgate_server::{GatekeeperConfig, LateRejections, OnFailure};
use modgate_value::{gotime, near};

/// Settings of Gatekeeper's policies and webhooks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gatekeeper")]
pub(crate) struct GatekeeperArgs {
    /// Namespace that may carry the label `admission.gatekeeper.sh/ignore`; repeat for more.
    #[arg(long, value_name = "NAME")]
    exempt_namespace: Vec<String>,
    /// Beginning of the names of namespaces that may carry that label; repeat for more.
    #[arg(long, value_name = "PREFIX")]
    exempt_namespace_prefix: Vec<String>,
    /// End of the names of namespaces that may carry that label; repeat for more.
    #[arg(long, value_name = "SUFFIX")]
    exempt_namespace_suffix: Vec<String>,
    /// Namespace that may carry the label `admission.kubemod.io/ignore`, as a name, `prefix*` or
    /// `*suffix`; repeat for more [default: kube-system, kubemod-system, modgate-system]
    #[arg(long, value_name = "PATTERN", help_heading = "ModRules")]
    modrule_exempt_namespace: Vec<String>,
    /// Decision of `/validate` for objects that Reject rules reject in their final form.
    #[arg(long, value_name = "ACTION", default_value = "deny", help_heading = "ModRules")]
    late_rejections: LateRejectionsArg,
    /// Bindings of ValidatingAdmissionPolicies and MutatingAdmissionPolicies that
    /// `/v1/policies/validate` and `/v1/policies/mutate` evaluate. The default is `marked` with
    /// `--policies`, and `off` for the policies of a cluster. With `marked`, audits of a cluster also evaluate
    /// its ValidatingAdmissionPolicies.
    #[arg(long, value_name = "BINDINGS", help_heading = "Admission policies")]
    admission_policies: Option<AdmissionPoliciesArg>,
    /// Log every violation, whatever its enforcement action.
    #[arg(long, go_bool = Some(false))]
    log_denies: bool,
    /// Refuse templates whose Rego or CEL does not compile, instead of warning about them.
    #[arg(long, go_bool = Some(false))]
    deny_invalid_templates: bool,
    /// Accept constraints with unknown enforcement actions.
    #[arg(long, go_bool = Some(false))]
    disable_enforcementaction_validation: bool,
    /// Built-in function that policies may not call, besides those that reach the network; repeat
    /// for more.
    #[arg(long, value_name = "NAME")]
    disable_opa_builtin: Vec<String>,
    /// Let policies read `data.inventory`.
    #[arg(long, go_bool = Some(true))]
    enable_referential_rules: bool,
    /// Evaluate templates written in CEL. A template in both languages is evaluated in CEL.
    #[arg(long, go_bool = Some(true))]
    enable_k8s_native_validation: bool,
    /// Failure policy for CEL templates that do not set `failurePolicy`.
    #[arg(long, value_name = "POLICY", default_value = "Fail")]
    default_k8s_native_validation_failure_policy: FailurePolicyArg,
    /// Accept `matchConditions` for `matchCondition` in CEL policies.
    #[arg(long, go_bool = Some(false))]
    accept_plural_match_conditions: bool,
    /// Let policies and mutators send requests to Providers.
    #[arg(long, go_bool = Some(true))]
    enable_external_data: bool,
    /// Time for which policies reuse the responses of Providers; 0 sends a request every time. Mutators
    /// always send one.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = cache_ttl,
        allow_hyphen_values = true)]
    external_data_provider_response_cache_ttl: Duration,
    /// Evaluate constraints also on the resultants of ExpansionTemplates, such as the Pods of a
    /// Deployment.
    #[arg(long, go_bool = Some(true))]
    enable_generator_resource_expansion: bool,
    /// Log every mutation.
    #[arg(long, go_bool = Some(false))]
    log_mutations: bool,
    /// Add annotations that name the mutators that changed an object.
    #[arg(long, go_bool = Some(false))]
    mutation_annotations: bool,
    /// Let `/mutate` apply Gatekeeper's mutators, then ModRules, each to the objects that its own
    /// webhook would receive. `/v1/mutate` and `/dragnet-webhook` stay as they are.
    #[arg(long, go_bool = Some(false))]
    unified_mutate: bool,
    /// Number of requests evaluated concurrently; below 1, one per processor.
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    max_serving_threads: i64,
    /// Answer of every webhook if modgate fails to decide, for example when it is overloaded or the API
    /// server does not respond.
    #[arg(long, value_name = "ANSWER", default_value = "failure-policy")]
    internal_errors: InternalErrors,
}

/// Spelled as in policies.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum FailurePolicyArg {
    /// A violation.
    Fail,
    /// No violation.
    Ignore,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum InternalErrors {
    /// HTTP 500, so that the `failurePolicy` of the webhook decides.
    FailurePolicy,
    /// A denial with code 500, as Gatekeeper answers.
    Deny,
    /// Admit the request unchecked, with a warning.
    Allow,
}

/// A duration as Go writes it, which cannot be negative.
fn cache_ttl(text: &str) -> Result<Duration, String> {
    let ttl = gotime::Duration::parse(text)?;
    let nanoseconds = u64::try_from(ttl.0).map_err(|_| {
        format!("invalid value for external-data-provider-response-cache-ttl: {ttl}")
    })?;
    Ok(Duration::from_nanos(nanoseconds))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LateRejectionsArg {
    /// Evaluate no rule.
    Off,
    /// Admit the object with a warning, a log line and a count.
    Warn,
    /// Deny the object.
    Deny,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AdmissionPoliciesArg {
    /// None.
    Off,
    /// Those whose `policyName` is `NAME.modgate.sh`, which the API server does not evaluate.
    Marked,
    /// All of files: the API server has none of these policies.
    All,
}

/// The effect of an empty prefix or suffix: every name begins and ends with it.
const EVERY_NAMESPACE: &str = "it exempts every namespace that has the exemption label";

impl GatekeeperArgs {
    /// Whether the webhooks evaluate all bindings, which is for policies of files.
    pub(crate) fn takes_all_bindings(&self) -> bool {
        self.admission_policies == Some(AdmissionPoliciesArg::All)
    }

    /// Whether the policies of a cluster are evaluated.
    pub(crate) fn follows_admission_policies(&self) -> bool {
        self.admission_policies == Some(AdmissionPoliciesArg::Marked)
    }

    /// How long answers of Providers are kept; `None` when there are none.
    pub(crate) fn external_data(&self) -> Option<Duration> {
        self.enable_external_data.then_some(self.external_data_provider_response_cache_ttl)
    }

    /// Settings of the webhooks.
    pub(crate) fn config(&self) -> GatekeeperConfig {
        GatekeeperConfig {
            log_denies: self.log_denies,
            log_mutations: self.log_mutations,
            unified_mutate: self.unified_mutate,
            on_failure: match self.internal_errors {
                InternalErrors::Deny => OnFailure::Deny,
                InternalErrors::FailurePolicy => OnFailure::FailurePolicy,
                InternalErrors::Allow => OnFailure::Allow,
            },
            late_rejections: match self.late_rejections {
                LateRejectionsArg::Off => LateRejections::Off,
                LateRejectionsArg::Warn => LateRejections::Warn,
                LateRejectionsArg::Deny => LateRejections::Deny,
            },
            ..GatekeeperConfig::default()
        }
    }

    /// Sets the options of policies.
    pub(crate) fn apply(&self, config: &mut EngineConfig) {
        let list = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
        config.installation.exempt = ExemptNamespaces {
            names: list(&self.exempt_namespace),
            prefixes: list(&self.exempt_namespace_prefix),
            suffixes: list(&self.exempt_namespace_suffix),
        };
        if !self.modrule_exempt_namespace.is_empty() {
            let patterns = self.modrule_exempt_namespace.iter().map(String::as_str);
            config.installation.modrule_exempt = ExemptNamespaces::of_patterns(patterns);
        }
        config.installation.deny_invalid_templates = self.deny_invalid_templates;
        config.constraints.any_enforcement_action = self.disable_enforcementaction_validation;
        config.templates.referential_rules = self.enable_referential_rules;
        config.templates.cel = self.enable_k8s_native_validation;
        config.templates.failure_policy = match self.default_k8s_native_validation_failure_policy {
            FailurePolicyArg::Fail => FailurePolicy::Fail,
            FailurePolicyArg::Ignore => FailurePolicy::Ignore,
        };
        config.templates.plural_match_conditions = self.accept_plural_match_conditions;
        config.templates.external_data = self.enable_external_data;
        config.mutators.external_data = self.enable_external_data;
        config.mutators.annotations = self.mutation_annotations;
        config.expansion = self.enable_generator_resource_expansion;
        config.admission_policies = match self.admission_policies {
            Some(AdmissionPoliciesArg::Off) => ServedPolicies::Off,
            Some(AdmissionPoliciesArg::Marked) | None => ServedPolicies::Marked,
            Some(AdmissionPoliciesArg::All) => ServedPolicies::All,
        };
        for name in &self.disable_opa_builtin {
            config.templates.disable_builtins(name);
        }
    }

    /// Refuses names of built-ins that are misspelt: what should be switched off would stay on.
    /// Names that are like none are noted: another release of OPA may have them.
    pub(crate) fn check(&self) -> anyhow::Result<Vec<String>> {
        let mut notes = Vec::new();
        let mut options =
            TemplateOptions { disabled_builtins: BTreeSet::new(), ..Default::default() };
        for name in &self.disable_opa_builtin {
            options.disable_builtins(name);
        }
        let known = || rego::builtins::all().map(|builtin| builtin.name);
        for name in &options.disabled_builtins {
            if known().any(|known| known == name.as_str()) {
                continue;
            }
            let problem = format!("--disable-opa-builtin: there is no built-in `{name}`");
            match near::did_you_mean(name, known()) {
                Some(help) => anyhow::bail!("{problem}; {help}"),
                None => notes.push(problem),
            }
        }
        for (flag, names, effect) in [
            ("--exempt-namespace", &self.exempt_namespace, "it exempts no namespace"),
            ("--exempt-namespace-prefix", &self.exempt_namespace_prefix, EVERY_NAMESPACE),
            ("--exempt-namespace-suffix", &self.exempt_namespace_suffix, EVERY_NAMESPACE),
        ] {
            if names.iter().any(String::is_empty) {
                notes.push(format!("{flag} is empty, so {effect}"));
            }
        }
        for (flag, names) in [
            ("--exempt-namespace", &self.exempt_namespace),
            ("--exempt-namespace-prefix", &self.exempt_namespace_prefix),
            ("--exempt-namespace-suffix", &self.exempt_namespace_suffix),
            ("--modrule-exempt-namespace", &self.modrule_exempt_namespace),
        ] {
            let is_wrong = |name: &&String| name.chars().any(|it| it.is_uppercase() || it == '_');
            notes.extend(names.iter().filter(is_wrong).map(|name| {
                let meant = name.to_lowercase().replace('_', "-");
                format!("{flag}: no namespace can be called `{name}`; did you mean `{meant}`?")
            }));
        }
        Ok(notes)
    }

    /// How many requests may be evaluated at the same time, if it is said.
    pub(crate) fn evaluators(&self) -> Option<usize> {
        usize::try_from(self.max_serving_threads).ok().filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_answers_are_kept() {
        let invalid = "invalid value for external-data-provider-response-cache-ttl: ";
        for (text, expected) in [
            ("3m", Ok(Duration::from_secs(180))),
            ("1m30s", Ok(Duration::from_secs(90))),
            ("0", Ok(Duration::ZERO)),
            ("-1s", Err(format!("{invalid}-1s"))),
            ("5", Err("time: missing unit in duration \"5\"".to_owned())),
        ] {
            assert_eq!(cache_ttl(text), expected, "{text}");
        }
    }
}
