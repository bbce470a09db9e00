//! Requests that their caller may repeat under an id, and that then get the same answer.

use prost::Message;
use ring::digest::{Context, SHA256, digest};
use tonic::Response;

use super::error::Error;
use super::request;
use crate::access::Caller;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, Reserving, Retryable, Snapshot};

/// Checks the id of a request.
pub fn check(wire: &v1::PlaceRequest, limits: &Limits, faults: &mut Violations) {
    let path = Path::root("requestId");
    request::check_length(&wire.request_id, path, limits, faults);
    if !wire.request_id.is_empty() && wire.reserve.is_none() {
        faults.add(
            path,
            "applies with reserve only: a plan can be asked for again",
        );
    }
}

/// Returns the identity by which a repeated `Place` request is recognised; `None` without an id.
pub fn retryable(wire: &v1::PlaceRequest, caller: Option<&Caller>) -> Option<Retryable> {
    let id = &wire.request_id;
    if id.is_empty() {
        return None;
    }
    let caller = caller.map_or(String::new(), |caller| caller.identity().to_string());
    let mut key = Context::new(&SHA256);
    key.update(&(caller.len() as u64).to_le_bytes());
    key.update(caller.as_bytes());
    key.update(id.as_bytes());
    // The snapshot keeps the hash, so its name is left out. A repetition may wait for another
    // revision.
    let question = v1::PlaceRequest {
        snapshot: String::new(),
        min_revision: 0,
        epoch: String::new(),
        min_resource_versions: Default::default(),
        ..wire.clone()
    };
    Some(Retryable {
        key: hash(key.finish().as_ref()),
        question: hash(digest(&SHA256, &question.encode_to_vec()).as_ref()),
    })
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(bytes);
    hash
}

/// The answer after reserving: the new answer, or the first answer with the current ids of its
/// reservations. A server that may have lost updates begins a new epoch, and ids belong to an
/// epoch.
///
/// # Errors
/// The id belongs to another request.
pub fn answer(
    snapshot: &Snapshot,
    reserving: Reserving<Response<v1::PlaceResponse>>,
) -> Result<Response<v1::PlaceResponse>, Error> {
    match reserving {
        Reserving::Done(answer) => Ok(answer),
        Reserving::Repeated(bytes) => {
            let kept = v1::PlaceResponse::decode(&*bytes);
            let mut kept = kept.map_err(|_| Error::Internal)?;
            for placement in &mut kept.placements {
                placement.reservation_id = snapshot.current_id(&placement.reservation_id);
            }
            Ok(Response::new(kept))
        }
        Reserving::KeyTaken => {
            let rule = "is the id of another request, which was answered already";
            Err(Error::fault(Path::root("requestId"), rule))
        }
    }
}
