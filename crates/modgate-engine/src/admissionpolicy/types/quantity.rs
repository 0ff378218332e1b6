//! Quantities in the form in which the API server stores them (`apimachinery/pkg/api/resource`).

/// Decimal suffixes with their powers of 1000, the smallest first.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -3),
    ("u", -2),
    ("m", -1),
    ("", 0),
    ("k", 1),
    ("M", 2),
    ("G", 3),
    ("T", 4),
    ("P", 5),
    ("E", 6),
];

/// Binary suffixes with their powers of 1024.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];

/// The API server's text about a text that is none.
pub(super) const NO_QUANTITY: &str = "quantities must match the regular expression \
    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Whether a text is a quantity.
pub(super) fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(end).unwrap_or((unsigned, ""));
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty());
    let is_exponent = exponent.is_some_and(|rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    number.bytes().any(|byte| byte.is_ascii_digit())
        && number.matches('.').count() <= 1
        && (is_exponent
            || DECIMAL.iter().any(|(known, _)| *known == suffix)
            || BINARY.iter().any(|(known, _)| *known == suffix))
}

/// Nanos of one.
const NANOS: i128 = 1_000_000_000;

/// The stored form of a quantity; `None` where the text is none, or is beyond what is computed here.
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some((number, power)) = BINARY
        .iter()
        .find_map(|(suffix, power)| text.strip_suffix(suffix).map(|number| (number, *power)))
    {
        let bytes = nanos(number)?.checked_mul(1024_i128.checked_pow(power)?)?;
        let whole = (bytes % NANOS == 0).then_some(bytes / NANOS)?;
        return Some(binary(whole));
    }
    let (number, power) = DECIMAL
        .iter()
        .filter(|(suffix, _)| !suffix.is_empty())
        .find_map(|(suffix, power)| text.strip_suffix(suffix).map(|number| (number, *power)))
        .unwrap_or((text, 0));
    let mut value = nanos(number)?;
    for _ in 0..power {
        value = value.checked_mul(1000)?;
    }
    for _ in power..0 {
        value = (value % 1000 == 0).then_some(value / 1000)?;
    }
    Some(decimal(value))
}

/// A decimal number in nanos.
fn nanos(text: &str) -> Option<i128> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let in_range = whole.len() <= 20 && fraction.len() <= 9;
    if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 || !in_range {
        return None;
    }
    let digits = format!("{whole}{fraction:0<9}");
    digits.parse::<i128>().ok().map(|value| sign * value)
}

fn binary(mut value: i128) -> String {
    let mut suffix = "";
    for (next, _) in BINARY {
        if value == 0 || value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    format!("{value}{suffix}")
}

fn decimal(mut value: i128) -> String {
    let mut suffix = "n";
    for (next, _) in DECIMAL.iter().skip(1) {
        if value % 1000 != 0 || value == 0 {
            break;
        }
        value /= 1000;
        suffix = next;
    }
    if value == 0 { "0".to_owned() } else { format!("{value}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_forms() {
        for (given, stored) in [
            ("1000m", Some("1")),
            ("1500m", Some("1500m")),
            ("0.5", Some("500m")),
            ("2", Some("2")),
            ("1024Mi", Some("1Gi")),
            ("1536Mi", Some("1536Mi")),
            ("1.5Gi", Some("1536Mi")),
            ("1000000000", Some("1G")),
            ("1024", Some("1024")),
            ("100M", Some("100M")),
            ("0", Some("0")),
            ("0Mi", Some("0")),
            ("-1k", Some("-1k")),
            ("1e3", None),
            ("a", None),
            ("", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(canonical(given).as_deref(), stored, "{given}");
        }
    }
}
