//! The findings about one object, in few bytes: a cluster may have millions of violations.
//!
//! In front stands what every report needs, namely which units must be evaluated each time and how many
//! violations there are of what; behind it, packed, their words.

use std::sync::Arc;

use modgate_value::{Object, Str, Value};

use super::{
    pack::{Dictionary, Packer, unpack},
    verdicts::{VerdictId, Verdicts},
};
use crate::policies::UnitId;

/// The findings about an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PackedViolations {
    pub(super) uid: Str,
    pub(super) labels: Json,
    /// Why it could not be evaluated completely.
    pub(super) errors: Vec<Str>,
    /// Units that must be evaluated every time, by number.
    pub(super) volatile: Vec<UnitId>,
    /// Units that looked at the inventory, by number.
    pub(super) looked: Vec<UnitId>,
    /// By unit; those of one unit as they were found.
    pub(super) found: Vec<PackedViolation>,
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackedViolation {
    pub(super) verdict: VerdictId,
    pub(super) message: Str,
    pub(super) details: Json,
}

/// The parts that are kept of an object as it is read, without copies of the words.
pub(super) struct Words<'w> {
    pub(super) uid: Str,
    labels: &'w str,
    errors: Vec<&'w str>,
    /// Violations: of what, the message, and the details as [`Json`] has them.
    pub(super) found: Vec<(VerdictId, &'w str, &'w str)>,
}

/// The text that [`Json`] stands for.
pub(super) fn printed(json: &str) -> &str {
    if json.is_empty() { "{}" } else { json }
}

impl Words<'_> {
    pub(super) fn labels(&self) -> Result<Value, Broken> {
        Json(self.labels.into()).value()
    }
}

/// The text of a value, to which it can be read back; empty for an empty object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Json(Str);

impl Json {
    pub(super) fn of(value: &Value) -> Self {
        match value.as_object() {
            Some(members) if members.is_empty() => Self::default(),
            _ => Self(value.to_json().into()),
        }
    }

    pub(super) fn value(&self) -> Result<Value, Broken> {
        match self.0.as_bytes() {
            b"" => Ok(Object::default().into()),
            text => Value::from_json(text).map_err(|_| Broken),
        }
    }
}

/// The kept bytes cannot be read. No known path of this program leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what was found before cannot be read; the object is evaluated again in the next audit")]
pub(super) struct Broken;

impl PackedViolations {
    fn is_empty(&self) -> bool {
        self.found.is_empty()
            && self.volatile.is_empty()
            && self.looked.is_empty()
            && self.errors.is_empty()
    }

    /// Adds what was known before, but of the units `asked` anew (sorted).
    pub(super) fn merge(&mut self, mut before: Self, asked: &[UnitId], verdicts: &Verdicts) {
        before.forget(|id| asked.binary_search(&id).is_ok(), verdicts);
        self.found.append(&mut before.found);
        self.found.sort_by_key(|violation| verdicts.unit(violation.verdict));
        let pairs =
            [(&mut self.volatile, &mut before.volatile), (&mut self.looked, &mut before.looked)];
        for (ids, before) in pairs {
            ids.append(before);
            ids.sort_unstable();
            ids.dedup();
        }
    }

    /// Drops some units.
    pub(super) fn forget(&mut self, is_gone: impl Fn(UnitId) -> bool, verdicts: &Verdicts) {
        self.found.retain(|violation| !verdicts.unit(violation.verdict).is_none_or(&is_gone));
        self.volatile.retain(|id| !is_gone(*id));
        self.looked.retain(|id| !is_gone(*id));
    }
}

/// [`PackedViolations`], packed.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: Box<[u8]>,
    dictionary: Arc<Dictionary>,
}

impl Kept {
    /// Packs what there is to say, if anything.
    pub(super) fn of(violations: &PackedViolations, packer: &mut Packer) -> Option<Self> {
        let (kept, words) = Self::packed(violations, packer.dictionary())?;
        kept.teach(packer, words.as_deref());
        Some(kept)
    }

    /// The same, and the words if the dictionary lacks parts of them.
    pub(super) fn packed(
        violations: &PackedViolations,
        dictionary: &Arc<Dictionary>,
    ) -> Option<(Self, Option<Vec<u8>>)> {
        if violations.is_empty() {
            return None;
        }
        let PackedViolations { uid, labels, errors, volatile, looked, found } = violations;
        let mut out = Vec::new();
        for ids in [volatile, looked] {
            put_number(&mut out, ids.len());
            ids.iter().for_each(|id| put_number(&mut out, *id as usize));
        }
        let runs = || found.chunk_by(|a, b| a.verdict == b.verdict);
        put_number(&mut out, runs().count());
        for run in runs() {
            let verdict = run.first().map_or(0, |first| first.verdict);
            put_number(&mut out, verdict as usize);
            put_number(&mut out, run.len());
        }
        let uuid = parse_uuid(uid);
        match uuid {
            // Nothing packs these better.
            Some(uuid) => {
                out.push(1);
                out.extend(uuid.to_be_bytes());
            }
            None => out.push(0),
        }

        let mut words = Vec::new();
        if uuid.is_none() {
            put_text(&mut words, uid);
        }
        put_text(&mut words, &labels.0);
        put_number(&mut words, errors.len());
        errors.iter().for_each(|error| put_text(&mut words, error));
        for violation in found {
            put_text(&mut words, &violation.message);
            put_text(&mut words, &violation.details.0);
        }
        put_number(&mut out, words.len());
        let is_novel = dictionary.pack(&words, &mut out);
        let kept = Self { bytes: out.into(), dictionary: Arc::clone(dictionary) };
        Some((kept, is_novel.then_some(words)))
    }

