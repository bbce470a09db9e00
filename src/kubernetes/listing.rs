//! Lists what a cluster holds, page by page.

use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::connection::ClusterClient;
use super::error::Error;
use super::resource::ApiResource;
use crate::manifest::{InputSource, LoadedObjects, ManifestError, ObjectPages};

/// Objects in a page, as many as kubectl asks for.
const PAGE: u32 = 500;
/// How often a list begins anew because it became too old to continue.
const ATTEMPTS: u32 = 5;

/// Which objects of a resource are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Those of one namespace; `None` for all.
    pub(crate) namespace: Option<String>,
    /// Those whose labels this selects, in kubectl's notation; empty for all.
    pub(crate) labels: String,
    /// Those whose fields this selects, in kubectl's notation; empty for all.
    pub(crate) fields: String,
}

/// How far a list has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListProgress {
    /// What is listed.
    pub(crate) resource: &'static ApiResource,
    /// Objects that came so far.
    pub(crate) objects: u64,
    /// How many are still to come, where the API server says so.
    pub(crate) remaining: Option<u64>,
}

/// Hears how far a list has come.
pub(crate) type OnProgress<'a> = &'a mut (dyn FnMut(ListProgress) + Send);

/// What a page says of itself, its objects left out.
#[derive(Deserialize)]
struct ListPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<u64>,
}

impl ClusterClient {
    /// Lists all objects that decisions read.
    ///
    /// # Errors
    /// The first kind that could not be listed, and why.
    pub(crate) async fn load(&self, progress: OnProgress<'_>) -> Result<LoadedObjects, Error> {
        let mut all = LoadedObjects::default();
        let everything = Selection::default();
        for resource in ApiResource::read_by_decisions() {
            let new = || ObjectPages::of(self.source());
            let listed = self
                .list(resource, &everything, progress, new, |pages, text| {
                    pages.read(&text)
                })
                .await?;
            all.append(listed.finish());
        }
        Ok(all)
    }

    /// This cluster as the source of objects.
    pub(crate) fn source(&self) -> InputSource {
        InputSource::Cluster(self.name().to_owned())
    }

    /// Lists a resource: gives the JSON text of each page to `read`, with what `new`
    /// made. When the list expires in between, all begins anew, with another `new`.
    ///
    /// # Errors
    /// Why it could not be listed, or what `read` says.
    pub(crate) async fn list<T>(
        &self,
        resource: &'static ApiResource,
        selection: &Selection,
        progress: OnProgress<'_>,
        new: impl Fn() -> T,
        mut read: impl FnMut(&mut T, String) -> Result<(), ManifestError>,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            let mut into = new();
            let mut take = |text| read(&mut into, text);
            match self.pages(resource, selection, progress, &mut take).await {
                Ok(()) => return Ok(into),
                Err(Error::Expired { .. }) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn pages(
        &self,
        resource: &'static ApiResource,
        selection: &Selection,
        progress: OnProgress<'_>,
        take: &mut impl FnMut(String) -> Result<(), ManifestError>,
    ) -> Result<(), Error> {
        let of_namespace = selection.namespace.as_deref();
        let request = Request::new(resource.path(of_namespace));
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        let mut wanted = ListParams {
            label_selector: some(&selection.labels),
            field_selector: some(&selection.fields),
            ..ListParams::default().limit(PAGE)
        };
        let asked = self.asked("list", resource, of_namespace.is_some());
        let mut objects = 0;
        loop {
            let request = request.list(&wanted).map_err(kube::Error::BuildRequest);
            let text = match request {
                Ok(request) => self.client().request_text(request).await,
                Err(error) => Err(error),
            };
            let text = text.map_err(|error| asked.failed(&error))?;
            let page: ListPage =
                serde_json::from_str(&text).map_err(|error| self.source().not_json(&error))?;
            objects += page.items.map_or(0, |items| items.len() as u64);
            take(text)?;
            progress(ListProgress {
                resource,
                objects,
                remaining: page.metadata.remaining_item_count,
            });
            match page.metadata.next.filter(|token| !token.is_empty()) {
                Some(token) => wanted.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    }

    /// The JSON text of one object; `None` when there is no such object. The
    /// namespace is left out for resources without namespaces.
    ///
    /// # Errors
    /// Why it could not be asked for.
    pub(crate) async fn get(
        &self,
        resource: &'static ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let path = resource.path(Some(namespace));
        let asked = self.asked("get", resource, resource.is_namespaced);
        let request = Request::new(path).get(name, &Default::default());
        let text = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => self.client().request_text(request).await,
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => Ok(Some(text)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(asked.failed(&error)),
        }
    }
}
