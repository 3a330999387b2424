//! The text encoder: Prometheus' exposition format 0.0.4, one family after the other.
//!
//! A node with many shares has tens of thousands of series, most of whose bytes are labels that
//! all metrics of one card or container have in common. They are rendered once into
//! [`LabelSets`]; a line is then four copies and a number, without an allocation.

/// What a family's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
}

/// Label values longer than this many characters are cut: they come from outside, and every line
/// repeats them.
pub const MAX_LABEL_CHARACTERS: usize = 256;

/// Rendered label sets, one text for all of them.
#[derive(Debug, Default)]
pub struct LabelSets {
    text: String,
    ends: Vec<usize>,
}

impl LabelSets {
    /// Room for so many sets of that many bytes.
    pub fn with_capacity(sets: usize, bytes_each: usize) -> Self {
        Self {
            text: String::with_capacity(sets.saturating_mul(bytes_each)),
            ends: Vec::with_capacity(sets),
        }
    }

    /// Adds a set. Names must be valid label names, each used once; values may be anything.
    pub fn push(&mut self, labels: &[(&str, &str)]) {
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            push_escaped(&mut self.text, value);
            self.text.push('"');
            before = ',';
        }
        self.text.push_str(if before == ',' { "} " } else { " " });
        self.ends.push(self.text.len());
    }

    /// The sets in the order they were added, as they stand between name and value.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let set = self.text.get(start..end).unwrap_or_default();
            start = end;
            set
        })
    }
}

/// `\`, `"` and line feeds are escaped, as the format wants; the rest stands as it is.
fn push_escaped(out: &mut String, value: &str) {
    let plain = |byte: u8| !matches!(byte, b'\\' | b'"' | b'\n');
    if value.len() <= MAX_LABEL_CHARACTERS && value.bytes().all(plain) {
        out.push_str(value);
        return;
    }
    for character in value.chars().take(MAX_LABEL_CHARACTERS) {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A text under construction.
#[derive(Debug)]
pub struct Exposition {
    out: Vec<u8>,
    series: usize,
    most_series: usize,
    dropped: u64,
}

impl Exposition {
    /// Writes into `buffer`, whose content is forgotten and whose memory is used again. At most
    /// `most_series` lines are written.
    pub fn new(mut buffer: Vec<u8>, most_series: usize) -> Self {
        buffer.clear();
        Self {
            out: buffer,
            series: 0,
            most_series,
            dropped: 0,
        }
    }

    /// Starts a family; it shows only once it has a sample. `name` must be a valid metric name
    /// that no other family of this text has.
    pub fn family<'a>(&'a mut self, name: &'a str, help: &'a str, kind: Kind) -> Family<'a> {
        Family {
            text: self,
            name,
            help,
            kind,
            started: false,
        }
    }

    /// Allows so many lines more.
    pub fn raise_limit(&mut self, by: usize) {
        self.most_series = self.most_series.saturating_add(by);
    }

    /// Lines that were left out because of the limit, so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Lines so far, headers not counted.
    pub fn series(&self) -> usize {
        self.series
    }

    /// The finished text.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// One family of an [`Exposition`].
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut Exposition,
    name: &'a str,
    help: &'a str,
    kind: Kind,
    started: bool,
}

impl Family<'_> {
    /// A sample; `labels` is an entry of [`LabelSets`].
    pub fn float(&mut self, labels: &str, value: f64) {
        if self.start(labels) {
            push_float(&mut self.text.out, value);
            self.text.out.push(b'\n');
        }
    }

    /// A sample that was never a float.
    pub fn integer(&mut self, labels: &str, value: u64) {
        if self.start(labels) {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(value).as_bytes();
            self.text.out.extend_from_slice(digits);
            self.text.out.push(b'\n');
        }
    }

    fn start(&mut self, labels: &str) -> bool {
        if self.text.series >= self.text.most_series {
            self.text.dropped = self.text.dropped.saturating_add(1);
            return false;
        }
        self.text.series += 1;
        if !self.started {
            self.started = true;
            self.header();
        }
        self.text.out.extend_from_slice(self.name.as_bytes());
        self.text.out.extend_from_slice(labels.as_bytes());
        true
    }

    fn header(&mut self) {
        let out = &mut self.text.out;
        out.extend_from_slice(b"# HELP ");
        out.extend_from_slice(self.name.as_bytes());
        out.push(b' ');
        for byte in self.help.bytes() {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                other => out.push(other),
            }
        }
        out.extend_from_slice(b"\n# TYPE ");
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(match self.kind {
            Kind::Gauge => b" gauge\n".as_slice(),
            Kind::Counter => b" counter\n".as_slice(),
        });
    }
}

/// Every whole number below this is exact as `f64` and as `i64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The shortest text that reads back as the same number; whole numbers without exponent or
/// fraction.
fn push_float(out: &mut Vec<u8>, value: f64) {
    if value.abs() < EXACT && value.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number below 2^53 is exact as i64, and std has no checked way"
        )]
        let whole = value as i64;
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    } else if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value > 0.0 {
        out.extend_from_slice(b"+Inf");
    } else {
        out.extend_from_slice(b"-Inf");
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
