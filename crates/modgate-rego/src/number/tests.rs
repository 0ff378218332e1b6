use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

fn hash(number: Num<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

fn num(text: &str) -> Num<'_> {
    Num::from_text(text)
}

fn shown(result: Result<Computed, ArithmeticError>) -> String {
    match result {
        Ok(computed) => computed.as_num().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn order_is_by_value() {
    let ascending = [
        "-1e400",
        "-9223372036854775809",
        "-9223372036854775808",
        "-1.5",
        "-1e-400",
        "0",
        "1e-400",
        "0.1",
        "0.11",
        "1",
        "10.0",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775808",
        "1e19",
        "1e400",
        "1e99999999999999999999",
    ];
    for (a, left) in ascending.iter().enumerate() {
        for (b, right) in ascending.iter().enumerate() {
            assert_eq!(num(left).cmp(&num(right)), a.cmp(&b), "{left} {right}");
        }
    }
    for (a, b) in [("1", "1.0"), ("100", "1e2"), ("0", "-0.0"), ("0.1", "0.10"), ("0", "0e9")] {
        assert_eq!(num(a), num(b));
        assert_eq!(hash(num(a)), hash(num(b)), "{a} {b}");
    }
    assert_eq!(Num::Float(0.5), num("0.50"));
}

#[test]
fn integers_are_computed_exactly_and_fractions_with_64_bits() {
    for (a, operator, b, expected) in [
        ("9223372036854775807", '+', "1", "9223372036854775808"),
        ("0.1", '+', "0.2", "0.3"),
        ("1e3", '+', "1", "1001"),
        ("1e400", '*', "0.1", &format!("1{}", "0".repeat(399))),
        ("1", '/', "3", "0.33333333333333333334"),
        ("2", '/', "3", "0.6666666666666666667"),
        ("7", '/', "2", "3.5"),
        ("1234567", '*', "1.5", "1.8518505e+06"),
        ("1e-7", '+', "1e-8", "1.1e-07"),
        ("0", '/', "-5", "-0"),
        ("-0.0", '+', "-0.5", "-0.5"),
        ("5", '/', "0.0", "divide by zero"),
        ("5", '%', "0", "modulo by zero"),
        ("5.5", '%', "2", "modulo on floating-point number"),
        ("-7", '%', "3", "-1"),
        ("1e20000", '+', "1", "number has more than 10000 digits"),
        ("1e-20000", '*', "2", "number has more than 10000 digits"),
        ("1e9000", '*', "1e9000", "number has more than 10000 digits"),
    ] {
        let (left, right) = (num(a), num(b));
        let result = match operator {
            '+' => left.plus(right),
            '*' => left.times(right),
            '/' => left.over(right),
            _ => left.modulo(right),
        };
        assert_eq!(shown(result), expected, "{a} {operator} {b}");
    }
}

#[test]
fn rounding() {
    for (text, round, ceil, floor, abs) in [
        ("2.5", "3", "3", "2", "2.5"),
        ("-2.5", "-3", "-2", "-3", "2.5"),
        // The two that OPA rounds the wrong way.
        ("-0.5", "-1", "1", "0", "0.5"),
        ("7", "7", "7", "7", "7"),
        ("1e3", "1000", "1000", "1000", "1000"),
    ] {
        let number = num(text);
        assert_eq!(shown(number.round()), round, "{text}");
        assert_eq!(shown(number.ceil()), ceil, "{text}");
        assert_eq!(shown(number.floor()), floor, "{text}");
        assert_eq!(shown(number.abs()), abs, "{text}");
    }
}

#[test]
fn sums_are_exact_and_products_have_the_mantissa_of_the_original() {
    let big = [num("9007199254740993"), num("1")];
    assert_eq!(shown(sum(&big)), "9007199254740994");
    assert_eq!(shown(sum(&[num("9007199254740993"), num("0.5")])), "9.0071992547409935e+15");
    assert_eq!(shown(product(&[big[0], big[0]])), "81129638414606699710000000000000");
    assert_eq!(shown(product(&[])), "1");
    let many = [num("1e9000"), num("1e9000")];
    assert_eq!(product(&many), Err(ArithmeticError::TooManyDigits));
}

#[test]
fn integers_as_they_are_written() {
    for (text, int, integer) in [
        ("1", Some(1), Some("1")),
        ("1.0", None, Some("1")),
        ("1e3", None, Some("1000")),
        ("1.5", None, None),
        ("18446744073709551616", None, Some("18446744073709551616")),
        ("-0", Some(0), Some("0")),
    ] {
        assert_eq!(num(text).as_int(), int, "{text}");
        let exact = num(text).to_integer().expect("few digits").map(|n| n.to_string());
        assert_eq!(exact.as_deref(), integer, "{text}");
    }
}
