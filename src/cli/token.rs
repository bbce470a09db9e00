//! `evenkeel token`: makes a bearer token, and the access rule that admits it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::exit::Exit;
use super::output;
use crate::access::{Role, Token};

/// Flags of `evenkeel token`.
#[derive(Debug, Args)]
#[command(after_help = "\
The rule goes to standard output. Add it to the server's --access-file, which holds only the token's
SHA-256. The token itself is shown once, on standard error or in --out.

Examples:
  evenkeel token --name scheduler --role reader --out scheduler.token >> access.toml
  evenkeel token --name feeder --role feeder --snapshot 'prod-*' >> access.toml
  EVENKEEL_TOKEN_FILE=scheduler.token evenkeel filter -f pod.yaml")]
pub(crate) struct MakeToken {
    /// Name of the caller in the server's logs
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Role of the caller
    #[arg(long, value_enum, default_value_t = Role::Reader)]
    role: Role,

    /// Snapshots; * stands for any text, ? for one character; repeatable
    #[arg(long = "snapshot", value_name = "PATTERN", default_value = "*")]
    snapshots: Vec<String>,

    /// Write the token to this new file, which only its owner can read
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl MakeToken {
    /// Makes a token, and prints its rule.
    pub(crate) fn run(self) -> Result<Exit> {
        let token = Token::generate()?;
        match &self.out {
            Some(path) => {
                write_secret(path, token.as_str())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            // This is the only copy of the token, so an error of writing ends the command.
            None => writeln!(anstream::stderr(), "token: {}", token.as_str())?,
        }
        output::print(&self.rule(&token))?;
        Ok(Exit::Success)
    }

    fn rule(&self, token: &Token) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let name = self.name.as_deref().map(quoted);
        let name = name.map_or(String::new(), |name| format!("name = {name}\n"));
        let snapshots: Vec<String> = self.snapshots.iter().map(|text| quoted(text)).collect();
        format!(
            "\n[[allow]]\n{name}token_sha256 = \"{}\"\nrole = \"{}\"\nsnapshots = [{}]\n",
            token.hash(),
            self.role,
            snapshots.join(", ")
        )
    }
}

fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
