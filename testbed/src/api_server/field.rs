//! Reading and writing fields of JSON objects.

use serde_json::{Map, Value};

/// The text at a JSON pointer, or nothing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The number at a JSON pointer.
pub fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The map in a field, made where it is missing or something else.
pub fn map<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let fields = as_map(object);
    as_map(fields.entry(field.to_owned()).or_insert(Value::Null))
}

/// The object's fields; anything else is replaced by an empty object first.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        // Made an object just above.
        _ => unreachable!("an object"),
    }
}

/// Sets a field that is missing or null.
pub fn default(fields: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    let entry = fields.entry(field.to_owned()).or_insert(Value::Null);
    if entry.is_null() {
        *entry = value.into();
    }
}

/// Gives `new` the field that `old` has, or none.
pub fn carry(new: &mut Value, old: &Value, field: &str) {
    let fields = as_map(new);
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// Key and value pairs of a map of text.
pub fn pairs<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Drops fields that are null, at every depth: to Kubernetes they are as good as absent.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
