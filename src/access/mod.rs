//! Decides which caller may do what: roles, the rules that grant them, and the identities of
//! callers. The code has no side effects and reads nothing, except that new tokens need random
//! bytes. It does not depend on gRPC, files or sockets.

mod rules;
mod token;

pub use rules::{
    AccessFileError, AccessRule, AccessRules, Caller, CallerIdentity, CertificateName, Role,
    RuleBook, Visitor, Whom, admit, parse,
};
pub use token::{Token, TokenHash};
