//! Default constraints from a file: a list of constraints, Evenkeel's own `DefaultConstraints`, or
//! kube-scheduler's configuration.

use serde_json::{Map, Value, json};

use super::document::for_each_document;
use super::error::ManifestError;
use super::item::{DEFAULT_CONSTRAINTS_KIND, text};
use super::lean::CompleteValue;
use super::source::{InputSource, expand};
use super::yaml;
use evenkeel_core::proto::v1::DefaultConstraints;

/// Kubernetes' own default constraints.
pub fn system_default_constraints() -> DefaultConstraints {
    DefaultConstraints {
        constraints: Vec::new(),
        system: true,
    }
}

/// Reads default constraints: `system` means Kubernetes' own, `none` means none, anything else
/// names a file (`-`: standard input) with one of
///
/// - a list of constraints,
/// - the arguments of PodTopologySpread: a map with `defaultConstraints`, or with `defaultingType:
///   System`,
/// - `DefaultConstraints` as `snapshot save` writes them,
/// - a `KubeSchedulerConfiguration`, in which at most one profile configures PodTopologySpread; if
///   none does, Kubernetes' own apply.
pub fn read_default_constraints(argument: &str) -> Result<DefaultConstraints, ManifestError> {
    match argument {
        "system" => return Ok(system_default_constraints()),
        "none" => return Ok(DefaultConstraints::default()),
        _ => {}
    }
    let mut documents = Vec::new();
    let sources = expand(&[argument.into()])?;
    for source in &sources {
        for_each_document(source, &mut |document| {
            documents.push((source, document));
            Ok(())
        })?;
    }
    documents.retain(|(_, document)| !document.is_null());
    match <[_; 1]>::try_from(documents) {
        Ok([(source, document)]) => decode(document, source),
        Err(documents) => Err(ManifestError::NotAnObject {
            place: argument.to_owned(),
            message: format!(
                "{} documents, where one with default constraints is needed",
                documents.len()
            ),
        }),
    }
}

/// Reads the default constraints in the YAML or JSON `text`, which is in `place`, in any of the
/// forms of [`read_default_constraints`].
pub fn default_constraints_in(
    text: &str,
    place: &str,
) -> Result<DefaultConstraints, ManifestError> {
    let source = InputSource::File(place.into());
    let document = serde_saphyr::from_str_with_options::<CompleteValue>(text, yaml::options());
    decode(
        document.map_err(|error| source.not_yaml(&error))?.0,
        &source,
    )
}

fn decode(document: Value, source: &InputSource) -> Result<DefaultConstraints, ManifestError> {
    let wrong = |message: String| ManifestError::NotAnObject {
        place: source.to_string(),
        message,
    };
    let arguments = match &document {
        Value::Array(_) => json!({ "defaultConstraints": document }),
        Value::Object(_) => match text(&document, "kind") {
            "KubeSchedulerConfiguration" => scheduler_arguments(&document).map_err(wrong)?,
            DEFAULT_CONSTRAINTS_KIND => return typed(document, "constraints", source),
            "" | "PodTopologySpreadArgs" => document,
            kind => return Err(wrong(format!("a {kind} has no default constraints"))),
        },
        _ => return Err(wrong("a plain value, not default constraints".to_owned())),
    };
    let list = arguments.get("defaultConstraints");
    let system = match arguments.get("defaultingType").and_then(Value::as_str) {
        Some("System") => true,
        Some("List") => false,
        None if list.is_some() => false,
        None => {
            let missing = "neither `defaultConstraints` nor `defaultingType: System` in it";
            return Err(wrong(missing.to_owned()));
        }
        Some(other) => {
            let message = format!("defaultingType: {other:?} is neither \"List\" nor \"System\"");
            return Err(wrong(message));
        }
    };
    let list = list.cloned().unwrap_or_else(|| json!([]));
    let decoded = json!({ "constraints": list, "system": system });
    typed(decoded, "defaultConstraints", source)
}

/// Decodes `DefaultConstraints`; `list_field` is the name of its list in the file.
fn typed(
    value: Value,
    list_field: &str,
    source: &InputSource,
) -> Result<DefaultConstraints, ManifestError> {
    serde_path_to_error::deserialize(value).map_err(|error| ManifestError::Field {
        place: source.to_string(),
        object: "default constraints".to_owned(),
        field: error
            .path()
            .to_string()
            .replacen("constraints", list_field, 1),
        message: error.inner().to_string(),
    })
}

/// The arguments of PodTopologySpread in the one profile that has them.
fn scheduler_arguments(configuration: &Value) -> Result<Value, String> {
    let profiles = configuration["profiles"].as_array();
    let plugins = profiles.into_iter().flatten();
    let plugins = plugins.flat_map(|profile| profile["pluginConfig"].as_array());
    let found: Vec<&Value> = plugins
        .flatten()
        .filter(|plugin| text(plugin, "name") == "PodTopologySpread")
        .map(|plugin| &plugin["args"])
        .collect();
    let mut arguments = match found[..] {
        [] | [Value::Null] => Map::new(),
        [Value::Object(arguments)] => arguments.clone(),
        [_] => return Err("the args of PodTopologySpread are not a map".to_owned()),
        _ => return Err("several profiles configure PodTopologySpread; leave one".to_owned()),
    };
    if !arguments.contains_key("defaultConstraints") && !arguments.contains_key("defaultingType") {
        arguments.insert("defaultingType".to_owned(), json!("System"));
    }
    Ok(Value::Object(arguments))
}
