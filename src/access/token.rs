//! Makes bearer tokens, and hashes them for storage.

use std::fmt;
use std::hash::{Hash, Hasher};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// The start of every token. People, and scanners for leaked secrets, recognize a token by it.
const PREFIX: &str = "evk_";

/// The number of random bytes in a token. 256 random bits cannot be guessed, so a plain hash is
/// enough. Slow hashes are for passwords that people choose.
const RANDOM_BYTES: usize = 32;

/// A bearer token in clear text. It is shown once, when it is made.
pub struct Token(String);

/// The error for a system that gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

impl Token {
    /// Makes a new token.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; RANDOM_BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| NoRandomness)?;
        Ok(Self(format!("{PREFIX}{}", HEXLOWER.encode(&bytes))))
    }

    /// Returns the token in the form that clients send.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash of the token, which is the stored form.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// The SHA-256 of a token. Two hashes are compared in constant time.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Computes the hash of a token.
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    /// Reads a hash from 64 hexadecimal digits, the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl Hash for TokenHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_sha256_and_read_back() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_string(), abc);
        assert_eq!(TokenHash::parse(abc), Some(TokenHash::of("abc")));
        let upper = TokenHash::parse(&abc.to_uppercase());
        assert_eq!(upper, Some(TokenHash::of("abc")));
        for bad in [
            "",
            "ab",
            &abc[1..],
            &abc.replace('b', "g"),
            &abc.replace("ba", "é"),
        ] {
            assert_eq!(TokenHash::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn no_two_tokens_are_alike() {
        let make = || Token::generate().expect("randomness");
        let (one, two) = (make(), make());
        assert_ne!(one.as_str(), two.as_str());
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.as_str().len(), PREFIX.len() + 2 * RANDOM_BYTES);
    }
}
