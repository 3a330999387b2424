//! From a request to its answer: no I/O, one look at the store.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    binding, body, discovery, event_shape, field, list,
    query::{Query, Shape},
    refusal::Refusal,
    removal::{self, Removal},
    render::Render,
    resource::{self, Target},
    selector::Selector,
    store::{Key, Store},
    watching::{self, Watch},
    write::{self, Context, Part, PatchKind},
};

/// A request, read.
#[derive(Debug, Clone)]
pub struct Asked {
    /// GET, POST …
    pub method: Method,
    /// Without the query.
    pub path: String,
    /// Parameter and value pairs, decoded.
    pub query: Vec<(String, String)>,
    /// The header.
    pub accept: String,
    /// The header.
    pub content_type: String,
    /// The whole body.
    pub body: Bytes,
}

/// What is answered. Objects are written out once the store is let go.
pub enum Answer {
    /// A document that needs no shape.
    Plain(u16, Value),
    /// `ok`.
    Fine,
    /// One object.
    Object(u16, Render, Arc<Value>),
    /// Many, with the list's metadata.
    List(Render, Vec<Arc<Value>>, Value),
    /// A stream of changes.
    Watch(Box<Watch>),
}

/// Answers a request.
pub fn answer(store: &mut Store, asked: &Asked, now: Timestamp) -> Result<Answer, Refusal> {
    if asked.method == Method::GET {
        if matches!(asked.path.as_str(), "/healthz" | "/livez" | "/readyz") {
            return Ok(Answer::Fine);
        }
        if let Some(document) = discovery::answer(&asked.path) {
            return Ok(Answer::Plain(200, document));
        }
    }
    let target = resource::target(&asked.path).ok_or_else(Refusal::no_path)?;
    let query = Query::parse(&asked.query)?;
    let shape = Shape::accepted(&asked.accept)?;
    let render = Render {
        resource: target.resource,
        shape,
    };
    let context = Context {
        // Events of both groups are one kind, written in the core shape.
        resource: if target.resource.is_new_event() {
            resource::of_storage("events").unwrap_or(target.resource)
        } else {
            target.resource
        },
        now,
        dry_run: query.dry_run,
    };
    let request = Request {
        asked,
        target: &target,
        query: &query,
        render,
        context,
    };
    match (&target.name, &target.subresource) {
        (None, _) => request.collection(store),
        (Some(name), None) => request.object(store, name),
        (Some(name), Some(subresource)) => request.subresource(store, name, subresource),
    }
}

struct Request<'a> {
    asked: &'a Asked,
    target: &'a Target,
    query: &'a Query,
    render: Render,
    context: Context,
}

