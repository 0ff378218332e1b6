//! The deliberate differences: where modgate answers otherwise than the original.
//!
//! Only spec rows with verdict F (fix) or S (superset) may excuse a different result; the type has
//! no other verdicts. *Whether* a decision applies to a case is computed from the case's input by
//! the suites, together with the result it requires; nothing here names a case.

use std::fmt;

/// One deliberate difference.
#[derive(PartialEq, Eq)]
pub struct Decision {
    /// The row of the specification, as in `docs/compatibility.md`.
    pub id: &'static str,
    /// Why the result may differ.
    pub kind: Kind,
    /// The behavior of modgate.
    pub summary: &'static str,
}

/// Why a result may differ from the original's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The original is wrong and no rule in use can depend on it (F).
    Fix,
    /// We accept what the original refuses (S).
    Superset,
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

macro_rules! decisions {
    ($($name:ident $id:literal $kind:ident $summary:literal)*) => {
        $(
            #[doc = concat!("`", $id, "`: ", $summary)]
            pub static $name: Decision = Decision { id: $id, kind: Kind::$kind, summary: $summary };
        )*

        /// All of them.
        pub static ALL: &[&Decision] = &[$(&$name),*];
    };
}

decisions! {
    REGO_1 "REGO-1" Fix "a number written without its leading zero is printed with it"
    REGO_4 "REGO-4" Fix "`object.subset` of a list counts each member of the list once"
    REGO_5 "REGO-5" Fix "globs and `regex.globs_match` find every match their description promises"
    REGO_9 "REGO-9" Fix "numbers are computed with and printed as by OPA 1.17, not 1.19"
    REGO_10 "REGO-10" Fix "a sum of integers does not wrap around at 64 bits"
    REGO_11 "REGO-11" Fix "what is not UTF-8 is printed between backquotes by `%#q`"
    REGO_12 "REGO-12" Fix "a number in a template of Go is a string by name, too"
    CEL_1 "CEL-1" Fix "not-a-number is neither less nor greater than anything, as in cel-go 0.30"
    CEL_2 "CEL-2" Fix "a value that cannot be a key is named by its type in CEL, not in Go"
    CEL_3 "CEL-3" Fix "where the original's own code fails the error names the cause"
    CEL_4 "CEL-4" Fix "optionals in optionals are those of cel-go 0.30 in every policy"
    AS_02 "AS-02" Fix "a rule without criteria, which would match everything, does not load"
    SCHEMA "1.3" Fix "what the CRD's schema refuses does not load from anywhere"
    ORDER "5.3" Fix "rules of one tier and namespace run in the order of their names"
    Q_01 "Q-01" Fix "a patch that does not apply is dropped alone; all other rules still run"
    Q_02 "Q-02" Fix "selected items are taken in document order, from the back where they shift"
    Q_10 "Q-10" Superset "an operator may touch what follows it: `a==-1`, `a&&isDefined(b)`"
    Q_11 "Q-11" Superset "a string in single quotes may have any length"
    Q_16 "Q-16" Fix "validation accepts exactly what loads; a patch select is a bare path"
    Q_17 "Q-17" Fix "`targetNamespaceRegex` is validated"
    Q_19 "Q-19" Fix "a rule is applied once to an object, however it was selected"
    Q_25 "Q-25" Fix "captured keys are escaped in paths, and none is lost"
    Q_26 "Q-26" Fix "captured keys stand in paths as they are written"
    Q_27 "Q-27" Fix "`%` in a path is an ordinary character"
    Q_28 "Q-28" Fix "`\"` and `\\` in a path are ordinary characters"
    Q_29 "Q-29" Fix "missing parents with `~1` or `~0` in their names are created"
    Q_31 "Q-31" Fix "adding below a null made by the same rule works as below any null"
    Q_33 "Q-33" Fix "no last-applied annotation crashes a request"
    Q_34 "Q-34" Fix "a patch on DELETE is dropped and reported"
    Q_35 "Q-35" Fix "changes below `/syntheticRefs` never leave the engine"
    Q_36 "Q-36" Fix "a reference that does not exist is empty, and every rule runs"
    NODE_SUMMARY "KM-6.1" Fix "rules of one namespace see a summary of a Node"
    Q_46 "Q-46" Superset "`.Target` can be passed to functions that take a map"
    Q_58 "Q-58" Fix "a member of the wrong type is named in plain words"
    Q_60 "Q-60" Fix "a misplaced patch is reported without a memory dump"
    Q_61 "Q-61" Fix "a null list element is replaced, not pushed aside, by the generated patch"
    Q_62 "Q-62" Fix "keys with `\"` or `\\` give a valid response"
    RESTORED_ASSIGN_IF "restored-assignIf" Superset "`assignIf` is honoured"
    SOURCE_ALIASES "source-aliases" Superset "older spellings of `match.source` are honoured"
    FIX_NUMBERS "fix-numbers" Fix "numbers compare by value, and integers keep 64 bits"
    FIX_INT_OVERFLOW "fix-int-overflow" Fix "list keys beyond 64 bits are refused"
    FIX_PATHTEST_ORDER "fix-pathtest-order" Fix "path tests contradict each other by depth"
    FIX_SELECTOR_VALIDATION "fix-selector-validation" Fix "a bad selector does not load"
    FIX_DEFAULT_MERGE "fix-default-merge" Fix "a ModifySet without operation merges"
    FIX_PRUNE_CREATES "fix-prune-creates" Fix "prune never creates anything"
    FIX_MESSAGE "fix-message" Fix "AssignImage says what it found instead of a text"
    FIX_DEFAULT_FAIL "fix-default-fail" Fix "a provider that fails fails the request by default"
    FIX_USERNAME_KEY "fix-username-key" Fix "data source Username sends the name of the user"
    FIX_DUPLICATE_EDGES "fix-duplicate-edges" Fix "a kind named twice in `applyTo` is harmless"
    FIX_OVERRIDE_SCOPED "fix-override-scoped" Fix "an expansion's action clears scoped actions"
    FIX_OUTPUT_DEFAULT "fix-output-default" Fix "`gator test -o default` prints text"
    FIX_GATOR_SCOPE "fix-gator-scope" Fix "gator knows which built-in kinds are cluster-scoped"
    FIX_GATOR_PRINT_OBJECT "fix-gator-print-object" Fix "gator prints the object that was reviewed"
    FIX_REGEX_FIRST "fix-regex-first" Fix "a bad pattern of a suite is always an error"
    FIX_INVALID_MESSAGE "fix-invalid-message" Fix "a missed schema violation has a message"
    FIX_YAML_CLEAN "fix-yaml-clean" Fix "suites' objects are split by the rules of YAML"
    Q_77 "Q-77" Fix "at most 1000 nulls are put before an index"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct() {
        let mut ids: Vec<_> = ALL.iter().map(|decision| decision.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ALL.len());
    }
}
