//! The places of pod templates in objects, and of spread constraints in custom resources: one table of
//! paths, to which users add.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::item::{prune, text};
use super::source;

/// The field with the constraints of a pod.
pub const CONSTRAINTS: &str = "topologySpreadConstraints";

/// The fields beside the constraints of a pod by which nodes are chosen.
const SCHEDULING: [&str; 3] = ["affinity", "nodeSelector", "tolerations"];

/// The place of a pod template in an object, or of the object itself if that is a pod. In a custom
/// resource that is known by the table, the place of the map with the constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplatePath {
    /// The place as a JSON pointer; empty for a Pod, and for a placement.
    pub(super) pointer: String,
    /// The place as the path of a field, e.g. `spec.template`; empty for a Pod, and for a
    /// placement.
    pub field: String,
    /// What the table says about the place; `None` for a pod template.
    pub(super) custom: Option<Box<CustomPlace>>,
}

impl TemplatePath {
    /// The path of a template that is no item of a list.
    pub(super) fn of(pointer: &str) -> Self {
        Self {
            pointer: pointer.to_owned(),
            field: pointer.trim_start_matches('/').replace('/', "."),
            custom: None,
        }
    }

    /// The path of labels, from the object on, or with a dot before it from this place on.
    pub(super) fn labels_at(&self, path: &str) -> Self {
        let (start, rest) = match path.strip_prefix('.') {
            Some(rest) => (self.clone(), rest),
            None => (Self::default(), path),
        };
        rest.split('.').fold(start, |at, key| at.with_key(key))
    }

    pub(super) fn with_key(&self, key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        let field = match &*self.field {
            "" => key.to_owned(),
            field => format!("{field}.{key}"),
        };
        Self {
            pointer: format!("{}/{escaped}", self.pointer),
            field,
            custom: None,
        }
    }

    pub(super) fn with_index(&self, index: usize) -> Self {
        Self {
            pointer: format!("{}/{index}", self.pointer),
            field: format!("{}[{index}]", self.field),
            custom: None,
        }
    }
}

/// A row of the table: where the resources of some kinds have constraints.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConstraintPlace {
    /// The group of the kinds, without a version.
    group: String,
    kinds: Vec<String>,
    /// The path of the map that has the field `topologySpreadConstraints`. `*` stands for each
    /// field or item, `**` for any number of them. Text on the way is read as YAML.
    at: String,
    /// The path of the labels of the pods. A path that begins with a dot begins at the map.
    labels: Option<String>,
    /// True if pods have no other labels than these, except those of their controllers.
    #[serde(default)]
    all_labels: bool,
    /// True if `affinity`, `nodeSelector` and `tolerations` beside the constraints are those of the
    /// pods.
    #[serde(default)]
    scheduling: bool,
    /// True if fields that a constraint lacks may be filled in, e.g. by a chart.
    #[serde(default)]
    filled_in: bool,
    /// Fields of a constraint that Kubernetes does not know and from which its selector is made.
    #[serde(default)]
    selecting_fields: Vec<String>,
}

/// The table of the places of constraints.
#[derive(Debug, Default)]
pub struct CustomResources(Vec<Rc<ConstraintPlace>>);

/// The table in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    resources: Vec<ConstraintPlace>,
}

/// A place of constraints in an object, with the row by which it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomPlace {
    row: Rc<ConstraintPlace>,
    /// The labels of the pods, if the row has a path of them.
    labels: Option<TemplatePath>,
}

/// What an object does not say of its pods, because something else may add it: the base of a patch,
/// a chart, or the controller of a custom resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsaid {
    /// Some labels of the pods.
    pub labels: bool,
    /// Some fields of constraints.
    pub fields: bool,
    /// Some of what else chooses nodes for the pods.
    pub scheduling: bool,
}

impl CustomResources {
    /// The table of known resources, and rows that a user adds.
    pub fn with(more: Vec<ConstraintPlace>) -> Self {
        let known = toml::from_str::<TableFile>(include_str!("custom_resources.toml"));
        let known = known.expect("a test reads the table").resources;
        Self(known.into_iter().chain(more).map(Rc::new).collect())
    }

    /// The places of constraints in `object`. Text that has them is replaced by its value.
    pub(super) fn places(&self, object: &mut Value) -> Vec<TemplatePath> {
        let version = text(object, "apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = text(object, "kind");
        let is_meant = |row: &&Rc<ConstraintPlace>| {
            row.group == group && row.kinds.iter().any(|it| it == kind)
        };
        let rows: Vec<_> = self.0.iter().filter(is_meant).cloned().collect();
        let mut places: Vec<TemplatePath> = Vec::new();
        for row in rows {
            let steps: Vec<&str> = row.at.split('.').collect();
            let mut found = Vec::new();
            find(object, &steps, &TemplatePath::default(), &mut found);
            for mut place in found {
                let labels = row.labels.as_deref().map(|path| place.labels_at(path));
                let row = Rc::clone(&row);
                place.custom = Some(Box::new(CustomPlace { row, labels }));
                if places.iter().all(|other| other.pointer != place.pointer) {
                    places.push(place);
                }
            }
        }
        places
    }
}

impl ConstraintPlace {
    /// The reason why a user's row is not valid.
    pub fn fault(&self) -> Option<String> {
        let is_path = |path: &str| path.split('.').all(|step| !step.is_empty());
        let labels = self.labels.as_deref().unwrap_or("metadata");
        if self.group.is_empty() || self.kinds.iter().any(String::is_empty) || self.kinds.is_empty()
        {
            return Some("group and kinds must not be empty".to_owned());
        }
        let deep = self.at.find("**").map(|at| at + 2);
        if deep.is_some_and(|end| end < self.at.len()) {
            return Some("at may have ** only at its end".to_owned());
        }
        if !is_path(&self.at) || self.at.ends_with(CONSTRAINTS) {
            return Some(format!(
                "at must be the path of the map that has the field {CONSTRAINTS}, such as \
                 spec.template.spec"
            ));
        }
        if !is_path(labels.strip_prefix('.').unwrap_or(labels)) {
            return Some("labels must be a path, such as spec.podMetadata.labels".to_owned());
        }
        None
    }
}

impl CustomPlace {
    /// What the object does not say of the pods.
    pub(super) fn unsaid(&self) -> Unsaid {
        Unsaid {
            labels: !self.row.all_labels,
            fields: self.row.filled_in,
            scheduling: !self.row.scheduling,
        }
    }

