//! Default constraints from a file: a list of constraints, or kube-scheduler's configuration.

use serde_json::{Value, json};

use super::item::{prune, text};
use super::source::{self, InputSource, ManifestError};
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
/// - a `KubeSchedulerConfiguration`, in which at most one profile configures PodTopologySpread; if
///   none does, Kubernetes' own apply.
pub fn read_default_constraints(argument: &str) -> Result<DefaultConstraints, ManifestError> {
    match argument {
        "system" => return Ok(system_default_constraints()),
        "none" => return Ok(DefaultConstraints::default()),
        _ => {}
    }
    let source = InputSource::of_argument(argument.as_ref());
    decode_text(&source.read_to_string()?, &source)
}

/// Reads the default constraints in the YAML or JSON `text`, which is in `place`, in any of the
/// forms of [`read_default_constraints`].
pub fn default_constraints_in(
    text: &str,
    place: &str,
) -> Result<DefaultConstraints, ManifestError> {
    decode_text(text, &InputSource::File(place.into()))
}

fn decode_text(text: &str, source: &InputSource) -> Result<DefaultConstraints, ManifestError> {
    // YAML takes in JSON.
    let document = serde_saphyr::from_str_with_options::<Value>(text, source::options());
    let mut document = document.map_err(|error| source.not_yaml(&error))?;
    prune(&mut document, true);
    decode(document, source)
}

fn decode(document: Value, source: &InputSource) -> Result<DefaultConstraints, ManifestError> {
    let wrong = |message: String| ManifestError::NotAnObject {
        place: source.to_string(),
        message,
    };
    let arguments = match text(&document, "kind") {
        "KubeSchedulerConfiguration" => scheduler_arguments(&document).map_err(wrong)?,
        _ if document.is_array() => json!({ "defaultConstraints": document }),
        _ => {
            let want = "neither a KubeSchedulerConfiguration nor a list of constraints";
            return Err(wrong(want.to_owned()));
        }
    };
    let list = &arguments["defaultConstraints"];
    let system = match text(&arguments, "defaultingType") {
        "System" => true,
        "List" => false,
        "" => list.is_null(),
        other => {
            let message = format!("defaultingType: {other:?} is neither \"List\" nor \"System\"");
            return Err(wrong(message));
        }
    };
    let list = match list {
        Value::Null => json!([]),
        list => list.clone(),
    };
    let decoded = json!({ "constraints": list, "system": system });
    serde_path_to_error::deserialize(decoded).map_err(|error| {
        let field = error.path().to_string();
        ManifestError::Field {
            place: source.to_string(),
            object: "default constraints".to_owned(),
            field: field.replacen("constraints", "defaultConstraints", 1),
            message: error.inner().to_string(),
        }
    })
}

/// The arguments of PodTopologySpread in the one profile that has them; null if none has.
fn scheduler_arguments(configuration: &Value) -> Result<Value, String> {
    let profiles = configuration["profiles"].as_array();
    let plugins = profiles.into_iter().flatten();
    let plugins = plugins.flat_map(|profile| profile["pluginConfig"].as_array());
    let found: Vec<&Value> = plugins
        .flatten()
        .filter(|plugin| text(plugin, "name") == "PodTopologySpread")
        .map(|plugin| &plugin["args"])
        .collect();
    match found[..] {
        [] => Ok(Value::Null),
        [arguments @ (Value::Object(_) | Value::Null)] => Ok(arguments.clone()),
        [_] => Err("the args of PodTopologySpread are not a map".to_owned()),
        _ => Err("several profiles configure PodTopologySpread; leave one".to_owned()),
    }
}
