//! Every format over the same reports: what each must have by its own description.

#![allow(clippy::panic, reason = "test code, helpers included")]

use modgate_report::{
    Finding, Format, Level, Object, Passed, Place, Report, Rule, RuleKind, write,
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
};

/// Text that every format has to encode.
const HOSTILE: &str = "100% of <a> & \"b\",\n`c`|d:\u{1b}\u{fffe}]]>";

fn report() -> Report {
    let mut report = Report::new("1.2.3");
    let owned = report.rule(Rule {
        title: "Owners".to_owned(),
        description: "Objects have owners.".to_owned(),
        help_uri: "https://example.com/need-owner".to_owned(),
        owner: "team platform".to_owned(),
        remediation: "add metadata.labels.owner".to_owned(),
        ..Rule::policy("NeedLabel/need-owner")
    });
    let quiet = report.rule(Rule::policy("NeedLabel/quiet"));
    let web = || Object {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        generate_name: String::new(),
    };
    let place = Place { end_line: 4, end_column: 12, ..Place::at("./a b/deploy.yaml", 4, 9) };
    let missing =
        Finding::new(owned, Level::Error, "label owner is missing").at(place).about(web());
    report.findings.push(Finding { action: "deny".to_owned(), ..missing.clone() });
    // The same once more: two findings, two fingerprints.
    report.findings.push(missing);
    report.findings.push(Finding::new(owned, Level::Warning, HOSTILE).about(web()));
    report.passed.push(Passed { rule: quiet, name: "Deployment shop/web".to_owned() });
    let source = Source::new("p.yaml", "kind: X\nmacth: 1\n");
    let unknown = Diagnostic::warning("unknown field `macth`").code("unknown-field");
    report.diagnostic(&unknown.at(source, 8..13).help("did you mean `match`?"));
    report.diagnostic(&Diagnostic::error("no such file"));
    report.findings.push(Finding::new(quiet, Level::Note, "only noted"));
    report
}

fn json(format: Format, report: &Report) -> Value {
    let text = write(report, format);
    Value::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{format}: {error}\n{text}"))
}

fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value.path(path).and_then(Value::as_array).map_or(&[], |list| list)
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, path: &[&str]) -> Option<i64> {
    value.path(path).and_then(Value::as_i64)
}

#[test]
fn names_of_formats() {
    for format in Format::ALL {
        assert_eq!(format.as_str().parse(), Ok(*format));
    }
    let error = "sarf".parse::<Format>().expect_err("no format").to_string();
    assert_eq!(error, "unknown output format `sarf`; did you mean `sarif`?");
}

#[test]
fn text_is_a_line_for_each_finding() {
    let text = write(&report(), Format::Text);
    let first: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(
        first,
        [
            "./a b/deploy.yaml:4:9: error[NeedLabel/need-owner]: Deployment shop/web: label owner is missing",
            "  help: add metadata.labels.owner"
        ]
    );
    assert!(text.contains(
        "p.yaml:2:1: warning[unknown-field]: unknown field `macth`\n  help: did you mean `match`?\n"
    ));
    assert!(text.ends_with("error[error]: no such file\nnote[NeedLabel/quiet]: only noted\n3 errors, 2 warnings, 1 note\n"), "{text}");
    assert_eq!(write(&Report::new("1"), Format::Text), "no findings\n");
}

#[test]
fn json_yaml_and_jsonl_hold_everything() {
    let report = report();
    let document = json(Format::Json, &report);
    assert_eq!(list(&document, &["rules"]).len(), 4);
    let findings = list(&document, &["findings"]);
    assert_eq!(findings.len(), 6);
    assert_eq!(text(&findings[0], &["object", "namespace"]), "shop");
    assert_eq!(text(&findings[0], &["owner"]), "team platform");
    assert_eq!(number(&findings[0], &["place", "line"]), Some(4));
    assert_eq!(text(&findings[2], &["message"]), HOSTILE);
    assert_eq!(number(&findings[3], &["place", "column"]), Some(1));
    let yaml = write(&report, Format::Yaml);
    assert_eq!(modgate_value::yaml::load(&yaml).expect("YAML")[0].value, document);
    let lines = write(&report, Format::Jsonl);
    let lines: Vec<Value> =
        lines.lines().map(|line| Value::from_json(line.as_bytes()).expect("a line")).collect();
    assert_eq!(lines, findings);
}

#[test]
fn github_encodes_what_would_end_a_command() {
    let text = write(&report(), Format::Github);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "::error file=./a b/deploy.yaml,line=4,endLine=4,col=9,endColumn=12,title=NeedLabel/need-owner\
             ::Deployment shop/web: label owner is missing%0Ahelp: add metadata.labels.owner",
            "::error file=./a b/deploy.yaml,line=4,endLine=4,col=9,endColumn=12,title=NeedLabel/need-owner\
             ::Deployment shop/web: label owner is missing%0Ahelp: add metadata.labels.owner",
            "::warning title=NeedLabel/need-owner::Deployment shop/web: 100%25 of <a> & \"b\",%0A`c`|d:\
             \\u{1b}\u{fffe}]]>%0Ahelp: add metadata.labels.owner",
        ]
    );
    assert_eq!(lines.len(), 6, "a finding is a line: {text}");
    assert_eq!(lines[5], "::notice title=NeedLabel/quiet::only noted");
}

