//! Warnings about the cluster's own policies that need their bindings, or the types of the objects that they match.

use modgate_api::admissionregistration as registration;
use modgate_value::{Str, near};

use super::load::{problem, warned};
use crate::constraint::named;
use crate::{
    Code, PolicyId, PolicySource, Problem, Severity,
    admissionpolicy::{PolicyKind, PolicySet, Quantities, Types, expression_warnings},
};

/// New policies without a binding, new bindings without a policy, and new bindings for modgate whose
/// policy the API server evaluates: they have no effect.
pub(super) fn without_effect(
    policies: &PolicySet,
    new: &[(PolicyId, PolicySource)],
    problems: &[Problem],
) -> Vec<Problem> {
    let refused = |is_it: &dyn Fn(&PolicyId) -> bool| {
        let mut errors = problems.iter().filter(|found| found.severity == Severity::Error);
        errors.any(|found| is_it(&found.policy))
    };
    let unbound: Vec<_> = policies.unbound().map(|(kind, name)| kind.id(name)).collect();
    let unused: Vec<_> = policies
        .unused_bindings()
        .map(|(kind, name, policy)| {
            let id = kind.id(name);
            let kind = format!("{}Binding", id.kind).into();
            (PolicyId { kind, ..id }, policy)
        })
        .collect();
    let doubled: Vec<_> = policies
        .doubled_bindings()
        .map(|(kind, name, policy)| {
            let id = kind.id(name);
            (PolicyId { kind: format!("{}Binding", id.kind).into(), ..id }, policy)
        })
        .collect();
    let found = new.iter().filter_map(|(id, source)| {
        let (field, message, help, missing) = if let Some((_, policy)) =
            doubled.iter().find(|(binding, _)| binding == id)
        {
            let message = format!(
                "it has no effect: another binding has the API server evaluate `{policy}`, and a \
                 request is not decided twice"
            );
            ("spec.policyName", message, None, None)
        } else if unbound.contains(id) {
            // A binding that does not load may name it, and one whose policy is misspelt probably does.
            let is_meant = |(binding, policy): &(PolicyId, &Str)| {
                binding.kind.strip_suffix("Binding") == Some(id.kind.as_str())
                    && near::nearest(policy, [id.name.as_str()]).is_some()
            };
            if unused.iter().any(is_meant)
                || refused(&|other| other.kind.strip_suffix("Binding") == Some(id.kind.as_str()))
            {
                return None;
            }
            ("", "it has no effect: no binding names it".to_owned(), None, None)
        } else {
            let (_, policy) = unused.iter().find(|(binding, _)| binding == id)?;
            let kind = id.kind.strip_suffix("Binding");
            if refused(&|other| Some(other.kind.as_str()) == kind && other.name == **policy) {
                return None;
            }
            let field = "spec.policyName";
            let of_kind = unbound.iter().filter(|other| Some(other.kind.as_str()) == kind);
            let help = near::did_you_mean(policy, of_kind.map(|other| other.name.as_str()));
            let message = format!("it has no effect: there is no policy `{policy}`");
            (field, message, help, Some((*policy).clone()))
        };
        let found = problem(id, source, field, message);
        Some(warned(Code::NoEffect, Problem { help, missing, ..found }))
    });
    let found = found.chain(parameters_at_odds(policies, new));
    found.chain(dropped_warnings(policies, new)).chain(type_warnings(new)).collect()
}

/// New bindings whose parameters do not fit their policy.
fn parameters_at_odds<'n>(
    policies: &'n PolicySet,
    new: &'n [(PolicyId, PolicySource)],
) -> impl Iterator<Item = Problem> + 'n {
    policies.bindings_at_odds().filter_map(|(kind, name, policy, has_kind)| {
        let id = kind.id(name);
        let id = PolicyId { kind: format!("{}Binding", id.kind).into(), ..id };
        let (_, source) = new.iter().find(|(known, _)| *known == id)?;
        let (field, message, help) = match has_kind {
            false => (
                "spec.paramRef",
                format!("it has no effect: `{policy}` has no `paramKind`"),
                "give the policy a `paramKind`, or delete `paramRef`",
            ),
            true => (
                "spec.policyName",
                format!(
                    "`{policy}` has a `paramKind`, and without `paramRef` its `params` are null"
                ),
                "add `paramRef`",
            ),
        };
        let mut found = problem(&id, source, field, message);
        found.position = source.key_position(field);
        found.help = Some(help.to_owned());
        Some(warned(Code::NoEffect, found))
    })
}

/// Validations of new policies whose warnings reach no user.
fn dropped_warnings<'n>(
    policies: &PolicySet,
    new: &'n [(PolicyId, PolicySource)],
) -> impl Iterator<Item = Problem> + 'n {
    let dropped: Vec<_> = policies
        .dropped_warnings()
        .map(|(name, index)| (PolicyKind::Validating.id(name), index))
        .collect();
    new.iter().flat_map(move |(id, source)| {
        let of_policy: Vec<_> =
            dropped.iter().filter(|(policy, _)| policy == id).map(|(_, index)| *index).collect();
        of_policy.into_iter().map(move |index| {
            let field = format!("spec.validations[{index}].expression");
            let message =
                "its warning has no effect: without a `message` it quotes the expression, and \
                           the API server drops warnings that have line breaks or tabs"
                    .to_owned();
            let help = Some("add `message` or `messageExpression`".to_owned());
            warned(Code::NoEffect, Problem { help, ..problem(id, source, &field, message) })
        })
    })
}

/// Warnings of the API server's type checking about new policies.
fn type_warnings(new: &[(PolicyId, PolicySource)]) -> impl Iterator<Item = Problem> {
    let policies = new
        .iter()
        .filter(|(id, _)| id.group == registration::GROUP && id.kind == registration::POLICY_KIND);
    policies.flat_map(|(id, source)| {
        let types = Types::kubernetes();
        let warnings = expression_warnings(&source.object, types, Quantities::Known);
        let found = warnings.iter().flat_map(|warning| {
            warning.each().map(move |(kind, issue)| Problem {
                text: Some(warning.expression.clone()),
                span: Some(named(&warning.expression, issue)),
                ..problem(id, source, &warning.field, format!("{kind}: {issue}"))
            })
        });
        found.map(|problem| warned(Code::TypeCheck, problem)).collect::<Vec<_>>()
    })
}
