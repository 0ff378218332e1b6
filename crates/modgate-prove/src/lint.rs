//! Ways around a policy: an object that it denies is changed so that the offence stays and the form
//! differs. If the policy admits the result, that is a finding, and the two objects prove it.
//!
//! Every witness fits its kind ([`Types`](modgate_engine::admissionpolicy::Types)), and is in the form in
//! which an API server sends objects to admission: it drops nulls and writes quantities in their
//! canonical form, so these are no spellings to try.
//!
//! An object that the match of a policy leaves out is never a finding.

mod changes;
mod members;
mod moves;
mod probe;
mod requests;
mod seeds;
mod spelling;

use std::collections::BTreeMap;

use modgate_engine::Code;
use modgate_value::{Str, Value};

pub use self::{
    changes::{Change, Changer, Changers, Order, changes},
    probe::{Request, Verdict, ask},
};
use self::{moves::Offence, probe::Prober, seeds::Seeds};
use crate::{Side, value};

/// One policy to try.
pub struct Subject<'a> {
    /// The policy alone, with what it needs: its template, its binding.
    pub side: Side<'a>,
    /// Objects and AdmissionReviews to start from.
    pub seeds: &'a [Value],
    /// The documents of the policy; their texts are tried.
    pub documents: &'a [Value],
    /// Texts of the parameters.
    pub parameters: &'a [Str],
    /// Whether the policy sees other objects, so that a namespace means more than a place.
    pub sees_others: bool,
}

/// How much a policy may cost.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Decisions.
    pub budget: usize,
    /// The parameters of invented objects.
    pub seed: u64,
}

/// A way past a policy.
#[derive(Debug, Clone)]
pub struct Bypass {
    /// Which way.
    pub code: Code,
    /// Where the offence is in the witness, such as `spec.initContainers[0].image`.
    pub place: String,
    /// The request that the policy denies.
    pub denied: Request,
    /// Its messages.
    pub messages: Vec<String>,
    /// The request that it admits although the offence is in it.
    pub witness: Request,
}

/// The findings about a policy.
#[derive(Debug, Clone, Default)]
pub struct PolicyFindings {
    /// The ways past it, by code.
    pub bypasses: Vec<Bypass>,
    /// How many different offences were tried.
    pub offences: usize,
    /// Decisions spent.
    pub decisions: usize,
    /// Whether the budget was used up.
    pub exhausted: bool,
}

/// Offences tried of one policy.
const MAX_OFFENCES: usize = 12;

/// Tries to get past a policy.
pub fn lint(subject: &Subject<'_>, options: Options) -> PolicyFindings {
    let mut prober = Prober::new(subject, options.budget);
    let seeds = Seeds::collect(&mut prober, subject, options);
    let mut found: BTreeMap<Code, Bypass> = BTreeMap::new();
    let mut offences = 0;
    for base in seeds.denied.iter().take(MAX_OFFENCES) {
        offences += 1;
        let offence = Offence::of(&mut prober, base, &seeds);
        let mut report = |bypass: Bypass| {
            found.entry(bypass.code).or_insert(bypass);
        };
        moves::tried(&mut prober, &offence, &seeds, subject, &mut report);
        spelling::tried(&mut prober, &offence, subject, &mut report);
        members::tried(&mut prober, &offence.object, &seeds, &mut report);
        requests::tried(&mut prober, &offence, subject, &mut report);
    }
    if let Some(bypass) = requests::deletion(&mut prober, &seeds, subject, &mut offences) {
        found.entry(bypass.code).or_insert(bypass);
    }
    let left = prober.left();
    PolicyFindings {
        bypasses: found.into_values().collect(),
        offences,
        decisions: options.budget - left,
        exhausted: left == 0,
    }
}

/// A finding, if the policy denies one request and admits the other.
fn bypass(
    prober: &mut Prober<'_>,
    code: Code,
    place: &value::Path,
    denied: Request,
    witness: Request,
) -> Option<Bypass> {
    if !prober.admits(&witness) {
        return None;
    }
    let Verdict::Denied(messages) = prober.ask(&denied) else { return None };
    Some(Bypass { code, place: value::written(place), denied, messages, witness })
}