impl Request<'_> {
    fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    fn body(&self) -> Result<Value, Refusal> {
        let body = body::object(&self.asked.content_type, &self.asked.body)?;
        Ok(if self.target.resource.is_new_event() {
            event_shape::to_core(body)
        } else {
            body
        })
    }

    fn collection(&self, store: &mut Store) -> Result<Answer, Refusal> {
        let selector =
            || Selector::parse(self.target.resource, &self.query.labels, &self.query.fields);
        match self.asked.method {
            Method::GET if self.query.watch => {
                let scope = (self.target.namespace.clone(), selector()?);
                let watch = watching::start(store, self.render, scope, self.query)?;
                Ok(Answer::Watch(Box::new(watch)))
            }
            Method::GET => list::list(store, self.render, self.target, &selector()?, self.query),
            Method::POST if self.target.resource.namespaced && self.target.namespace.is_none() => {
                Err(Refusal::method_not_allowed())
            }
            Method::POST => {
                let body = self.body()?;
                let made = write::create(store, &self.context, self.namespace(), body)?;
                Ok(Answer::Object(201, self.render, made))
            }
            Method::DELETE => self.delete_collection(store, &selector()?),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn object(&self, store: &mut Store, name: &str) -> Result<Answer, Refusal> {
        let key = self.context.key(self.namespace(), name);
        match self.asked.method {
            Method::GET if self.query.watch => {
                let selector = Selector::default().named(name);
                let scope = (self.target.namespace.clone(), selector);
                let watch = watching::start(store, self.render, scope, self.query)?;
                Ok(Answer::Watch(Box::new(watch)))
            }
            Method::GET => self.get(store, &key),
            Method::PUT => self.put(store, &key, Part::Main),
            Method::PATCH => self.patch(store, &key, Part::Main),
            Method::DELETE => {
                let options = self.delete_options()?;
                let removal = removal::delete(store, &self.context, &key, &options)?;
                Ok(self.removed(removal))
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn subresource(
        &self,
        store: &mut Store,
        name: &str,
        subresource: &str,
    ) -> Result<Answer, Refusal> {
        let key = self.context.key(self.namespace(), name);
        match (subresource, &self.asked.method) {
            ("status", &Method::GET) => self.get(store, &key),
            ("status", &Method::PUT) => self.put(store, &key, Part::Status),
            ("status", &Method::PATCH) => self.patch(store, &key, Part::Status),
            ("binding", &Method::POST) => {
                let body = body::object(&self.asked.content_type, &self.asked.body)?;
                binding::bind(store, &self.context, &key, &body)?;
                Ok(Answer::Plain(201, success(201, None)))
            }
            ("eviction", &Method::POST) => {
                let body = body::object(&self.asked.content_type, &self.asked.body)?;
                let options = body.get("deleteOptions").cloned().unwrap_or(json!({}));
                let options = Bytes::from(options.to_string());
                let options = body::delete_options("application/json", &options)?;
                removal::delete(store, &self.context, &key, &options)?;
                Ok(Answer::Plain(201, success(201, None)))
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn get(&self, store: &Store, key: &Key) -> Result<Answer, Refusal> {
        match store.get(key) {
            Some(object) => Ok(Answer::Object(200, self.render, Arc::clone(object))),
            None => Err(Refusal::not_found(self.target.resource, &key.name)),
        }
    }

    fn put(&self, store: &mut Store, key: &Key, part: Part) -> Result<Answer, Refusal> {
        let fresh = store.get(key).is_none();
        let object = write::update(store, &self.context, key, part, self.body()?)?;
        Ok(Answer::Object(
            if fresh { 201 } else { 200 },
            self.render,
            object,
        ))
    }

    fn patch(&self, store: &mut Store, key: &Key, part: Part) -> Result<Answer, Refusal> {
        let (kind, mut patch) = body::patch(&self.asked.content_type, &self.asked.body)?;
        if kind == PatchKind::Apply && self.query.manager.is_empty() {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Refusal::unprocessable(message));
        }
        if self.target.resource.is_new_event() && kind != PatchKind::Json {
            patch = event_shape::to_core(patch);
        }
        let fresh = store.get(key).is_none();
        let object = write::patch(store, &self.context, key, part, (kind, patch))?;
        Ok(Answer::Object(
            if fresh { 201 } else { 200 },
            self.render,
            object,
        ))
    }

    fn delete_options(&self) -> Result<removal::Options, Refusal> {
        let mut options = body::delete_options(&self.asked.content_type, &self.asked.body)?;
        options.grace = options.grace.or(self.query.grace);
        options.propagation = options
            .propagation
            .or_else(|| self.query.propagation.clone());
        match options.propagation.as_deref() {
            None | Some("Orphan" | "Background" | "Foreground") => Ok(options),
            Some(other) => Err(Refusal::unprocessable(format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: {other:?}"
            ))),
        }
    }

    /// Pods are answered as objects; other kinds as a `Status`, once they are gone.
    fn removed(&self, removal: Removal) -> Answer {
        match removal {
            Removal::Waits(object) => Answer::Object(200, self.render, object),
            Removal::Gone(object) if self.target.resource.storage == "pods" => {
                Answer::Object(200, self.render, object)
            }
            Removal::Gone(object) => {
                let details = json!({
                    "name": field::text(&object, "/metadata/name"),
                    "group": self.target.resource.group,
                    "kind": self.target.resource.plural,
                    "uid": field::text(&object, "/metadata/uid"),
                });
                Answer::Plain(200, success(200, Some(details)))
            }
        }
    }

    fn delete_collection(&self, store: &mut Store, selector: &Selector) -> Result<Answer, Refusal> {
        let options = self.delete_options()?;
        let keys: Vec<Key> = store
            .range(
                self.target.resource.storage,
                self.target.namespace.as_deref(),
                None,
            )
            .filter(|(_, object)| selector.matches(object))
            .map(|(key, _)| key.clone())
            .collect();
        let mut items = Vec::new();
        for key in keys {
            match removal::delete(store, &self.context, &key, &options)? {
                Removal::Waits(object) | Removal::Gone(object) => items.push(object),
            }
        }
        let metadata = json!({"resourceVersion": store.revision().to_string()});
        Ok(Answer::List(self.render, items, metadata))
    }
}

fn success(code: u16, details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
    });
    if let (Some(fields), Some(details)) = (status.as_object_mut(), details) {
        fields.insert("details".into(), details);
        fields.remove("code");
    }
    status
}
