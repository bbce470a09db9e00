//! The decision log of the real server: its lines and files, decisions that go on whatever happens
//! to it, and replays.

mod files;
mod full_disk;
mod logging;
mod replay;
mod written;

use support::{metrics, process};
