use std::{fs, time::Instant};

use model::settings::Settings;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Card {
    name: String,
    memory_gib: u16,
    #[serde(default)]
    healthy: bool,
    #[serde(default)]
    links: Vec<String>,
}

fn wrong<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
    match parse::<T>(text, "kit.yaml") {
        Err(Failure::Usage(line)) => line,
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn each_mistake_in_the_settings_is_one_line_that_names_its_place() {
    let golden = [
        (
            "nodeLable:\n  key: a\n",
            "kit.yaml:1:1: unknown key \"nodeLable\", did you mean \"nodeLabel\"?",
        ),
        (
            "nodeLabel:\n  key: a\n  vlaue: b\n",
            "kit.yaml:3:3: unknown key \"vlaue\", did you mean \"value\"?",
        ),
        (
            "nodeLabel:\n  colour: red\n",
            "kit.yaml:2:3: unknown key \"colour\", known here: key, value",
        ),
        (
            "node_label: {}\n",
            "kit.yaml:1:1: unknown key \"node_label\", did you mean \"nodeLabel\"?",
        ),
        (
            "placement:\n  cards: spred\n",
            "kit.yaml:2:10: \"spred\" is not one of binpack, spread, link-aware, did you mean \"spread\"?",
        ),
        (
            "resources:\n  - name: aliyun.com/gpu\n",
            "kit.yaml:2:5: key \"gives\" is missing",
        ),
        (
            "nodeLabel:\n  key: a\n  key: b\n",
            "kit.yaml:3:3: key \"key\" is there twice",
        ),
    ];
    for (text, expected) in golden {
        assert_eq!(wrong::<Settings>(text), expected);
    }
}

#[test]
fn each_wrong_value_is_one_line_that_names_its_place() {
    for (text, place) in [
        ("name: a\nmemoryGib: lots\n", "kit.yaml:2:12: "),
        ("name: a\nmemoryGib: 70000\n", "kit.yaml:2:12: "),
        ("name: a\nmemoryGib: -1\n", "kit.yaml:2:12: "),
        ("name: a\nmemoryGib: 1\nhealthy: maybe\n", "kit.yaml:3:10: "),
        ("name: a\nmemoryGib: 1\nhealthy: yes\n", "kit.yaml:3:10: "),
        ("name: a\nmemoryGib: 1\nlinks: b\n", "kit.yaml:3:8: "),
        ("name: [a]\nmemoryGib: 1\n", "kit.yaml:1:7: "),
        ("name: a\nmemoryGib: [\n", "kit.yaml:"),
        ("name: a\n\tmemoryGib: 1\n", "kit.yaml:"),
        (
            "name: a\nmemoryGib: 1\n---\nname: b\nmemoryGib: 2\n",
            "kit.yaml:",
        ),
        ("name: *missing\nmemoryGib: 1\n", "kit.yaml:1:7: "),
        ("<<: {name: a}\nmemoryGib: 1\n", "kit.yaml:1:1: "),
        ("- name: a\n", "kit.yaml:1:1: "),
    ] {
        let line = wrong::<Card>(text);
        assert!(line.starts_with(place), "{text:?} gave {line}");
        assert!(!line.contains('\n'), "{line:?} is more than one line");
    }
}

#[test]
fn a_file_of_comments_is_the_defaults() {
    for text in ["", "\n\n", "# nothing\n", "---\n# nothing\n", "{}\n"] {
        let settings: Settings = parse(text, "kit.yaml").unwrap();
        assert_eq!(settings, Settings::default());
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let settings: Settings = parse("nodeLabel:\n  key: other\n", "kit.yaml").unwrap();
    assert_eq!(settings.node_label.key, "other");
    assert_eq!(settings.node_label.value, "true");
    assert_eq!(settings.annotations, Settings::default().annotations);
}

#[test]
fn an_alias_that_says_a_thing_once_is_taken() {
    let card: Card = parse("name: &n a\nmemoryGib: 1\nlinks: [*n, *n]\n", "kit.yaml").unwrap();
    assert_eq!(card.links, ["a", "a"]);
}

#[test]
fn a_billion_laughs_are_refused_at_once() {
    let mut lines = vec!["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]".to_owned()];
    for (name, previous) in ('b'..='j').zip('a'..='i') {
        let nine = vec![format!("*{previous}"); 9].join(", ");
        lines.push(format!("{name}: &{name} [{nine}]"));
    }
    let text = lines.join("\n");
    let started = Instant::now();
    let line = wrong::<serde_json::Value>(&text);
    assert!(line.starts_with("kit.yaml"), "{line}");
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn a_deep_nest_is_refused() {
    let text = "[".repeat(10_000);
    assert!(wrong::<serde_json::Value>(&text).starts_with("kit.yaml"));
}

#[test]
fn a_file_is_read_and_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kit.yaml");
    fs::write(&file, "name: a\nmemoryGib: 3\n").unwrap();
    let card: Card = load(&file).unwrap();
    assert_eq!(card.memory_gib, 3);
    fs::write(&file, "nme: a\n").unwrap();
    let line = load::<Card>(&file).unwrap_err().to_string();
    let expected = format!(
        "{}:1:1: unknown key \"nme\", did you mean \"name\"?",
        file.display()
    );
    assert_eq!(line, expected);
}

#[test]
fn what_is_no_readable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    let line = load::<Card>(&missing).unwrap_err().to_string();
    assert!(line.starts_with(&format!("{}: No such file", missing.display())));

    let line = load::<Card>(folder.path()).unwrap_err().to_string();
    assert!(line.contains("directory"), "{line}");

    let binary = folder.path().join("binary.yaml");
    fs::write(&binary, b"name: \xff\n").unwrap();
    let line = load::<Card>(&binary).unwrap_err().to_string();
    assert!(line.ends_with("not UTF-8 at byte 7"), "{line}");

    let long = folder.path().join("long.yaml");
    fs::write(&long, vec![b'#'; (1 << 20) + 1]).unwrap();
    let line = load::<Card>(&long).unwrap_err().to_string();
    assert!(line.ends_with("longer than 1048576 bytes"), "{line}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_or_refused_on_one_line(text in "[-a-z:{}\\[\\]&*!|>'\"#,?\n\t 0-9]{0,60}") {
        if let Err(failure) = parse::<Settings>(&text, "kit.yaml") {
            let line = failure.to_string();
            proptest::prop_assert!(line.starts_with("kit.yaml"));
            proptest::prop_assert!(!line.contains('\n'));
        }
    }
}