/// The members that GitLab requires of each issue, and the values that it knows.
#[test]
fn gitlab_has_what_it_requires() {
    let issues = json(Format::Gitlab, &report());
    let issues = issues.as_array().expect("a list");
    let mut fingerprints = std::collections::BTreeSet::new();
    for issue in issues {
        for member in ["description", "check_name", "fingerprint", "severity"] {
            assert!(!text(issue, &[member]).is_empty(), "{member}: {issue:?}");
        }
        let severity = text(issue, &["severity"]);
        assert!(["info", "minor", "major", "critical", "blocker"].contains(&severity));
        let path = text(issue, &["location", "path"]);
        assert!(!path.is_empty() && !path.starts_with("./"), "{path}");
        assert!(number(issue, &["location", "lines", "begin"]) >= Some(1));
        assert!(fingerprints.insert(text(issue, &["fingerprint"])), "fingerprints are unique");
    }
    assert_eq!(issues.len(), 6);
}

/// The members that the schema of SARIF 2.1.0 requires of the objects that are used, and its
/// restrictions.
#[test]
fn sarif_has_what_its_schema_requires() {
    let mut report = report();
    report.help_base = "https://docs.example.com/warnings.html#".to_owned();
    let log = json(Format::Sarif, &report);
    assert_eq!(text(&log, &["version"]), "2.1.0");
    let run = &list(&log, &["runs"])[0];
    assert_eq!(text(run, &["tool", "driver", "name"]), "modgate");
    assert_eq!(
        text(run, &["tool", "driver", "informationUri"]),
        "https://docs.example.com/warnings.html"
    );
    assert_eq!(text(run, &["columnKind"]), "unicodeCodePoints");
    let invocation = &list(run, &["invocations"])[0];
    assert_eq!(invocation.path(&["executionSuccessful"]), Some(&Value::from(true)));
    let levels = ["none", "note", "warning", "error"];
    let rules = list(run, &["tool", "driver", "rules"]);
    for rule in rules {
        assert!(!text(rule, &["id"]).is_empty());
        assert!(!text(rule, &["shortDescription", "text"]).is_empty());
        assert!(levels.contains(&text(rule, &["defaultConfiguration", "level"])));
    }
    assert_eq!(text(&rules[0], &["name"]), "Owners");
    assert_eq!(text(&rules[0], &["helpUri"]), "https://example.com/need-owner");
    assert_eq!(
        text(&rules[0], &["help", "text"]),
        "Objects have owners.\n\nadd metadata.labels.owner"
    );
    assert_eq!(text(&rules[0], &["properties", "owner"]), "team platform");
    let results = list(run, &["results"]);
    assert_eq!(results.len(), report.findings.len());
    for result in results {
        assert!(!text(result, &["message", "text"]).is_empty());
        assert!(levels.contains(&text(result, &["level"])));
        let index =
            usize::try_from(number(result, &["ruleIndex"]).expect("an index")).expect("one");
        assert_eq!(text(result, &["ruleId"]), text(&rules[index], &["id"]));
        for location in list(result, &["locations"]) {
            let Some(physical) = location.get("physicalLocation") else { continue };
            assert!(!text(physical, &["artifactLocation", "uri"]).is_empty());
            let of = |member| number(physical, &["region", member]);
            let (start, end) =
                (of("startLine").zip(of("startColumn")), of("endLine").zip(of("endColumn")));
            assert!(start >= Some((1, 1)));
            assert!(end.is_none_or(|end| Some(end) > start));
        }
    }
    let first = &list(&results[0], &["locations"])[0];
    assert_eq!(text(first, &["physicalLocation", "artifactLocation", "uri"]), "a%20b/deploy.yaml");
    assert_eq!(number(first, &["physicalLocation", "region", "endColumn"]), Some(12));
}

#[test]
fn junit_counts_what_it_lists() {
    let text = write(&report(), Format::Junit);
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"modgate\" tests=\"7\" failures=\"2\" errors=\"1\">\n"), "{text}");
    for (expected, count) in [
        ("<testsuite ", 4),
        ("<testcase ", 7),
        ("<failure ", 2),
        ("<skipped ", 3),
        ("<error ", 1),
        ("<testcase name=\"Deployment shop/web\" classname=\"NeedLabel/quiet\"/>", 1),
        ("message=\"100% of &lt;a&gt; &amp; &quot;b&quot;,&#10;`c`|d:\u{fffd}\u{fffd}]]&gt;\"", 1),
    ] {
        assert_eq!(text.matches(expected).count(), count, "{expected}\n{text}");
    }
}

#[test]
fn markdown_shows_text_as_it_is() {
    let mut report = report();
    report.complete = false;
    let text = write(&report, Format::Markdown);
    assert!(
        text.starts_with("## modgate: 3 errors, 2 warnings, 1 note\n\nSome policies"),
        "{text}"
    );
    assert!(text.contains(
        "\n### NeedLabel/need-owner\n\nOwners\n\nObjects have owners.\n\nOwner: team platform\n"
    ));
    assert!(text.contains(
        "| warning | Deployment shop/web | 100% of &lt;a&gt; &amp; \"b\",<br>\\`c\\`\\|d:"
    ));
    for row in text.lines().filter(|line| line.starts_with('|')) {
        let bars = row.replace("\\\\", "").replace("\\|", "").matches('|').count();
        assert_eq!(bars, 5, "{row}");
    }
}

#[test]
fn rules_are_listed_once() {
    let mut report = Report::new("1");
    let first = report.rule(Rule::new("unknown-kind", RuleKind::Code));
    assert_eq!(report.rule(Rule::new("unknown-kind", RuleKind::Code)), first);
    assert_eq!(report.rules.len(), 1);
    assert_eq!(report.worst(), None);
}
