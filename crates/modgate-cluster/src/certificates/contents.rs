//! The contents of the Secret, and its next contents.
//!
//! A new authority is trusted before anything it signed is served, and an old one until everything
//! it signed is out of use. So it takes three steps, each of which any replica may take:
//!
//! 1. The new authority is put before the old one in `ca.crt`; what is served stays.
//! 2. Once every webhook configuration has both, and every API server has had [`Rules::settle`] to
//!    notice, a certificate of the new authority is made and served.
//! 3. After [`Rules::retire`], when no replica can still serve the old one, the old authority goes.
//!
//! The dates of the certificates themselves determine when a step is due.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use k8s_openapi::ByteString;
use rcgen::{Issuer, KeyPair};

use super::RotationTimes;
use crate::authority::{self, CLOCK_SKEW, Certificate, Term, to_pem};

const AUTHORITY_NAME: &str = "gatekeeper-ca";
const ORGANIZATION: &str = "gatekeeper";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(10 * 365);
const LEAF_LIFETIME: Duration = DAY.saturating_mul(365);

/// The members of the Secret (CR-1). None of it may be logged.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The authorities that are to be trusted; the first one signs.
    pub(crate) ca_crt: Vec<u8>,
    /// The key of the first one.
    pub(crate) ca_key: Vec<u8>,
    /// The certificates that are served.
    pub(crate) tls_crt: Vec<u8>,
    pub(crate) tls_key: Vec<u8>,
}

impl Contents {
    pub(crate) fn of(data: &BTreeMap<String, ByteString>) -> Self {
        let member = |name: &str| data.get(name).map(|bytes| bytes.0.clone()).unwrap_or_default();
        Self {
            ca_crt: member("ca.crt"),
            ca_key: member("ca.key"),
            tls_crt: member("tls.crt"),
            tls_key: member("tls.key"),
        }
    }

    pub(crate) fn into_data(self) -> BTreeMap<String, ByteString> {
        let members = [
            ("ca.crt", self.ca_crt),
            ("ca.key", self.ca_key),
            ("tls.crt", self.tls_crt),
            ("tls.key", self.tls_key),
        ];
        members.into_iter().map(|(name, bytes)| (name.to_owned(), ByteString(bytes))).collect()
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

/// The usable contents of the Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Authorities whose time has come and is not over, in the order of the Secret.
    pub(crate) authorities: Vec<Certificate>,
    /// A pair that can be served: a certificate that one of them signed, whose time is not over.
    pub(crate) leaf: Option<Leaf>,
}

/// A certificate that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) certificate: Certificate,
    /// Which of the authorities signed it.
    pub(crate) authority: Certificate,
}

impl Reading {
    pub(crate) fn of(contents: &Contents, now: SystemTime) -> Self {
        let now = seconds(now);
        let is_current = |certificate: &Certificate| {
            (certificate.not_before..certificate.not_after).contains(&now)
        };
        let authorities: Vec<_> = Certificate::all_of(&contents.ca_crt)
            .into_iter()
            .filter(|certificate| certificate.is_authority && is_current(certificate))
            .collect();
        let served = Certificate::all_of(&contents.tls_crt).into_iter().next();
        let leaf = served.filter(is_current).and_then(|certificate| {
            let authority = authorities.iter().find(|it| certificate.is_signed_by(it))?.clone();
            Some(Leaf { certificate, authority })
        });
        // A key that is another's is found out where it is to be served.
        Self { authorities, leaf: leaf.filter(|_| !contents.tls_key.is_empty()) }
    }
}

/// The next step.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// To be written instead.
    pub(crate) write: Option<Contents>,
    /// To be looked at again after this time, which is earlier than it would be anyway.
    pub(crate) again: Option<Duration>,
}

impl Next {
    fn write(contents: Contents) -> Self {
        Self { write: Some(contents), again: None }
    }

    fn again(after: Duration) -> Self {
        Self { write: None, again: Some(after) }
    }
}

/// How certificates are made.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The names that the certificate must have.
    pub(crate) names: Vec<String>,
    pub(crate) times: RotationTimes,
}

