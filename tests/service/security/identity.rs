//! Callers of these tests: each has a token of its own name.

use evenkeel::access::TokenHash;

use crate::security::pki::Files;

/// The roles as the access file calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Reader,
    Feeder,
    Admin,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Feeder => "feeder",
            Self::Admin => "admin",
        }
    }
}

/// A rule: a token, its role, and the snapshots.
pub(crate) type TokenRule<'a> = (&'a str, Role, &'a [&'a str]);

/// The text of an access file with these rules.
pub(crate) fn access_text(rules: &[TokenRule<'_>]) -> String {
    let rule = |(token, role, snapshots): &TokenRule<'_>| {
        let hash = TokenHash::of(token);
        rule_text(&format!("token_sha256 = \"{hash}\""), *role, snapshots)
    };
    rules.iter().map(rule).collect()
}

/// One rule about `who`.
pub(crate) fn rule_text(who: &str, role: Role, snapshots: &[&str]) -> String {
    let role = role.name();
    format!("[[allow]]\n{who}\nrole = \"{role}\"\nsnapshots = {snapshots:?}\n")
}

/// Writes an access file with these rules.
pub(crate) fn access_file(files: &Files, rules: &[TokenRule<'_>]) -> String {
    files.write("access.toml", &access_text(rules))
}
