//! Identifies callers before their calls are read. `api`, which knows the snapshots, decides what
//! each may do.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request};
use tracing::debug;

use super::turns::CallTurns;
use crate::access::{
    self, AccessRules, Caller, CallerIdentity, CertificateName, Role, RuleBook, TokenHash,
};
use crate::api;
use crate::server::error::BoxError;

/// The rules in the contents of the access file at `path`.
///
/// # Errors
/// The fault of the contents.
pub fn parse_rules(path: &Path, contents: &[u8]) -> Result<AccessRules, BoxError> {
    let told = |fault: &dyn std::fmt::Display| format!("access-file {}: {fault}", path.display());
    let text = std::str::from_utf8(contents).map_err(|error| told(&error))?;
    Ok(access::parse(text).map_err(|error| told(&error))?)
}

/// The peer of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The peer's address.
    pub address: SocketAddr,
    /// The names of its certificate, if it has one that was verified.
    pub certificate: Option<Arc<[CertificateName]>>,
    /// Lets calls begin.
    pub turns: Arc<CallTurns>,
}

/// Admits only callers that an access rule names.
#[derive(Clone)]
pub struct Guard(pub Arc<RuleBook>);

impl Guard {
    /// Puts the caller into its request.
    ///
    /// # Errors
    /// When no rule names the caller.
    pub fn identify<B>(&self, request: &mut Request<B>, peer: &Peer) -> Result<(), api::Error> {
        match self.caller(request, peer) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Ok(())
            }
            Err(why) => {
                debug!(address = %peer.address, why, "refused a caller");
                Err(api::Error::Unauthenticated(why))
            }
        }
    }

    /// Puts the caller, if it is known, into a request of a service that is
    /// open to everybody.
    pub fn greet<B>(&self, request: &mut Request<B>, peer: &Peer) {
        let visitor = Visitor(self.caller(request, peer).ok());
        request.extensions_mut().insert(visitor);
    }

    /// The caller of a request, or the reason why no rule matches it.
    fn caller<B>(&self, request: &Request<B>, peer: &Peer) -> Result<Caller, &'static str> {
        let identity = identify(request.headers(), peer.certificate.clone())?;
        access::admit(&self.0, identity).ok_or(UNKNOWN)
    }
}

/// The caller of a service that is open to everybody, where callers are
/// identified.
#[derive(Debug, Clone)]
pub struct Visitor(Option<Caller>);

impl Visitor {
    /// Returns whether the visitor may know of a snapshot.
    pub fn may_see(&self, snapshot: &str) -> bool {
        let caller = self.0.as_ref();
        caller.is_some_and(|caller| caller.may(Role::Reader, snapshot))
    }
}

const UNKNOWN: &str = "no rule of the access file is about these credentials";

/// Returns the identity of a caller: its token if it sends one, else its certificate.
fn identify(
    headers: &HeaderMap,
    names: Option<Arc<[CertificateName]>>,
) -> Result<CallerIdentity, &'static str> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = sent.next() else {
        return Ok(names.map_or(CallerIdentity::Nobody, CallerIdentity::Certificate));
    };
    if sent.next().is_some() {
        return Err("authorization is sent more than once");
    }
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    });
    let token = token.ok_or("authorization must be \"Bearer TOKEN\"")?;
    Ok(CallerIdentity::Token(TokenHash::of(token)))
}
