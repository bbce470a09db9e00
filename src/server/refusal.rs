//! Details of the errors that the server answers itself.

use std::collections::HashMap;

use tonic_types::ErrorDetails;

/// `ErrorInfo` as on all errors of the API.
pub(super) fn details(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, "evenkeel", HashMap::new())
}
