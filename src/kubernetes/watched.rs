//! Objects as `kube` watches them: what it needs of one, and what decisions read.

use std::borrow::Cow;

use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};

use super::resource::ApiResource;
use crate::manifest::ListedObject;

/// An object of a list or a watch.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// Has the resource version, and nothing else.
    meta: ObjectMeta,
    /// The object.
    pub(super) object: ListedObject,
}

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let object = ListedObject::deserialize(input)?;
        let version = object.metadata("resourceVersion");
        Ok(Self {
            meta: ObjectMeta {
                resource_version: (!version.is_empty()).then(|| version.to_owned()),
                ..ObjectMeta::default()
            },
            object,
        })
    }
}

impl kube::Resource for Watched {
    type DynamicType = &'static ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.kind.into()
    }

    fn group(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.group().into()
    }

    fn version(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.version().into()
    }

    fn plural(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
