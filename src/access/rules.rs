//! Roles, the rules that grant them, and the callers that have them.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Deserialize;
use wildmatch::WildMatch;

use super::token::TokenHash;

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
