//! Log lines as text or JSON on stderr, filtered by level and target.

use std::io::IsTerminal;

use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
};

use crate::{Failure, args::LogFormat, failure::one_line};

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
    level
        .parse()
        .map_err(|error: tracing_subscriber::filter::ParseError| wrong(error.to_string()))
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
