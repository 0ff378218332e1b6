//! The authorities that webhook configurations trust.
//!
//! Nothing but `caBundle` is written, for webhooks that are there: by a strategic merge of entries
//! of the same names, for exactly the version that was looked at, so that an entry that another writer removes
//! meanwhile does not come back.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_value::Value;

use super::super::object::Stored;
use crate::authority::{Certificate, to_pem};

/// The authority that signed the certificates of KubeMod's installation (spec `kubemod.md`, 7.4).
const KUBEMOD_AUTHORITY: &str = "KubeMod";

/// The missing bundles of a configuration: for each webhook whose bundle is another, its name and the bundle it
/// should have, in the order of the configuration.
pub(super) fn missing(
    configuration: &Value,
    authorities: &[Certificate],
    keep_kubemods: bool,
    now: i64,
) -> Vec<(String, String)> {
    webhooks(configuration)
        .filter_map(|webhook| {
            let name = webhook.get("name")?.as_str()?;
            let present = trusted(webhook);
            let mut wanted: Vec<&Certificate> = authorities.iter().collect();
            // KubeMod's own operator may still be there to answer, until it is removed.
            wanted.extend(present.iter().filter(|certificate| {
                keep_kubemods
                    && !authorities.contains(certificate)
                    && certificate.not_after > now
                    && certificate.common_names.iter().any(|name| name == KUBEMOD_AUTHORITY)
            }));
            if present.iter().eq(wanted.iter().copied()) {
                return None;
            }
            let pem: String = wanted.iter().map(|certificate| to_pem(&certificate.der)).collect();
            Some((name.to_owned(), STANDARD.encode(pem)))
        })
        .collect()
}

/// Whether every webhook of a configuration trusts an authority.
pub(super) fn all_trust(configuration: &Value, authority: &Certificate) -> bool {
    webhooks(configuration).all(|webhook| trusted(webhook).contains(authority))
}

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten()
}

fn trusted(webhook: &Value) -> Vec<Certificate> {
    let bundle = webhook.path(&["clientConfig", "caBundle"]).and_then(Value::as_str);
    let pem = STANDARD.decode(bundle.unwrap_or_default()).unwrap_or_default();
    Certificate::all_of(&pem)
}

/// The patch that gives webhooks their bundles.
pub(super) fn patch(stored: &Stored, bundles: &[(String, String)]) -> Value {
    use kube::Resource as _;

    let webhooks: Vec<Value> = bundles
        .iter()
        .map(|(name, bundle)| {
            let client: Value = [("caBundle", Value::from(bundle.as_str()))].into_iter().collect();
            [("name", Value::from(name.as_str())), ("clientConfig", client)].into_iter().collect()
        })
        .collect();
    let version = stored.meta().resource_version.as_deref().unwrap_or_default();
    let metadata: Value = [("resourceVersion", Value::from(version))].into_iter().collect();
    [("metadata", metadata), ("webhooks", webhooks.into_iter().collect())].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::authority::{Term, make};

    fn authority(name: &str) -> (Certificate, String) {
        let term = Term { now: SystemTime::now(), lasts: Duration::from_secs(60) };
        let made = make(name, "test", term).expect("made");
        let read = Certificate::all_of(made.cert_pem.as_bytes()).pop().expect("read");
        (read, made.cert_pem)
    }

    fn configuration(bundles: &[&str]) -> Value {
        let webhooks: Vec<String> = bundles
            .iter()
            .enumerate()
            .map(|(index, bundle)| {
                let bundle = STANDARD.encode(bundle);
                format!(r#"{{"name": "w{index}", "clientConfig": {{"caBundle": "{bundle}"}}}}"#)
            })
            .collect();
        let text = format!(r#"{{"webhooks": [{}]}}"#, webhooks.join(","));
        Value::from_json(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn only_what_differs_is_written() {
        let (ours, pem) = authority("gatekeeper-ca");
        let (old, old_pem) = authority("gatekeeper-ca");
        let wanted = std::slice::from_ref(&ours);
        let now = ours.not_before;
        let names = |configuration: &Value| -> Vec<String> {
            missing(configuration, wanted, false, now).into_iter().map(|(name, _)| name).collect()
        };
        let other_form = pem.replace("\n-----END", "\n\n-----END");
        let mixed =
            configuration(&[&pem, "", "\n", &old_pem, &format!("{pem}{old_pem}"), &other_form]);
        assert_eq!(names(&mixed), ["w1", "w2", "w3", "w4"]);
        assert!(!all_trust(&mixed, &ours));
        assert!(all_trust(&configuration(&[&pem, &format!("{old_pem}{pem}")]), &ours));
        assert!(!all_trust(&configuration(&[&pem]), &old));
        assert!(names(&Value::Null).is_empty());
    }

    #[test]
    fn kubemods_own_authority_stays_until_it_expires() {
        let (ours, pem) = authority("gatekeeper-ca");
        let (kubemods, kubemod_pem) = authority(KUBEMOD_AUTHORITY);
        let (_, foreign_pem) = authority("other");
        let wanted = std::slice::from_ref(&ours);
        let before = configuration(&[&format!("{foreign_pem}{kubemod_pem}")]);
        let bundle = |keep, now| {
            let missing = missing(&before, wanted, keep, now);
            let [(_, bundle)] = &missing[..] else { panic!("one webhook") };
            String::from_utf8(STANDARD.decode(bundle).expect("base64")).expect("PEM")
        };
        assert_eq!(bundle(true, ours.not_before), format!("{pem}{kubemod_pem}"));
        assert_eq!(bundle(true, kubemods.not_after), pem);
        assert_eq!(bundle(false, ours.not_before), pem);
        let after = configuration(&[&format!("{pem}{kubemod_pem}")]);
        assert!(missing(&after, wanted, true, ours.not_before).is_empty());
    }
}
