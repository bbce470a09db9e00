//! Lists the objects of a cluster, page by page.

use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::timeout;
use tonic::codegen::http;

use super::connection::ClusterClient;
use super::error::Error;
use super::resource::ApiResource;
use crate::manifest::{InputSource, LoadedObjects, ManifestError, ObjectReader};
use evenkeel_core::matching::KubernetesVersion;
use evenkeel_core::snapshot::{ObjectKind, OwnerKind, StorageKind};

/// The number of objects in a page, which is the same as kubectl's.
const PAGE: u32 = 500;
/// The most attempts to list a resource when a list becomes too old to continue.
const ATTEMPTS: u32 = 5;

/// The progress of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListProgress {
    /// The kind that is listed.
    /// The resource.
    /// The resource.
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

impl NeededObjects<'_> {
    /// The objects of a kind that are needed; `None` if there are none.
    fn of(&self, kind: ObjectKind) -> Option<ObjectSelection<'_>> {
        let decides = self.used_for != ListedFor::Anything;
        let own = self.namespace.filter(|_| decides);
        let (is_own, fields) = match kind {
            ObjectKind::Storage(_) if decides && self.without_claims => return None,
            // No decision reads budgets.
            ObjectKind::Owner(OwnerKind::PodDisruptionBudget) if own.is_some() => return None,
            ObjectKind::Owner(_) | ObjectKind::Storage(StorageKind::Claim) => (true, ""),
            ObjectKind::Pod if own.is_some() => {
                (self.used_for == ListedFor::CountingSpread, UNFINISHED)
            }
            _ => (false, ""),
        };
        Some(ObjectSelection {
            resource: ApiResource::of(kind),
            namespace: own.filter(|_| is_own),
            labels: "",
            fields,
        })
    }
}

/// The pods that have not finished: others take no room, and are not counted.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A function that receives the progress of a list.
pub type OnProgress<'a> = &'a mut (dyn FnMut(ListProgress) + Send);

/// The objects of a cluster.
#[derive(Default)]
pub struct ListedCluster {
    /// The objects.
    pub objects: LoadedObjects,
    /// The kinds that were listed in one namespace only, because the account may not list them in
    /// all.
    pub narrowed: Vec<&'static ApiResource>,
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
    /// Lists all objects that a question needs. Kinds that the account may not list in all namespaces
    /// are listed in the namespace of the question, if it has one. Then the Namespace objects may be
    /// missing, and answers name the fields that depend on them as unchecked. Claims, volumes and
    /// storage classes are left out unless the account may list all of these; then answers name volumes as
    /// unchecked.
    ///
    /// # Errors
    /// The first kind that could not be listed, with the reason.
    pub async fn load(
        &self,
        needed: NeededObjects<'_>,
        progress: OnProgress<'_>,
    ) -> Result<ListedCluster, Error> {
        let (mut all, mut lacks_storage) = (ListedCluster::default(), false);
        let enough = needed.namespace;
        for kind in ObjectKind::all() {
            let Some(wanted) = needed.of(kind) else {
                continue;
            };
            let resource = wanted.resource;
            let may_narrow = resource.is_namespaced && wanted.namespace.is_none();
            let listed = match self.load_one(wanted, progress).await {
                Err(Error::Forbidden { .. }) if may_narrow && enough.is_some() => {
                    all.narrowed.push(resource);
                    let narrower = ObjectSelection {
                        namespace: enough,
                        ..wanted
                    };
                    self.load_one(narrower, progress).await
                }
                Err(error @ Error::Forbidden { .. }) => {
                    match kind {
                        ObjectKind::Namespace if enough.is_some() => {}
                        ObjectKind::Owner(OwnerKind::PodDisruptionBudget) => {}
                        ObjectKind::Storage(_) => lacks_storage = true,
                        _ => return Err(error),
                    }
                    continue;
                }
                listed => listed,
            };
            all.objects.append(listed?);
            all.objects.listed.set(kind, 0);
        }
        if lacks_storage {
            all.objects.drop_storage();
        }
        all.objects.kubernetes_version = self.kubernetes_version().await;
        Ok(all)
    }

    /// The Kubernetes version of the cluster's API server; empty if it does not say.
    pub(super) async fn kubernetes_version(&self) -> String {
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

    async fn load_one(
        &self,
        wanted: ObjectSelection<'_>,
        progress: OnProgress<'_>,
    ) -> Result<LoadedObjects, Error> {
        let new = || ObjectReader::of(vec![self.source()]);
        let read = |reader: &mut ObjectReader, text: String| reader.read_page(&text);
        let listed = self.list(wanted, progress, new, read);
        Ok(listed.await?.objects)
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
        loop {
            let mut into = new();
            let mut take = |text| read(&mut into, text);
            match self.pages(listed, progress, &mut take).await {
                Ok(()) => return Ok(into),
                Err(Error::Expired { .. }) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn pages(
        &self,
        listed: ObjectSelection<'_>,
        progress: OnProgress<'_>,
        take: &mut impl FnMut(String) -> Result<(), ManifestError>,
    ) -> Result<(), Error> {
        let ObjectSelection {
            resource,
            namespace,
            labels,
            fields,
        } = listed;
        let given = |selector: &str| (!selector.is_empty()).then(|| selector.to_owned());
        let request = Request::new(resource.path(namespace));
        let mut wanted = ListParams {
            label_selector: given(labels),
            field_selector: given(fields),
            ..ListParams::default().limit(PAGE)
        };
        let asked = self.asked("list", resource, namespace.is_some());
        let mut objects = 0;
        loop {
            let text = self.text(request.list(&wanted)).await;
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
                Some(token) if wanted.continue_token.as_ref() == Some(&token) => {
                    let again =
                        kube::core::Status::failure("a page that continues with itself", "");
                    return Err(asked.refused(&again));
                }
                Some(token) => wanted.continue_token = Some(token),
                None => return Ok(()),
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