impl Rules {
    /// The next contents of the Secret. `before` is the pair served until now, which counts where
    /// the Secret was emptied or spoilt; `trusted_for` tells for how long every webhook configuration
    /// has been seen to trust the first authority.
    ///
    /// # Errors
    ///
    /// When a name is none that a certificate can have.
    pub(crate) fn next(
        &self,
        contents: &Contents,
        before: Option<&Contents>,
        now: SystemTime,
        trusted_for: Option<Duration>,
    ) -> Result<Next, rcgen::Error> {
        let mut reading = Reading::of(contents, now);
        let mut served = contents;
        if reading.leaf.is_none()
            && let Some(before) = before
        {
            let Reading { authorities, leaf } = Reading::of(before, now);
            if leaf.is_some() {
                served = before;
                reading.leaf = leaf;
                for authority in authorities {
                    if !reading.authorities.contains(&authority) {
                        reading.authorities.push(authority);
                    }
                }
            }
        }
        let Reading { authorities, leaf } = reading;
        let signer = authorities
            .first()
            .filter(|first| self.is_fresh(first, now))
            .and_then(|first| Some((first, authority::issuer(&first.der, &contents.ca_key)?)));
        let Some((first, issuer)) = signer else {
            // An authority of another owner, who keeps the key: it stays for as long as it would stay anyway.
            let stays = leaf.as_ref().is_some_and(|leaf| {
                self.is_fresh(&leaf.authority, now)
                    && self.is_fresh(&leaf.certificate, now)
                    && self.is_for_all_names(&leaf.certificate)
            });
            if stays && served == contents {
                return Ok(Next::default());
            }
            return self.with_new_authority(served, leaf, now).map(Next::write);
        };
        let keep = || Contents {
            ca_crt: bundle(&authorities),
            ca_key: contents.ca_key.clone(),
            tls_crt: served.tls_crt.clone(),
            tls_key: served.tls_key.clone(),
        };
        let Some(Leaf { certificate, authority }) = leaf else {
            return self.issued(
                &issuer,
                bundle(std::slice::from_ref(first)),
                &contents.ca_key,
                now,
            );
        };
        let is_firsts = authority == *first;
        if is_firsts && self.is_fresh(&certificate, now) && self.is_for_all_names(&certificate) {
            if authorities.len() > 1 {
                let retired = certificate.not_before + whole(CLOCK_SKEW + self.times.retire);
                let rest = retired - seconds(now);
                return Ok(match u64::try_from(rest) {
                    Ok(rest @ 1..) => Next::again(Duration::from_secs(rest)),
                    _ => Next::write(Contents {
                        ca_crt: bundle(std::slice::from_ref(first)),
                        ..keep()
                    }),
                });
            }
            return Ok(if served == contents { Next::default() } else { Next::write(keep()) });
        }
        let again = self.times.settle.saturating_sub(trusted_for.unwrap_or_default());
        if !is_firsts && (!again.is_zero() || trusted_for.is_none()) {
            return Ok(if served == contents {
                Next::again(again)
            } else {
                Next { write: Some(keep()), again: Some(again) }
            });
        }
        self.issued(&issuer, bundle(&authorities), &contents.ca_key, now)
    }

    /// A new authority before the one that signed what is served; where nothing is, at once with a
    /// certificate.
    fn with_new_authority(
        &self,
        served: &Contents,
        leaf: Option<Leaf>,
        now: SystemTime,
    ) -> Result<Contents, rcgen::Error> {
        let term = Term { now, lasts: AUTHORITY_LIFETIME };
        let made = authority::make(AUTHORITY_NAME, ORGANIZATION, term)?;
        let ca_key = made.key.serialize_pem().into_bytes();
        let Some(leaf) = leaf else {
            let issuer = Issuer::from_ca_cert_der(&made.cert, made.key)?;
            return self.made(&issuer, made.cert_pem.into_bytes(), ca_key, now);
        };
        let ca_crt = [made.cert_pem, to_pem(&leaf.authority.der)].concat().into_bytes();
        let Contents { tls_crt, tls_key, .. } = served.clone();
        Ok(Contents { ca_crt, ca_key, tls_crt, tls_key })
    }

    fn issued(
        &self,
        issuer: &Issuer<'_, KeyPair>,
        ca_crt: Vec<u8>,
        ca_key: &[u8],
        now: SystemTime,
    ) -> Result<Next, rcgen::Error> {
        self.made(issuer, ca_crt, ca_key.to_vec(), now).map(Next::write)
    }

    fn made(
        &self,
        issuer: &Issuer<'_, KeyPair>,
        ca_crt: Vec<u8>,
        ca_key: Vec<u8>,
        now: SystemTime,
    ) -> Result<Contents, rcgen::Error> {
        let term = Term { now, lasts: LEAF_LIFETIME };
        let leaf = authority::issue(issuer, &self.names, ORGANIZATION, term)?;
        let tls_key = leaf.key.serialize_pem().into_bytes();
        Ok(Contents { ca_crt, ca_key, tls_crt: leaf.cert_pem.into_bytes(), tls_key })
    }

    /// Whether it need not be renewed yet.
    fn is_fresh(&self, certificate: &Certificate, now: SystemTime) -> bool {
        certificate.not_after - seconds(now) >= whole(self.times.renew_before)
    }

    fn is_for_all_names(&self, certificate: &Certificate) -> bool {
        self.names.iter().all(|name| certificate.names.contains(name))
    }
}

fn bundle(authorities: &[Certificate]) -> Vec<u8> {
    authorities.iter().map(|authority| to_pem(&authority.der)).collect::<String>().into_bytes()
}

/// Since 1970.
fn seconds(time: SystemTime) -> i64 {
    whole(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn whole(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
