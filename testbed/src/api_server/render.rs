//! Objects in the shape that the client accepts.

use serde_json::{Value, json};

use super::{event_shape, query::Shape, resource::Resource, table};

/// How the objects of one answer are written.
#[derive(Debug, Clone, Copy)]
pub struct Render {
    /// Which kind, under which group.
    pub resource: &'static Resource,
    /// In which shape.
    pub shape: Shape,
}

impl Render {
    /// One object by itself.
    pub fn object(&self, object: &Value) -> Value {
        match self.shape {
            Shape::Object if self.resource.is_new_event() => event_shape::to_new(object.clone()),
            Shape::Object => object.clone(),
            Shape::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata").cloned().unwrap_or_default(),
            }),
            Shape::Table => {
                let metadata =
                    json!({"resourceVersion": object.pointer("/metadata/resourceVersion")});
                table::table(self.resource, [object].into_iter(), &metadata)
            }
        }
    }

    /// A list. Its items carry no kind of their own, as in the real server.
    pub fn list<'a>(&self, items: impl Iterator<Item = &'a Value>, metadata: &Value) -> Value {
        let (kind, version, items) = match self.shape {
            Shape::Table => return table::table(self.resource, items, metadata),
            Shape::Metadata => (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
                items.map(|i| self.object(i)).collect::<Vec<_>>(),
            ),
            Shape::Object => {
                let bare = items.map(|item| {
                    let mut item = self.object(item);
                    if let Some(fields) = item.as_object_mut() {
                        fields.remove("kind");
                        fields.remove("apiVersion");
                    }
                    item
                });
                (
                    format!("{}List", self.resource.kind),
                    self.resource.api_version(),
                    bare.collect(),
                )
            }
        };
        json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items})
    }

    /// An object with nothing but a revision, for a bookmark.
    pub fn bookmark(&self, revision: u64, ends_initial_events: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let (true, Some(fields)) = (ends_initial_events, metadata.as_object_mut()) {
            fields.insert(
                "annotations".into(),
                json!({"k8s.io/initial-events-end": "true"}),
            );
        }
        if self.shape == Shape::Table {
            return table::table(self.resource, std::iter::empty(), &metadata);
        }
        let (kind, version) = match self.shape {
            Shape::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            _ => (self.resource.kind, self.resource.api_version()),
        };
        json!({"kind": kind, "apiVersion": version, "metadata": metadata})
    }
}
