//! JSON Web Tokens (RFC 7519).

use std::collections::BTreeSet;

use modgate_value::{
    Value as Json,
    go::{base64::Alphabet, hex},
    gofloat,
};

use super::{
    Builtin, BuiltinError, Context, Outcome,
    crypto::{Hash, PublicKey, SetKey, equal, key_set, pem_or_jwk},
    operand, yes_or_no,
};
use crate::{
    number::Num,
    value::{Object, Value},
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("io.jwt.decode", "(jwt: string) => output: array<object[any: any], object[any: any], string>", decode),
    Builtin::new("io.jwt.decode_verify", "(jwt: string, constraints: object[string: any]) => output: array<boolean, object[any: any], object[any: any]>", decode_verify).nondeterministic(),
    Builtin::new("io.jwt.verify_rs256", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "RS256")),
    Builtin::new("io.jwt.verify_rs384", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "RS384")),
    Builtin::new("io.jwt.verify_rs512", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "RS512")),
    Builtin::new("io.jwt.verify_ps256", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "PS256")),
    Builtin::new("io.jwt.verify_ps384", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "PS384")),
    Builtin::new("io.jwt.verify_ps512", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "PS512")),
    Builtin::new("io.jwt.verify_es256", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "ES256")),
    Builtin::new("io.jwt.verify_es384", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "ES384")),
    Builtin::new("io.jwt.verify_es512", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "ES512")),
    Builtin::new("io.jwt.verify_eddsa", "(jwt: string, certificate: string) => result: boolean", |context, args| verify(context, args, "EdDSA")),
    Builtin::new("io.jwt.verify_hs256", "(jwt: string, secret: string) => result: boolean", |context, args| verify_secret(context, args, Hash::Sha256)),
    Builtin::new("io.jwt.verify_hs384", "(jwt: string, secret: string) => result: boolean", |context, args| verify_secret(context, args, Hash::Sha384)),
    Builtin::new("io.jwt.verify_hs512", "(jwt: string, secret: string) => result: boolean", |context, args| verify_secret(context, args, Hash::Sha512)),
    Builtin::new("io.jwt.encode_sign", "(headers: object[string: any], payload: object[string: any], key: object[string: any]) => output: string", encode_sign).nondeterministic(),
    Builtin::new("io.jwt.encode_sign_raw", "(headers: string, payload: string, key: string) => output: string", encode_sign_raw).nondeterministic(),
];

/// How often a token may be inside a token.
const MAX_NESTING: usize = 32;

/// The parts of a token, still encoded.
struct Token<'t> {
    header: &'t str,
    payload: &'t str,
    signature: &'t str,
    /// Header and payload with the point between: what is signed.
    signed: &'t str,
}

impl<'t> Token<'t> {
    fn split(text: &'t str) -> Result<Self, BuiltinError> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts.as_slice() {
            [header, payload, signature] => {
                let signed = text.get(..header.len() + 1 + payload.len()).unwrap_or_default();
                Ok(Self { header, payload, signature, signed })
            }
            [_] => Err(BuiltinError::failed("encoded JWT had no period separators")),
            parts => Err(BuiltinError::failed(format!(
                "encoded JWT must have 3 sections, found {}",
                parts.len()
            ))),
        }
    }
}

/// The bytes of a part, whose padding may be left out.
fn part(text: &str) -> Result<Vec<u8>, BuiltinError> {
    let padding = match text.len() % 4 {
        _ if text.ends_with('=') => "",
        0 => "",
        2 => "==",
        3 => "=",
        _ => return Err(BuiltinError::failed(format!("illegal base64url string: {text}"))),
    };
    Ok(Alphabet::Url.decode(format!("{text}{padding}"))?)
}

fn named(name: &str, error: BuiltinError) -> BuiltinError {
    match error {
        BuiltinError::Limit(_) => error,
        other => BuiltinError::failed(format!("JWT {name} had invalid encoding: {other}")),
    }
}

impl<'a> Context<'a> {
    fn charge_token(&self, text: &str) -> Result<(), BuiltinError> {
        self.spend(text.len() + 64)?;
        self.allocate(text.len().saturating_mul(8))
    }

