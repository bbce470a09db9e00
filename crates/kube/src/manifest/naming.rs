//! Names of objects as people type them: `web`, `deploy/web` or
//! `deployments.apps/shop/web`.

use std::path::Path;
use std::str::FromStr;

use super::document::for_each_item;
use super::item::text;
use super::kinds::ApiResource;
use super::source::{InputSource, ManifestError, expand};
use crate::misspelt::did_you_mean;
use evenkeel_core::matching::names;

/// The name of an object as typed: `NAME`, `KIND/NAME` or `KIND/NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The kind, as Kubernetes spells it if it is known; `None` when it was left out.
    pub kind: Option<String>,
    /// The namespace; `None` when it was left out.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectName {
    /// The name of an object that can only be of `kind`: `NAME` or `KIND/NAME`.
    ///
    /// # Errors
    /// The fault of `text`.
    pub fn name_of(kind: &str, text: &str) -> Result<String, String> {
        let named: Self = text.parse()?;
        match named.kind {
            Some(other) if other != kind => Err(format!("want a {kind}, not a {other}")),
            _ if named.namespace.is_some() => Err(format!("want NAME or {kind}/NAME")),
            _ => Ok(named.name),
        }
    }

    /// A name with its kind: `KIND/NAME` or `KIND/NAMESPACE/NAME`.
    ///
    /// # Errors
    /// The fault of `text`.
    pub fn with_kind(text: &str) -> Result<Self, &'static str> {
        let name: Self = text.parse()?;
        match name.kind {
            Some(_) => Ok(name),
            None => Err("want KIND/NAME or KIND/NAMESPACE/NAME"),
        }
    }

    /// Kubernetes' spelling of a kind, from any of its names in any case, with or without a group
    /// after a dot. An unknown kind stays as it is.
    pub fn full_kind(text: &str) -> &str {
        let bare = text.split('.').next().unwrap_or(text);
        let is_its = |name: &str| name.eq_ignore_ascii_case(bare);
        let known = ApiResource::all().find(|kind| kind.names().any(is_its));
        known.map_or(text, |kind| kind.kind)
    }

    /// Returns whether this is a name of one of Kubernetes' own kinds.
    pub fn is_kind(text: &str) -> bool {
        let kind = Self::full_kind(text);
        ApiResource::all().any(|known| known.kind == kind)
    }

    /// The message that a kind, as [`Self::full_kind`] returns it, is unknown, with the name that
    /// was probably meant; `None` for a known kind. It is shown only if no object of the kind was
    /// found, because users may have their own kinds.
    pub fn unknown_kind(kind: &str) -> Option<String> {
        if Self::is_kind(kind) {
            return None;
        }
        let meant = did_you_mean(kind, ApiResource::all().flat_map(|known| known.names()));
        let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"));
        Some(format!("unknown kind {kind}{meant}"))
    }

    /// The message that the kind in this name is unknown; `None` if it is known or missing.
    pub fn of_unknown_kind(&self) -> Option<String> {
        Self::unknown_kind(self.kind.as_deref()?)
    }

    /// The same name, with `namespace` if it has no namespace.
    pub fn or_in(mut self, namespace: &str) -> Self {
        self.namespace.get_or_insert_with(|| namespace.to_owned());
        self
    }

    /// Passes the name of every object of a file or directory to `take`, with its kind and, unless it is
    /// in none, its namespace, until a file cannot be read. Standard input is not read.
    ///
    /// # Errors
    /// The first file that cannot be read.
    pub fn for_each_in(path: &Path, mut take: impl FnMut(Self)) -> Result<(), ManifestError> {
        let mut sources = expand(&[path.to_path_buf()])?;
        sources.retain(|it| *it != InputSource::StandardInput);
        for_each_item(sources, &mut |item| {
            let namespace = names::namespace_or_default(item.metadata("namespace"));
            take(Self {
                kind: Some(text(&item.value, "kind").to_owned()),
                namespace: Some(namespace.to_owned()),
                name: item.metadata("name").to_owned(),
            });
            Ok(())
        })
    }

    /// Returns whether the name matches an object. Kinds are compared in any case.
    pub(super) fn is_of(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let same_kind = |wanted: &String| wanted.eq_ignore_ascii_case(kind);
        self.kind.as_ref().is_none_or(same_kind)
            && self.namespace.as_ref().is_none_or(|it| it == namespace)
            && self.name == name
    }
}

impl FromStr for ObjectName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "want NAME, KIND/NAME or KIND/NAMESPACE/NAME";
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            _ if parts.contains(&"") => return Err(WANTED),
            [name] => (None, None, name),
            [kind, name] => (Some(kind), None, name),
            [kind, namespace, name] => (Some(kind), Some(namespace), name),
            _ => return Err(WANTED),
        };
        Ok(Self {
            kind: kind.map(|kind| Self::full_kind(kind).to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in self.kind.iter().chain(&self.namespace) {
            write!(f, "{part}/")?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_that_kubectl_takes() {
        let cases = [
            ("web", None, None),
            ("deploy/web", Some("Deployment"), None),
            ("Deployments/web", Some("Deployment"), None),
            ("deployment.apps/web", Some("Deployment"), None),
            (
                "deployments.v1.apps/shop/web",
                Some("Deployment"),
                Some("shop"),
            ),
            ("rs/web", Some("ReplicaSet"), None),
            ("sts/web", Some("StatefulSet"), None),
            ("ds/web", Some("DaemonSet"), None),
            ("job/web", Some("Job"), None),
            ("cj/web", Some("CronJob"), None),
            ("rc/web", Some("ReplicationController"), None),
            ("po/web", Some("Pod"), None),
            ("no/web", Some("Node"), None),
            ("svc/web", Some("Service"), None),
            ("Rollout/web", Some("Rollout"), None),
        ];
        for (text, kind, namespace) in cases {
            let name: ObjectName = text.parse().expect(text);
            assert_eq!(name.kind.as_deref(), kind, "{text}");
            assert_eq!(name.namespace.as_deref(), namespace, "{text}");
            assert_eq!(name.name, "web", "{text}");
        }
        for bad in ["", "/web", "deploy/", "deploy//web", "a/b/c/d"] {
            assert!(bad.parse::<ObjectName>().is_err(), "{bad:?}");
        }
    }
}
