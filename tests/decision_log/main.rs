//! The decision log of the real server: what it says, that it never gets in
//! the way, and that a replay finds what differs.

mod files;
mod full_disk;
mod logging;
mod replay;
mod written;

use support::{metrics, process};
