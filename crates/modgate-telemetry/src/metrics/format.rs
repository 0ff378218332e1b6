//! The text formats of metrics, and the choice by `Accept`.

use std::fmt::Write as _;

/// A text format that metrics are served in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, as the originals have it; the default.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that the `Accept` headers of a request prefer.
    pub fn accepted<'h>(headers: impl Iterator<Item = &'h str>) -> Self {
        let (mut text, mut open) = (0.0_f32, 0.0_f32);
        for range in headers.flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut version, mut quality) = ("", 1.0);
            for part in parts {
                match part.split_once('=') {
                    Some(("version", value)) => version = value.trim_matches('"'),
                    Some(("q", value)) => quality = value.parse().unwrap_or_default(),
                    _ => {}
                }
            }
            match (kind.as_str(), version) {
                ("application/openmetrics-text", "" | "1.0.0") => open = open.max(quality),
                ("text/plain", "" | "0.0.4") => text = text.max(quality),
                _ => {}
            }
        }
        if open > text { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type` of the answer.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// OpenMetrics text in this format.
    pub(super) fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Text => older(&text),
        }
    }
}

/// The same in Prometheus' text format 0.0.4: families have the names of their series, which
/// OpenMetrics leaves the `_total` of counters and the `_info` of infos off; an info is a gauge; whole
/// bounds are written without a fraction, as Go does, for that is the label that queries select.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                let _ = writeln!(out, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        match whole_bound(line) {
            Some((before, bound, after)) => {
                let _ = writeln!(out, "{before}{bound}{after}");
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// A series of a histogram around the `.0` of its bound.
fn whole_bound(line: &str) -> Option<(&str, &str, &str)> {
    const LABEL: &str = "_bucket{le=\"";
    let start = line.find(LABEL)? + LABEL.len();
    let (before, rest) = line.split_at_checked(start)?;
    let end = rest.find('"')?;
    let (bound, after) = rest.split_at_checked(end)?;
    Some((before, bound.strip_suffix(".0")?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain;version=0.0.4", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=\"1.0.0\"; charset=utf-8", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5",
                Format::Text,
            ),
            ("application/openmetrics-text;version=1.0.0;q=0", Format::Text),
            ("application/openmetrics-text;q=often,*/*", Format::Text),
            ("text/plain,application/openmetrics-text", Format::Text),
            (
                "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
                Format::Text,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,\
                 */*;q=0.1",
                Format::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily",
                Format::Text,
            ),
        ] {
            assert_eq!(Format::accepted([accept].into_iter()), expected, "{accept}");
        }
        let twice = ["text/plain;q=0.1", "application/openmetrics-text;q=0.2"];
        assert_eq!(Format::accepted(twice.into_iter()), Format::OpenMetrics);
    }

    #[test]
    fn as_prometheus_had_it_before() {
        let open = "\
# HELP a What a is.
# TYPE a counter
# UNIT a seconds
a_total{b=\"# TYPE\\\" _bucket\"} 1
# HELP c What c is.
# TYPE c info
c_info{version=\"1.0\"} 1
# HELP d What d is.
# TYPE d histogram
d_sum 1.5
d_count 2
d_bucket{le=\"0.5\",x=\"1.0\"} 1
d_bucket{le=\"60.0\",x=\"1.0\"} 2
d_bucket{le=\"+Inf\"} 2
# EOF
";
        let text = "\
# HELP a_total What a is.
# TYPE a_total counter
a_total{b=\"# TYPE\\\" _bucket\"} 1
# HELP c_info What c is.
# TYPE c_info gauge
c_info{version=\"1.0\"} 1
# HELP d What d is.
# TYPE d histogram
d_sum 1.5
d_count 2
d_bucket{le=\"0.5\",x=\"1.0\"} 1
d_bucket{le=\"60\",x=\"1.0\"} 2
d_bucket{le=\"+Inf\"} 2
";
        assert_eq!(Format::Text.of_open_metrics(open.to_owned()), text);
        assert_eq!(Format::OpenMetrics.of_open_metrics(open.to_owned()), open);
    }
}
