//! Numbers for what violations may be of.

use std::collections::HashMap;

use crate::{policies::UnitId, unit::Attribution};

/// Numbers whose demand a violation is, and what it leads to.
pub(super) type VerdictId = u32;

/// A unit, and what it charges objects with.
pub(super) type Verdict = (UnitId, Attribution);

/// The numbers there are.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    ids: HashMap<Verdict, VerdictId>,
    /// `None` where a number is free.
    all: Vec<Option<Verdict>>,
    free: Vec<VerdictId>,
}

impl Verdicts {
    /// The number of a verdict.
    pub(super) fn id(&mut self, verdict: Verdict) -> VerdictId {
        if let Some(id) = self.ids.get(&verdict) {
            return *id;
        }
        let slot = self.free.pop().and_then(|id| Some((id, self.all.get_mut(id as usize)?)));
        let id = match slot {
            Some((id, slot)) => {
                *slot = Some(verdict.clone());
                id
            }
            None => {
                self.all.push(Some(verdict.clone()));
                VerdictId::try_from(self.all.len() - 1).unwrap_or(VerdictId::MAX)
            }
        };
        self.ids.insert(verdict, id);
        id
    }

    pub(super) fn get(&self, id: VerdictId) -> Option<&Verdict> {
        self.all.get(id as usize)?.as_ref()
    }

    /// The unit that the verdict is of.
    pub(super) fn unit(&self, id: VerdictId) -> Option<UnitId> {
        self.get(id).map(|(unit, _)| *unit)
    }

    /// How many numbers there are, free ones included.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Numbers that are in use no more are free.
    pub(super) fn retain(&mut self, is_used: impl Fn(VerdictId) -> bool) {
        for (id, slot) in (0..).zip(&mut self.all) {
            if let Some(verdict) = slot.take_if(|_| !is_used(id)) {
                self.ids.remove(&verdict);
                self.free.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.id((7, Attribution::Constraint)), 0);
        assert_eq!(verdicts.id((8, Attribution::Constraint)), 1);
        assert_eq!(verdicts.id((7, Attribution::Constraint)), 0);
        verdicts.retain(|id| id == 1);
        assert_eq!(verdicts.get(0), None);
        assert_eq!(verdicts.get(1), Some(&(8, Attribution::Constraint)));
        assert_eq!(verdicts.id((9, Attribution::Constraint)), 0);
        assert_eq!(verdicts.id((7, Attribution::Constraint)), 2);
        assert_eq!(verdicts.len(), 3);
    }
}
