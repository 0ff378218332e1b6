//! The query of an address.

use super::access::Refused;

/// Parameters by name, in order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// The parameters of a query; `None` has none.
    pub(super) fn of(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(decoded.collect())
    }

    /// The first parameter of a name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refused> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Refused::bad(format!("`{name}` must be a number")))
    }

    /// Refuses names that are not among these: a misspelt filter would show everything.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Refused> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some(_) => Err(Refused::bad(format!("the parameters are {}", names.join(", ")))),
            None => Ok(()),
        }
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.clone().take(2).collect();
                let code = std::str::from_utf8(&digits).ok().filter(|it| it.len() == 2);
                match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                    Some(code) => {
                        out.push(code);
                        bytes.nth(1);
                    }
                    None => out.push(byte),
                }
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::of(Some("a=b+c&d=%2Fx%C3%A9&e&f=%zz%2&a=again&n=7"));
        assert_eq!(query.text("a"), Some("b c"));
        assert_eq!(query.text("d"), Some("/xé"));
        assert_eq!(query.text("e"), Some(""));
        assert_eq!(query.text("f"), Some("%zz%2"));
        assert_eq!(query.text("g"), None);
        assert_eq!(query.number("n").ok(), Some(Some(7)));
        assert!(query.number("a").is_err());
        assert!(Query::of(None).only(&[]).is_ok());
        assert!(query.only(&["a"]).is_err());
    }
}
