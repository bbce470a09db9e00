//! Writes a synthetic cluster to standard output, as a file that `evenkeel load` takes.

use std::io;

use clap::Parser;
use support::synth::Flags;

fn main() -> io::Result<()> {
    Flags::parse().cluster().write_list(io::stdout().lock())
}
