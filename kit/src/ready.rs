//! Readiness: a program is ready when every condition that it named holds.

/// The set of conditions of one program. Cheap to clone; all clones are one set.
#[derive(Debug, Clone, Default)]
pub struct Readiness {}

/// One named condition. It starts as not met; it is forgotten when dropped.
#[derive(Debug)]
pub struct Ready {}

impl Readiness {
    /// A new condition, not met yet, with what it waits for (`waiting for the Runtime at …`).
    pub fn condition(&self, name: &'static str, waiting_for: impl Into<String>) -> Ready {
        let _ = (name, waiting_for.into());
        todo!("helper")
    }

    /// The conditions that are not met, with their reasons, by name.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        todo!("helper")
    }
}

impl Ready {
    /// The condition holds. Logs the change, once.
    pub fn met(&self) {
        todo!("helper")
    }

    /// It does not hold (any more), and why. Logs a change, once.
    pub fn unmet(&self, why: impl Into<String>) {
        let _ = why.into();
        todo!("helper")
    }
}
