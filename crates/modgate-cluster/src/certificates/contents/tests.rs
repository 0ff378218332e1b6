use super::*;

const SETTLE: Duration = Duration::from_secs(60);
/// For how long the first authority has been trusted.
const LONG: Option<Duration> = Some(SETTLE);

fn rules() -> Rules {
    let times = RotationTimes { settle: SETTLE, ..RotationTimes::default() };
    Rules { names: vec!["a.b.svc".to_owned(), "127.0.0.1".to_owned()], times }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// The next write, after which there is none.
fn written(next: Next) -> Contents {
    next.write.expect("something to write")
}

fn nothing(next: &Next) -> bool {
    next.write.is_none() && next.again.is_none()
}

fn fresh() -> Contents {
    written(rules().next(&Contents::default(), None, now(), None).expect("made"))
}

/// Authorities by serial number, and which of them signed what is served.
fn shape(contents: &Contents, now: SystemTime) -> (usize, usize) {
    let Reading { authorities, leaf } = Reading::of(contents, now);
    let leaf = leaf.expect("leaf");
    let signer = authorities.iter().position(|it| *it == leaf.authority).expect("position");
    (authorities.len(), signer)
}

#[test]
fn an_empty_secret_is_filled_and_then_left_alone() {
    let made = fresh();
    assert_eq!(shape(&made, now()), (1, 0));
    let Reading { authorities, leaf } = Reading::of(&made, now());
    let leaf = leaf.expect("leaf").certificate;
    assert_eq!(authorities[0].common_names, ["gatekeeper-ca"]);
    assert_eq!(leaf.names, ["a.b.svc", "127.0.0.1"]);
    let days = |certificate: &Certificate| (certificate.not_after - seconds(now())) / 86_400;
    assert_eq!((days(&authorities[0]), days(&leaf)), (3650, 365));
    assert!(nothing(&rules().next(&made, None, now(), LONG).expect("next")));
    let later = now() + DAY.saturating_mul(274);
    assert!(nothing(&rules().next(&made, None, later, LONG).expect("next")), "91 days remain");
}

#[test]
fn a_certificate_is_renewed_by_the_authority_that_everybody_trusts() {
    let made = fresh();
    let later = now() + DAY.saturating_mul(276);
    let renewed = written(rules().next(&made, None, later, None).expect("next"));
    assert_eq!(renewed.ca_crt, made.ca_crt);
    assert_eq!(renewed.ca_key, made.ca_key);
    assert_ne!(renewed.tls_crt, made.tls_crt);
    assert!(nothing(&rules().next(&renewed, None, later, LONG).expect("next")));
    // So it is when names are missing.
    let mut more = rules();
    more.names.push("c.d.svc".to_owned());
    let renewed = written(more.next(&made, None, now(), None).expect("next"));
    assert_eq!(renewed.ca_crt, made.ca_crt);
    assert!(nothing(&more.next(&renewed, None, now(), LONG).expect("next")));
}

#[test]
fn a_new_authority_is_trusted_first_and_the_old_one_until_it_is_out_of_use() {
    let rules = rules();
    let mut contents = fresh();
    // The certificate was renewed a year before the authority has to be.
    let year_10 = now() + DAY.saturating_mul(3650 - 89);
    contents.tls_crt = Vec::new();
    contents =
        written(rules.next(&contents, None, year_10 - DAY.saturating_mul(2), LONG).expect("next"));
    let served = contents.tls_crt.clone();

    let both = written(rules.next(&contents, None, year_10, LONG).expect("next"));
    assert_eq!(shape(&both, year_10), (2, 1), "the old one's certificate stays");
    assert_eq!(both.tls_crt, served);

    let waits = |now, trusted_for| {
        let next = rules.next(&both, None, now, trusted_for).expect("next");
        assert!(next.write.is_none());
        next.again.expect("again")
    };
    assert_eq!(waits(year_10, None), SETTLE);
    assert_eq!(waits(year_10 + DAY, Some(SETTLE / 4)), SETTLE / 4 * 3, "whenever it was made");

    let moved = written(rules.next(&both, None, year_10 + SETTLE, LONG).expect("next"));
    assert_eq!(shape(&moved, year_10 + SETTLE), (2, 0));
    assert_eq!(moved.ca_crt, both.ca_crt);
    let again = rules.next(&moved, None, year_10 + SETTLE, LONG).expect("next");
    assert!(again.write.is_none());
    assert_eq!(again.again, Some(DAY));

    let end = written(rules.next(&moved, None, year_10 + SETTLE + DAY, LONG).expect("next"));
    assert_eq!(shape(&end, year_10 + SETTLE + DAY), (1, 0));
    assert_eq!(end.tls_crt, moved.tls_crt);
    assert!(nothing(&rules.next(&end, None, year_10 + SETTLE + DAY, LONG).expect("next")));
}

#[test]
fn what_was_served_is_not_forgotten_with_the_secret() {
    let before = fresh();
    let emptied = Contents::default();
    let both = written(rules().next(&emptied, Some(&before), now(), LONG).expect("next"));
    assert_eq!(shape(&both, now()), (2, 1));
    assert_eq!(both.tls_crt, before.tls_crt);
    assert_eq!(both.tls_key, before.tls_key);
    // The key is still there.
    let spoilt =
        Contents { ca_crt: b"no PEM".to_vec(), tls_crt: b"-----BEGIN".to_vec(), ..before.clone() };
    let back = written(rules().next(&spoilt, Some(&before), now(), LONG).expect("next"));
    assert!(back == before);
    // Only the certificate is gone.
    let gone = Contents { tls_crt: Vec::new(), tls_key: Vec::new(), ..before.clone() };
    let back = written(rules().next(&gone, Some(&before), now(), LONG).expect("next"));
    assert!(back == before);
    // Without anything that is served there is nothing to wait for.
    let anew = written(rules().next(&Contents::default(), None, now(), LONG).expect("next"));
    assert_eq!(shape(&anew, now()), (1, 0));
}

#[test]
fn without_its_key_an_authority_stays_until_something_is_to_be_signed() {
    for ca_key in [Vec::new(), fresh().ca_key] {
        let contents = Contents { ca_key, ..fresh() };
        assert!(nothing(&rules().next(&contents, None, now(), LONG).expect("next")));
        let later = now() + DAY.saturating_mul(276);
        let both = written(rules().next(&contents, None, later, LONG).expect("next"));
        assert_eq!(shape(&both, later), (2, 1));
    }
}

#[test]
fn an_expired_certificate_is_replaced_at_once() {
    let made = fresh();
    let later = now() + DAY.saturating_mul(366);
    let renewed = written(rules().next(&made, None, later, None).expect("next"));
    assert_eq!(renewed.ca_crt, made.ca_crt);
    assert_eq!(shape(&renewed, later), (1, 0));
    let much_later = now() + DAY.saturating_mul(3651);
    let anew = written(rules().next(&made, None, much_later, None).expect("next"));
    assert_eq!(shape(&anew, much_later), (1, 0));
    assert_ne!(anew.ca_crt, made.ca_crt);
}
