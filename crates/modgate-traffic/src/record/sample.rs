//! Which requests are recorded.

use std::{collections::BTreeMap, str::FromStr};

use modgate_engine::Review;
use modgate_prove::recorded::Exchange;

/// A part of requests, from 0 for none to 1 for all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// All requests.
    pub const ALL: Self = Self(1.0);

    /// Whether a request with this uid is taken: always the same for one uid.
    fn takes(self, uid: &str) -> bool {
        if self.0 >= 1.0 {
            return true;
        }
        // FNV-1a, and one more step that spreads the last characters over all bits.
        let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper 32 bits as a number from 0 to 1.
        let part = u32::try_from(spread >> 32).map_or(0.0, f64::from);
        part / (f64::from(u32::MAX) + 1.0) < self.0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
        rate.map(Self).ok_or_else(|| "expected a number from 0 to 1, such as `0.1`".to_owned())
    }
}

/// The rates of requests. That of a policy counts before that of a namespace, and the default last; of several
/// policies the highest.
#[derive(Debug, Clone)]
pub struct Samples {
    /// The rate of all other requests.
    pub default: Rate,
    /// By namespace; `""` for objects that are in none.
    pub namespaces: BTreeMap<String, Rate>,
    /// By policy that finds something, such as `K8sRequiredLabels owner`, or by its kind, or by its name.
    pub policies: BTreeMap<String, Rate>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { default: Rate::ALL, namespaces: BTreeMap::new(), policies: BTreeMap::new() }
    }
}

impl Samples {
    /// Whether to record an exchange.
    pub(super) fn take(&self, exchange: &Exchange) -> bool {
        let of_policies = (!self.policies.is_empty())
            .then(|| exchange.policies())
            .into_iter()
            .flatten()
            .filter_map(|policy| self.of_policy(&policy))
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let rate = of_policies.unwrap_or_else(|| self.of_request(&exchange.review));
        rate.takes(&exchange.review.request().uid)
    }

    /// Whether to record a request in which no policy with a rate finds something.
    pub(super) fn takes(&self, review: &Review) -> bool {
        self.of_request(review).takes(&review.request().uid)
    }

    fn of_request(&self, review: &Review) -> Rate {
        self.namespaces.get(review.store_namespace()).copied().unwrap_or(self.default)
    }

    fn of_policy(&self, policy: &str) -> Option<Rate> {
        let (kind, name) = policy.split_once(' ').unwrap_or(("", policy));
        [policy, name, kind].into_iter().find_map(|it| self.policies.get(it).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for text in ["", "x", "-0.1", "1.1", "NaN"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        let taken = |rate: &str| {
            let rate: Rate = rate.parse().expect("a rate");
            let uid = |number: u32| format!("0f1e2d3c-4b5a-6978-8796-{number:012x}");
            (0..10_000).filter(|number| rate.takes(&uid(*number))).count()
        };
        assert_eq!((taken("0"), taken("1")), (0, 10_000));
        assert!((900..1100).contains(&taken("0.1")), "{}", taken("0.1"));
    }

    #[test]
    fn policies_by_kind_and_name() {
        let rate = |text: &str| text.parse::<Rate>().expect("a rate");
        let names = [("K8sLabels", "0.1"), ("K8sLabels owner", "0.2"), ("shop/replicas", "0.3")];
        let policies = names.map(|(name, text)| (name.to_owned(), rate(text)));
        let samples = Samples { policies: policies.into(), ..Samples::default() };
        for (policy, expected) in [
            ("K8sLabels owner", Some("0.2")),
            ("K8sLabels team", Some("0.1")),
            ("ModRule shop/replicas", Some("0.3")),
            ("ModRule shop/other", None),
        ] {
            assert_eq!(samples.of_policy(policy), expected.map(rate), "{policy}");
        }
    }
}