    /// The path of the labels of the pods.
    pub(super) fn labels(&self) -> Option<&TemplatePath> {
        self.labels.as_ref()
    }

    /// Returns whether the selector of a constraint is made from a field of this name.
    pub(super) fn selects_by(&self, field: &str) -> bool {
        self.row.selecting_fields.iter().any(|it| it == field)
    }

    /// The pods of `object` as a JSON pod; `place` is the place of the constraints.
    pub(super) fn pod(&self, object: &Value, place: &TemplatePath) -> Value {
        let around = object.pointer(&place.pointer).unwrap_or(&Value::Null);
        let mut spec = Map::new();
        let scheduling = SCHEDULING.iter().filter(|_| self.row.scheduling);
        for field in scheduling.chain([&CONSTRAINTS]) {
            if let Some(value) = around.get(*field) {
                spec.insert((*field).to_owned(), value.clone());
            }
        }
        let labels = self.labels.as_ref();
        let labels = labels.and_then(|labels| object.pointer(&labels.pointer));
        json!({
            "kind": text(object, "kind"),
            "metadata": {
                "namespace": text(&object["metadata"], "namespace"),
                "labels": labels.cloned().unwrap_or_else(|| json!({})),
            },
            "spec": spec,
        })
    }
}

/// Finds the maps at the end of a path that begins at `value`. Where the path has `*`, only maps
/// that have constraints are found.
fn find(value: &mut Value, steps: &[&str], path: &TemplatePath, found: &mut Vec<TemplatePath>) {
    let Some((step, rest)) = steps.split_first() else {
        if value.is_object() {
            found.push(path.clone());
        }
        return;
    };
    if *step == "**" && has_constraints(value) {
        found.push(path.clone());
    }
    let (is_any, is_deep) = (step.starts_with('*'), *step == "**");
    let rest = if is_deep { steps } else { rest };
    let mut enter = |child: &mut Value, path: TemplatePath| {
        if !is_deep && !rest.is_empty() {
            read_text(child);
            read_parameters(child);
        }
        let before = found.len();
        find(child, rest, &path, found);
        if is_any && rest.is_empty() && !has_constraints(child) {
            found.truncate(before);
        }
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.iter_mut();
            for (key, child) in fields.filter(|(key, _)| is_any || key == step) {
                enter(child, path.with_key(key));
            }
        }
        Value::Array(items) if is_any => {
            for (index, child) in items.iter_mut().enumerate() {
                enter(child, path.with_index(index));
            }
        }
        _ => {}
    }
}

/// Returns whether a value is a map with a list of constraints. Charts have other values of this
/// name, too.
fn has_constraints(value: &Value) -> bool {
    let list = value.get(CONSTRAINTS).and_then(Value::as_array);
    list.is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
}

/// Replaces a text that is a YAML map by the map.
fn read_text(value: &mut Value) {
    if let Value::String(text) = value
        && let Ok(mut read @ Value::Object(_)) =
            serde_saphyr::from_str_with_options(text, source::options())
    {
        prune(&mut read, true);
        *value = read;
    }
}

/// Replaces a list of `name` and `value`, as Argo CD passes to `helm --set`, by the values that
/// they make, if one of the names is that of a constraint.
fn read_parameters(value: &mut Value) {
    let Value::Array(list) = value else { return };
    let is_of_constraint = |it: &Value| text(it, "name").contains(CONSTRAINTS);
    if !list.iter().any(is_of_constraint) {
        return;
    }
    let mut all = json!({});
    for parameter in &*list {
        let is_text = parameter["forceString"] == true;
        let text_value = text(parameter, "value");
        let read = match text_value.parse::<i64>() {
            Ok(number) if !is_text => json!(number),
            _ => json!(text_value),
        };
        set(&mut all, text(parameter, "name"), read);
    }
    *value = all;
}

/// The most items that a name of a parameter may make in a list.
const MAX_ITEMS: usize = 100;

/// Sets the value at a name in Helm's notation: keys after dots, items in brackets. A backslash
/// makes a dot part of a key.
fn set(all: &mut Value, name: &str, value: Value) {
    let name = name.replace("\\.", "\0").replace('[', ".[");
    let mut at = all;
    for step in name.split('.') {
        let index = step.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        at = match index.map(str::parse::<usize>) {
            Some(Ok(index)) if index < MAX_ITEMS => {
                if !at.is_array() {
                    *at = json!([]);
                }
                let Value::Array(items) = at else { return };
                if items.len() <= index {
                    items.resize(index + 1, Value::Null);
                }
                &mut items[index]
            }
            Some(_) => return,
            None => {
                if !at.is_object() {
                    *at = json!({});
                }
                &mut at[step.replace('\0', ".")]
            }
        };
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_valid() {
        for row in CustomResources::with(Vec::new()).0 {
            assert_eq!(row.fault(), None, "{row:?}");
        }
    }
}
