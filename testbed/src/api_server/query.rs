//! The query of a request and the shape that its client accepts.

use super::refusal::Refusal;

/// What follows the `?`. Unknown parameters are passed over, as in the real server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// `labelSelector`.
    pub labels: String,
    /// `fieldSelector`.
    pub fields: String,
    /// Objects a page.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub cursor: String,
    /// `resourceVersion`; empty where left out.
    pub version: String,
    /// `resourceVersionMatch`.
    pub version_match: String,
    /// A watch, not a list.
    pub watch: bool,
    /// Whether the watcher understands bookmarks.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub initial_events: Option<bool>,
    /// `timeoutSeconds` of a watch.
    pub timeout: Option<u64>,
    /// Do nothing.
    pub dry_run: bool,
    /// Who applies.
    pub manager: String,
    /// `gracePeriodSeconds`.
    pub grace: Option<i64>,
    /// `propagationPolicy`.
    pub propagation: Option<String>,
}

impl Query {
    /// Reads pairs of parameter and value, already decoded.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "labelSelector" => query.labels.clone_from(value),
                "fieldSelector" => query.fields.clone_from(value),
                "limit" => query.limit = number(name, value)?.filter(|n| *n > 0),
                "continue" => query.cursor.clone_from(value),
                "resourceVersion" => query.version.clone_from(value),
                "resourceVersionMatch" => query.version_match.clone_from(value),
                "watch" => query.watch = flag(name, value)?,
                "allowWatchBookmarks" => query.bookmarks = flag(name, value)?,
                "sendInitialEvents" => query.initial_events = Some(flag(name, value)?),
                "timeoutSeconds" => query.timeout = number(name, value)?,
                "dryRun" if value == "All" => query.dry_run = true,
                "dryRun" if !value.is_empty() => {
                    return Err(Refusal::bad_request(format!(
                        "dryRun: Unsupported value: {value:?}: supported values: \"All\""
                    )));
                }
                "fieldManager" => query.manager.clone_from(value),
                "gracePeriodSeconds" => query.grace = number(name, value)?,
                "propagationPolicy" => query.propagation = Some(value.clone()),
                _ => {}
            }
        }
        Ok(query)
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<Option<T>, Refusal> {
    if value.is_empty() {
        return Ok(None);
    }
    let number = value.parse();
    number
        .map(Some)
        .map_err(|_| Refusal::bad_request(format!("{name}: {value:?} is not a number")))
}

fn flag(name: &str, value: &str) -> Result<bool, Refusal> {
    match value {
        "" | "1" | "true" | "True" | "t" => Ok(true),
        "0" | "false" | "False" | "f" => Ok(false),
        other => Err(Refusal::bad_request(format!(
            "{name}: {other:?} is neither true nor false"
        ))),
    }
}

/// The shape in which objects are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As they are.
    Object,
    /// `PartialObjectMetadata`, alone or as a list.
    Metadata,
    /// `Table`, for people.
    Table,
}

impl Shape {
    /// The first of the accepted media types that can be served.
    pub fn accepted(header: &str) -> Result<Self, Refusal> {
        if header.trim().is_empty() {
            return Ok(Self::Object);
        }
        header
            .split(',')
            .find_map(Self::of_media_type)
            .ok_or_else(Refusal::not_acceptable)
    }

    fn of_media_type(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next()?;
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            return None;
        }
        let parameter = |name: &str| {
            text.split(';')
                .filter_map(|p| p.trim().split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        match parameter("as") {
            None => Some(Self::Object),
            Some(_) if parameter("g") != Some("meta.k8s.io") => None,
            // The older v1beta1 of these shapes is gone from the real server's newer versions.
            Some(_) if parameter("v") != Some("v1") => None,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
            Some("Table") => Some(Self::Table),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shape_that_can_be_served_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(Shape::accepted(table), Ok(Shape::Table));
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(Shape::accepted(metadata), Ok(Shape::Metadata));
        let protobuf = "application/vnd.kubernetes.protobuf, */*";
        assert_eq!(Shape::accepted(protobuf), Ok(Shape::Object));
        assert_eq!(Shape::accepted(""), Ok(Shape::Object));
        assert_eq!(Shape::accepted("text/html").unwrap_err().code, 406);
    }

    #[test]
    fn parameters_that_are_no_numbers_or_flags_are_refused() {
        let parse = |name: &str, value: &str| Query::parse(&[(name.into(), value.into())]);
        assert_eq!(parse("limit", "5").unwrap().limit, Some(5));
        assert!(parse("watch", "1").unwrap().watch);
        assert!(parse("dryRun", "All").unwrap().dry_run);
        for (name, value) in [("limit", "x"), ("watch", "maybe"), ("dryRun", "Some")] {
            assert_eq!(parse(name, value).unwrap_err().code, 400, "{name}");
        }
    }
}
