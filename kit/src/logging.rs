//! Log lines as text or JSON on stderr, filtered by level and target.

use std::io::IsTerminal;

use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
};

use crate::{Failure, args::LogFormat, failure::one_line};

/// Libraries that write an error for each failed try at what their caller tries again anyway. Silent
/// unless `--log-level` names them.
const REPEATERS: [&str; 1] = ["kube_client::client::builder"];

/// Reads what `--log-level` says: a level, or `target=level` pairs with commas between.
pub(crate) fn filter(level: &str) -> Result<Targets, Failure> {
    let wrong = |why: String| {
        Failure::Usage(one_line(&format!(
            "--log-level {level:?}: {why}; it is error, warn, info, debug, trace, off, or \
             target=level pairs with commas between"
        )))
    };
    // A bare word is a target to `Targets`, so that a misspelled level would silence everything.
    for part in level.split(',') {
        let directive = part.trim();
        let wanted = directive.rsplit_once('=').map_or(directive, |(_, l)| l);
        if wanted.is_empty() || wanted.parse::<LevelFilter>().is_err() {
            return Err(wrong(format!("{wanted:?} is not a level")));
        }
    }
    let targets: Targets = level
        .parse()
        .map_err(|error: tracing_subscriber::filter::ParseError| wrong(error.to_string()))?;
    let named = |repeater: &str| {
        targets
            .iter()
            .any(|(target, _)| repeater.starts_with(target))
    };
    let silent = REPEATERS.into_iter().filter(|repeater| !named(repeater));
    let silent: Vec<_> = silent
        .map(|repeater| (repeater, LevelFilter::OFF))
        .collect();
    Ok(targets.with_targets(silent))
}

/// Starts logging for the whole process. A second call changes nothing.
pub(crate) fn start(filter: Targets, format: LogFormat) {
    let registry = Registry::default().with(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let result = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(
            registry.with(lines.with_ansi(std::io::stderr().is_terminal())),
        ),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(registry.with(lines.json().flatten_event(true)))
        }
    };
    if result.is_err() {
        tracing::debug!("logging was started before");
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_holds_for_all_targets() {
        let filter = filter("warn").unwrap();
        assert!(filter.would_enable("kube", &Level::WARN));
        assert!(!filter.would_enable("kube", &Level::INFO));
    }

    #[test]
    fn pairs_hold_for_their_targets() {
        let filter = filter("info,kube=debug,hyper=off").unwrap();
        assert!(filter.would_enable("kube::client", &Level::DEBUG));
        assert!(!filter.would_enable("exporter", &Level::DEBUG));
        assert!(!filter.would_enable("hyper", &Level::ERROR));
    }

    #[test]
    fn a_library_that_repeats_itself_is_silent_unless_named() {
        let target = "kube_client::client::builder";
        assert!(!filter("debug").unwrap().would_enable(target, &Level::ERROR));
        for named in [
            "info,kube_client=debug",
            "kube_client::client::builder=error",
        ] {
            assert!(filter(named).unwrap().would_enable(target, &Level::ERROR));
        }
    }

    #[test]
    fn a_wrong_level_is_a_usage_error_that_names_it() {
        for wrong in ["inof", "kube=lots", "", "info,,warn", "info,kube"] {
            let Err(Failure::Usage(text)) = filter(wrong) else {
                panic!("{wrong:?} was taken");
            };
            assert!(
                text.starts_with(&format!("--log-level {wrong:?}: ")),
                "{text}"
            );
        }
    }
}