    /// Makes the packer better by words that were packed.
    pub(super) fn teach(&self, packer: &mut Packer, words: Option<&[u8]>) {
        packer.learn(&self.dictionary, words);
    }

    /// Units that must be evaluated every time, by number.
    pub(super) fn volatile(&self) -> impl Iterator<Item = UnitId> {
        let mut input = Input(&self.bytes);
        (0..input.number().unwrap_or_default()).map_while(move |_| input.id().ok())
    }

    /// Units that looked at the inventory, by number.
    pub(super) fn looked(&self) -> impl Iterator<Item = UnitId> {
        let mut input = Input(&self.bytes);
        let count = input.skip_ids().and_then(|()| input.number()).unwrap_or_default();
        (0..count).map_while(move |_| input.id().ok())
    }

    /// How many violations there are of what, by unit; the same may come more than once.
    pub(super) fn counts(&self) -> impl Iterator<Item = (VerdictId, u32)> {
        let mut input = Input(&self.bytes);
        let skipped = input.skip_ids().and_then(|()| input.skip_ids());
        let count = skipped.and_then(|()| input.number()).unwrap_or_default();
        (0..count).map_while(move |_| input.count().ok())
    }

    /// All of it.
    pub(super) fn open(&self) -> Result<PackedViolations, Broken> {
        let mut input = Input(&self.bytes);
        let (volatile, looked) = (input.ids()?, input.ids()?);
        let mut words = Vec::new();
        let Words { uid, labels, errors, found } = self.words(&mut words)?;
        let violation = |(verdict, message, details): (VerdictId, &str, &str)| PackedViolation {
            verdict,
            message: message.into(),
            details: Json(details.into()),
        };
        Ok(PackedViolations {
            uid,
            labels: Json(labels.into()),
            errors: errors.into_iter().map(Str::from).collect(),
            volatile,
            looked,
            found: found.into_iter().map(violation).collect(),
        })
    }

    /// The words, unpacked into `words`, whose content is lost.
    pub(super) fn words<'w>(&self, words: &'w mut Vec<u8>) -> Result<Words<'w>, Broken> {
        let mut input = Input(&self.bytes);
        input.skip_ids()?;
        input.skip_ids()?;
        let counts =
            (0..input.number()?).map(|_| input.count()).collect::<Result<Vec<_>, Broken>>()?;
        let uuid = match input.number()? {
            0 => None,
            _ => Some(input.uuid()?),
        };
        let length = input.number()?;
        unpack(input.0, length, &self.dictionary, words).ok_or(Broken)?;

        let mut words = Input(words);
        let uid = match uuid {
            Some(uuid) => print_uuid(uuid),
            None => words.text()?.into(),
        };
        let labels = words.text()?;
        let errors = (0..words.number()?).map(|_| words.text()).collect::<Result<_, _>>()?;
        let mut found = Vec::new();
        for (verdict, count) in counts {
            for _ in 0..count {
                found.push((verdict, words.text()?, words.text()?));
            }
        }
        if !words.0.is_empty() {
            return Err(Broken);
        }
        Ok(Words { uid, labels, errors, found })
    }
}

/// Seven bits of a number in each byte, the lowest first.
fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// The bytes left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<usize, Broken> {
        let mut number = 0_usize;
        for shift in (0..usize::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Broken)?;
            self.0 = rest;
            number |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Broken)
    }

    fn id(&mut self) -> Result<u32, Broken> {
        u32::try_from(self.number()?).map_err(|_| Broken)
    }

    fn count(&mut self) -> Result<(VerdictId, u32), Broken> {
        Ok((self.id()?, self.id()?))
    }

    fn ids(&mut self) -> Result<Vec<u32>, Broken> {
        (0..self.number()?).map(|_| self.id()).collect()
    }

    fn skip_ids(&mut self) -> Result<(), Broken> {
        (0..self.number()?).try_for_each(|_| self.number().map(drop))
    }

    fn text(&mut self) -> Result<&'a str, Broken> {
        let length = self.number()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Broken)
    }

    fn uuid(&mut self) -> Result<u128, Broken> {
        let bytes = self.take(16)?.try_into().map_err(|_| Broken)?;
        Ok(u128::from_be_bytes(bytes))
    }
}

