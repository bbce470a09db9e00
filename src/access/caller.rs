//! A caller, and the access rules that apply to it at present.

use std::sync::Arc;

use parking_lot::RwLock;

use super::rules::{AccessRules, CallerIdentity, Role};

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
