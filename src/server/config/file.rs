//! Settings from a TOML file, as the defaults of the flags they name.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::Value;

use crate::toml_fault::TomlFault;

/// A fault in a settings file, and where it is.
#[derive(Debug, thiserror::Error)]
#[error("config file {}: {fault}", path.display())]
pub struct SettingsFileError {
    path: PathBuf,
    fault: String,
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

fn apply(mut command: Command, path: &Path) -> Result<Command, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| TomlFault::new(&text, &error).to_string())?;
    for (key, value) in &table {
        // The file's own path is no setting.
        let arg = command.get_arguments().find(|arg| {
            let flag = arg.get_long().filter(|flag| *flag != "config");
            flag.is_some_and(|flag| flag == key.replace('_', "-"))
        });
        let arg = arg.cloned().ok_or_else(|| format!("unknown key {key}"))?;
        let values = match value {
            Value::Array(items) if matches!(arg.get_action(), ArgAction::Append) => {
                let items = items.iter().map(|item| scalar(key, item));
                items.collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![scalar(key, value)?],
        };
        check(&arg, key, &values)?;
        command = command.mut_arg(arg.get_id(), |arg| arg.default_values(values));
    }
    Ok(command)
}

/// The text that the flag's parser would be given on the command line.
fn scalar(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => Err(format!(
            "{key}: expected a single value, found {}",
            value.type_str()
        )),
    }
}

/// Runs each value through the flag's own parser.
fn check(arg: &Arg, key: &str, values: &[String]) -> Result<(), String> {
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

fn invalid(key: &str, value: &str, reason: &str) -> String {
    format!("{key}: invalid value {value:?}: {reason}")
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
