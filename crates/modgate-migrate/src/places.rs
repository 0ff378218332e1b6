//! Where the chart has a place for what a flag says.

/// Where the chart has what a flag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It says it itself.
    Chart,
    /// In a value that is true or false, and false if nothing is said.
    Switch(&'static str),
    /// In a value that is a number.
    Number(&'static str),
    /// In a value that is text.
    Text(&'static str),
    /// In a value that lists what the flag says each time.
    List(&'static str),
    /// In the values of client certificates, whose authorities stand in the Secret of the certificate.
    ClientAuthorities,
}

/// All others go into `args`.
pub(crate) const PLACES: [(&str, Place); 49] = [
    (
        "additional-mutating-webhook-configs-to-rotate-certs",
        Place::List("certificates.additionalConfigurations.mutating"),
    ),
    (
        "additional-validating-webhook-configs-to-rotate-certs",
        Place::List("certificates.additionalConfigurations.validating"),
    ),
    ("address", Place::Chart),
    ("admission-policies", Place::Chart),
    ("audit-interval", Place::Number("audit.interval")),
    ("cert-dir", Place::Chart),
    ("cert-service-name", Place::Chart),
    ("client-ca-name", Place::ClientAuthorities),
    ("client-cn-name", Place::Text("clientAuth.commonName")),
    ("cluster-modrules-namespace", Place::Text("kubemod.namespace")),
    ("constraint-violations-limit", Place::Number("audit.constraintViolationsLimit")),
    ("disable-cert-rotation", Place::Chart),
    ("enable-leader-election", Place::Chart),
    ("exempt-namespace", Place::List("ignoreLabel.allowedNamespaces")),
    ("exempt-namespace-prefix", Place::List("ignoreLabel.allowedPrefixes")),
    ("exempt-namespace-suffix", Place::List("ignoreLabel.allowedSuffixes")),
    ("health-addr", Place::Chart),
    ("host", Place::Chart),
    ("kubeconfig", Place::Chart),
    ("late-rejections", Place::Text("kubemod.lateRejections")),
    ("log-denies", Place::Switch("logs.denies")),
    ("log-level", Place::Text("logs.level")),
    ("log-mutations", Place::Switch("logs.mutations")),
    ("metrics-addr", Place::Chart),
    ("modrule-exempt-namespace", Place::List("ignoreLabel.allowedModRuleNamespaces")),
    ("modrule-resource", Place::List("kubemod.dragnet.resources")),
    ("mutating-webhook-configuration-name", Place::Text("mutation.configurationName")),
    ("operation", Place::Chart),
    ("operator", Place::Chart),
    ("operator-health-probe-addr", Place::Chart),
    ("operator-metrics-addr", Place::Chart),
    ("policy-reports", Place::Text("audit.policyReports")),
    ("port", Place::Chart),
    ("prometheus-port", Place::Chart),
    ("record", Place::Chart),
    ("record-max-age", Place::Chart),
    ("record-max-size", Place::Chart),
    ("record-namespace", Place::Chart),
    ("record-policy", Place::Chart),
    ("record-sample", Place::Chart),
    ("shadow", Place::Chart),
    ("shadow-ca", Place::Chart),
    ("shadow-timeout", Place::Chart),
    ("shadow-url", Place::Chart),
    ("ui-address", Place::Chart),
    ("unified-mutate", Place::Chart),
    ("validating-webhook-configuration-name", Place::Text("validation.configurationName")),
    ("webapp", Place::Chart),
    ("webapp-addr", Place::Chart),
];

/// Where a flag goes; `None` for `args`.
pub(crate) fn place(flag: &str) -> Option<Place> {
    PLACES.iter().find(|(name, _)| *name == flag).map(|(_, place)| *place)
}

/// Whether the chart sets a flag itself.
pub(crate) fn is_of_chart(flag: &str) -> bool {
    place(flag) == Some(Place::Chart)
}