    /// An object in JSON.
    fn json_object(&self, bytes: &[u8]) -> Result<Value<'a>, BuiltinError> {
        let json = Json::from_json(bytes)
            .map_err(|error| BuiltinError::failed(format!("invalid JSON: {error}")))?;
        if json.as_object().is_none() {
            return Err(BuiltinError::failed("decoded JSON type was not an Object"));
        }
        Ok(self.heap.copy_json(&json)?)
    }

    fn header(&self, token: &Token<'_>) -> Result<Value<'a>, BuiltinError> {
        let bytes = part(token.header).map_err(|error| named("header", error))?;
        let header = self.json_object(&bytes).map_err(|error| match error {
            BuiltinError::Limit(_) => error,
            other => BuiltinError::failed(format!("bad JWT header: {other}")),
        })?;
        if header.get_str("enc").is_some() {
            return Err(BuiltinError::failed("JWT is a JWE object, which is not supported"));
        }
        Ok(header)
    }

    fn payload_text(&self, token: &Token<'_>) -> Result<String, BuiltinError> {
        let bytes = part(token.payload).map_err(|error| named("payload", error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn member<'a>(object: Value<'a>, name: &str) -> &'a str {
    object.get_str(name).and_then(Value::as_str).unwrap_or_default()
}

/// `[header, payload, signature]`, without checking anything.
fn decode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut text = operand::string(args, 0)?.to_owned();
    for _ in 0..MAX_NESTING {
        context.charge_token(&text)?;
        let token = Token::split(&text)?;
        let header = context.header(&token)?;
        let payload = context.payload_text(&token)?;
        // A token inside a token may be quoted.
        if member(header, "cty") == "JWT" {
            text = payload.trim_matches(['"', '\'']).to_owned();
            continue;
        }
        let payload = context.json_object(payload.as_bytes())?;
        let signature = part(token.signature).map_err(|error| named("signature", error))?;
        let signature = context.heap.string(&hex::encode(&signature))?;
        return context.array(&[header, payload, signature]);
    }
    Err(BuiltinError::failed("JWT is nested too deep"))
}

/// Whether one of the keys made the signature of the token.
fn verify<'a>(context: &mut Context<'a>, args: &[Value<'a>], algorithm: &str) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let keys = operand::string(args, 1);
    context.charge_token(text)?;
    let token = Token::split(text)?;
    let keys = keys?;
    context.charge_token(keys)?;
    let keys = pem_or_jwk(keys)?;
    let signature = part(token.signature)?;
    let header = context.header(&token)?;
    let (id, declared) = (member(header, "kid"), member(header, "alg"));
    let message = token.signed.as_bytes();
    // A key that the token names is the only one that counts.
    if let Some(key) = keys.iter().find(|key| !id.is_empty() && key.id == id) {
        context.charge_signature()?;
        return yes_or_no(key.key.verify(algorithm, message, &signature));
    }
    for key in &keys {
        context.charge_signature()?;
        let fits = key.algorithm.is_empty() || key.algorithm == declared;
        if fits && key.key.verify(algorithm, message, &signature) {
            return yes_or_no(true);
        }
    }
    yes_or_no(false)
}

fn verify_secret<'a>(context: &mut Context<'a>, args: &[Value<'a>], hash: Hash) -> Outcome<'a> {
    let (text, secret) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.charge_token(text)?;
    context.scan(secret)?;
    let token = Token::split(text)?;
    let signature = part(token.signature)?;
    yes_or_no(equal(&hash.mac(secret.as_bytes(), token.signed.as_bytes()), &signature))
}

/// The constraints given to `io.jwt.decode_verify`.
#[derive(Default)]
struct Constraints<'a> {
    keys: Option<Vec<SetKey>>,
    secret: &'a str,
    algorithm: &'a str,
    issuer: &'a str,
    audience: &'a str,
    /// Nanoseconds since 1970.
    time: Option<f64>,
}

impl<'a> Constraints<'a> {
    fn read(context: &Context<'a>, object: Object<'a>) -> Result<Self, BuiltinError> {
        let mut constraints = Self::default();
        for (key, value) in object {
            let name = key.as_str().unwrap_or_default();
            let text = || {
                value.as_str().ok_or_else(|| {
                    BuiltinError::failed(format!("{name} constraint: must be a string"))
                })
            };
            match name {
                "cert" => {
                    context.charge_token(text()?)?;
                    constraints.keys = Some(pem_or_jwk(text()?)?);
                }
                "secret" => constraints.secret = text()?,
                "alg" => constraints.algorithm = text()?,
                "iss" => constraints.issuer = text()?,
                "aud" => constraints.audience = text()?,
                "time" => constraints.time = Some(time(value)?),
                _ => {
                    return Err(BuiltinError::failed(format!(
                        "unknown token validation constraint: {name}"
                    )));
                }
            }
        }
        match (constraints.keys.is_some(), !constraints.secret.is_empty()) {
            (true, true) => Err(BuiltinError::failed("duplicate key constraints")),
            (false, false) => Err(BuiltinError::failed("no key constraint")),
            _ => Ok(constraints),
        }
    }

    /// Whether a trusted key made the signature.
    fn trusts(
        &self,
        context: &Context<'_>,
        header: Value<'_>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BuiltinError> {
        let (id, algorithm) = (member(header, "kid"), member(header, "alg"));
        let Some(keys) = &self.keys else {
            let secret = PublicKey::Secret(self.secret.as_bytes().to_vec());
            return Ok(secret.verify(algorithm, message, signature));
        };
        if let Some(key) = keys.iter().find(|key| !id.is_empty() && key.id == id) {
            context.charge_signature()?;
            return Ok(key.key.verify(algorithm, message, signature));
        }
        for key in keys {
            context.charge_signature()?;
            let fits = key.algorithm.is_empty() || key.algorithm == algorithm;
            if fits && key.key.verify(algorithm, message, signature) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the claims are as they must be.
    fn accepts(&self, context: &Context<'_>, payload: Value<'_>) -> Result<bool, BuiltinError> {
        if !self.issuer.is_empty() && member(payload, "iss") != self.issuer {
            return Ok(false);
        }
        let audience = |value: Value<'_>| value.as_str() == Some(self.audience);
        let accepted = match payload.get_str("aud") {
            Some(value) => match value.as_array() {
                Some(list) => list.iter().any(audience),
                None => audience(value),
            },
            None => self.audience.is_empty(),
        };
        if !accepted {
            return Ok(false);
        }
        let time = match self.time {
            Some(time) => time,
            #[expect(clippy::cast_precision_loss, reason = "as OPA, which compares floats")]
            None => context.now_ns()? as f64,
        };
        let seconds = gofloat::json(time / 1e9);
        let now = Num::Literal(&seconds);
        let claim = |name: &str| match payload.get_str(name) {
            None => Ok(None),
            Some(value) => value
                .as_number()
                .map(Some)
                .ok_or_else(|| BuiltinError::failed(format!("{name} value must be a number"))),
        };
        Ok(claim("exp")?.is_none_or(|expiry| now < expiry)
            && claim("nbf")?.is_none_or(|start| start <= now))
    }
}

fn time(value: Value<'_>) -> Result<f64, BuiltinError> {
    let problem = |what: &str| BuiltinError::failed(format!("token time constraint: {what}"));
    let number = value.as_number().ok_or_else(|| problem("must be a number"))?;
    let float = number.as_f64();
    if !float.is_finite() {
        return Err(problem("unvalid float64"));
    }
    if float < 0.0 {
        return Err(problem("must not be negative"));
    }
    Ok(float)
}

/// Whether a header has an algorithm and marks nothing unknown as critical (RFC 7515, section
/// 4.1.11).
fn is_valid(header: Value<'_>) -> Result<bool, BuiltinError> {
    const KNOWN: [&str; 5] = ["alg", "kid", "typ", "cty", "crit"];
    let mut critical = BTreeSet::new();
    if let Some(value) = header.get_str("crit") {
        let list = value.as_array().ok_or_else(|| BuiltinError::failed("crit: must be a list"))?;
        critical.extend(list.iter().map_while(Value::as_str));
        if critical.is_empty() {
            return Err(BuiltinError::failed("crit: must be a nonempty list"));
        }
    }
    for name in ["alg", "kid", "typ", "cty"] {
        if header.get_str(name).is_some_and(|value| value.as_str().is_none()) {
            return Err(BuiltinError::failed(format!("{name}: must be a string")));
        }
    }
    let mut names = header.as_object().into_iter().flatten().filter_map(|(key, _)| key.as_str());
    let unknown = names.any(|name| !KNOWN.contains(&name) && critical.contains(name));
    Ok(!member(header, "alg").is_empty() && !unknown)
}

/// `[true, header, payload]` if the token is good, `[false, {}, {}]` if not.
fn decode_verify<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let constraints = Constraints::read(context, operand::object(args, 1)?)?;
    let mut text = operand::string(args, 0)?.to_owned();
    let refused = [Value::FALSE, Value::EMPTY_OBJECT, Value::EMPTY_OBJECT];
    for _ in 0..MAX_NESTING {
        context.charge_token(&text)?;
        let token = Token::split(&text)?;
        let header = context.header(&token)?;
        let wanted = constraints.algorithm;
        if !is_valid(header)? || !wanted.is_empty() && member(header, "alg") != wanted {
            return context.array(&refused);
        }
        let signature = part(token.signature)?;
        if !constraints.trusts(context, header, token.signed.as_bytes(), &signature)? {
            return context.array(&refused);
        }
        let payload = context.payload_text(&token)?;
        if member(header, "cty").eq_ignore_ascii_case("JWT") {
            text = payload;
            continue;
        }
        let payload = context.json_object(payload.as_bytes())?;
        return match constraints.accepts(context, payload)? {
            true => context.array(&[Value::TRUE, header, payload]),
            false => context.array(&refused),
        };
    }
    Err(BuiltinError::failed("JWT is nested too deep"))
}

fn encode_sign<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let json = |index: usize| {
        let json = operand::any(args, index).to_json(context.heap.budget())?;
        context.json_text(&json)
    };
    let (header, payload, key) = (json(0)?, json(1)?, json(2)?);
    sign(context, &header, &payload, &key)
}

fn encode_sign_raw<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let key = operand::string(args, 2)?;
    let (header, payload) = (operand::string(args, 0)?, operand::string(args, 1)?);
    sign(context, header, payload, key)
}

