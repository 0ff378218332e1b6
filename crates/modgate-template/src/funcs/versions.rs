//! Sprig's semantic versions.

use crate::{
    cx::Fault,
    funcs::{Function, Ty},
    semver::{Constraints, Version},
    val::Val,
};

use Ty::Text as S;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("semver", &[S], |cx, args| {
        let text = args.str(0);
        cx.spend(text.len())?;
        cx.allocate(text.len() + size_of::<Version>())?;
        Ok(Val::Version(Version::parse(&text).map_err(Fault::new)?.into()))
    }),
    Function::new("semverCompare", &[S, S], |cx, args| {
        let (constraint, version) = (args.str(0), args.str(1));
        cx.spend(constraint.len().saturating_mul(4) + version.len())?;
        let constraints = Constraints::parse(&constraint).map_err(Fault::new)?;
        let version = Version::parse(&version).map_err(Fault::new)?;
        Ok(Val::Bool(constraints.check(&version)))
    }),
];
