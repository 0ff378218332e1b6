//! Path tests: what must or must not exist along a location (3.5).

use std::collections::BTreeMap;

use modgate_api::mutations::PathTest;
use modgate_value::gofmt;

use super::{compile::CompileError, location::Location};

/// The conditions of a mutator, by the depth at which they apply.
#[derive(Debug, Clone, Default)]
pub(super) struct PathTests(BTreeMap<usize, Condition>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    MustExist,
    MustNotExist,
}

impl Condition {
    /// Whether the walk may go on where the tested node is there or is not.
    pub(super) fn allows(self, exists: bool) -> bool {
        exists == (self == Self::MustExist)
    }
}

impl PathTests {
    /// The condition for the node at `depth`.
    pub(super) fn at(&self, depth: usize) -> Option<Condition> {
        self.0.get(&depth).copied()
    }

    /// A single test at the end of a location.
    pub(super) fn must_not_exist(location: &Location) -> Self {
        let last = location.nodes().len().saturating_sub(1);
        Self(BTreeMap::from([(last, Condition::MustNotExist)]))
    }

    pub(super) fn compile(
        tests: &[PathTest],
        location: &Location,
        kind: &str,
        name: &str,
    ) -> Result<Self, CompileError> {
        let mut conditions = BTreeMap::new();
        for test in tests {
            let path = Location::parse(&test.sub_path).map_err(|source| {
                CompileError::new(format!(
                    "problem parsing sub path `{}` for {kind} {name}: {source}",
                    test.sub_path
                ))
            })?;
            if !path.is_prefix_of(location) {
                return Err(CompileError::new(format!(
                    "all subpaths must be a prefix of the `location` value of the mutation: \
                     subpath {} is not a prefix of location {}",
                    quoted(&path),
                    quoted(location)
                )));
            }
            let condition = match test.condition.as_str() {
                "MustExist" => Condition::MustExist,
                "MustNotExist" => Condition::MustNotExist,
                other => {
                    return Err(CompileError::new(format!(
                        "{other} is not a valid path test condition"
                    )));
                }
            };
            let Some(depth) = path.nodes().len().checked_sub(1) else { continue };
            if conditions.insert(depth, condition).is_some_and(|known| known != condition) {
                return Err(CompileError::new(format!(
                    "conflicting path test conditions: path {} is marked both MustExist and \
                     MustNotExist",
                    quoted(&path)
                )));
            }
        }
        let forbidden = conditions
            .iter()
            .find(|(_, condition)| **condition == Condition::MustNotExist)
            .map(|(depth, _)| *depth);
        let required = conditions
            .iter()
            .find(|(depth, condition)| {
                Some(**depth) > forbidden && **condition == Condition::MustExist
            })
            .map(|(depth, _)| *depth);
        if let (Some(parent), Some(child)) = (forbidden, required) {
            return Err(CompileError::new(format!(
                "conflicting path test conditions: path {} is marked MustExist but parent {} \
                 MustNotExist",
                quoted(&beginning(location, child)),
                quoted(&beginning(location, parent))
            )));
        }
        Ok(Self(conditions))
    }
}

/// The location up to and including the node at `depth`.
fn beginning(location: &Location, depth: usize) -> Location {
    Location(location.nodes().iter().take(depth + 1).cloned().collect())
}

fn quoted(location: &Location) -> String {
    gofmt::quote(&location.to_string())
}
