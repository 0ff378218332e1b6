//! Sprig's hashes, passwords and encryption.

use std::time::Duration;

use aes::{
    Aes256,
    cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _},
};
use blowfish::Blowfish;
use hmac::{Hmac, Mac as _};
use modgate_value::go::{base64::Alphabet::Standard, hex};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty, encoding::encode, random::random},
    text::Text,
    val::Val,
};

use Ty::{Text as S, Uint32};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("adler32sum", &[S], |cx, args| {
        let text = args.text(0).as_bytes();
        cx.spend(text.len() / 16)?;
        cx.text(adler32(text).to_string())
    }),
    Function::new("bcrypt", &[S], |cx, args| {
        let hash = bcrypt(cx, args.text(0).as_bytes())?;
        cx.text(hash)
    })
    .impure(),
    Function::new("decryptAES", &[S, S], decrypt),
    Function::new("derivePassword", &[Uint32, S, S, S, S], derive_password),
    Function::new("encryptAES", &[S, S], encrypt).impure(),
    Function::new("htpasswd", &[S, S], |cx, args| {
        let user = args.str(0);
        if user.contains(':') {
            return cx.text(format!("invalid username: {user}"));
        }
        let hash = bcrypt(cx, args.text(1).as_bytes())?;
        cx.text(format!("{user}:{hash}"))
    })
    .impure(),
    Function::new("sha1sum", &[S], |cx, args| {
        let text = args.text(0).as_bytes();
        cx.spend(text.len() / 8)?;
        cx.text(hex::encode(&Sha1::digest(text)))
    }),
    Function::new("sha256sum", &[S], |cx, args| {
        let text = args.text(0).as_bytes();
        cx.spend(text.len() / 8)?;
        cx.text(hex::encode(&Sha256::digest(text)))
    }),
];

/// RFC 1950.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

/// Go's `bcrypt.DefaultCost`.
const BCRYPT_COST: u32 = 10;

/// `bcrypt.GenerateFromPassword` at the default cost, with a salt of the host's random bytes.
fn bcrypt(cx: &Cx<'_>, password: &[u8]) -> Result<String> {
    const ALPHABET: &[u8] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let salt = random(cx, 16)?;
    // Only 72 bytes of the key, its final zero byte included, have a part in it.
    let key = [password.get(..72).unwrap_or(password), &[0]].concat();
    let mut state = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1 << BCRYPT_COST {
        // About 50 microseconds each.
        cx.spend(1_000)?;
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut hash = Vec::with_capacity(24);
    for block in b"OrpheanBeholderScryDoubt".chunks_exact(8) {
        let word =
            |bytes: &[u8]| bytes.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let (left, right) = block.split_at(4);
        let mut pair = [word(left), word(right)];
        for _ in 0..64 {
            pair = state.bc_encrypt(pair);
        }
        hash.extend(pair.into_iter().flat_map(u32::to_be_bytes));
    }
    hash.truncate(23);
    let (salt, hash) = (encode(&salt, ALPHABET, 6, 1), encode(&hash, ALPHABET, 6, 1));
    Ok(format!("$2a${BCRYPT_COST:02}${salt}{hash}"))
}

const BLOCK: usize = 16;

/// The key is the password cut or filled up with zeros to 32 bytes.
fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    for (slot, byte) in key.iter_mut().zip(password) {
        *slot = *byte;
    }
    Aes256::new(&key.into())
}

fn xor(block: &mut [u8; BLOCK], with: &[u8]) {
    for (byte, other) in block.iter_mut().zip(with) {
        *byte ^= other;
    }
}

/// AES-256-CBC with a random initial vector in front, as base64.
fn encrypt<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let plain = args.text(1).as_bytes();
    if plain.is_empty() {
        return Ok(Val::Text(Text::Ref("")));
    }
    cx.spend(plain.len() / 4)?;
    cx.allocate(plain.len().saturating_mul(3) + 64)?;
    let cipher = cipher(args.text(0).as_bytes());
    let padding = BLOCK - plain.len() % BLOCK;
    let fill = u8::try_from(padding).unwrap_or(0);
    let padded = [plain, &vec![fill; padding]].concat();
    let mut out = random(cx, BLOCK)?;
    let mut previous = <[u8; BLOCK]>::try_from(&*out).unwrap_or_default();
    for chunk in padded.chunks_exact(BLOCK) {
        xor(&mut previous, chunk);
        let mut block = previous.into();
        cipher.encrypt_block(&mut block);
        previous = block.into();
        out.extend(previous);
    }
    cx.text(Standard.encode(&out))
}

