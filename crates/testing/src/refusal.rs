//! What a refusal says to programs: its reason, the limit that was reached and the fields that are at fault.

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The reason, e.g. `STORAGE_FULL`.
pub fn reason(status: &Status) -> Option<String> {
    Some(status.get_details_error_info()?.reason)
}

/// The limit that the refusal names.
pub fn limit(status: &Status) -> Option<String> {
    metadata(status, "limit")
}

/// Another detail, by its key.
pub fn metadata(status: &Status, key: &str) -> Option<String> {
    let mut info = status.get_details_error_info()?;
    info.metadata.remove(key)
}

/// The fields that are at fault.
pub fn fields(status: &Status) -> Vec<String> {
    let faults = status.get_details_bad_request();
    let faults = faults.into_iter().flat_map(|it| it.field_violations);
    faults.map(|fault| fault.field).collect()
}

/// The code with which a call ended.
pub fn code<T>(answer: Result<T, Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}
