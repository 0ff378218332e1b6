//! Sprig's semantic versions.

use crate::{
    cx::Fault,
    funcs::{Function, Ty},
    semver::{Version, satisfies},
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
        let (constraints, version) = (args.str(0), args.str(1));
        cx.spend(version.len())?;
        satisfies(&constraints, &version, cx.env.budget).map(Val::Bool)
    }),
];
