//! Who may do what: roles, the rules that give them, and how callers are told
//! apart. Pure but for making tokens; knows nothing of gRPC, files or sockets.

mod caller;
mod file;
mod rules;
mod token;

pub use caller::{Book, Caller, admit};
pub use file::{FileError, parse};
pub use rules::{CertificateName, Identity, Role, Rule, Rules, Who};
pub use token::{Token, TokenHash};
