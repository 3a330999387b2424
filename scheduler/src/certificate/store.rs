//! The Secret and the `ConfigMap` at the API server: read, written, published.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::ByteString;
use kube::Client;
use kubernetes::api::one_line;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::content::{CA_CRT, CA_KEY, Content, TLS_CRT, TLS_KEY};
use crate::object_name::ObjectName;

/// The longest that one call may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Where certificates are kept.
pub(super) struct Store {
    client: Client,
    secret: ObjectName,
    config_map: Option<ObjectName>,
}

/// Which object of the two.
#[derive(Clone, Copy)]
enum Kind {
    Secret,
    ConfigMap,
}

impl Kind {
    const fn path(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    /// The object's name, for people.
    fn called(self, name: &ObjectName) -> String {
        match self {
            Self::Secret => format!("Secret {name}"),
            Self::ConfigMap => format!("ConfigMap {name}"),
        }
    }
}

/// The Secret as it was at one version.
pub(super) struct Version {
    pub(super) content: Content,
    resource_version: String,
}

/// Why a call failed. Its text never holds anything of the Secret's content.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// Somebody else wrote the Secret after it was read.
    #[error("{0} was changed meanwhile")]
    Overtaken(String),
    /// No good answer.
    #[error("{what}: {why}")]
    Call {
        /// Which object.
        what: String,
        /// Why.
        why: String,
    },
}

/// Not `Debug`: private keys are in it.
#[derive(Deserialize)]
struct Object<V> {
    #[serde(default)]
    metadata: Metadata,
    // `null` where it is empty.
    #[serde(default)]
    data: Option<BTreeMap<String, V>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
}

impl Store {
    pub(super) fn new(client: Client, secret: ObjectName, config_map: Option<ObjectName>) -> Self {
        Self {
            client,
            secret,
            config_map,
        }
    }

    /// The Secret's name, for people.
    pub(super) fn secret(&self) -> String {
        Kind::Secret.called(&self.secret)
    }

    /// What the Secret holds now.
    pub(super) async fn read(&self) -> Result<Version, StoreError> {
        let secret: Object<ByteString> = self.get(Kind::Secret, &self.secret).await?;
        let mut data = secret.data.unwrap_or_default();
        let mut take = |key| data.remove(key).map(|text| text.0).unwrap_or_default();
        Ok(Version {
            content: Content {
                ca_crt: take(CA_CRT),
                ca_key: take(CA_KEY),
                tls_crt: take(TLS_CRT),
                tls_key: take(TLS_KEY),
            },
            resource_version: secret.metadata.resource_version,
        })
    }

    /// Replaces that version, if it still is the Secret's latest.
    pub(super) async fn replace(
        &self,
        version: &Version,
        content: &Content,
    ) -> Result<(), StoreError> {
        let text = |text: &[u8]| ByteString(text.to_vec());
        let patch = json!({
            "metadata": { "resourceVersion": version.resource_version },
            "data": {
                CA_CRT: text(&content.ca_crt),
                CA_KEY: text(&content.ca_key),
                TLS_CRT: text(&content.tls_crt),
                TLS_KEY: text(&content.tls_key),
            },
        });
        self.patch(Kind::Secret, &self.secret, &patch).await
    }

    /// Brings the `ConfigMap` up to date, where there is one to be.
    pub(super) async fn publish(&self, ca_crt: &str) -> Result<(), StoreError> {
        let Some(name) = &self.config_map else {
            return Ok(());
        };
        let found: Object<String> = self.get(Kind::ConfigMap, name).await?;
        let published = found.data.unwrap_or_default().remove(CA_CRT);
        if published.is_some_and(|text| text == ca_crt) {
            return Ok(());
        }
        let patch = json!({ "data": { CA_CRT: ca_crt } });
        self.patch(Kind::ConfigMap, name, &patch).await?;
        tracing::info!(config_map = %name, "published the CA's certificate");
        Ok(())
    }

    async fn get<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &ObjectName,
    ) -> Result<T, StoreError> {
        let text = self.call(kind, name, None).await?;
        // Here and not in the client, which would log a body that it can't read; and without
        // serde's words, which may quote it.
        serde_json::from_str(&text).map_err(|error| StoreError::Call {
            what: kind.called(name),
            why: format!(
                "can't be read at line {} column {}",
                error.line(),
                error.column()
            ),
        })
    }

    async fn patch(&self, kind: Kind, name: &ObjectName, patch: &Value) -> Result<(), StoreError> {
        self.call(kind, name, Some(patch)).await.map(drop)
    }

    /// Reads the object, or patches it.
    async fn call(
        &self,
        kind: Kind,
        name: &ObjectName,
        patch: Option<&Value>,
    ) -> Result<String, StoreError> {
        let what = kind.called(name);
        let failed = |why: String| StoreError::Call {
            what: what.clone(),
            why,
        };
        let ObjectName { namespace, name } = name;
        let uri = format!("/api/v1/namespaces/{namespace}/{}/{name}", kind.path());
        let request = match patch {
            None => http::Request::get(uri).body(Vec::new()),
            Some(patch) => http::Request::patch(uri)
                .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
                .body(patch.to_string().into_bytes()),
        };
        let request = request.map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(WITHIN, self.client.request_text(request)).await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                Err(StoreError::Overtaken(what))
            }
            Ok(Err(kube::Error::Api(status))) => Err(failed(status.message)),
            Ok(Err(error)) => Err(failed(one_line(&error))),
            Err(_elapsed) => Err(failed(format!("no answer within {WITHIN:?}"))),
        }
    }
}
