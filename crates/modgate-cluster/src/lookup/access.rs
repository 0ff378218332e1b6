//! Questions of `authorizer`, as SubjectAccessReviews.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReview, SubjectAccessReviewSpec,
};
use modgate_engine::admissionpolicy::{Access, Action};
use modgate_value::Value;

/// The review that asks whether an action is allowed.
pub(super) fn review(action: &Action<'_>) -> SubjectAccessReview {
    let mut spec = match action.service_account {
        Some((namespace, name)) => of_service_account(namespace, name),
        None => of_user(action),
    };
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    if action.path.is_empty() {
        spec.resource_attributes = Some(ResourceAttributes {
            group: given(action.group),
            // The authorizer of the API server asks about every version.
            version: Some("*".to_owned()),
            resource: given(action.resource),
            subresource: given(action.subresource),
            namespace: given(action.namespace),
            name: given(action.name),
            verb: given(action.verb),
            field_selector: given(action.field_selector).map(|text| FieldSelectorAttributes {
                raw_selector: Some(text),
                ..FieldSelectorAttributes::default()
            }),
            label_selector: given(action.label_selector).map(|text| LabelSelectorAttributes {
                raw_selector: Some(text),
                ..LabelSelectorAttributes::default()
            }),
        });
    } else {
        spec.non_resource_attributes =
            Some(NonResourceAttributes { path: given(action.path), verb: given(action.verb) });
    }
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// The API server's answer.
///
/// # Errors
///
/// When the review has none.
pub(super) fn access(review: SubjectAccessReview) -> Result<Access, String> {
    let status = review.status.ok_or("the SubjectAccessReview has no status")?;
    Ok(Access {
        allowed: status.allowed,
        reason: status.reason.unwrap_or_default(),
        error: status.evaluation_error.filter(|error| !error.is_empty()),
    })
}

/// With the groups that the API server gives to each service account.
fn of_service_account(namespace: &str, name: &str) -> SubjectAccessReviewSpec {
    let groups =
        ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        groups: Some(groups.into()),
        ..SubjectAccessReviewSpec::default()
    }
}

fn of_user(action: &Action<'_>) -> SubjectAccessReviewSpec {
    let member = |name: &str| action.user_info.and_then(|info| info.get(name));
    let texts = |value: &Value| {
        let values = value.as_array().into_iter().flat_map(|values| values.iter());
        values.filter_map(|value| Some(value.as_str()?.to_owned())).collect::<Vec<_>>()
    };
    let extra = member("extra").and_then(Value::as_object).map(|extra| {
        let members = extra.iter().map(|(name, values)| (name.to_string(), texts(values)));
        members.collect::<BTreeMap<_, _>>()
    });
    SubjectAccessReviewSpec {
        user: (!action.user.is_empty()).then(|| action.user.to_owned()),
        groups: member("groups").map(texts),
        uid: member("uid").and_then(Value::as_str).map(str::to_owned),
        extra,
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_request_with_groups() {
        let info = br#"{"username": "ann", "uid": "7", "groups": ["dev", "ops"],
            "extra": {"scopes": ["a", "b"]}}"#;
        let info = Value::from_json(info).expect("JSON");
        let action = Action {
            user: "ann",
            user_info: Some(&info),
            verb: "get",
            resource: "pods",
            namespace: "n",
            label_selector: "a=b",
            ..Action::default()
        };
        let asked = serde_json::to_value(review(&action)).expect("JSON");
        let expected = serde_json::json!({
            "user": "ann", "uid": "7", "groups": ["dev", "ops"], "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": {"verb": "get", "version": "*", "resource": "pods",
                "namespace": "n", "labelSelector": {"rawSelector": "a=b"}}
        });
        assert_eq!(asked["spec"], expected);
    }

    #[test]
    fn service_accounts_and_paths() {
        let action = Action {
            user: "ann",
            service_account: Some(("n", "robot")),
            path: "/healthz",
            verb: "get",
            ..Action::default()
        };
        let asked = serde_json::to_value(review(&action)).expect("JSON");
        let expected = serde_json::json!({
            "user": "system:serviceaccount:n:robot",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:n"],
            "nonResourceAttributes": {"verb": "get", "path": "/healthz"}
        });
        assert_eq!(asked["spec"], expected);
    }
}
