//! Lists the objects of a cluster, page by page. The next page is asked for before the last one is
//! read.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::{ObjectList, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tonic::codegen::http;

use super::connection::ClusterClient;
use super::error::Error;
use crate::manifest::{ApiResource, InputSource, Item, LoadedObjects, ObjectReader};
use evenkeel_core::matching::KubernetesVersion;
use evenkeel_core::snapshot::kind::StorageKind;
use evenkeel_core::snapshot::{ObjectKind, OwnerKind, ResourceVersions};
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
    pub remaining: Option<i64>,
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

impl ObjectSelection<'_> {
    /// All objects of a resource.
    pub(super) fn all(resource: &'static ApiResource) -> Self {
        Self {
            resource,
            namespace: None,
            labels: "",
            fields: "",
        }
    }
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

/// The longest time to wait for the version of an API server.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A page of a list.
pub(super) type ListPage = ObjectList<Value>;

impl ClusterClient {
    /// Lists all objects that a question needs, and passes them to `take` part by part, usually by page,
    /// so that the caller need not hold them. Kinds that the account may not list in all namespaces are
    /// listed in the namespace of the question, if it has one; these are returned. Then the Namespace
    /// objects may be missing, and answers name the fields that depend on them as unchecked. Claims,
    /// volumes and storage classes come last, and are left out unless the account may list all of
    /// these; then answers name volumes as unchecked.
    ///
    /// # Errors
    /// The first kind that could not be listed, with the reason, or the error of `take`.
    pub async fn list_needed<E: From<Error>>(
        &self,
        needed: NeededObjects<'_>,
        progress: OnProgress<'_>,
        mut take: impl AsyncFnMut(LoadedObjects) -> Result<(), E>,
    ) -> Result<Vec<&'static ApiResource>, E> {
        let (mut narrowed, mut listed) = (Vec::new(), ResourceVersions::default());
        let mut storage = Some(LoadedObjects::default());
        let source = Arc::new(self.source());
        for kind in ObjectKind::all() {
            let Some(mut selected) = needed.of(kind) else {
                continue;
            };
            let mut pages = PagedList::of(self, selected);
            loop {
                let error = match pages.next(progress).await {
                    Ok(Some(page)) => {
                        let mut reader = ObjectReader::default();
                        for object in page.items {
                            let object = Item::listed(object, &source);
                            reader.take(object).map_err(Error::from)?;
                        }
                        match (kind, &mut storage) {
                            (ObjectKind::Storage(_), Some(storage)) => {
                                storage.append(reader.objects);
                            }
                            (ObjectKind::Storage(_), None) => {}
                            _ => take(reader.objects).await?,
                        }
                        continue;
                    }
                    Ok(None) => {
                        listed.set(kind, 0);
                        break;
                    }
                    Err(error) => error,
                };
                let is_wide = selected.resource.is_namespaced && selected.namespace.is_none();
                match kind {
                    _ if !error.is_forbidden() => return Err(error.into()),
                    _ if is_wide && needed.namespace.is_some() => {
                        narrowed.push(selected.resource);
                        selected.namespace = needed.namespace;
                        pages = PagedList::of(self, selected);
                        continue;
                    }
                    ObjectKind::Namespace if needed.namespace.is_some() => {}
                    ObjectKind::Owner(OwnerKind::PodDisruptionBudget) => {}
                    ObjectKind::Storage(_) => storage = None,
                    _ => return Err(error.into()),
                }
                break;
            }
        }
        let mut last = storage.unwrap_or_default();
        last.listed = listed;
        take(last).await?;
        Ok(narrowed)
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
        match self.get(namespaces, "", "kube-system").await {
            Ok(found) => Ok(found.and_then(|it| Some(it["metadata"]["uid"].as_str()?.to_owned()))),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// This cluster as the source of objects.
    pub fn source(&self) -> InputSource {
        InputSource::Cluster(self.name.clone())
    }

    /// Lists objects. If the list expires, it begins again.
    ///
    /// # Errors
    /// The reason why they could not be listed.
    pub async fn list(
        &self,
        listed: ObjectSelection<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Vec<Value>, Error> {
        let mut attempt = 1;
        'again: loop {
            let (mut objects, mut pages) = (Vec::new(), PagedList::of(self, listed));
            loop {
                match pages.next(progress).await {
                    Ok(Some(page)) => objects.extend(page.items),
                    Ok(None) => return Ok(objects),
                    Err(error) if error.is_expired() && attempt < ATTEMPTS => {
                        attempt += 1;
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// One object; `None` if it does not exist. The namespace is ignored for resources without
    /// namespaces.
    ///
    /// # Errors
    /// The reason why it could not be read.
    pub async fn get(
        &self,
        resource: &'static ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        let path = resource.path(Some(namespace));
        let asked = self.asked("get", resource, resource.is_namespaced);
        let request = Request::new(path).get(name, &Default::default());
        match self.request(request).await {
            Ok(object) => Ok(Some(object)),
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
        let page = self.request::<ListPage>(request).await;
        let page = page.map_err(|error| self.asked("list", resource, false).failed(&error))?;
        Ok(page
            .metadata
            .resource_version
            .and_then(|it| it.parse().ok()))
    }

    async fn request<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<T> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}

/// The pages of a list.
pub(super) struct PagedList<'a> {
    cluster: &'a ClusterClient,
    selected: ObjectSelection<'a>,
    /// The page that was asked for; `None` after the last one.
    coming: Option<OwnedTask<kube::Result<ListPage>>>,
    /// The number of objects in the pages before it.
    objects: u64,
}

impl<'a> PagedList<'a> {
    /// Asks for the first page.
    pub(super) fn of(cluster: &'a ClusterClient, selected: ObjectSelection<'a>) -> Self {
        let mut pages = Self {
            cluster,
            selected,
            coming: None,
            objects: 0,
        };
        pages.ask(None);
        pages
    }

    /// Asks for the page with this token.
    fn ask(&mut self, token: Option<String>) {
        let selected = self.selected;
        let given = |selector: &str| (!selector.is_empty()).then(|| selector.to_owned());
        let wanted = ListParams {
            label_selector: given(selected.labels),
            field_selector: given(selected.fields),
            continue_token: token,
            ..ListParams::default().limit(PAGE)
        };
        let request = Request::new(selected.resource.path(selected.namespace)).list(&wanted);
        let cluster = self.cluster.clone();
        let coming = async move { cluster.request(request).await };
        self.coming = Some(OwnedTask::new(tasks::spawn(coming)));
    }

    /// The next page; `None` after the last one.
    pub(super) async fn next(
        &mut self,
        progress: OnProgress<'_>,
    ) -> Result<Option<ListPage>, Error> {
        let Some(coming) = self.coming.take() else {
            return Ok(None);
        };
        let ObjectSelection {
            resource,
            namespace,
            ..
        } = self.selected;
        let page = coming.await.expect("the request does not panic");
        let asked = self.cluster.asked("list", resource, namespace.is_some());
        let mut page = page.map_err(|error| asked.failed(&error))?;
        let next = page.metadata.continue_.clone();
        let next = next.filter(|token| !token.is_empty());
        if next.is_some() {
            self.ask(next);
        }
        // The items of a list leave their kind out.
        for fields in page.items.iter_mut().filter_map(Value::as_object_mut) {
            let of_list = [
                ("kind", resource.kind),
                ("apiVersion", resource.api_version),
            ];
            for (field, value) in of_list {
                fields.insert(field.to_owned(), value.into());
            }
        }
        self.objects += page.items.len() as u64;
        progress(ListProgress {
            resource,
            objects: self.objects,
            remaining: page.metadata.remaining_item_count,
        });
        Ok(Some(page))
    }
}
