//! The shared configuration file.
#![no_main]

use kit::{Failure, config};
use libfuzzer_sys::fuzz_target;
use model::settings::Settings;

/// An alias may repeat a part of the file a hundred times.
const EACH: usize = 64 << 10;

fuzz_target!(|text: &str| {
    match fuzz::within(text.len(), EACH, || config::parse::<Settings>(text, "FILE")) {
        Ok(settings) => {
            let written = serde_json::to_string(&settings).expect("settings have a JSON form");
            let read = config::parse::<Settings>(&written, "FILE").expect("JSON is YAML");
            assert_eq!(read, settings, "{written}");
            if settings.validate().is_ok() {
                for resource in &settings.resources {
                    let found = settings.resource(resource.name.as_str());
                    assert_eq!(found, Some(resource), "names are unique");
                }
            }
        }
        Err(Failure::Usage(why)) => {
            assert!(why.starts_with("FILE:"), "{why}");
            assert!(!why.contains(char::is_control), "{why:?}");
        }
        Err(other) => panic!("{other}"),
    }
});
