//! What an audit found as JUnit XML, which build servers read.

use std::io::Write;

use anyhow::Result;

use super::{
    Found,
    report::{groups, judge_title, title},
};
use crate::args::AuditCommandArgs;

/// A suite for each group, with a failed test for each violation, or one that succeeds if there is
/// none.
pub(super) fn write(out: &mut impl Write, found: &Found, args: &AuditCommandArgs) -> Result<()> {
    let limit = args.limit.unwrap_or(usize::MAX);
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, "<testsuites>")?;
    for group in groups(found, args.by) {
        let name = escaped(&group.title);
        let failures = group.violations.len().min(limit);
        let tests = failures.max(1);
        writeln!(out, r#"  <testsuite name="{name}" tests="{tests}" failures="{failures}">"#)?;
        if failures == 0 {
            writeln!(out, r#"    <testcase name="no violations" classname="{name}"></testcase>"#)?;
        }
        for violation in group.violations.iter().take(limit) {
            let object = escaped(&title(&violation.subject));
            let class = escaped(&judge_title(&violation.judge));
            writeln!(out, r#"    <testcase name="{object}" classname="{class}">"#)?;
            let message = escaped(&violation.message);
            let action = escaped(&violation.action);
            let subject = &violation.subject;
            let place = escaped(&modgate_audit::place(&subject.origin, subject.position));
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

/// Text for XML, without the characters it cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            character if character.is_control() => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_xml() {
        assert_eq!(escaped("a<b>&\"c\"\nd\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;d\u{fffd}");
    }
}
