//! A strict reader of the text format, for tests: it knows nothing of how the writer works.

use std::collections::{BTreeMap, BTreeSet};

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A whole text.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

impl Text {
    /// All samples of that name.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |s| s.name == name)
    }

    /// The value of the one sample with that name and these labels among its own.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |s: &&Sample| labels.iter().all(|(k, v)| s.label(k) == Some(*v));
        let mut found = self.of(name).filter(has);
        let value = found.next().map(|s| s.value);
        assert!(found.next().is_none(), "{name} {labels:?} is there twice");
        value
    }
}

/// Reads it, or says what breaks the format: a sample before its TYPE, a family in two pieces, a
/// repeated series, a bad name or escape.
pub(crate) fn read(text: &str) -> Result<Text, String> {
    let mut read = Text::default();
    let mut helped = BTreeSet::new();
    let mut family = String::new();
    let mut seen = BTreeSet::new();
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("no line feed at the end".into());
    }
    for line in text.split_terminator('\n') {
        let bad = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, _) = rest.split_once(' ').ok_or("HELP without text")?;
            if !helped.insert(name.to_owned()) {
                return bad("second HELP");
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("TYPE without type")?;
            if read.types.insert(name.into(), kind.into()).is_some() {
                return bad("second TYPE");
            }
            if !helped.contains(name) {
                return bad("TYPE before HELP");
            }
            name.clone_into(&mut family);
        } else {
            let sample = sample(line).map_err(|why| format!("{why}: {line}"))?;
            if sample.name != family {
                return bad("sample outside its family");
            }
            if !seen.insert((sample.name.clone(), sample.labels.clone())) {
                return bad("repeated series");
            }
            read.samples.push(sample);
        }
    }
    Ok(read)
}

fn sample(line: &str) -> Result<Sample, &'static str> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if name.is_empty()
        || !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b))
    {
        return Err("bad name");
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        let mut inner = inner;
        loop {
            let (key, after) = inner.split_once("=\"").ok_or("no label value")?;
            let (value, after) = quoted(after)?;
            labels.push((key.to_owned(), value));
            if let Some(next) = after.strip_prefix(',') {
                inner = next;
            } else {
                rest = after.strip_prefix('}').ok_or("no end of labels")?;
                break;
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space")?;
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().map_err(|_| "bad value")?,
    })
}

fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('\\' | '"'))) => value.push(c),
                _ => return Err("bad escape"),
            },
            other => value.push(other),
        }
    }
    Err("no end of value")
}
