//! Roles, the rules that grant them, the access file that has the rules, and the callers that have
//! them. The file is TOML with an `[[allow]]` table for each rule.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Deserialize;
use wildmatch::WildMatch;

use super::token::TokenHash;
use crate::toml_fault::TomlFault;

/// The rights of a caller on a snapshot. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Asks questions and looks at what there is.
    Reader,
    /// Changes what a snapshot holds, reserves, and exports it.
    Feeder,
    /// Deletes and verifies snapshots.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reader => "reader",
            Self::Feeder => "feeder",
            Self::Admin => "admin",
        })
    }
}

/// The callers that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// The holder of the token with this hash.
    Token(TokenHash),
    /// The holder of a client certificate with this name. A name that begins with the scheme of a
    /// URI only means a URI.
    Certificate(Box<str>),
    /// Everybody, with or without credentials.
    Anyone,
}

/// One role on some snapshots, for one kind of caller.
#[derive(Debug, Clone)]
pub struct AccessRule {
    /// The name of the caller in logs.
    pub name: Box<str>,
    /// The callers that the rule names.
    pub who: Whom,
    /// The role that the rule grants.
    pub role: Role,
    /// The snapshots on which the role is granted. In these names `*` stands for any text and `?`
    /// for one character.
    pub snapshots: Vec<WildMatch>,
}

/// A name in a certificate, of a certain kind. The issuer vouches for each kind separately, so a
/// right to a DNS name does not imply a right to a URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// An alternative name that is a DNS name.
    Dns(Box<str>),
    /// An alternative name that is a URI.
    Uri(Box<str>),
    /// The common name of a certificate that has neither.
    Common(Box<str>),
}

impl CertificateName {
    /// Returns whether a rule with this text means the name. A text that begins with the scheme of
    /// a URI, such as `spiffe:`, only means a URI. Any other text never means a URI.
    fn is(&self, rule: &str) -> bool {
        let (name, is_uri) = match self {
            Self::Uri(name) => (name, true),
            Self::Dns(name) | Self::Common(name) => (name, false),
        };
        **name == *rule && is_uri == has_scheme(rule)
    }
}

/// Returns whether a text begins as a URI does: with a letter, letters, digits, `+`,
/// `-` or `.`, and a colon.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_allowed)
}

/// The identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallerIdentity {
    /// The caller sent a token with this hash.
    Token(TokenHash),
    /// The caller has a client certificate with these names.
    Certificate(Arc<[CertificateName]>),
    /// The caller sent no credentials.
    Nobody,
}

