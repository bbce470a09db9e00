//! The lint rules about fields as they are written: unknown names, wrong places, and types that an
//! API server refuses.
//!
//! `kubernetes.proto` defines the fields of a constraint and their types.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use serde_json::Value;

use super::finding::Said;
use super::rule::LintRule;
use crate::manifest::{Template, TemplateObject};
use crate::misspelt::did_you_mean;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// The name of the field with the constraints.
const CONSTRAINTS: &str = "topologySpreadConstraints";

/// The field with the owners of fields of an object. Its keys are names of fields, which are not
/// constraints.
const MANAGED_FIELDS: &str = "managedFields";

/// The messages of the protocol, by full name.
static MESSAGES: LazyLock<HashMap<String, DescriptorProto>> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET);
    let files = files.expect("the descriptor set is what the compiler wrote");
    let messages = files.file.into_iter().flat_map(|file| {
        let package = file.package.unwrap_or_default();
        let named =
            move |message: DescriptorProto| (format!(".{package}.{}", message.name()), message);
        file.message_type.into_iter().map(named)
    });
    messages.collect()
});

/// Finds constraints of an object that are at a wrong place or have a misspelt name.
pub(super) fn misplaced(object: &TemplateObject) -> Vec<Said> {
    let mut said = Vec::new();
    let mut path = String::new();
    look_for_constraints(&object.value, &mut path, object, &mut said);
    said
}

/// Searches `value`, whose path is `path`. The path is a shared buffer, because most paths are
/// never needed.
fn look_for_constraints(
    value: &Value,
    path: &mut String,
    object: &TemplateObject,
    said: &mut Vec<Said>,
) {
    let end = path.len();
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if !(value.is_object() || value.is_array()) || key == MANAGED_FIELDS {
                    continue;
                }
                if is_like_constraints(key) {
                    said.extend(judge(path, key, object));
                    continue;
                }
                let dot = if end == 0 { "" } else { "." };
                path.extend([dot, key]);
                look_for_constraints(value, path, object, said);
                path.truncate(end);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                look_for_constraints(item, path, object, said);
                path.truncate(end);
            }
        }
        _ => {}
    }
}

fn is_like_constraints(key: &str) -> bool {
    let start = key.get(.."topologyspread".len());
    start.is_some_and(|start| start.eq_ignore_ascii_case("topologyspread"))
        || did_you_mean(key, [CONSTRAINTS]).is_some()
}

/// Returns the fault of the field `key` under `parent`, which looks like constraints.
fn judge(parent: &str, key: &str, object: &TemplateObject) -> Option<Said> {
    let specs = object.templates.iter().map(|path| object.spec_of(path));
    let specs: Vec<String> = specs.collect();
    let (rule, message) = if specs.iter().any(|spec| spec == parent) {
        if key == CONSTRAINTS {
            return None;
        }
        let message = format!("unknown field {key}: did you mean {CONSTRAINTS}?");
        (LintRule::UnknownField, message)
    } else {
        // A custom resource may have its own fields of this name.
        let is_around = |spec: &&String| spec.starts_with(&format!("{parent}."));
        let around = specs.iter().find(is_around);
        if around.is_none() && !object.is_built_in() {
            return None;
        }
        let right = around.or(specs.first())?;
        let of = match parent {
            "" => "the object itself",
            parent => parent,
        };
        let message =
            format!("{key} of {of} is not read: {CONSTRAINTS} has to be a field of {right}");
        (LintRule::MisplacedConstraints, message)
    };
    let dot = if parent.is_empty() { "" } else { "." };
    Some(Said {
        rule,
        field: format!("{parent}{dot}{key}"),
        message,
    })
}

/// Finds fields of the constraints of a template that are unknown or have a wrong type.
pub(super) fn odd(template: &Template) -> Vec<Said> {
    let path = template.field(&format!("spec.{CONSTRAINTS}"));
    let mut said = Vec::new();
    match template.written_constraints() {
        None => {}
        Some(Value::Array(constraints)) => {
            for (index, constraint) in constraints.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let message = ".evenkeel.v1.TopologySpreadConstraint";
                check_message(constraint, message, path, &mut said);
            }
        }
        Some(other) => said.push(wrong_type(path, "a list", other)),
    }
    said
}

fn check_message(value: &Value, message: &str, path: String, said: &mut Vec<Said>) {
    let Some(message) = MESSAGES.get(message) else {
        return;
    };
    let Value::Object(fields) = value else {
        said.push(wrong_type(path, "a map", value));
        return;
    };
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match message.field.iter().find(|field| field.json_name() == name) {
            Some(field) => check_field(value, field, message, path, said),
            None => {
                let known = message.field.iter().map(FieldDescriptorProto::json_name);
                said.push(Said {
                    rule: LintRule::UnknownField,
                    field: path,
                    message: match did_you_mean(name, known) {
                        Some(close) => format!("unknown field {name}: did you mean {close}?"),
                        None => format!("unknown field {name}"),
                    },
                });
            }
        }
    }
}

fn check_field(
    value: &Value,
    field: &FieldDescriptorProto,
    message: &DescriptorProto,
    path: String,
    said: &mut Vec<Said>,
) {
    let is_map = message.nested_type.iter().any(|nested| {
        let is_entry = nested.options.as_ref().is_some_and(|o| o.map_entry());
        is_entry && field.type_name().ends_with(&format!(".{}", nested.name()))
    });
    let is_list = !is_map && field.label() == Label::Repeated;
    match value {
        Value::Object(pairs) if is_map => {
            for (key, value) in pairs.iter().filter(|(_, value)| !value.is_string()) {
                said.push(wrong_type(format!("{path}.{key}"), "a string", value));
            }
        }
        other if is_map => said.push(wrong_type(path, "a map", other)),
        Value::Array(items) if is_list => {
            for (index, item) in items.iter().enumerate() {
                check_single(item, field, format!("{path}[{index}]"), said);
            }
        }
        other if is_list => said.push(wrong_type(path, "a list", other)),
        value => check_single(value, field, path, said),
    }
}

fn check_single(value: &Value, field: &FieldDescriptorProto, path: String, said: &mut Vec<Said>) {
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match field.r#type() {
        Type::Message => check_message(value, field.type_name(), path, said),
        Type::Int32 if !is_whole() => said.push(wrong_type(path, "an integer", value)),
        Type::String if !value.is_string() => said.push(wrong_type(path, "a string", value)),
        _ => {}
    }
}

fn wrong_type(field: String, expected: &str, found: &Value) -> Said {
    let found = match found {
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        plain => plain.to_string(),
    };
    let name = field.rsplit('.').next().unwrap_or_default();
    Said {
        rule: LintRule::Invalid,
        message: format!("{name} must be {expected}, not {found}"),
        field,
    }
}
