//! Hexadecimal digits: `encoding/hex`.

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of pairs of digits, of either case.
///
/// # Errors
///
/// Go's text.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let (pairs, rest) = text.as_chunks::<2>();
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    if let [last] = rest {
        digit(*last)?;
        return Err("encoding/hex: odd length hex string".to_owned());
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Result<u8, String> {
    match char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()) {
        Some(digit) => Ok(digit),
        None if matches!(byte, b' '..=b'~') => {
            Err(format!("encoding/hex: invalid byte: U+{byte:04X} '{}'", char::from(byte)))
        }
        None => Err(format!("encoding/hex: invalid byte: U+{byte:04X}")),
    }
}
