//! The access file: TOML with an `[[allow]]` table for each rule.

use serde::Deserialize;
use wildmatch::WildMatch;

use super::rules::{AccessRule, AccessRules, Role, Whom};
use super::token::TokenHash;
use crate::toml_fault::TomlFault;

/// A fault in an access file.
#[derive(Debug, thiserror::Error)]
pub enum AccessFileError {
    /// The file is not TOML, or has keys or values that a rule does not have.
    #[error(transparent)]
    Syntax(TomlFault),
    /// The file has no rule. Without rules every call would be denied. A file that is still being
    /// written also looks like this.
    #[error("has no rule, which would deny everybody everything")]
    Empty,
    /// A rule makes no sense.
    #[error("allow[{index}]{field}: {fault}")]
    AccessRule {
        /// The index of the rule; the first is 0.
        index: usize,
        /// The rule's field with a dot before; empty for the rule as a whole.
        field: &'static str,
        /// The fault.
        fault: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default)]
    allow: Vec<WireRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    name: Option<String>,
    token_sha256: Option<String>,
    certificate: Option<String>,
    #[serde(default)]
    anyone: bool,
    role: Role,
    snapshots: Vec<String>,
}

/// Reads the text of an access file.
///
/// # Errors
/// The first fault.
pub fn parse(text: &str) -> Result<AccessRules, AccessFileError> {
    let wire: Wire = toml::from_str(text)
        .map_err(|error| AccessFileError::Syntax(TomlFault::new(text, &error)))?;
    if wire.allow.is_empty() {
        return Err(AccessFileError::Empty);
    }
    let rules = wire.allow.into_iter().enumerate();
    let rules = rules.map(|(index, wire)| {
        let fault = |(field, fault)| AccessFileError::AccessRule {
            index,
            field,
            fault,
        };
        rule(wire).map_err(fault)
    });
    Ok(AccessRules(rules.collect::<Result<_, _>>()?))
}

fn rule(wire: WireRule) -> Result<AccessRule, (&'static str, &'static str)> {
    let (who, label) = match (wire.token_sha256, wire.certificate, wire.anyone) {
        (Some(hash), None, false) => {
            let hash = TokenHash::parse(&hash);
            let hash = hash.ok_or((".token_sha256", "must be 64 hexadecimal digits"))?;
            if hash == TokenHash::of("") {
                return Err((".token_sha256", "must not be that of an empty token"));
            }
            // Eight digits are enough to distinguish tokens in a log.
            let label = format!("token {}", &hash.to_string()[..8]);
            (Whom::Token(hash), label)
        }
        (None, Some(name), false) if name.is_empty() => {
            return Err((".certificate", "must not be empty"));
        }
        (None, Some(name), false) => (Whom::Certificate(name.as_str().into()), name),
        (None, None, true) => (Whom::Anyone, "anyone".to_owned()),
        _ => {
            let fault = "must have exactly one of token_sha256, certificate and anyone = true";
            return Err(("", fault));
        }
    };
    if wire.snapshots.is_empty() {
        return Err((".snapshots", "must not be empty; [\"*\"] means all"));
    }
    Ok(AccessRule {
        name: wire.name.unwrap_or(label).into(),
        who,
        role: wire.role,
        snapshots: wire
            .snapshots
            .iter()
            .map(|names| WildMatch::new(names))
            .collect(),
    })
}
