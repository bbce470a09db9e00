//! The default constraints of a snapshot that is fed from a cluster, which are those of the
//! cluster's scheduler.

use std::path::PathBuf;
use std::str::FromStr;

use super::connection::ClusterClient;
use super::error::Error;
use super::resource::CONFIG_MAPS;
use crate::manifest;
use evenkeel_core::proto::v1::DefaultConstraints;

/// The default key of the configuration in a ConfigMap.
const KEY: &str = "config.yaml";

/// The source of default constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultsSource {
    /// Kubernetes' own default constraints, as in a scheduler without configuration.
    #[default]
    System,
    /// A file with a KubeSchedulerConfiguration.
    File(PathBuf),
    /// A ConfigMap with a KubeSchedulerConfiguration.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key of the configuration.
        key: String,
    },
}

impl FromStr for DefaultsSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err("want FILE or configmap/NAMESPACE/NAME[:KEY]");
        }
        let Some(rest) = text.strip_prefix("configmap/") else {
            return Ok(Self::File(text.into()));
        };
        let (place, key) = rest.split_once(':').unwrap_or((rest, KEY));
        let named = place.split_once('/');
        let named = named.filter(|(namespace, name)| {
            !namespace.is_empty() && !name.is_empty() && !name.contains('/') && !key.is_empty()
        });
        let (namespace, name) = named.ok_or("want configmap/NAMESPACE/NAME[:KEY]")?;
        Ok(Self::ConfigMap {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl DefaultsSource {
    /// Reads the default constraints.
    ///
    /// # Errors
    /// The fault of the file or the ConfigMap.
    pub(super) async fn read(&self, cluster: &ClusterClient) -> Result<DefaultConstraints, Error> {
        let (namespace, name, key) = match self {
            Self::System => return Ok(manifest::system_default_constraints()),
            Self::File(path) => {
                let path = path.to_string_lossy();
                return Ok(manifest::read_default_constraints(&path)?);
            }
            Self::ConfigMap {
                namespace,
                name,
                key,
            } => (namespace, name, key),
        };
        let place = format!("configmap {namespace}/{name} of {}", cluster.name);
        let missing = |what: String| Error::Unusable(format!("{place}: {what}"));
        let found = cluster.get(&CONFIG_MAPS, namespace, name).await?;
        let found = found.ok_or_else(|| missing("there is none".to_owned()))?;
        let text = found["data"][key].as_str();
        let text = text.ok_or_else(|| missing(format!("it has no key {key}")))?;
        Ok(manifest::default_constraints_in(text, &place)?)
    }
}
