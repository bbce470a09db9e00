//! Roles, and the rules that give them to callers.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use wildmatch::WildMatch;

use super::token::TokenHash;

/// What a caller may do with a snapshot. Each role may do what those before
/// it may.
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

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// Whoever has the token of this hash.
    Token(TokenHash),
    /// Whoever has a client certificate of this name.
    Certificate(Box<str>),
    /// Everybody, with or without credentials.
    Anyone,
}

/// One role on some snapshots, for one kind of caller.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What logs call the caller.
    pub name: Box<str>,
    /// Whom it is about.
    pub who: Who,
    /// The role that it gives.
    pub role: Role,
    /// The snapshots that it gives the role on: names in which `*` stands for
    /// any text and `?` for one character.
    pub snapshots: Vec<WildMatch>,
}

/// By what a caller is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// It sent a token of this hash.
    Token(TokenHash),
    /// It has a client certificate of these names.
    Certificate(Arc<[String]>),
    /// It showed nothing.
    Nobody,
}

impl Rule {
    fn is_about(&self, identity: &Identity) -> bool {
        match (&self.who, identity) {
            (Who::Anyone, _) => true,
            (Who::Token(rule), Identity::Token(caller)) => rule == caller,
            (Who::Certificate(rule), Identity::Certificate(names)) => {
                names.iter().any(|name| **name == **rule)
            }
            _ => false,
        }
    }
}

/// All rules. What none of them gives is denied.
#[derive(Debug, Clone, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// The name of a caller, if any rule is about it. All rules are looked at,
    /// so that the time taken does not tell which tokens there are.
    pub fn find(&self, identity: &Identity) -> Option<&str> {
        let mut found: Option<&Rule> = None;
        for rule in &self.0 {
            let is_better = rule.is_about(identity)
                && found.is_none_or(|other| other.who == Who::Anyone && rule.who != Who::Anyone);
            if is_better {
                found = Some(rule);
            }
        }
        // A wrong token is refused even where everybody may read: whoever sends
        // one is mistaken about something.
        let is_stranger =
            |rule: &&Rule| rule.who == Who::Anyone && matches!(identity, Identity::Token(_));
        found
            .filter(|rule| !is_stranger(rule))
            .map(|rule| &*rule.name)
    }

    /// Whether a caller has a role on any snapshot.
    pub fn allow_somewhere(&self, identity: &Identity, role: Role) -> bool {
        let gives = |rule: &Rule| rule.role >= role && !rule.snapshots.is_empty();
        self.0
            .iter()
            .any(|rule| gives(rule) && rule.is_about(identity))
    }

    /// Whether a caller has a role on a snapshot.
    pub fn allow(&self, identity: &Identity, role: Role, snapshot: &str) -> bool {
        self.0.iter().any(|rule| {
            rule.role >= role
                && rule.is_about(identity)
                && rule.snapshots.iter().any(|names| names.matches(snapshot))
        })
    }
}
