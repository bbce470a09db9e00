//! The callers that may change settings through the admin port. It has no authentication, so only
//! programs on the server's own machine may, and no page of a web site that is open in a browser
//! there.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, StatusCode};

/// A request from a program on the server's own machine. This is checked before the body of the
/// request is read.
pub(super) struct FromThisMachine;

/// A refusal, with its text.
type Forbidden = (StatusCode, &'static str);

impl<S: Sync> FromRequestParts<S> for FromThisMachine {
    type Rejection = Forbidden;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Forbidden> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let is_here = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        let forbid = |rule| Err((StatusCode::FORBIDDEN, rule));
        if !is_here {
            return forbid("the log level may only be set from the server's own machine\n");
        }
        let Some(host) = own_host(parts) else {
            return forbid("Host must be an IP address or localhost\n");
        };
        match header(parts, &ORIGIN) {
            Ok(None) => Ok(Self),
            Ok(Some(origin)) if origin.strip_prefix("http://") == Some(host.as_str()) => Ok(Self),
            _ => forbid("Origin must be that of this port\n"),
        }
    }
}

/// The authority that a request names, if it is an IP address or localhost. Any other name may
/// belong to a web site that makes it resolve to this machine.
fn own_host(parts: &Parts) -> Option<Authority> {
    let host: Authority = header(parts, &HOST).ok()??.parse().ok()?;
    let name = host.host();
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_address = address.unwrap_or(name).parse::<std::net::IpAddr>().is_ok();
    let is_own = is_address || name.eq_ignore_ascii_case("localhost");
    is_own.then_some(host)
}

/// The value of a header, if the request has it. An error if the request has several values, or a
/// value that is no text.
fn header<'r>(parts: &'r Parts, name: &HeaderName) -> Result<Option<&'r str>, ()> {
    let mut values = parts.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}
