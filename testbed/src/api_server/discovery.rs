//! What clients ask before anything else: groups, kinds, version.

use serde_json::{Value, json};

use super::resource::{self, RESOURCES, Resource};

/// The Kubernetes version that the stand-in says it is.
pub(super) const VERSION: &str = "v1.33.0";

/// The answer to a discovery path, or nothing for other paths.
pub(super) fn answer(path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => Some(json!({
            "major": "1", "minor": "33", "gitVersion": format!("{VERSION}+testbed"),
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
        })),
        ["api"] => Some(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => {
            let groups: Vec<_> = resource::groups().into_iter().map(group).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] if resource::groups().contains(name) => Some(group(name)),
        ["api", "v1"] => Some(resources("")),
        ["apis", name, "v1"] if resource::groups().contains(name) => Some(resources(name)),
        // Clients go on without the schema.
        ["openapi", "v3"] => Some(json!({"paths": {}})),
        _ => None,
    }
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": name,
        "versions": [version], "preferredVersion": version})
}

fn resources(group: &str) -> Value {
    let version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    let mut list = Vec::new();
    for resource in RESOURCES.iter().filter(|r| r.group == group) {
        let all = matches!(
            resource.plural,
            "pods" | "services" | "daemonsets" | "deployments" | "jobs"
        );
        list.push(json!({
            "categories": if all { vec!["all"] } else { vec![] },
            "name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind,
            "shortNames": resource.short,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }));
        list.extend(
            resource
                .subresources
                .iter()
                .map(|s| subresource(resource, s)),
        );
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list})
}

fn subresource(resource: &Resource, name: &str) -> Value {
    let (kind, verbs) = match name {
        "binding" => ("Binding", json!(["create"])),
        "eviction" => ("Eviction", json!(["create"])),
        _ => (resource.kind, json!(["get", "patch", "update"])),
    };
    json!({"name": format!("{}/{name}", resource.plural), "singularName": "",
        "namespaced": resource.namespaced, "kind": kind, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_found_from_the_root() {
        let groups = answer("/apis").unwrap();
        for group in groups["groups"].as_array().unwrap() {
            let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
            let list = answer(&format!("/apis/{version}")).unwrap();
            assert!(
                !list["resources"].as_array().unwrap().is_empty(),
                "{version}"
            );
        }
        assert!(answer("/api/v1").is_some());
        assert_eq!(answer("/apis/none/v1"), None);
        assert_eq!(answer("/api/v1/pods"), None);
    }
}
