//! Near names of paths.

use std::{fs, path::Path};

use modgate_value::near;

/// Entries of a folder that are compared with a name that is not among them.
const MAX_ENTRIES: usize = 10_000;

/// The advice for a path that does not exist: the one that is nearest, as far as it differs in one name.
pub fn did_you_mean(path: &Path) -> Option<String> {
    let is_missing = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
    let missing = path.ancestors().take_while(is_missing).last()?;
    let name = missing.file_name()?.to_str()?;
    let folder = missing.parent()?;
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(listed).ok()?.take(MAX_ENTRIES);
    let names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let near = near::nearest(name, names.iter().map(String::as_str))?;
    let below = path.strip_prefix(missing).ok()?;
    let meant = match below.as_os_str().is_empty() {
        true => folder.join(near),
        false => folder.join(near).join(below),
    };
    meant.exists().then(|| format!("did you mean `{}`?", meant.display()))
}
