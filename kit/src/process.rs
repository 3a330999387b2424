//! A few figures of the process itself, read when asked.

use std::{
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus::{
    Counter, Gauge, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Ticks a second in `/proc/<pid>/stat`: `USER_HZ`, 100 on every Linux that user programs see.
const TICKS: f64 = 100.0;

/// `process_*` as Prometheus client libraries name them.
pub(crate) struct ProcessFigures {
    /// `/proc/self`.
    root: PathBuf,
    start: Gauge,
    resident: Gauge,
    cpu: Counter,
    open_files: Gauge,
}

impl ProcessFigures {
    pub(crate) fn new(root: PathBuf) -> prometheus::Result<Self> {
        let gauge = |name, help| Gauge::with_opts(Opts::new(name, help));
        let figures = Self {
            root,
            start: gauge(
                "process_start_time_seconds",
                "Start of the process, in seconds since 1970.",
            )?,
            resident: gauge(
                "process_resident_memory_bytes",
                "Memory of the process that is resident.",
            )?,
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Processor time that the process has used.",
            )?,
            open_files: gauge("process_open_fds", "File descriptors that are open.")?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        figures
            .start
            .set(now.map_or(0.0, |since| since.as_secs_f64()));
        Ok(figures)
    }

    fn all(&self) -> [&dyn Collector; 4] {
        [&self.start, &self.resident, &self.cpu, &self.open_files]
    }

    /// What can't be read keeps its last value.
    fn read(&self) {
        let text = |file| fs::read_to_string(self.root.join(file)).unwrap_or_default();
        if let Some(bytes) = resident_bytes(&text("status")) {
            self.resident.set(bytes);
        }
        if let Some(seconds) = cpu_seconds(&text("stat")) {
            self.cpu.reset();
            self.cpu.inc_by(seconds);
        }
        if let Ok(entries) = fs::read_dir(self.root.join("fd")) {
            let count = u32::try_from(entries.count()).unwrap_or(u32::MAX);
            self.open_files.set(f64::from(count));
        }
    }
}

impl Collector for ProcessFigures {
    fn desc(&self) -> Vec<&Desc> {
        self.all()
            .into_iter()
            .flat_map(|figure| figure.desc())
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        self.all()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

/// `VmRSS:  1234 kB` of `status`.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kibibytes: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kibibytes) * 1024.0)
}

/// `utime` and `stime`, fields 14 and 15 of `stat`; field 2 is in brackets and may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_files() {
        assert_eq!(
            resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"),
            Some(2_097_152.0)
        );
        assert_eq!(
            cpu_seconds("7 (a ) name) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0"),
            Some(2.0)
        );
    }

    #[test]
    fn odd_files_give_nothing() {
        assert_eq!(resident_bytes("VmRSS:\tmany kB"), None);
        assert_eq!(cpu_seconds("7 (name"), None);
        assert_eq!(cpu_seconds("7 (name) S 1"), None);
    }

    #[test]
    fn the_running_process_has_figures() {
        let registry = prometheus::Registry::new();
        let figures = ProcessFigures::new("/proc/self".into()).unwrap();
        registry.register(Box::new(figures)).unwrap();
        for family in registry.gather() {
            let metric = &family.get_metric()[0];
            if family.name() == "process_cpu_seconds_total" {
                assert!(metric.get_counter().get_value() >= 0.0);
            } else {
                assert!(metric.get_gauge().get_value() > 0.0, "{}", family.name());
            }
        }
    }
}
