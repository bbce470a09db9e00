//! A caller, and the rules in force for it.

use std::sync::Arc;

use parking_lot::RwLock;

use super::rules::{AccessRules, CallerIdentity, Role};

/// The rules in force: those of the file as it was last read.
pub type RuleBook = RwLock<Arc<AccessRules>>;

/// The caller with this identity; `None` when no rule is about it.
pub fn admit(book: &Arc<RuleBook>, identity: CallerIdentity) -> Option<Caller> {
    let rules = Arc::clone(&book.read());
    let name = rules.find(&identity)?;
    Some(Caller {
        name: name.into(),
        identity,
        book: Arc::clone(book),
    })
}

/// A caller that a rule is about. What it may do is looked up each time, so an
/// open stream loses a right as soon as its rule is removed.
#[derive(Debug, Clone)]
pub struct Caller {
    name: Arc<str>,
    identity: CallerIdentity,
    book: Arc<RuleBook>,
}

impl Caller {
    /// Returns what logs call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how it is identified.
    pub fn identity(&self) -> &CallerIdentity {
        &self.identity
    }

    /// Returns whether it has a role on any snapshot, now.
    pub fn may_somewhere(&self, role: Role) -> bool {
        self.book.read().allow_somewhere(&self.identity, role)
    }

    /// Returns whether it has a role on a snapshot, now.
    pub fn may(&self, role: Role, snapshot: &str) -> bool {
        self.book.read().allow(&self.identity, role, snapshot)
    }
}
