//! Lists the objects of a cluster, page by page. The next page is asked for before the last one is
//! read.

use std::collections::VecDeque;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::timeout;
use tonic::codegen::http;

use super::connection::ClusterClient;
use super::error::{ApiRequest, Error};
use super::resource::ApiResource;
use crate::manifest::{InputSource, LoadedObjects, ManifestError, ObjectReader};
use evenkeel_core::matching::KubernetesVersion;
use evenkeel_core::snapshot::{ObjectKind, OwnerKind, ResourceVersions, StorageKind};
use evenkeel_log::tasks::{self, OwnedTask};

/// The number of objects in a page, which is the same as kubectl's.
const PAGE: u32 = 500;
/// The most attempts to list objects when a list becomes too old to continue.
pub const ATTEMPTS: u32 = 5;

/// The progress of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListProgress {
    /// The resource that is listed.
    pub resource: &'static ApiResource,
    /// The number of objects so far.
    pub objects: u64,
    /// The number of remaining objects, if the API server says it.
    pub remaining: Option<u64>,
}

/// The objects of a resource that are listed.
#[derive(Debug, Clone, Copy)]
pub struct ObjectSelection<'a> {
    /// The resource.
    pub resource: &'static ApiResource,
    /// Their namespace; `None` means all.
    pub namespace: Option<&'a str>,
    /// Their labels, in kubectl's notation; empty means any.
    pub labels: &'a str,
    /// Their fields, in kubectl's notation; empty means any.
    pub fields: &'a str,
}

/// The part of a cluster that a question needs.
#[derive(Debug, Clone, Copy)]
pub struct NeededObjects<'a> {
    /// The namespace that the question is about; `None` means all.
    pub namespace: Option<&'a str>,
    /// What is done with the objects.
    pub used_for: ListedFor,
    /// True if the pods of the question have no claims, so that they need no storage.
    pub without_claims: bool,
    /// Labels that all pods have which the spread constraints of the question count, in kubectl's
    /// notation; empty if there are none.
    pub counted: &'a str,
}

/// The use of the objects of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListedFor {
    /// Anything: all are needed whole.
    #[default]
    Anything,
    /// To decide where pods of a namespace may run. Of other namespaces their pods alone are needed,
    /// which take room, and no pod that has finished.
    Deciding,
    /// The same by spread constraints alone, which count the pods of their own namespace.
    CountingSpread,
}

impl<'a> NeededObjects<'a> {
    /// The objects of a kind that are needed; `None` if there are none.
    fn of(self, kind: ObjectKind) -> Option<ObjectSelection<'a>> {
        let decides = self.used_for != ListedFor::Anything;
        let own = self.namespace.filter(|_| decides);
        let counts = self.used_for == ListedFor::CountingSpread;
        let (is_own, fields) = match kind {
            ObjectKind::Storage(_) if decides && self.without_claims => return None,
            // No decision reads budgets.
            ObjectKind::Owner(OwnerKind::PodDisruptionBudget) if own.is_some() => return None,
            ObjectKind::Owner(_) | ObjectKind::Storage(StorageKind::Claim) => (true, ""),
            // Pods of all namespaces and labels take room.
            ObjectKind::Pod if own.is_some() => (counts, UNFINISHED),
            _ => (false, ""),
        };
        let is_counted = counts && own.is_some() && kind == ObjectKind::Pod;
        Some(ObjectSelection {
            resource: ApiResource::of(kind),
            namespace: own.filter(|_| is_own),
            labels: if is_counted { self.counted } else { "" },
            fields,
        })
    }
}

/// The pods that have not finished: others take no room, and are not counted.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A function that receives the progress of a list.
pub type OnProgress<'a> = &'a mut (dyn FnMut(ListProgress) + Send);

/// All objects that a question needs, which are listed part by part, so that the caller need not
/// hold them. Kinds that the account may not list in all namespaces are listed in the namespace of
/// the question, if it has one. Then the Namespace objects may be missing, and answers name the
/// fields that depend on them as unchecked. Claims, volumes and storage classes come last, and are
/// left out unless the account may list all of these; then answers name volumes as unchecked.
pub struct ClusterListing<'a> {
    cluster: &'a ClusterClient,
    needed: NeededObjects<'a>,
    /// The kinds that are not begun.
    kinds: VecDeque<ObjectKind>,
    /// The kind that is being listed.
    current: Option<(ObjectKind, PagedList<'a>)>,
    /// The storage that was listed; `None` if the account may not list all kinds of it.
    storage: Option<LoadedObjects>,
    /// The kinds that were listed, for the last part; `None` once it was taken.
    listed: Option<ResourceVersions>,
    /// The kinds that were listed in one namespace only, because the account may not list them in
    /// all.
    pub narrowed: Vec<&'static ApiResource>,
}

