//! Whether `dist` optimises everything.
//!
//! It inherits from `release`, with the packages that `release` optimises less to be built sooner. A package that
//! `dist` does not name again would ship as slow as that.

use std::collections::BTreeMap;

/// The level of everything that ships.
const FULL: &str = "3";

/// The packages that ship less than fully optimised, by the text of `Cargo.toml`.
pub(super) fn slow_in_dist(manifest: &str) -> Vec<String> {
    let mut levels = levels(manifest, "[profile.release.package]");
    levels.extend(self::levels(manifest, "[profile.dist.package]"));
    let slow = levels.into_iter().filter(|(_, level)| *level != FULL);
    slow.map(|(package, level)| {
        format!(
            "`{package}` ships with `opt-level = {level}`, from [profile.release.package]; add \
             `{package}.opt-level = {FULL}` to [profile.dist.package]"
        )
    })
    .collect()
}

fn levels<'a>(manifest: &'a str, section: &str) -> BTreeMap<&'a str, &'a str> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(".opt-level = ")).collect()
}

#[cfg(test)]
mod tests {
    use super::slow_in_dist;

    #[test]
    fn packages_that_dist_does_not_name_are_found() {
        let release =
            "[profile.release.package]\n\"*\".opt-level = 0\na.opt-level = 1\nb.opt-level = 3\n";
        let dist = "\n[profile.dist.package]\n\"*\".opt-level = 3\n";
        let slow = |more: &str| slow_in_dist(&format!("{release}{dist}{more}\n[profile.bench]\n"));
        let found = slow("");
        assert!(matches!(found.as_slice(), [only] if only.starts_with("`a` ships")), "{found:?}");
        assert!(slow("a.opt-level = 3\n").is_empty());
        assert_eq!(slow("a.opt-level = 2\n").len(), 1);
    }
}
