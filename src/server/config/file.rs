//! Settings from a TOML file, as the defaults of the flags they name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::Value;

/// A fault in a settings file, and where it is.
#[derive(Debug, thiserror::Error)]
#[error("config file {}: {fault}", path.display())]
pub struct SettingsFileError {
    path: PathBuf,
    fault: FileFault,
}

#[derive(Debug, thiserror::Error)]
enum FileFault {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("line {line}: {message}")]
    Syntax { line: usize, message: String },
    #[error("unknown key {key}{hint}")]
    UnknownKey { key: String, hint: String },
    #[error("{key} is set twice, as {first} and as {second}")]
    SetTwice {
        key: String,
        first: String,
        second: String,
    },
    #[error("{key}: expected {expected}, found {found}")]
    WrongType {
        key: String,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{key}: invalid value {value:?}: {reason}")]
    Invalid {
        key: String,
        value: String,
        reason: String,
    },
}

/// Makes the settings in the file at `path` the defaults of the flags of
/// `command`'s subcommand `subcommand`, so that flags and environment
/// variables win over them.
///
/// A key is a flag's long name, in snake_case or kebab-case. A flag that can
/// be repeated takes an array or a single value. Values are checked here, by
/// the flag's own parser, so that errors can name the file and the key.
pub fn apply_file(
    command: Command,
    subcommand: &str,
    path: &Path,
) -> Result<Command, SettingsFileError> {
    let known = command
        .find_subcommand(subcommand)
        .cloned()
        .unwrap_or_default();
    let changed = apply(known, path).map_err(|fault| SettingsFileError {
        path: path.to_owned(),
        fault,
    })?;
    Ok(command.mut_subcommand(subcommand, |_| changed))
}

fn apply(mut command: Command, path: &Path) -> Result<Command, FileFault> {
    let text = fs::read_to_string(path)?;
    let table: toml::Table = text.parse().map_err(|error| syntax(&text, &error))?;
    let mut seen = BTreeMap::new();
    for (key, value) in &table {
        let arg = find(&command, key)?.clone();
        let name = snake_case(key);
        if let Some(first) = seen.insert(name.clone(), key) {
            return Err(FileFault::SetTwice {
                key: name,
                first: first.into(),
                second: key.into(),
            });
        }
        let takes_many = matches!(arg.get_action(), ArgAction::Append);
        let values = values(key, value, takes_many)?;
        check(&arg, key, &values)?;
        command = command.mut_arg(arg.get_id(), |arg| arg.default_values(values));
    }
    Ok(command)
}

fn syntax(text: &str, error: &toml::de::Error) -> FileFault {
    let start = error.span().map_or(0, |span| span.start);
    FileFault::Syntax {
        line: text[..start].matches('\n').count() + 1,
        message: error.message().replace('\n', ", "),
    }
}

/// The flag that `key` means. The file's own path is no setting.
fn find<'c>(command: &'c Command, key: &str) -> Result<&'c Arg, FileFault> {
    let flag = key.replace('_', "-");
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(&flag) && flag != "config")
        .ok_or_else(|| FileFault::UnknownKey {
            key: key.into(),
            hint: hint(command, &flag),
        })
}

/// ", did you mean max_nodes?" when a flag is close to `flag`.
fn hint(command: &Command, flag: &str) -> String {
    let attempt = command
        .clone()
        .no_binary_name(true)
        .try_get_matches_from([format!("--{flag}")]);
    match attempt.map_err(|error| error.get(ContextKind::SuggestedArg).cloned()) {
        Err(Some(ContextValue::String(close))) => {
            let close = close.split_whitespace().next().unwrap_or_default();
            format!(
                ", did you mean {}?",
                snake_case(close.trim_start_matches('-'))
            )
        }
        _ => String::new(),
    }
}

/// The texts that the flag's parser would be given on the command line.
fn values(key: &str, value: &Value, many: bool) -> Result<Vec<String>, FileFault> {
    match value {
        Value::Array(items) if many => items.iter().map(|item| scalar(key, item)).collect(),
        _ => Ok(vec![scalar(key, value)?]),
    }
}

fn scalar(key: &str, value: &Value) -> Result<String, FileFault> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => Err(FileFault::WrongType {
            key: key.into(),
            expected: "a single value",
            found: value.type_str(),
        }),
    }
}

/// Runs each value through the flag's own parser.
fn check(arg: &Arg, key: &str, values: &[String]) -> Result<(), FileFault> {
    if !arg.get_action().takes_values() {
        return match values {
            [value] if value == "true" || value == "false" => Ok(()),
            _ => Err(invalid(key, &values.join(","), "expected true or false")),
        };
    }
    let flag = arg.get_long().unwrap_or_default();
    for value in values {
        Command::new("check")
            .no_binary_name(true)
            .arg(arg.clone())
            .try_get_matches_from([format!("--{flag}={value}")])
            .map_err(|error| invalid(key, value, &reason(&error)))?;
    }
    Ok(())
}

fn invalid(key: &str, value: &str, reason: &str) -> FileFault {
    FileFault::Invalid {
        key: key.into(),
        value: value.into(),
        reason: reason.into(),
    }
}

/// The reason why clap refused a value, without the flag's name.
fn reason(error: &clap::Error) -> String {
    if let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) {
        return format!("expected one of {}", valid.join(", "));
    }
    match (error.kind(), std::error::Error::source(error)) {
        (ErrorKind::ValueValidation, Some(source)) => source.to_string(),
        _ => "a value is needed".into(),
    }
}

fn snake_case(name: &str) -> String {
    name.replace('-', "_")
}
