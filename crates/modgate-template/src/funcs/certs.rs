//! Sprig's keys and certificates.

use std::net::IpAddr;

use modgate_value::go::{base64::Alphabet, pem};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty, strings::text_of},
    pki::{Authority, Certificate, Key, KeyKind, Request, check_certificate},
    val::{List, Val},
};

use Ty::{Certificate as C, Int, List as L, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("buildCustomCert", &[S, S], build_custom),
    Function::new("genCA", &[S, Int], |cx, args| {
        let key = new_key(cx)?;
        authority(cx, args, &key)
    })
    .impure(),
    Function::new("genCAWithKey", &[S, Int, S], |cx, args| {
        let key = given_key(cx, args, 2)?;
        authority(cx, args, &key)
    })
    .impure(),
    Function::new("genPrivateKey", &[S], |cx, args| {
        let name = args.str(0);
        let Some(kind) = KeyKind::named(&name) else {
            return cx.text(format!("Unknown type {name}"));
        };
        let key = Key::generate(&cx.env, kind, 4096)?.to_pem();
        cx.text(key)
    })
    .impure(),
    Function::new("genSelfSignedCert", &[S, L, L, Int], |cx, args| {
        let key = new_key(cx)?;
        signed(cx, args, &key, None)
    })
    .impure(),
    Function::new("genSelfSignedCertWithKey", &[S, L, L, Int, S], |cx, args| {
        let key = given_key(cx, args, 4)?;
        signed(cx, args, &key, None)
    })
    .impure(),
    Function::new("genSignedCert", &[S, L, L, Int, C], |cx, args| {
        let authority = Authority::from_pem(pair(args, 4)?)?;
        let key = new_key(cx)?;
        signed(cx, args, &key, Some(&authority))
    })
    .impure(),
    Function::new("genSignedCertWithKey", &[S, L, L, Int, C, S], |cx, args| {
        let authority = Authority::from_pem(pair(args, 4)?)?;
        let key = given_key(cx, args, 5)?;
        signed(cx, args, &key, Some(&authority))
    })
    .impure(),
];

fn new_key(cx: &Cx<'_>) -> Result<Key> {
    Key::generate(&cx.env, KeyKind::Rsa, 2048)
}

fn given_key(cx: &Cx<'_>, args: Args<'_, '_>, index: usize) -> Result<Key> {
    let text = args.str(index);
    // Reading a key checks it, at most by some multiplications.
    cx.spend(text.len())?;
    Key::from_pem(&text).map_err(|message| Fault::new(format!("parsing private key: {message}")))
}

fn pair<'r>(args: Args<'r, '_>, index: usize) -> Result<&'r Certificate> {
    match args.get(index) {
        Val::Certificate(pair) => Ok(pair),
        _ => Err(Fault::new("not a certificate")),
    }
}

fn authority<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, key: &Key) -> Result<Val<'a>> {
    let request = Request {
        common_name: &args.str(0),
        addresses: Vec::new(),
        names: Vec::new(),
        days: args.int(1),
        is_authority: true,
    };
    Ok(Val::Certificate(request.sign(&cx.env, key, None)?.into()))
}

fn signed<'a>(
    cx: &mut Cx<'a>,
    args: Args<'_, 'a>,
    key: &Key,
    authority: Option<&Authority>,
) -> Result<Val<'a>> {
    let request = Request {
        common_name: &args.str(0),
        addresses: addresses(cx, &args.list(1))?,
        names: names(cx, &args.list(2))?,
        days: args.int(3),
        is_authority: false,
    };
    Ok(Val::Certificate(request.sign(&cx.env, key, authority)?.into()))
}

fn addresses<'a>(cx: &Cx<'a>, list: &List<'a>) -> Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for item in list.iter() {
        cx.allocate(size_of::<IpAddr>())?;
        let text = text_of(cx, &item)?;
        let text = text.lossy();
        if !matches!(item, Val::Text(_)) {
            return Err(Fault::new(format!("error parsing ip: {text} is not a string")));
        }
        let address = text.parse();
        addresses.push(address.map_err(|_| Fault::new(format!("error parsing ip: {text}")))?);
    }
    Ok(addresses)
}

fn names<'a>(cx: &Cx<'a>, list: &List<'a>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for item in list.iter() {
        let text = text_of(cx, &item)?;
        cx.allocate(text.len() + size_of::<String>())?;
        let text = text.lossy().into_owned();
        if !matches!(item, Val::Text(_)) {
            return Err(Fault::new(format!(
                "error processing alternate dns name: {text} is not a string"
            )));
        }
        names.push(text);
    }
    Ok(names)
}

/// `buildCustomCert base64Cert base64Key`
fn build_custom<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let decode = |index: usize, what: &str| {
        let encoded = args.text(index).as_bytes();
        cx.spend(encoded.len() / 4)?;
        cx.allocate(encoded.len())?;
        let bytes = Alphabet::Standard
            .decode(encoded)
            .map_err(|_| Fault::new(format!("unable to decode base64 {what}")))?;
        Ok::<_, Fault>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let certificate = decode(0, "certificate")?;
    let key = decode(1, "private key")?;
    let block =
        pem::decode(&certificate).ok_or_else(|| Fault::new("unable to decode certificate"))?;
    check_certificate(&block.bytes)?;
    Key::from_pem(&key)
        .map_err(|message| Fault::new(format!("error parsing private key: {message}")))?;
    Ok(Val::Certificate(Certificate { certificate, key }.into()))
}
