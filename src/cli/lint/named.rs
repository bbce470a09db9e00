//! The objects of a cluster to lint, by kind or by name.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::cli::about::{compile_selector, parse_selector};
use crate::cli::source::SnapshotSource;
use crate::cli::{cluster, completions};
use crate::manifest::{self, InputSource, ManifestError, ObjectName, Template};
use crate::matching::{Selector, names, selector_text};
use crate::misspelt;
use crate::proto::v1::LabelSelector;

/// Flags that name objects.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct NamedObjects {
    /// What a cluster has: KIND, or KIND/NAME; kinds joined by commas, or repeated
    ///
    /// It is looked up in the files of --load, else in the cluster of the current
    /// context or of --context, which is what it is checked on, too.
    #[arg(value_name = "KIND[/NAME]", value_delimiter = ',', value_parser = object_or_kind, conflicts_with_all = ["files", "on_server"], add = completions::objects())]
    objects: Vec<ObjectName>,

    /// Namespace of these objects [default: the context's, or `default`]
    #[arg(short, long, value_name = "NAMESPACE", requires = "objects", add = completions::namespaces())]
    pub(super) namespace: Option<String>,

    /// These objects in all namespaces
    #[arg(short = 'A', long, requires = "objects", conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Those of them whose labels match, in kubectl's syntax
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector, requires = "objects")]
    selector: Option<LabelSelector>,

    #[arg(skip)]
    selects: Option<Selector>,
}

/// The objects that were found.
#[derive(Debug, Default)]
pub(super) struct FoundObjects {
    /// The indices of the arguments that matched.
    arguments: BTreeSet<usize>,
    /// The objects of the named kinds: KIND/NAMESPACE/NAME.
    known: BTreeSet<String>,
}

/// Parses an argument: one object, or a kind, which has no name.
fn object_or_kind(text: &str) -> Result<ObjectName, &'static str> {
    let kind = ObjectName::full_kind(text.split('/').next().unwrap_or_default());
    if ObjectName::unknown_kind(kind).is_some() && Path::new(text).exists() {
        return Err("it is a file or directory: name it with --file");
    }
    match text.contains('/') {
        true => ObjectName::with_kind(text),
        false => Ok(ObjectName {
            kind: Some(kind.to_owned()),
            namespace: None,
            name: String::new(),
        }),
    }
}

fn kind_of(named: &ObjectName) -> &str {
    named.kind.as_deref().unwrap_or_default()
}

impl NamedObjects {
    /// Returns texts that contain the named objects, and perhaps others. Without --load they come
    /// from the cluster, and `state` is set to this cluster. If no namespace was given, sets that
    /// of the context.
    pub(super) async fn texts(
        &mut self,
        state: &mut SnapshotSource,
    ) -> Result<Vec<(InputSource, String)>> {
        if self.objects.is_empty() {
            return Ok(Vec::new());
        }
        anyhow::ensure!(
            !state.reads_standard_input(),
            ManifestError::StandardInputTwice
        );
        let selects = self.selector.as_ref().map(compile_selector);
        self.selects = selects.transpose()?;
        if !state.load.is_empty() {
            self.namespace
                .get_or_insert_with(|| names::DEFAULT_NAMESPACE.to_owned());
            let sources = manifest::expand(&state.load)?;
            let read = |source: InputSource| {
                let text = source.read_to_string()?;
                Ok((source, text))
            };
            return sources.into_iter().map(read).collect();
        }
        state.cluster.from_cluster = true;
        let cluster = state.connect().await?;
        let own = || cluster.namespace.clone();
        self.namespace.get_or_insert_with(own);
        let labels = self.selector.as_ref().map(selector_text);
        let labels = labels.unwrap_or_default();
        let mut texts = Vec::new();
        for named in &self.objects {
            let resource = cluster::resource(kind_of(named))?;
            let namespace = self.namespace_of(named);
            let objects = cluster::listed(&cluster, resource, namespace, &labels).await?;
            for kind in manifest::referred_kinds(&objects) {
                let referred = cluster::resource(&kind)?;
                let others = cluster::listed(&cluster, referred, namespace, "").await?;
                texts.push((cluster.source(), json!({ "items": others }).to_string()));
            }
            texts.push((cluster.source(), json!({ "items": objects }).to_string()));
        }
        Ok(texts)
    }

    /// The namespace of a named object; `None` means all.
    fn namespace_of<'n>(&'n self, named: &'n ObjectName) -> Option<&'n str> {
        let given = named.namespace.as_deref();
        given.or(self.namespace.as_deref().filter(|_| !self.all_namespaces))
    }

    /// Returns whether the object of a template is named. If no objects are named, all are. Notes the
    /// matching arguments in `found`.
    pub(super) fn is_meant(&self, template: &Template, found: &mut FoundObjects) -> bool {
        let object = &template.object;
        let namespace = names::namespace_or_default(object.namespace());
        let is_called = |named: &ObjectName, (kind, name): (&str, &str)| {
            kind_of(named).eq_ignore_ascii_case(kind)
                && self.namespace_of(named).is_none_or(|it| it == namespace)
                && (named.name.is_empty() || named.name == name)
        };
        let own = (object.kind(), object.own_name());
        let is_it = |named: &ObjectName| {
            let mut names = std::iter::once(own).chain(object.template_of());
            names.any(|name| is_called(named, name))
        };
        let selects = |selector: &Selector| selector.matches_labels(&object.labels());
        let arguments = self.objects.iter().enumerate();
        let by: Vec<usize> = arguments
            .filter_map(|(at, named)| is_it(named).then_some(at))
            .collect();
        let mut kinds = self.objects.iter().map(kind_of);
        if kinds.any(|kind| kind.eq_ignore_ascii_case(object.kind())) {
            let (kind, name) = (object.kind(), object.own_name());
            found.known.insert(format!("{kind}/{namespace}/{name}"));
        }
        let is_selected = self.selects.as_ref().is_none_or(selects);
        if is_selected {
            found.arguments.extend(&by);
        }
        self.objects.is_empty() || (!by.is_empty() && is_selected)
    }

    /// Checks that each named object was found in `place`, and that there are objects of some named
    /// kind.
    pub(super) fn ensure_found(&self, found: &FoundObjects, place: &str) -> Result<()> {
        let named = self.objects.iter().enumerate();
        let missing = named.filter(|(at, _)| !found.arguments.contains(at));
        let missing: Vec<&ObjectName> = missing.map(|(_, named)| named).collect();
        let mut unknown = missing.iter().filter_map(|named| named.of_unknown_kind());
        if let Some(unknown) = unknown.next() {
            anyhow::bail!("{place}: {unknown}: nothing in it is of that kind");
        }
        let mut named = missing.iter().filter(|named| !named.name.is_empty());
        let none = || missing.first().filter(|_| found.arguments.is_empty());
        let Some(missing) = named.next().or_else(none) else {
            return Ok(());
        };
        let name = Some(&*missing.name).filter(|name| !name.is_empty());
        let parts = [Some(kind_of(missing)), self.namespace_of(missing), name];
        let name = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
        let matching = self.selector.as_ref().map(selector_text);
        let matching = matching.map(|it| format!(" that matches {it}"));
        let nearest = misspelt::nearest(&name, found.known.iter().map(String::as_str));
        anyhow::bail!(
            "{place} has no {name}{}{nearest}",
            matching.unwrap_or_default()
        )
    }
}
