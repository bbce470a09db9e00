//! The process around the server: logging, the runtime and the exit code.

use std::process::ExitCode;
use std::sync::Arc;

use super::joining::Started;
use super::serve::serve;
use crate::kubernetes::FeedCounts;
use crate::server::config::{self, Config};
use crate::server::error::{BoxError, Error};
use crate::server::telemetry::logging;

/// Runs `evenkeel serve` to its end and returns the exit code: 0 after a drain, 1 when it cannot
/// serve, 64 when settings do not go together or `RUST_LOG` is bad, 130 or 143 when a second signal
/// cut the drain short. An error is one line on standard error, in the form of the log if that is
/// JSON.
///
/// See [`serve`] for `feeds` and `preload`. Logging must not have been started, and the
/// caller should exit at once: calls that did not end in time may still run.
pub fn run<P, F, E>(config: Config, feeds: Vec<Arc<FeedCounts>>, preload: P) -> ExitCode
where
    P: FnOnce(Started) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let format = config.log.log_format;
    if let Err(conflict) = config.check() {
        logging::fatal(format, &conflict);
        return ExitCode::from(config::BAD_CONFIGURATION);
    }
    let filter = config.log.log_level.as_deref();
    if let Err(error) = logging::init(format, filter) {
        logging::fatal(format, &error);
        return ExitCode::from(config::BAD_CONFIGURATION);
    }
    let served = tokio::runtime::Runtime::new()
        .map_err(Error::Runtime)
        .and_then(|runtime| {
            let served = runtime.block_on(serve(config, feeds, preload));
            // Work that did not end in time runs until the process exits: it would panic if it
            // outlived its runtime.
            std::mem::forget(runtime);
            served
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::fatal(format, &error);
            ExitCode::from(error.exit_code())
        }
    }
}
