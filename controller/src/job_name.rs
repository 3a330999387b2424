//! Names of Jobs. A Job's name becomes a label value and part of its pod's host name, so it has
//! to be a DNS label of at most 63 characters; a node's name may have 253, with dots.

use model::name::NodeName;

use crate::action::Action;

/// A DNS label's length.
const MOST: usize = 63;
const PREFIX: &str = "lj-agent-";
/// What remains for the node beside the prefix and the longer of the two endings.
const MOST_NODE: usize = MOST - PREFIX.len() - "-disable".len();
/// 64 bits, 5 a character.
const HASH: usize = 13;

/// `lj-agent-<node>-<enable|disable>`. The node stands there as it is where that is a label and
/// short enough; otherwise cut, with dots as dashes, and with a hash of its full name behind, so
/// that two nodes never share a Job.
pub fn job_name(node: &NodeName, action: Action) -> String {
    let node = node.as_str();
    let middle = if stands_as_it_is(node) {
        node.to_owned()
    } else {
        let start: String = node
            .chars()
            .take(MOST_NODE - HASH - 1)
            .map(|c| if c == '.' { '-' } else { c })
            .collect();
        format!("{start}-{}", hash(node))
    };
    format!("{PREFIX}{middle}-{action}")
}

/// Names that end as if they had a hash are hashed too: no such name can pass for another's.
fn stands_as_it_is(node: &str) -> bool {
    node.len() <= MOST_NODE
        && !node.contains('.')
        && !node
            .rsplit_once('-')
            .is_some_and(|(_, end)| end.len() == HASH && end.bytes().all(is_digit))
}

const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn is_digit(byte: u8) -> bool {
    DIGITS.contains(&byte)
}

/// FNV-1a of the text, in base 32. It has to be the same in every version: a Job made by an older
/// controller is found again by its name.
pub(crate) fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (0..HASH)
        .map(|position| {
            let digit = (hash >> (5 * position)) & 31;
            usize::try_from(digit)
                .ok()
                .and_then(|digit| DIGITS.get(digit))
                .map_or('a', |digit| char::from(*digit))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn is_label(name: &str) -> bool {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        name.len() <= 63
            && name.bytes().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-')
    }

    #[test]
    fn a_short_name_stays_readable() {
        assert_eq!(
            job_name(&node("gpu-node-1"), Action::Enable),
            "lj-agent-gpu-node-1-enable"
        );
        let longest = "n".repeat(46);
        let name = job_name(&node(&longest), Action::Disable);
        assert_eq!(name, format!("lj-agent-{longest}-disable"));
        assert_eq!(name.len(), 63);
    }

    #[test]
    fn case_16_a_name_of_52_characters_and_one_of_200_with_dots_give_valid_unique_jobs() {
        let of_52 = "n".repeat(52);
        let dotted = format!("{}.example", vec!["rack"; 40].join("."));
        let dotted = dotted[..200].to_owned();
        let mut seen = BTreeMap::new();
        for name in [
            of_52.clone(),
            format!("{of_52}2"),
            dotted.clone(),
            dotted.replacen("rack", "tack", 1),
            dotted.replace('.', "-"),
        ] {
            for action in [Action::Enable, Action::Disable] {
                let job = job_name(&node(&name), action);
                assert!(is_label(&job), "{job}");
                assert_eq!(seen.insert(job, name.clone()), None);
            }
        }
    }

    #[test]
    fn a_dot_and_a_dash_give_two_jobs() {
        let dot = job_name(&node("a.b"), Action::Enable);
        let dash = job_name(&node("a-b"), Action::Enable);
        assert_ne!(dot, dash);
        assert!(dot.starts_with("lj-agent-a-b-"), "{dot}");
        assert_eq!(dash, "lj-agent-a-b-enable");
    }

    #[test]
    fn a_name_cannot_pass_for_anothers_hash() {
        let hashed = job_name(&node("a.b"), Action::Enable);
        let imposter = hashed
            .strip_prefix(PREFIX)
            .and_then(|name| name.strip_suffix("-enable"))
            .unwrap();
        assert_ne!(job_name(&node(imposter), Action::Enable), hashed);
    }

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(hash(""), "fzieccs44u4xm");
        assert_eq!(
            job_name(&node("node.example"), Action::Enable),
            "lj-agent-node-example-n2b2fpwrpzvth-enable"
        );
    }

    proptest! {
        #[test]
        fn any_node_gets_a_label(name in "[a-z0-9][-a-z0-9.]{0,250}[a-z0-9]") {
            for action in [Action::Enable, Action::Disable] {
                let job = job_name(&node(&name), action);
                prop_assert!(is_label(&job), "{}", job);
            }
        }

        #[test]
        fn two_nodes_never_share_a_job(
            one in "[ab][-ab.]{0,60}[ab]",
            other in "[ab][-ab.]{0,60}[ab]",
        ) {
            prop_assume!(one != other);
            prop_assert_ne!(
                job_name(&node(&one), Action::Enable),
                job_name(&node(&other), Action::Enable)
            );
        }

        #[test]
        fn names_that_differ_only_in_dots_and_dashes_never_share_a_job(
            name in "[a-c]([-.][a-c]{1,9}){1,6}",
        ) {
            let dashed = name.replace('.', "-");
            prop_assume!(dashed != name);
            prop_assert_ne!(
                job_name(&node(&name), Action::Enable),
                job_name(&node(&dashed), Action::Enable)
            );
        }
    }
}
