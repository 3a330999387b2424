//! The kinds that are served, and the path of a request.

/// One row of discovery: a resource as it is served under one group and version.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// `v1` for all that is served.
    pub version: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// As people type it.
    pub singular: &'static str,
    /// As in objects.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What kubectl takes for it.
    pub short: &'static [&'static str],
    /// Subresources besides reading and writing the object itself.
    pub subresources: &'static [&'static str],
    /// Where the objects are kept: both kinds of Event are one storage.
    pub storage: &'static str,
}

const fn row(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Resource {
    Resource {
        group,
        version: "v1",
        plural,
        singular,
        kind,
        namespaced,
        short: &[],
        subresources: &[],
        storage: plural,
    }
}

impl Resource {
    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    const fn with(mut self, subresources: &'static [&'static str]) -> Self {
        self.subresources = subresources;
        self
    }

    /// `v1` or `batch/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods` or `jobs.batch`, as error messages name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether objects of this row are stored as core events and shown in the newer shape.
    pub fn is_new_event(&self) -> bool {
        self.group == "events.k8s.io"
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// All that is served, in discovery order. Kinds without behaviour of their own are stored only.
pub static RESOURCES: &[Resource] = &[
    row("", "configmaps", "configmap", "ConfigMap", true).short(&["cm"]),
    row("", "events", "event", "Event", true).short(&["ev"]),
    row("", "namespaces", "namespace", "Namespace", false)
        .short(&["ns"])
        .with(&["status"]),
    row("", "nodes", "node", "Node", false)
        .short(&["no"])
        .with(&["status"]),
    row("", "pods", "pod", "Pod", true)
        .short(&["po"])
        .with(&["status", "binding", "eviction"]),
    row("", "secrets", "secret", "Secret", true),
    row(
        "",
        "serviceaccounts",
        "serviceaccount",
        "ServiceAccount",
        true,
    )
    .short(&["sa"]),
    row("", "services", "service", "Service", true)
        .short(&["svc"])
        .with(&["status"]),
    row("apps", "daemonsets", "daemonset", "DaemonSet", true)
        .short(&["ds"])
        .with(&["status"]),
    row("apps", "deployments", "deployment", "Deployment", true)
        .short(&["deploy"])
        .with(&["status"]),
    row("batch", "jobs", "job", "Job", true).with(&["status"]),
    row("coordination.k8s.io", "leases", "lease", "Lease", true),
    row("events.k8s.io", "events", "event", "Event", true).short(&["ev"]),
    row(
        "node.k8s.io",
        "runtimeclasses",
        "runtimeclass",
        "RuntimeClass",
        false,
    ),
    row(
        "policy",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
        true,
    )
    .short(&["pdb"])
    .with(&["status"]),
    row(
        RBAC,
        "clusterrolebindings",
        "clusterrolebinding",
        "ClusterRoleBinding",
        false,
    ),
    row(RBAC, "clusterroles", "clusterrole", "ClusterRole", false),
    row(RBAC, "rolebindings", "rolebinding", "RoleBinding", true),
    row(RBAC, "roles", "role", "Role", true),
    row(
        "scheduling.k8s.io",
        "priorityclasses",
        "priorityclass",
        "PriorityClass",
        false,
    )
    .short(&["pc"]),
];

/// The row served at this group, version and plural.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The row that a storage is kept in the shape of.
pub fn of_storage(storage: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.storage == storage)
}

/// The groups besides the core one, each once, in order.
pub fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> = RESOURCES
        .iter()
        .map(|r| r.group)
        .filter(|g| !g.is_empty())
        .collect();
    groups.dedup();
    groups
}

/// What a path under `/api/v1` or `/apis/<group>/<version>` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Which kind.
    pub resource: &'static Resource,
    /// Unset for cluster-wide kinds and for all namespaces.
    pub namespace: Option<String>,
    /// Unset for the collection.
    pub name: Option<String>,
    /// `status`, `binding` …
    pub subresource: Option<String>,
}

/// Reads a path below `/api` or `/apis`; `None` where nothing is served.
pub fn target(path: &str) -> Option<Target> {
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match parts.next()? {
        "api" => ("", parts.next()?),
        "apis" => (parts.next()?, parts.next()?),
        _ => return None,
    };
    let rest: Vec<&str> = parts.collect();
    let (namespace, rest) = match rest.as_slice() {
        // A namespace's own subresources are not kinds.
        ["namespaces", _, "status" | "finalize"] => (None, rest.as_slice()),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        other => (None, other),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
        _ => return None,
    };
    let resource = find(group, version, plural)?;
    let misplaced = if resource.namespaced {
        namespace.is_none() && name.is_some()
    } else {
        namespace.is_some()
    };
    let known = subresource.is_none_or(|s| resource.subresources.contains(&s));
    (!misplaced && known).then(|| Target {
        resource,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        let pods = target("/api/v1/pods").unwrap();
        assert_eq!((pods.resource.kind, pods.namespace), ("Pod", None));
        let pod = target("/api/v1/namespaces/a/pods/b/status").unwrap();
        assert_eq!(pod.namespace.as_deref(), Some("a"));
        assert_eq!(pod.name.as_deref(), Some("b"));
        assert_eq!(pod.subresource.as_deref(), Some("status"));
        let namespace = target("/api/v1/namespaces/a").unwrap();
        assert_eq!(namespace.resource.kind, "Namespace");
        assert_eq!(namespace.name.as_deref(), Some("a"));
        assert_eq!(target("/apis/batch/v1/jobs").unwrap().resource.kind, "Job");
    }

    #[test]
    fn what_is_not_served_has_no_target() {
        for path in [
            "/api/v1",
            "/api/v2/pods",
            "/api/v1/pods/b",
            "/api/v1/namespaces/a/nodes/n",
            "/api/v1/namespaces/a/pods/b/log",
            "/apis/apps/v1/jobs",
            "/",
        ] {
            assert_eq!(target(path), None, "{path}");
        }
    }
}