/// Signs with a shared secret; an admission policy has no private key to sign with.
fn sign<'a>(context: &mut Context<'a>, header: &str, payload: &str, key: &str) -> Outcome<'a> {
    for text in [header, payload, key] {
        context.charge_token(text)?;
    }
    let keys = key_set(key)?;
    let key = keys.first().ok_or_else(|| BuiltinError::failed("no keys found in JWK set"))?;
    let no_algorithm =
        |problem: &str| BuiltinError::failed(format!("missing or invalid 'alg' header: {problem}"));
    let fields =
        Json::from_json(header.as_bytes()).map_err(|_| no_algorithm("cannot parse JSON"))?;
    let algorithm = fields
        .get("alg")
        .and_then(Json::as_str)
        .ok_or_else(|| no_algorithm(r#"jwsbb: header "alg" not found"#))?;
    let hash = match algorithm {
        "HS256" => Hash::Sha256,
        "HS384" => Hash::Sha384,
        "HS512" => Hash::Sha512,
        "RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512" | "ES256" | "ES384" | "ES512"
        | "EdDSA" => {
            return Err(BuiltinError::failed(format!(
                "not available here: signing with {algorithm} needs a private key"
            )));
        }
        other => return Err(BuiltinError::failed(format!("unknown JWS algorithm: {other}"))),
    };
    let is_token = fields.get("typ").and_then(Json::as_str).is_none_or(|kind| kind == "JWT");
    if is_token && Json::from_json(payload.as_bytes()).is_err() {
        return Err(BuiltinError::failed("type is JWT but payload is not JSON"));
    }
    let PublicKey::Secret(secret) = &key.key else {
        return Err(BuiltinError::failed(format!("key type does not sign with {algorithm}")));
    };
    let encode = |bytes: &[u8]| Alphabet::Url.encode_unpadded(bytes);
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(payload.as_bytes()));
    let signature = encode(&hash.mac(secret, signed.as_bytes()));
    context.string(&format!("{signed}.{signature}"))
}
