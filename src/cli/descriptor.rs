//! `evenkeel admin descriptor`: writes the protocol's descriptor set, for clients that read it from
//! a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::exit::Exit;
use super::output;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// Flags of `evenkeel admin descriptor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel admin descriptor -o evenkeel.binpb
  grpcurl -plaintext -protoset evenkeel.binpb localhost:50051 \\
    evenkeel.v1.SpreadService/ListSnapshots
  ghz --insecure --protoset evenkeel.binpb --call evenkeel.v1.SpreadService/Filter \\
    -d '{\"pod\": {}}' localhost:50051")]
pub(crate) struct Descriptor {
    /// File to write; the default is standard output, unless it is a terminal
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
}

impl Descriptor {
    /// Writes a binary `google.protobuf.FileDescriptorSet`.
    pub(crate) fn run(self) -> Result<Exit> {
        if self.output == Path::new("-") {
            anyhow::ensure!(
                !std::io::stdout().is_terminal(),
                "the descriptor set is binary, and standard output is a terminal; name a file \
                 with -o FILE"
            );
            output::print_bytes(FILE_DESCRIPTOR_SET)?;
        } else {
            std::fs::write(&self.output, FILE_DESCRIPTOR_SET)
                .with_context(|| format!("writing {}", self.output.display()))?;
        }
        Ok(Exit::Success)
    }
}