impl<'a> ClusterListing<'a> {
    /// The next part, usually a page; `None` after the last one.
    ///
    /// # Errors
    /// The first kind that could not be listed, with the reason.
    pub async fn next(&mut self, progress: OnProgress<'_>) -> Result<Option<LoadedObjects>, Error> {
        loop {
            let Some((kind, pages)) = &mut self.current else {
                let Some(kind) = self.kinds.pop_front() else {
                    let mut last = self.storage.take().unwrap_or_default();
                    return Ok(self.listed.take().map(|listed| {
                        last.listed = listed;
                        last
                    }));
                };
                let selected = self.needed.of(kind);
                let pages = selected.map(|selected| PagedList::of(self.cluster, selected));
                self.current = pages.transpose()?.map(|pages| (kind, pages));
                continue;
            };
            let kind = *kind;
            match pages.next(progress).await {
                Ok(Some(text)) => {
                    let mut reader = ObjectReader::of(vec![self.cluster.source()]);
                    reader.read_page(&text)?;
                    match (kind, &mut self.storage) {
                        (ObjectKind::Storage(_), Some(storage)) => storage.append(reader.objects),
                        (ObjectKind::Storage(_), None) => {}
                        _ => return Ok(Some(reader.objects)),
                    }
                }
                Ok(None) => {
                    self.listed.iter_mut().for_each(|it| it.set(kind, 0));
                    self.current = None;
                }
                Err(error @ Error::Forbidden { .. }) => {
                    let selected = pages.selected;
                    self.forbidden(kind, selected, error)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lists a kind in the namespace of the question, or does without the kind.
    fn forbidden(
        &mut self,
        kind: ObjectKind,
        selected: ObjectSelection<'a>,
        error: Error,
    ) -> Result<(), Error> {
        let enough = self.needed.namespace;
        let resource = selected.resource;
        self.current = None;
        if resource.is_namespaced && selected.namespace.is_none() && enough.is_some() {
            self.narrowed.push(resource);
            let narrower = ObjectSelection {
                namespace: enough,
                ..selected
            };
            self.current = Some((kind, PagedList::of(self.cluster, narrower)?));
            return Ok(());
        }
        match kind {
            ObjectKind::Namespace if enough.is_some() => {}
            ObjectKind::Owner(OwnerKind::PodDisruptionBudget) => {}
            ObjectKind::Storage(_) => self.storage = None,
            _ => return Err(error),
        }
        Ok(())
    }
}

/// The longest time to wait for the version of an API server.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The metadata of a page, without its objects.
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
    resource_version: Option<String>,
    remaining_item_count: Option<u64>,
}

impl ClusterClient {
    /// Begins to list all objects that a question needs.
    pub fn listing<'a>(&'a self, needed: NeededObjects<'a>) -> ClusterListing<'a> {
        ClusterListing {
            cluster: self,
            needed,
            kinds: ObjectKind::all().collect(),
            current: None,
            storage: Some(LoadedObjects::default()),
            listed: Some(ResourceVersions::default()),
            narrowed: Vec::new(),
        }
    }

    /// The Kubernetes version of the cluster's API server; empty if it does not say.
    pub async fn kubernetes_version(&self) -> String {
        // A missing version does little harm, so the wait is short.
        let told = timeout(VERSION_TIMEOUT, self.client.apiserver_version()).await;
        let version = match &told {
            Ok(Ok(told)) => KubernetesVersion::parse(&told.git_version),
            _ => None,
        };
        version
            .map(|version| version.to_string())
            .unwrap_or_default()
    }

    /// The uid of the namespace `kube-system`, which no two clusters share; `None` if the account
    /// may not read it.
    pub(super) async fn identity(&self) -> Result<Option<String>, Error> {
        let namespaces = ApiResource::of(ObjectKind::Namespace);
        let request = http::Request::get(format!("{}/kube-system", namespaces.path(None)));
        let request = request.body(Vec::new()).expect("it is an address");
        match self.client.request::<Value>(request).await {
            Ok(found) => Ok(found["metadata"]["uid"].as_str().map(str::to_owned)),
            Err(error) => match self.asked("get", namespaces, false).failed(&error) {
                error if error.is_refusal() => Ok(None),
                error => Err(error),
            },
        }
    }

    /// This cluster as the source of objects.
    pub fn source(&self) -> InputSource {
        InputSource::Cluster(self.name.clone())
    }

    /// Lists objects. Passes the JSON text of each page to `read`, together with a value from `new`.
    /// If the list expires, it begins again with another value from `new`.
    ///
    /// # Errors
    /// The reason why it could not be listed, or the error of `read`.
    pub async fn list<T>(
        &self,
        listed: ObjectSelection<'_>,
        progress: OnProgress<'_>,
        new: impl Fn() -> T,
        mut read: impl FnMut(&mut T, String) -> Result<(), ManifestError>,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        'again: loop {
            let mut into = new();
            let mut pages = PagedList::of(self, listed)?;
            loop {
                match pages.next(progress).await {
                    Ok(Some(text)) => read(&mut into, text)?,
                    Ok(None) => return Ok(into),
                    Err(Error::Expired { .. }) if attempt < ATTEMPTS => {
                        attempt += 1;
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// The JSON text of one object; `None` if it does not exist. The namespace is ignored for
    /// resources without namespaces.
    ///
    /// # Errors
    /// The reason why it could not be read.
    pub async fn get(
        &self,
        resource: &'static ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let path = resource.path(Some(namespace));
        let asked = self.asked("get", resource, resource.is_namespaced);
        let request = Request::new(path).get(name, &Default::default());
        match self.text(request).await {
            Ok(text) => Ok(Some(text)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(asked.failed(&error)),
        }
    }

    /// The present resource version of the API server; `None` if it is no number.
    ///
    /// # Errors
    /// The reason why it could not be read.
    pub(super) async fn version(
        &self,
        resource: &'static ApiResource,
    ) -> Result<Option<u64>, Error> {
        let request = Request::new(resource.path(None)).list(&ListParams::default().limit(1));
        let asked = self.asked("list", resource, false);
        let text = self.text(request).await;
        let text = text.map_err(|error| asked.failed(&error))?;
        let page: ListPage =
            serde_json::from_str(&text).map_err(|error| self.source().not_json(&error))?;
        let version = page.metadata.resource_version;
        Ok(version.and_then(|version| version.parse().ok()))
    }

    async fn text(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<String> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await
    }
}

/// The pages of a list.
struct PagedList<'a> {
    cluster: &'a ClusterClient,
    selected: ObjectSelection<'a>,
    /// The page that was asked for; `None` after the last one.
    coming: Option<OwnedTask<kube::Result<String>>>,
    /// The token of that page; `None` for the first one.
    token: Option<String>,
    /// The number of objects in the pages before it.
    objects: u64,
}

impl<'a> PagedList<'a> {
    /// Asks for the first page.
    fn of(cluster: &'a ClusterClient, selected: ObjectSelection<'a>) -> Result<Self, Error> {
        let mut pages = Self {
            cluster,
            selected,
            coming: None,
            token: None,
            objects: 0,
        };
        pages.ask()?;
        Ok(pages)
    }

    fn asked(&self) -> ApiRequest<'a> {
        let ObjectSelection {
            resource,
            namespace,
            ..
        } = self.selected;
        self.cluster.asked("list", resource, namespace.is_some())
    }

    fn ask(&mut self) -> Result<(), Error> {
        let selected = self.selected;
        let given = |selector: &str| (!selector.is_empty()).then(|| selector.to_owned());
        let wanted = ListParams {
            label_selector: given(selected.labels),
            field_selector: given(selected.fields),
            continue_token: self.token.clone(),
            ..ListParams::default().limit(PAGE)
        };
        let request = Request::new(selected.resource.path(selected.namespace)).list(&wanted);
        let request = request.map_err(kube::Error::BuildRequest);
        let request = request.map_err(|error| self.asked().failed(&error))?;
        let client = self.cluster.client.clone();
        let coming = async move { client.request_text(request).await };
        self.coming = Some(tasks::spawn(coming).owned());
        Ok(())
    }

    /// The JSON text of the next page; `None` after the last one.
    async fn next(&mut self, progress: OnProgress<'_>) -> Result<Option<String>, Error> {
        let Some(coming) = self.coming.take() else {
            return Ok(None);
        };
        let text = coming.await.expect("the request does not panic");
        let text = text.map_err(|error| self.asked().failed(&error))?;
        let page: ListPage =
            serde_json::from_str(&text).map_err(|error| self.cluster.source().not_json(&error))?;
        self.objects += page.items.map_or(0, |items| items.len() as u64);
        progress(ListProgress {
            resource: self.selected.resource,
            objects: self.objects,
            remaining: page.metadata.remaining_item_count,
        });
        let next = page.metadata.next.filter(|token| !token.is_empty());
        if next.is_some() && next == self.token {
            let again = kube::core::Status::failure("a page that continues with itself", "");
            return Err(self.asked().refused(&again));
        }
        if next.is_some() {
            self.token = next;
            self.ask()?;
        }
        Ok(Some(text))
    }
}