/// A uid as the API server makes them; nothing if it would be printed otherwise.
fn parse_uuid(text: &str) -> Option<u128> {
    let uuid = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    (print_uuid(uuid) == text).then_some(uuid)
}

fn print_uuid(uuid: u128) -> Str {
    let digits = format!("{uuid:032x}");
    let part = |range| digits.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-").into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn violations() -> impl Strategy<Value = PackedViolations> {
        let uid = prop_oneof![
            Just(String::new()),
            "[ -~]{0,12}",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9A-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        ];
        let json = || {
            let json = prop_oneof![
                Just("{}".to_owned()),
                Just("null".to_owned()),
                "-?[1-9][0-9]{0,30}(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
                "[a-z<>é𝄞]{0,40}".prop_map(|text| Value::from(text).to_json()),
                ("[a-z]{1,5}", "[0-9]{1,3}\\.0", any::<i64>())
                    .prop_map(|(key, float, int)| format!("{{\"{key}\":[{float},{int},{{}}]}}")),
            ];
            json.prop_filter_map("JSON", |text| Value::from_json(text.as_bytes()).ok())
                .prop_map(|value| Json::of(&value))
        };
        let violation =
            ("[ -~é]{0,80}", 0..300_u32, json()).prop_map(|(message, verdict, details)| {
                PackedViolation { verdict, message: message.into(), details }
            });
        let lists = (
            prop::collection::vec("[ -~]{0,20}".prop_map(Str::from), 0..3),
            [prop::collection::vec(any::<u32>(), 0..4), prop::collection::vec(any::<u32>(), 0..2)],
            prop::collection::vec((violation, 1..4_usize), 0..20),
        );
        (uid, json(), lists).prop_map(|(uid, labels, (errors, [volatile, looked], found))| {
            let found = found.into_iter();
            let found = found.flat_map(|(violation, count)| std::iter::repeat_n(violation, count));
            let found = found.collect();
            PackedViolations { uid: uid.into(), labels, errors, volatile, looked, found }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_kept_is_what_was_found(all in prop::collection::vec(violations(), 1..12)) {
            let mut packer = Packer::default();
            let kept: Vec<_> = all.iter().map(|it| Kept::of(it, &mut packer)).collect();
            for (violations, kept) in all.iter().zip(&kept) {
                prop_assert_eq!(kept.is_none(), violations.is_empty());
                let Some(kept) = kept else { continue };
                prop_assert_eq!(&kept.open().expect("readable"), violations);
                prop_assert_eq!(kept.volatile().collect::<Vec<_>>(), &violations.volatile[..]);
                prop_assert_eq!(kept.looked().collect::<Vec<_>>(), &violations.looked[..]);
                let counted: Vec<VerdictId> = kept
                    .counts()
                    .flat_map(|(verdict, count)| (0..count).map(move |_| verdict))
                    .collect();
                let expected: Vec<VerdictId> =
                    violations.found.iter().map(|violation| violation.verdict).collect();
                prop_assert_eq!(counted, expected);
            }
        }

        #[test]
        fn broken_bytes_are_told_from_findings(
            violations in violations(), at in any::<prop::sample::Index>(), bit in 0..8_u32
        ) {
            let kept = Kept::of(&violations, &mut Packer::default());
            let Some(kept) = kept else { return Ok(()) };
            for end in 0..kept.bytes.len() {
                let cut = Kept {
                    bytes: kept.bytes.iter().take(end).copied().collect(),
                    dictionary: Arc::clone(&kept.dictionary),
                };
                prop_assert_eq!(cut.open(), Err(Broken));
                cut.volatile().chain(cut.looked()).chain(cut.counts().map(|(id, _)| id)).for_each(drop);
            }
            // A changed bit is not always noticed, but never does harm.
            let mut broken = kept;
            let at = at.index(broken.bytes.len());
            broken.bytes[at] ^= 1 << bit;
            let _ = broken.open();
            broken.volatile().chain(broken.looked()).chain(broken.counts().map(|(id, _)| id)).for_each(drop);
        }
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let check = |json: &str| {
            let value = Value::from_json(json.as_bytes()).expect(json);
            assert_eq!(Json::of(&value).value().expect(json).to_json(), json);
        };
        check("1.0");
        check("[1e3,18446744073709551616,0.1,-0]");
        check("{}");
        check(r#"{"a":{}}"#);
    }

    #[test]
    fn few_bytes() {
        let mut packer = Packer::default();
        let kept = |number: u32, packer: &mut Packer| {
            let found = (0..44).map(|verdict| PackedViolation {
                verdict,
                message: format!("rule {verdict} forbids what container main of web-{number} does")
                    .into(),
                details: Json::default(),
            });
            let violations = PackedViolations {
                uid: print_uuid(u128::from(number) << 64 | 0x1234),
                found: found.collect(),
                ..PackedViolations::default()
            };
            Kept::of(&violations, packer).expect("something").bytes.len()
        };
        let sizes: Vec<usize> = (0..20).map(|number| kept(number, &mut packer)).collect();
        assert!(sizes[19] < 44 * 16, "{sizes:?}");
    }
}
