//! Label selectors, as `k8s.io/apimachinery` reads them.

use modgate_api::matching as wire;
use modgate_value::{Object, Str, Value, gofmt};

/// A compiled `metav1.LabelSelector`: every requirement has to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: Str,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<Str>),
    NotIn(Vec<Str>),
    Exists,
    DoesNotExist,
}

/// Why Kubernetes refuses a selector; the texts are its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An operator it does not know.
    #[error("{} is not a valid label selector operator", gofmt::quote(.0))]
    Operator(String),
    /// `In` or `NotIn` without values.
    #[error("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    /// `Exists` or `DoesNotExist` with values.
    #[error("values: Invalid value: {0}: values set must be empty for exists and does not exist")]
    Values(String),
}

impl Selector {
    /// Compiles a selector.
    ///
    /// # Errors
    ///
    /// The first requirement that Kubernetes refuses.
    pub fn compile(selector: &wire::LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In(vec![value.as_str().unwrap_or_default().into()]),
        });
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::compile);
        labels.map(Ok).chain(expressions).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it has no requirement, hence matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&Object>) -> bool {
        self.0.iter().all(|requirement| {
            let value =
                labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            match (&requirement.operator, value) {
                (Operator::In(values), Some(value)) => values.iter().any(|known| known == value),
                (Operator::NotIn(values), Some(value)) => values.iter().all(|known| known != value),
                (Operator::Exists, value) => value.is_some(),
                (Operator::DoesNotExist, value) => value.is_none(),
                (Operator::In(_), None) => false,
                (Operator::NotIn(_), None) => true,
            }
        })
    }
}

impl Requirement {
    fn compile(requirement: &wire::Requirement) -> Result<Self, SelectorError> {
        let values = requirement.values.clone().unwrap_or_default();
        let operator = match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => return Err(SelectorError::NoValues),
            "In" => Operator::In(values),
            "NotIn" => Operator::NotIn(values),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let shown: Value = values.into_iter().map(Value::from).collect();
                return Err(SelectorError::Values(shown.to_json()));
            }
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(SelectorError::Operator(other.to_owned())),
        };
        Ok(Self { key: requirement.key.clone(), operator })
    }
}
