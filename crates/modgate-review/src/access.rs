//! The answers of `authorizer` where files stand in for a cluster: SubjectAccessReviews with their
//! answers.

use modgate_engine::{
    admissionpolicy::{Access, Action, Authorizer},
    api::meta::GroupVersionKind,
};
use modgate_value::{Str, Value};

/// Answers that files declare, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeclaredAccess(Vec<Value>);

impl DeclaredAccess {
    /// Keeps an object if it is a SubjectAccessReview; returns whether it is.
    pub(crate) fn take(&mut self, object: &Value) -> bool {
        let GroupVersionKind { group, kind, .. } = GroupVersionKind::of_object(object);
        let is_review = group == "authorization.k8s.io" && kind == "SubjectAccessReview";
        if is_review {
            self.0.push(object.clone());
        }
        is_review
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Authorizer for DeclaredAccess {
    /// As the first SubjectAccessReview about the action answers. Without one the action is not
    /// allowed. A member that a review leaves out, or has as `*`, stands for everything. One with
    /// groups applies to users that are in all of them.
    fn decide(&self, action: &Action<'_>) -> Result<Access, String> {
        let Some(review) = self.0.iter().find(|review| is_about(review, action)) else {
            return Ok(Access::default());
        };
        let text = |member| {
            let found = review.path(&["status", member]).and_then(Value::as_str);
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let allowed = review.path(&["status", "allowed"]).and_then(Value::as_bool);
        Ok(Access {
            allowed: allowed.unwrap_or_default(),
            reason: text("reason").unwrap_or_default(),
            error: text("evaluationError"),
        })
    }
}

fn is_about(review: &Value, action: &Action<'_>) -> bool {
    let same = |path: &[&str], found: &str| {
        let wanted = review.path(path).and_then(Value::as_str);
        wanted.is_none_or(|wanted| wanted == "*" || wanted == found)
    };
    let user = match action.service_account {
        None => Str::from(action.user),
        Some((namespace, name)) => {
            modgate_value::format_smolstr!("system:serviceaccount:{namespace}:{name}")
        }
    };
    if !same(&["spec", "user"], &user) {
        return false;
    }
    let groups = review.path(&["spec", "groups"]).and_then(Value::as_array);
    if !groups.into_iter().flatten().filter_map(Value::as_str).all(|it| is_in(action, it)) {
        return false;
    }
    let has = |member| review.path(&["spec", member]).is_some();
    if action.path.is_empty() {
        let of = |member| ["spec", "resourceAttributes", member];
        return !has("nonResourceAttributes")
            && same(&of("verb"), action.verb)
            && same(&of("group"), action.group)
            && same(&of("resource"), action.resource)
            && same(&of("subresource"), action.subresource)
            && same(&of("namespace"), action.namespace)
            && same(&of("name"), action.name);
    }
    let of = |member| ["spec", "nonResourceAttributes", member];
    !has("resourceAttributes") && same(&of("verb"), action.verb) && same(&of("path"), action.path)
}

/// Whether the user of a check is in a group.
fn is_in(action: &Action<'_>, group: &str) -> bool {
    if let Some((namespace, _)) = action.service_account {
        return ["system:serviceaccounts", "system:authenticated", "*"].contains(&group)
            || group.strip_prefix("system:serviceaccounts:") == Some(namespace);
    }
    let groups = action.user_info.and_then(|info| info.get("groups")).and_then(Value::as_array);
    group == "*" || groups.into_iter().flatten().any(|it| it.as_str() == Some(group))
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn allowed(review: &str, action: Action<'_>) -> bool {
        let mut declared = DeclaredAccess::default();
        let review = yaml::value(review).expect(review);
        assert!(declared.take(&review));
        declared.decide(&action).expect("an answer").allowed
    }

    #[test]
    fn groups_are_those_of_the_user() {
        let review = |spec: &str| {
            format!(
                "{{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {{{spec}, \
                 resourceAttributes: {{verb: get, resource: secrets}}}}, status: {{allowed: true}}}}"
            )
        };
        let info = yaml::value("{username: ann, groups: [dev, ops]}").expect("YAML");
        let none = yaml::value("{username: ann}").expect("YAML");
        let action = |user_info| Action {
            user: "ann",
            user_info: Some(user_info),
            verb: "get",
            resource: "secrets",
            ..Action::default()
        };
        let robot = Action { service_account: Some(("shop", "robot")), ..action(&info) };
        for (spec, of_ann, of_robot) in [
            ("user: ann", true, false),
            ("groups: []", true, true),
            ("groups: [dev]", true, false),
            ("groups: [dev, ops]", true, false),
            ("groups: [dev, other]", false, false),
            ("user: ann, groups: [other]", false, false),
            ("groups: ['*']", true, true),
            ("groups: ['system:serviceaccounts:shop']", false, true),
            ("groups: ['system:serviceaccounts:other']", false, false),
        ] {
            assert_eq!(allowed(&review(spec), action(&info)), of_ann, "{spec}");
            assert_eq!(allowed(&review(spec), robot), of_robot, "{spec}");
            if spec.contains("dev") {
                assert!(!allowed(&review(spec), action(&none)), "{spec}");
            }
        }
    }
}
