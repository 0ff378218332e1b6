//! What an audit found as JUnit XML, which build servers read.

use std::io::Write;

use anyhow::Result;
use modgate_gator::xml::escape;

use super::{
    Found,
    report::{groups, policy_title, title},
};
use crate::args::AuditCommandArgs;

/// A suite for each group, with a failed test for each violation, or one that succeeds if there is
/// none.
pub(super) fn write(out: &mut impl Write, found: &Found, args: &AuditCommandArgs) -> Result<()> {
    let limit = args.limit.unwrap_or(usize::MAX);
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, "<testsuites>")?;
    for group in groups(found, args.by) {
        let name = escape(&group.title);
        let failures = group.violations.len().min(limit);
        let tests = failures.max(1);
        writeln!(out, r#"  <testsuite name="{name}" tests="{tests}" failures="{failures}">"#)?;
        if failures == 0 {
            writeln!(out, r#"    <testcase name="no violations" classname="{name}"></testcase>"#)?;
        }
        for violation in group.violations.iter().take(limit) {
            let object = escape(&title(&violation.subject));
            let class = escape(&policy_title(&violation.policy));
            writeln!(out, r#"    <testcase name="{object}" classname="{class}">"#)?;
            let message = escape(&violation.message);
            let action = escape(&violation.action);
            let subject = &violation.subject;
            let place = escape(&modgate_audit::place(&subject.origin, subject.position));
            writeln!(
                out,
                r#"      <failure message="{message}" type="{action}">{place}</failure>"#
            )?;
            writeln!(out, "    </testcase>")?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    Ok(writeln!(out, "</testsuites>")?)
}
