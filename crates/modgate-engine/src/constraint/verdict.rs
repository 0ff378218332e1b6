//! The webhook's answer to what constraints found (spec 6.3).

use modgate_api::constraints::EnforcementAction;

use super::evaluate::Finding;

/// An answer, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may go on.
    pub allowed: bool,
    /// 403 when denied, 299 when allowed with warnings, else 200; 500 when nothing could be decided.
    pub code: u16,
    /// `Forbidden` when denied, else empty.
    pub reason: &'static str,
    /// The denials, a line each, or what went wrong.
    pub message: String,
    /// The warnings.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// The answer when a review could not be done: a denial that says why (GR-8).
    pub fn failed(message: String) -> Self {
        Self { allowed: false, code: 500, reason: "", message, warnings: Vec::new() }
    }

    /// The answer to findings, whose order it keeps. A finding may both deny and warn (EA-2).
    pub fn of(findings: &[Finding]) -> Self {
        let lines = |action: EnforcementAction| {
            let meant = findings.iter().filter(move |finding| finding.actions.contains(&action));
            meant.map(Finding::line).collect()
        };
        let denials: Vec<String> = lines(EnforcementAction::Deny);
        let warnings: Vec<String> = lines(EnforcementAction::Warn);
        let allowed = denials.is_empty();
        Self {
            allowed,
            code: match (allowed, warnings.is_empty()) {
                (false, _) => 403,
                (true, false) => 299,
                (true, true) => 200,
            },
            reason: if allowed { "" } else { "Forbidden" },
            message: denials.join("\n"),
            warnings,
        }
    }
}
