//! Fields that objects of a kind do not have.

use modgate_value::{Str, near};

use super::Types;

impl Types {
    /// The first of the steps into an object that its kind does not have, and the field that is near;
    /// a step without a name is into the elements of a list. Nothing where any member is allowed.
    pub(crate) fn misspelt<'n>(
        &self,
        (api_version, kind): (&str, &str),
        steps: impl Iterator<Item = Option<&'n str>>,
    ) -> Option<(&'n str, &str)> {
        let mut at = self.resolve(self.of(api_version, kind)?);
        for step in steps {
            let Some(name) = step else {
                at = self.resolve(&at.list?.element);
                continue;
            };
            let map = at.map?;
            match map.fields.get(name) {
                Some(field) => at = self.resolve(&field.ty),
                None if map.element.is_some() => return None,
                None => {
                    let known = map.fields.keys().map(Str::as_str);
                    return near::nearest(name, known).map(|meant| (name, meant));
                }
            }
        }
        None
    }
}