impl fmt::Display for CallerIdentity {
    /// Two different identities never have the same text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(hash) => write!(f, "token {hash}"),
            Self::Certificate(names) => write!(f, "certificate {names:?}"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl AccessRule {
    fn is_about(&self, identity: &CallerIdentity) -> bool {
        match (&self.who, identity) {
            (Whom::Anyone, _) => true,
            (Whom::Token(rule), CallerIdentity::Token(caller)) => rule == caller,
            (Whom::Certificate(rule), CallerIdentity::Certificate(names)) => {
                names.iter().any(|name| name.is(rule))
            }
            _ => false,
        }
    }
}

/// All access rules. A call that no rule allows is denied.
#[derive(Debug, Clone, Default)]
pub struct AccessRules(pub Vec<AccessRule>);

impl AccessRules {
    /// Returns the name of a caller if any rule matches it. All rules are checked, so that the time
    /// taken does not reveal which tokens exist.
    pub fn find(&self, identity: &CallerIdentity) -> Option<&str> {
        let rules = self.0.iter().filter(|rule| rule.is_about(identity));
        // A rule about this caller in particular comes before a rule about everybody.
        let found = rules.min_by_key(|rule| rule.who == Whom::Anyone)?;
        // A wrong token is refused even where everybody may read, because its sender expects the
        // rights of the token.
        let is_stranger = found.who == Whom::Anyone && matches!(identity, CallerIdentity::Token(_));
        (!is_stranger).then_some(&*found.name)
    }

    /// Returns whether a caller has a role on any snapshot.
    pub fn allow_somewhere(&self, identity: &CallerIdentity, role: Role) -> bool {
        let gives = |rule: &AccessRule| rule.role >= role && !rule.snapshots.is_empty();
        self.0
            .iter()
            .any(|rule| gives(rule) && rule.is_about(identity))
    }

    /// Returns whether a caller has a role on a snapshot.
    pub fn allow(&self, identity: &CallerIdentity, role: Role, snapshot: &str) -> bool {
        self.0.iter().any(|rule| {
            rule.role >= role
                && rule.is_about(identity)
                && rule.snapshots.iter().any(|names| names.matches(snapshot))
        })
    }
}

/// The rules of the access file as it was last read.
pub type RuleBook = RwLock<Arc<AccessRules>>;

/// Returns the caller with this identity, or `None` when no rule names it.
pub fn admit(book: &Arc<RuleBook>, identity: CallerIdentity) -> Option<Caller> {
    let rules = Arc::clone(&book.read());
    let name = rules.find(&identity)?;
    Some(Caller {
        name: name.into(),
        identity,
        book: Arc::clone(book),
    })
}

/// A caller that a rule names. Its rights are looked up each time, so an open stream loses a right
/// as soon as its rule is removed.
#[derive(Debug, Clone)]
pub struct Caller {
    name: Arc<str>,
    identity: CallerIdentity,
    book: Arc<RuleBook>,
}

impl Caller {
    /// Returns the caller's name in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the caller's identity.
    pub fn identity(&self) -> &CallerIdentity {
        &self.identity
    }

    /// Returns whether the caller has a role on any snapshot at present.
    pub fn may_somewhere(&self, role: Role) -> bool {
        self.book.read().allow_somewhere(&self.identity, role)
    }

    /// Returns whether the caller has a role on a snapshot at present.
    pub fn may(&self, role: Role, snapshot: &str) -> bool {
        self.book.read().allow(&self.identity, role, snapshot)
    }
}

/// The caller of a call, where callers are identified; `None` if no rule names it, and the service is
/// open to everybody.
#[derive(Debug, Clone)]
pub struct Visitor(pub Option<Caller>);

impl Visitor {
    /// Returns whether the visitor may know of a snapshot.
    pub fn may_see(&self, snapshot: &str) -> bool {
        let caller = self.0.as_ref();
        caller.is_some_and(|caller| caller.may(Role::Reader, snapshot))
    }
}

/// A fault in an access file, and where it is.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AccessFileError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default)]
    allow: Vec<WireRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    name: Option<String>,
    token_sha256: Option<String>,
    certificate: Option<String>,
    #[serde(default)]
    anyone: bool,
    role: Role,
    snapshots: Vec<String>,
}

/// Reads the text of an access file.
///
/// # Errors
/// The first fault.
pub fn parse(text: &str) -> Result<AccessRules, AccessFileError> {
    let told = |fault: TomlFault| AccessFileError(fault.to_string());
    let wire: Wire = toml::from_str(text).map_err(|error| told(TomlFault::new(text, &error)))?;
    if wire.allow.is_empty() {
        // A file that is still being written also looks like this.
        let fault = "has no rule, which would deny everybody everything";
        return Err(AccessFileError(fault.to_owned()));
    }
    let rules = wire.allow.into_iter().enumerate();
    let rules = rules.map(|(index, wire)| {
        let told = |(field, fault)| AccessFileError(format!("allow[{index}]{field}: {fault}"));
        rule(wire).map_err(told)
    });
    Ok(AccessRules(rules.collect::<Result<_, _>>()?))
}

/// Returns a rule.
///
/// # Errors
/// The field with a dot before, or nothing for the rule as a whole, and its fault.
fn rule(wire: WireRule) -> Result<AccessRule, (&'static str, &'static str)> {
    let (who, label) = match (wire.token_sha256, wire.certificate, wire.anyone) {
        (Some(hash), None, false) => {
            let hash = TokenHash::parse(&hash);
            let hash = hash.ok_or((".token_sha256", "must be 64 hexadecimal digits"))?;
            if hash == TokenHash::of("") {
                return Err((".token_sha256", "must not be that of an empty token"));
            }
            // Eight digits are enough to distinguish tokens in a log.
            let label = format!("token {}", &hash.to_string()[..8]);
            (Whom::Token(hash), label)
        }
        (None, Some(name), false) if name.is_empty() => {
            return Err((".certificate", "must not be empty"));
        }
        (None, Some(name), false) => (Whom::Certificate(name.as_str().into()), name),
        (None, None, true) => (Whom::Anyone, "anyone".to_owned()),
        _ => {
            let fault = "must have exactly one of token_sha256, certificate and anyone = true";
            return Err(("", fault));
        }
    };
    if wire.snapshots.is_empty() {
        return Err((".snapshots", "must not be empty; [\"*\"] means all"));
    }
    Ok(AccessRule {
        name: wire.name.unwrap_or(label).into(),
        who,
        role: wire.role,
        snapshots: wire
            .snapshots
            .iter()
            .map(|names| WildMatch::new(names))
            .collect(),
    })
}
