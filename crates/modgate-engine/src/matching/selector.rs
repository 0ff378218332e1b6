//! Label selectors, as `k8s.io/apimachinery` reads them.

use modgate_api::{matching as wire, schema::names};
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
    /// The error of one requirement: its key, or its values.
    #[error("{}", list(.0))]
    Requirement(Vec<String>),
}

/// Several errors as Go prints their aggregate.
fn list(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        _ => format!("[{}]", problems.join(", ")),
    }
}

impl Selector {
    /// Compiles a selector.
    ///
    /// # Errors
    ///
    /// The first requirement that Kubernetes refuses.
    pub fn compile(selector: &wire::LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::new(key, "In", vec![value.clone()]));
        let expressions = selector.match_expressions.iter().flatten().map(|requirement| {
            let values = requirement.values.clone().unwrap_or_default();
            Requirement::new(&requirement.key, &requirement.operator, values)
        });
        labels.chain(expressions).collect::<Result<_, _>>().map(Self)
    }

    /// The labels that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|requirement| &requirement.key)
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
    fn new(key: &Str, operator: &str, values: Vec<Str>) -> Result<Self, SelectorError> {
        // Kubernetes looks at the key, then at how many values there are, then at each.
        let mut problems = Vec::new();
        problems.extend(invalid("key", key, &names::label_key(key)));
        match operator {
            "In" | "NotIn" if values.is_empty() => problems.push(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let shown: Value = values.iter().cloned().map(Value::from).collect();
                problems.push(format!(
                    "values: Invalid value: {}: values set must be empty for exists and does not exist",
                    shown.to_json()
                ));
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            problems.extend(invalid(
                &format!("values[{at}][{key}]"),
                value,
                &names::label_value(value),
            ));
        }
        let operator = match operator {
            "In" => Operator::In(values),
            "NotIn" => Operator::NotIn(values),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(SelectorError::Operator(other.to_owned())),
        };
        if problems.is_empty() {
            Ok(Self { key: key.clone(), operator })
        } else {
            Err(SelectorError::Requirement(problems))
        }
    }
}

/// The error of a field whose value has these problems, if it has any.
fn invalid(field: &str, value: &str, problems: &[String]) -> Option<String> {
    let value = gofmt::quote(value);
    (!problems.is_empty())
        .then(|| format!("{field}: Invalid value: {value}: {}", problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_refuses_is_refused_in_its_words() {
        let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let cases = [
            (r#"{"matchLabels": {"team": "web"}}"#, None),
            (
                r#"{"matchLabels": {"team": "ä"}}"#,
                Some(format!("values[0][team]: Invalid value: \"ä\": {value}")),
            ),
            (
                r#"{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b/c"]}]}"#,
                Some(format!("values[1][team]: Invalid value: \"b/c\": {value}")),
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#,
                Some("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".into()),
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["-"]}]}"#,
                Some(format!(
                    "[values: Invalid value: [\"-\"]: values set must be empty for exists and does not exist, \
                     values[0][a]: Invalid value: \"-\": {value}]"
                )),
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}"#,
                Some("\"Gt\" is not a valid label selector operator".into()),
            ),
        ];
        for (selector, expected) in cases {
            let selector: wire::LabelSelector = serde_json::from_str(selector).unwrap();
            let problem = Selector::compile(&selector).err().map(|error| error.to_string());
            assert_eq!(problem, expected, "{selector:?}");
        }
    }
}
