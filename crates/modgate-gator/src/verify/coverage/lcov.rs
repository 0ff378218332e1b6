//! Coverage in the format of lcov, which genhtml, codecov and editors read.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Measured, Place};

/// A record for each file. A line was executed as often as the place on it that was reached most; the
/// results of an expression or of a match clause are two branches, the first one that it holds.
pub(in crate::verify) fn lcov(measured: &Measured) -> String {
    let mut files: BTreeMap<&str, BTreeMap<usize, Vec<&Place>>> = BTreeMap::new();
    for policy in &measured.policies {
        let lines = files.entry(&policy.file).or_default();
        for place in &policy.places {
            lines.entry(place.line).or_default().push(place);
        }
    }
    let mut out = String::new();
    for (file, lines) in files {
        record(file, &lines, &mut out);
    }
    out
}

fn record(file: &str, lines: &BTreeMap<usize, Vec<&Place>>, out: &mut String) {
    let (mut branches, mut taken) = (0_u64, 0_u64);
    let mut text = format!("TN:\nSF:{file}\n");
    for (line, places) in lines {
        let deciding = places.iter().filter(|place| place.hits.decides);
        for (block, place) in deciding.enumerate() {
            for (branch, count) in [place.hits.held, place.hits.failed].into_iter().enumerate() {
                let shown =
                    if place.hits.reached == 0 { "-".to_owned() } else { count.to_string() };
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "BRDA:{line},{block},{branch},{shown}");
                branches += 1;
                taken += u64::from(count > 0);
            }
        }
    }
    let _ = writeln!(text, "BRF:{branches}\nBRH:{taken}");
    let mut hit = 0;
    for (line, places) in lines {
        let count = places.iter().map(|place| place.hits.reached).max().unwrap_or_default();
        hit += usize::from(count > 0);
        let _ = writeln!(text, "DA:{line},{count}");
    }
    let _ = writeln!(text, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
    out.push_str(&text);
}
