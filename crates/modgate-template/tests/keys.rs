//! Keys and certificates. Clock and randomness stand still, and every signature scheme here is
//! deterministic, so what comes out is the same on every run. When these digests were recorded Go
//! parsed all of it, matched keys to certificates, and verified the chains at the time of issue.

#![allow(clippy::expect_used, reason = "a test")]

use std::{cell::Cell, time::Duration};

use modgate_template::{Env, Host, Refused, Template};
use modgate_value::{Budget, Value};

/// A clock that stands still, and xorshift from a fixed seed.
struct Fixed(Cell<u64>);

impl Host for Fixed {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_secs(1_700_000_000))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            let mut state = self.0.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.0.set(state);
            *byte = state.to_le_bytes()[3];
        }
        Ok(())
    }

    fn resolve_host(&self, _: &str) -> Result<Option<String>, Refused> {
        Ok(None)
    }
}

fn check(text: &str, expected: &str) {
    let template = Template::parse("x", text).expect(text);
    let budget = Budget::unlimited();
    let host = Fixed(Cell::new(0x9E37_79B9_7F4A_7C15));
    let output = template.render(&Value::Null, &Env { budget: &budget, host: &host });
    assert_eq!(output.as_deref(), Ok(expected));
}

#[test]
fn chains_of_every_kind_of_key() {
    check(
        concat!(
            r#"{{ $ec := genPrivateKey "ecdsa" }}{{ $ed := genPrivateKey "ed25519" }}"#,
            r#"{{ $ca := genCAWithKey "ec & ca é" 10 $ec }}"#,
            r#"{{ $leaf := genSignedCertWithKey "edleaf" nil (list "x.y") 5 $ca $ed }}"#,
            r#"{{ $edca := genCAWithKey "edca" 20000 $ed }}"#,
            r#"{{ $other := genSignedCertWithKey "" (list "1.1.1.1" "::1") nil 5 $edca $ec }}"#,
            r#"{{ $self := genSelfSignedCertWithKey "self" nil (list "s.t") 1 $ec }}"#,
            r#"{{ range list $ec $ed $ca.Cert $leaf.Cert $edca.Cert $other.Cert $self.Cert }}"#,
            r#"{{ sha256sum . | trunc 16 }} {{ end }}"#,
            r#"{{ eq $ca.Key $ec }} {{ eq $leaf.Key $ed }}"#,
        ),
        "1b09293b4e493d03 6d18cb494182b4d4 ceb55fae6e284c85 6995cff641582e42 4d3b9651ef61db12 737b6e683ac75417 e22e4a63aec864ae true true",
    );
}

#[test]
fn rsa_chain() {
    check(
        concat!(
            r#"{{ $ca := genCA "root ca" 365 }}"#,
            r#"{{ $leaf := genSignedCert "leaf" (list "10.0.0.1" "::ffff:1.2.3.4") (list "b") 30 $ca }}"#,
            r#"{{ range list $ca.Cert $ca.Key $leaf.Cert $leaf.Key }}{{ sha256sum . | trunc 16 }} {{ end }}"#,
        ),
        "aa7a8184c3d519d7 16a936bb0ba8f6b9 e67e72f3b4ec6040 0f313e624f421bbf ",
    );
}

#[test]
fn a_dsa_key() {
    check(r#"{{ genPrivateKey "dsa" | sha256sum | trunc 16 }}"#, "9381e84d140baf50");
}

#[test]
fn authorities_must_fit() {
    let render = |text: &str| {
        let template = Template::parse("x", text).expect(text);
        let budget = Budget::unlimited();
        let host = Fixed(Cell::new(1));
        let env = Env { budget: &budget, host: &host };
        template.render(&Value::Null, &env).expect_err(text).to_string()
    };
    let error = render(
        r#"{{ $a := genCAWithKey "a" 1 (genPrivateKey "ecdsa") }}{{ $b := genCAWithKey "b" 1 (genPrivateKey "ecdsa") }}{{ genSignedCertWithKey "x" nil nil 1 (buildCustomCert (b64enc $a.Cert) (b64enc $b.Key)) $a.Key }}"#,
    );
    assert!(error.contains("provided PrivateKey doesn't match parent's PublicKey"), "{error}");
    let error =
        render(r#"{{ genSelfSignedCertWithKey "x" nil (list "é") 1 (genPrivateKey "ecdsa") }}"#);
    assert!(error.contains("cannot be encoded as an IA5String"), "{error}");
}

#[test]
fn passwords() {
    check(
        r#"{{ bcrypt "secret" }} {{ htpasswd "user" "" }} {{ encryptAES "pw" "hello aes" }}"#,
        concat!(
            "$2a$10$AuJjLoDMzfouQZfUpbW99.B230jc1GB3eP5HiOsVvMN1nOLzeyjhy ",
            "user:$2a$10$dTTpwE0YlGJruaznYXfqL.XhCeuxl61Jj7tbMYUELdS5ZftRtk3dy ",
            "eH/QwHPnJgxWSJTgL5rE7WOjOK2jx0p8Panmh2eLgpM="
        ),
    );
}
