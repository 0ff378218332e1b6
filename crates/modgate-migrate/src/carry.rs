//! Settings of an installation that differ from the chart's defaults: webhook configurations and Deployments
//! as they are in the cluster, field by field, as values of the chart.
//!
//! Fields are compared as the API server defaults them. What no value can say is [`Lost`].

mod webhooks;
mod workloads;

use std::sync::OnceLock;

use modgate_value::{Value, yaml};
use serde::Serialize;

use crate::{
    installation::Installation,
    object::{InstalledObject, Subject},
};

/// A field that differs from what the chart renders by default, and the value that keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    /// The object of the original.
    pub object: Subject,
    /// The field, as Kubernetes writes paths.
    pub field: String,
    /// Where that stands: `file:line:column`, or the URL of the cluster.
    pub place: String,
    /// Path of the value, such as `validation.failurePolicy`.
    pub value: String,
    /// The required value.
    pub is: Value,
    /// The chart's default.
    pub default: Value,
}

impl Carried {
    /// Whether the installation would enforce less if the value had another than the one it has to be.
    pub(crate) fn weakens(&self, other: &Value) -> bool {
        let key = self.value.rsplit('.').next().unwrap_or_default();
        let number = |value: &Value| value.as_i64().unwrap_or_default();
        match key {
            "failurePolicy" => other.as_str() != Some("Fail"),
            "timeoutSeconds" | "replicas" => number(other) < number(&self.is),
            "enabled" => self.is.as_bool() == Some(true) && other.as_bool() != Some(true),
            "matchPolicy" | "reinvocationPolicy" => {
                other.as_str() == Some("Exact") || other.as_str() == Some("Never")
            }
            "operations" | "apiGroups" | "apiVersions" | "resources" if self.is_of_webhook() => {
                let has =
                    |it: &Value| other.as_array().is_some_and(|all| all.iter().any(|o| o == it));
                !has(&"*".into()) && self.is.as_array().is_some_and(|all| !all.iter().all(has))
            }
            // Which of two selectors lets more through is not decided here.
            _ => self.is_of_webhook(),
        }
    }

    fn is_of_webhook(&self) -> bool {
        let of = ["validation.", "ignoreLabel.", "mutation.", "kubemod."];
        of.iter().any(|prefix| self.value.starts_with(prefix))
    }
}

/// Something that no value of the chart can keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// The object of the original.
    pub object: Subject,
    /// The field, as Kubernetes writes paths.
    pub field: String,
    /// Where that stands: `file:line:column`, or the URL of the cluster.
    pub place: String,
    /// The result, and what to do.
    pub sentence: String,
    /// Whether less is enforced without it.
    pub weakens: bool,
}

/// Both, of a whole installation.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    pub(crate) carried: Vec<Carried>,
    pub(crate) lost: Vec<Lost>,
}

impl Carry {
    /// Of what the originals have now; `home` is the namespace modgate goes to.
    pub(crate) fn of(installation: &Installation<'_>, home: &str) -> Self {
        let mut carry = Self::default();
        webhooks::carry(&mut carry, installation, home);
        workloads::carry(&mut carry, installation);
        carry
    }

    /// Keeps a field, unless it is what the chart has by default or another object said so before.
    fn keep(&mut self, found: &InstalledObject, field: impl Into<String>, value: &str, is: Value) {
        let default = default(value);
        if is == default || self.carried.iter().any(|it| it.value == value) {
            return;
        }
        let field = field.into();
        self.carried.push(Carried {
            object: found.subject(),
            place: found.place(&field),
            field,
            value: value.to_owned(),
            is,
            default,
        });
    }

    fn lose(
        &mut self,
        found: &InstalledObject,
        field: impl Into<String>,
        weakens: bool,
        sentence: String,
    ) {
        let field = field.into();
        self.lost.push(Lost {
            object: found.subject(),
            place: found.place(&field),
            field,
            sentence,
            weakens,
        });
    }
}

/// The chart's default at a path of its values.
pub(crate) fn default(path: &str) -> Value {
    static VALUES: OnceLock<Value> = OnceLock::new();
    const TEXT: &str = include_str!("../../../deploy/chart/values.yaml");
    // A test reads it, too.
    let values = VALUES.get_or_init(|| yaml::value(TEXT).unwrap_or_default());
    let keys: Vec<&str> = path.split('.').collect();
    values.path(&keys).cloned().unwrap_or_default()
}
