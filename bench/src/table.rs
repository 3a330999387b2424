//! The result: a row a figure, with its target and whether it is met.

use std::{fmt, time::Duration};

/// A measured figure.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Figure {
    /// Seconds.
    Time(f64),
    /// Bytes.
    Memory(f64),
    /// Things.
    Count(f64),
}

impl Figure {
    /// The number without its unit.
    const fn number(self) -> f64 {
        match self {
            Self::Time(n) | Self::Memory(n) | Self::Count(n) => n,
        }
    }
}

impl From<Duration> for Figure {
    fn from(time: Duration) -> Self {
        Self::Time(time.as_secs_f64())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(s) if s.abs() < 0.001 => write!(f, "{:.0} us", s * 1e6),
            Self::Time(s) if s.abs() < 1.0 => write!(f, "{:.2} ms", s * 1e3),
            Self::Time(s) => write!(f, "{s:.2} s"),
            Self::Memory(bytes) => write!(f, "{:.1} MiB", bytes / f64::from(1 << 20)),
            Self::Count(n) => write!(f, "{n:.0}"),
        }
    }
}

/// What a figure is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// So many times the floor at most.
    Times(f64),
    /// This at most.
    Most(Figure),
    /// Told for itself.
    Told,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(n) => write!(f, "<= {n} x"),
            Self::Most(figure) => write!(f, "<= {figure}"),
            Self::Told => Ok(()),
        }
    }
}

/// What came of a row's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing is asked.
    None,
    Met,
    Missed,
    /// The floor is past it as well: other work on the machine was measured, not ours.
    FloorToo,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Met => "ok",
            Self::Missed => "MISSED",
            Self::FloorToo => "floor too",
        }
    }
}

#[derive(Debug)]
struct Row {
    what: String,
    ours: Figure,
    floor: Option<Figure>,
    target: Target,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let floor = self.floor?.number();
        (floor > 0.0).then(|| self.ours.number() / floor)
    }

    fn verdict(&self) -> Verdict {
        let met = match self.target {
            // A floor of nothing has no multiple.
            Target::Times(n) => self.ratio().is_some_and(|ratio| ratio <= n),
            Target::Most(most) => self.ours.number() <= most.number(),
            Target::Told => return Verdict::None,
        };
        let past = |most: Figure| self.floor.is_some_and(|f| f.number() > most.number());
        match self.target {
            _ if met => Verdict::Met,
            Target::Most(most) if past(most) => Verdict::FloorToo,
            _ => Verdict::Missed,
        }
    }

    fn cells(&self) -> [String; 6] {
        let text = |shown: Option<String>| shown.unwrap_or_default();
        [
            self.what.clone(),
            self.ours.to_string(),
            text(self.floor.map(|floor| floor.to_string())),
            text(self.ratio().map(|ratio| format!("{ratio:.2}"))),
            self.target.to_string(),
            self.verdict().word().to_owned(),
        ]
    }
}

/// All rows, as Markdown.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

const HEAD: [&str; 6] = ["", "ours", "floor", "ratio", "target", ""];

impl Table {
    /// Adds a row, and says it at once: a run takes minutes.
    pub(crate) fn row(
        &mut self,
        what: impl Into<String>,
        ours: impl Into<Figure>,
        floor: Option<Figure>,
        target: Target,
    ) {
        let row = Row {
            what: what.into(),
            ours: ours.into(),
            floor,
            target,
        };
        eprintln!("{}", row.cells().join(" | "));
        self.rows.push(row);
    }

    /// How many targets are missed.
    pub(crate) fn missed(&self) -> usize {
        let missed = self
            .rows
            .iter()
            .filter(|row| row.verdict() == Verdict::Missed);
        missed.count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let mut widths = HEAD.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.len().max(*width);
            }
        }
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            for (cell, width) in cells.zip(widths) {
                write!(f, "| {cell:<width$} ")?;
            }
            writeln!(f, "|")
        };
        line(&mut HEAD.into_iter())?;
        let rules = widths.map(|width| "-".repeat(width));
        line(&mut rules.iter().map(String::as_str))?;
        for row in &rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_missed_past_its_target_and_only_then() {
        let floor = Some(Figure::Time(0.001));
        let mut table = Table::default();
        table.row("a", Figure::Time(0.002), floor, Target::Times(2.0));
        table.row(
            "b",
            Figure::Count(0.0),
            None,
            Target::Most(Figure::Count(0.0)),
        );
        table.row("c", Figure::Time(9.0), floor, Target::Told);
        // A busy machine, not us.
        table.row(
            "busy",
            Figure::Time(3.0),
            Some(Figure::Time(2.0)),
            Target::Most(Figure::Time(1.0)),
        );
        assert_eq!(table.missed(), 0);
        table.row("d", Figure::Time(0.0021), floor, Target::Times(2.0));
        table.row("e", Figure::Time(0.001), None, Target::Times(2.0));
        table.row(
            "f",
            Figure::Count(1.0),
            None,
            Target::Most(Figure::Count(0.0)),
        );
        assert_eq!(table.missed(), 3);
    }
}
