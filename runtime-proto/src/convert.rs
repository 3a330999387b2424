//! Between wire messages and `model` types.
//!
//! Nothing a Runtime sends makes these functions panic or grow without bound. What cannot be
//! used is left out and told in one line; a whole answer is refused only where leaving out a part
//! would give a container something else than was granted.

mod allocation;
mod cards;
mod metrics;
pub(crate) mod text;

#[cfg(test)]
mod any_tests;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    allocation::{allocate_request, book, container_edits},
    cards::{cards, operation_status, supported},
    metrics::{metric_config, snapshot},
};

/// The lines about what could not be used: the first 16 and how many more.
#[derive(Debug, Default)]
struct Malformed {
    lines: Vec<String>,
    more: usize,
}

impl Malformed {
    const MOST: usize = 16;

    fn add(&mut self, line: &str) {
        if self.lines.len() < Self::MOST {
            self.lines.push(text::one_line(line, 300));
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more", self.more));
        }
        self.lines
    }
}

/// The first `most` of `all`; the rest is told in one line.
fn at_most<T>(mut all: Vec<T>, most: usize, what: &str, malformed: &mut Malformed) -> Vec<T> {
    if all.len() > most {
        malformed.add(&format!("{} {what}, only {most} are taken", all.len()));
        all.truncate(most);
    }
    all
}
