//! Decides which caller may do what: roles, the rules that grant them, and the identities of
//! callers. The code has no side effects and reads nothing, except that new tokens need random
//! bytes. It does not depend on gRPC, files or sockets.

mod caller;
mod file;
mod rules;
mod token;

pub use caller::{Caller, RuleBook, admit};
pub use file::{AccessFileError, parse};
pub use rules::{AccessRule, AccessRules, CallerIdentity, CertificateName, Role, Whom};
pub use token::{Token, TokenHash};