fn decrypt<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let encoded = args.text(1).as_bytes();
    if encoded.is_empty() {
        return Ok(Val::Text(Text::Ref("")));
    }
    cx.spend(encoded.len() / 4)?;
    cx.allocate(encoded.len().saturating_mul(2))?;
    let bytes = Standard.decode(encoded).map_err(|error| Fault::new(error.to_string()))?;
    let Some((vector, blocks)) = bytes.split_at_checked(BLOCK) else {
        let length = bytes.len();
        return Err(Fault::new(format!(
            "runtime error: slice bounds out of range [:{BLOCK}] with capacity {length}"
        )));
    };
    if blocks.len() % BLOCK != 0 {
        return Err(Fault::new("crypto/cipher: input not full blocks"));
    }
    let cipher = cipher(args.text(0).as_bytes());
    let mut plain = Vec::with_capacity(blocks.len());
    let mut previous = vector;
    for chunk in blocks.chunks_exact(BLOCK) {
        let mut block = <[u8; BLOCK]>::try_from(chunk).unwrap_or_default().into();
        cipher.decrypt_block(&mut block);
        let mut block: [u8; BLOCK] = block.into();
        xor(&mut block, previous);
        plain.extend(block);
        previous = chunk;
    }
    let Some(padding) = plain.last() else {
        return Err(Fault::new("runtime error: index out of range [-1]"));
    };
    let Some(length) = plain.len().checked_sub(usize::from(*padding)) else {
        return Err(Fault::new("runtime error: slice bounds out of range"));
    };
    plain.truncate(length);
    cx.bytes(plain)
}

const SITE_SEED: &[u8] = b"com.lyndir.masterpassword";

/// The Master Password algorithm: templates by password type.
fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

/// The characters one letter of a template stands for.
fn alphabet(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The bytes that scrypt takes with N = 2^15 and r = 8. It gives them back.
const SCRYPT_MEMORY: usize = 32 << 20;

/// About the time that it takes, without a look at the clock.
const SCRYPT_TIME: Duration = Duration::from_millis(200);

/// `derivePassword counter type password user site`
fn derive_password<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let counter = match args.get(0) {
        Val::Uint32(counter) => *counter,
        _ => 0,
    };
    let kind = args.str(1);
    let Some(templates) = templates(&kind) else {
        return cx.text(format!("cannot find password template {kind}"));
    };
    let (password, user, site) =
        (args.text(2).as_bytes(), args.text(3).as_bytes(), args.text(4).as_bytes());
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let left = cx.budget().bytes_left();
    if left < SCRYPT_MEMORY as u64 {
        return Err(Fault::new(format!(
            "derivePassword needs {SCRYPT_MEMORY} bytes of memory, and {left} bytes are left of the budget"
        )));
    }
    cx.budget().check_time_for(SCRYPT_TIME)?;
    cx.allocate(SCRYPT_MEMORY)?;
    cx.spend(4 << 20)?;
    let failed = |_| Fault::new("failed to derive password");
    let params = scrypt::Params::new(15, 8, 2).map_err(failed)?;
    let salt = [SITE_SEED, &length(user), user].concat();
    let mut key = [0; 64];
    scrypt::scrypt(password, &salt, &params, &mut key)
        .map_err(|_| Fault::new("failed to derive password"))?;
    cx.budget().release(SCRYPT_MEMORY);
    let mut mac = Hmac::<Sha256>::new_from_slice(&key)
        .map_err(|_| Fault::new("failed to derive password"))?;
    mac.update(&[SITE_SEED, &length(site), site, &counter.to_be_bytes()].concat());
    let seed = mac.finalize().into_bytes();
    let mut seed = seed.iter().map(|byte| usize::from(*byte));
    let choice = seed.next().unwrap_or(0) % templates.len();
    let template = templates.get(choice).copied().unwrap_or_default();
    let password = template.bytes().zip(seed).filter_map(|(class, byte)| {
        let alphabet = alphabet(class);
        alphabet.get(byte % alphabet.len()).copied().map(char::from)
    });
    cx.text(password.collect())
}
