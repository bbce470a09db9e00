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

use super::finding::{LintRule, Said};
use crate::manifest::{CONSTRAINTS, Template, TemplateObject};
use crate::misspelt::did_you_mean;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

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

/// Finds what is written wrongly in a template, without reading its pod: constraints at a wrong
/// place, and fields that are unknown.
pub(crate) fn written_wrongly(template: &Template) -> Vec<Said> {
    let mut said = misplaced(template);
    said.extend(odd(template));
    said
}

/// Finds constraints of the object of a template that are at a wrong place or have a misspelt name.
/// Of an object with several templates, the first finds them.
pub(super) fn misplaced(template: &Template) -> Vec<Said> {
    let mut said = Vec::new();
    let object = &template.object;
    let is_first = object.templates.first() == Some(&template.place);
    // A chart may have a value of any name.
    if !is_first || template.is_custom() && template.unsaid().fields {
        return said;
    }
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
    let mut check = FieldCheck {
        template,
        around: Vec::new(),
        said: Vec::new(),
    };
    match template.written_constraints() {
        None => {}
        Some(Value::Array(constraints)) => {
            for (index, constraint) in constraints.iter().enumerate() {
                let path = format!("{path}[{index}]");
                check.message(constraint, ".evenkeel.v1.TopologySpreadConstraint", path);
            }
        }
        Some(other) => check.said.push(wrong_type(path, "a list", other)),
    }
    check.said
}

/// A message whose fields are checked, and the name of the field that has it.
struct Around {
    message: &'static DescriptorProto,
    field: String,
}

/// A check of the fields of constraints.
struct FieldCheck<'t> {
    template: &'t Template,
    /// The messages around the one that is checked, the innermost last.
    around: Vec<Around>,
    said: Vec<Said>,
}

impl FieldCheck<'_> {
    fn message(&mut self, value: &Value, message: &str, path: String) {
        let Some(message) = MESSAGES.get(message) else {
            return;
        };
        let Value::Object(fields) = value else {
            self.said.push(wrong_type(path, "a map", value));
            return;
        };
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            match field_of(message, name) {
                Some(field) => {
                    self.around.push(Around {
                        message,
                        field: name.clone(),
                    });
                    self.field(value, field, message, path);
                    self.around.pop();
                }
                None if self.is_of_others(name, message, value) => {}
                None => self.said.push(Said {
                    rule: LintRule::UnknownField,
                    field: path,
                    message: format!("unknown field {name}{}", self.meant(name, value, message)),
                }),
            }
        }
    }

    /// Returns whether an unknown field may be right, because not only Kubernetes reads it.
    fn is_of_others(&self, name: &str, message: &'static DescriptorProto, value: &Value) -> bool {
        let is_filled_in = self.template.unsaid().fields;
        let is_directive = is_filled_in && name.starts_with('$');
        // A chart may have more fields of its own, but hardly ones like these.
        let is_of_chart = is_filled_in
            && self.template.is_custom()
            && self.meant(name, value, message).is_empty();
        is_directive || is_of_chart || self.template.selects_by(name)
    }

    /// The end of the sentence about an unknown field: where it belongs, or its right name.
    fn meant(&self, name: &str, value: &Value, message: &'static DescriptorProto) -> String {
        let below = message.field.iter().find(|field| {
            let inner = MESSAGES.get(field.type_name());
            inner.is_some_and(|inner| field_of(inner, name).is_some())
        });
        if let Some(below) = below {
            let below_name = below.json_name();
            return match below.label() {
                Label::Repeated => format!(": it belongs into an item of {below_name}"),
                _ => format!(": it belongs under {below_name}, so indent it further"),
            };
        }
        let mut around = self.around.iter().rev();
        if let Some(outer) = around.find(|outer| field_of(outer.message, name).is_some()) {
            let beside = &outer.field;
            return format!(": it belongs beside {beside}, not under it, so indent it less");
        }
        let known = message.field.iter().map(FieldDescriptorProto::json_name);
        if let Some(close) = did_you_mean(name, known) {
            return format!(": did you mean {close}?");
        }
        let maps = message.field.iter().filter(|field| is_map(field, message));
        match maps.map(FieldDescriptorProto::json_name).next() {
            Some(map) if value.is_string() => format!(": a label belongs under {map}"),
            _ => String::new(),
        }
    }

    fn field(
        &mut self,
        value: &Value,
        field: &FieldDescriptorProto,
        message: &DescriptorProto,
        path: String,
    ) {
        let is_map = is_map(field, message);
        let is_list = !is_map && field.label() == Label::Repeated;
        match value {
            Value::Object(pairs) if is_map => {
                for (key, value) in pairs.iter().filter(|(_, value)| !value.is_string()) {
                    let path = format!("{path}.{key}");
                    self.said.push(wrong_type(path, "a string", value));
                }
            }
            other if is_map => self.said.push(wrong_type(path, "a map", other)),
            Value::Array(items) if is_list => {
                for (index, item) in items.iter().enumerate() {
                    self.single(item, field, format!("{path}[{index}]"));
                }
            }
            other if is_list => self.said.push(wrong_type(path, "a list", other)),
            value => self.single(value, field, path),
        }
    }

    fn single(&mut self, value: &Value, field: &FieldDescriptorProto, path: String) {
        let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
        match field.r#type() {
            Type::Message => self.message(value, field.type_name(), path),
            Type::Int32 if !is_whole() => self.said.push(wrong_type(path, "an integer", value)),
            Type::String if !value.is_string() => {
                self.said.push(wrong_type(path, "a string", value));
            }
            _ => {}
        }
    }
}

fn field_of<'m>(message: &'m DescriptorProto, name: &str) -> Option<&'m FieldDescriptorProto> {
    message.field.iter().find(|field| field.json_name() == name)
}

fn is_map(field: &FieldDescriptorProto, message: &DescriptorProto) -> bool {
    message.nested_type.iter().any(|nested| {
        let is_entry = nested.options.as_ref().is_some_and(|o| o.map_entry());
        is_entry && field.type_name().ends_with(&format!(".{}", nested.name()))
    })
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
