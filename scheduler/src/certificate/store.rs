//! The Secret and the `ConfigMap`.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    ObjectName,
    keep::{Kept, Key},
};

const WITHIN: Duration = Duration::from_secs(10);
const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NEXT_CA_KEY: &str = "next-ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Reads and writes them.
pub(super) struct Store {
    pub secret: ObjectName,
    secrets: Api<Secret>,
    ca: Option<(ObjectName, Api<ConfigMap>)>,
}

impl Store {
    pub(super) fn new(client: Client, secret: ObjectName, ca: Option<ObjectName>) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &secret.namespace),
            ca: ca.map(|name| {
                let api = Api::namespaced(client, &name.namespace);
                (name, api)
            }),
            secret,
        }
    }

    /// What is kept, and its version.
    pub(super) async fn read(&self) -> Result<(Kept, String), String> {
        let name = format!("Secret {}", self.secret);
        let secret = within(&name, self.secrets.get(&self.secret.name)).await?;
        let mut data = secret.data.unwrap_or_default();
        let mut text = |key: &str| {
            let bytes = data.remove(key)?.0;
            // What is no text is no PEM: kept as an empty one, which says so later.
            (!bytes.is_empty()).then(|| String::from_utf8(bytes).unwrap_or_default())
        };
        let kept = Kept {
            ca: text(CA),
            ca_key: text(CA_KEY).map(Key),
            next_ca_key: text(NEXT_CA_KEY).map(Key),
            certificate: text(CERTIFICATE),
            key: text(KEY).map(Key),
        };
        Ok((kept, secret.metadata.resource_version.unwrap_or_default()))
    }

    /// Writes in place of that version; false where somebody else has written meanwhile.
    pub(super) async fn write(&self, kept: &Kept, version: &str) -> Result<bool, String> {
        let key = |key: &Option<Key>| key.as_ref().map(|k| k.0.clone());
        let entries = [
            (CA, kept.ca.clone()),
            (CA_KEY, key(&kept.ca_key)),
            (NEXT_CA_KEY, key(&kept.next_ca_key)),
            (CERTIFICATE, kept.certificate.clone()),
            (KEY, key(&kept.key)),
        ];
        let data: BTreeMap<&str, Option<ByteString>> = entries
            .into_iter()
            .map(|(name, text)| (name, text.map(|t| ByteString(t.into_bytes()))))
            .collect();
        let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
        let patched = timeout(
            WITHIN,
            self.secrets.patch(
                &self.secret.name,
                &PatchParams::default(),
                &Patch::Merge(patch),
            ),
        )
        .await;
        match patched {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(false),
            Ok(Err(error)) => Err(format!("Secret {} not written: {error}", self.secret)),
            Err(_) => Err(format!("Secret {} not written: no answer", self.secret)),
        }
    }

    /// Tells kube-scheduler the CA, where that has changed.
    pub(super) async fn publish(&self, ca: &str) -> Result<(), String> {
        let Some((name, api)) = &self.ca else {
            return Ok(());
        };
        let what = format!("ConfigMap {name}");
        let there = within(&what, api.get(&name.name)).await?;
        if there.data.unwrap_or_default().get(CA).map(String::as_str) == Some(ca) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"data": {CA: ca}}));
        within(
            &what,
            api.patch(&name.name, &PatchParams::default(), &patch),
        )
        .await?;
        tracing::info!(config_map = %name, "CA published");
        Ok(())
    }
}

async fn within<T>(
    what: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, String> {
    match timeout(WITHIN, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer within {WITHIN:?}")),
    }
}
