//! Faults on command: their names and parameters.

use std::{collections::BTreeMap, time::Duration};

use model::name::CardId;

use crate::profile::Profile;

/// Something that goes wrong, or right again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Something happens to one card.
    Card(CardId, CardFault),
    /// Each answer comes so much later; zero ends it.
    Slow(Duration),
    /// All streams end now.
    Eof,
    /// Connections break and the sockets are gone for so long.
    Restart(Duration),
    /// So many allocations from now on are refused.
    RefuseAllocate(u32),
    /// The calls that came last are not there.
    OlderInterface(bool),
    /// Switches of the feature fail.
    FeatureFails(bool),
    /// The node has other cards, or the same that can be cut otherwise.
    ReplaceCards(Box<Profile>),
}

/// What happens to a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardFault {
    /// It vanishes.
    Lost,
    /// It is there again.
    Back,
    /// It is not to be used.
    Unhealthy(String),
    /// It can be used again.
    Healthy,
    /// So many memory errors more.
    Ecc(u64),
}

/// Past this a client has given up anyway.
const MOST_MILLISECONDS: u64 = 600_000;

impl Fault {
    /// From its name and parameters, as in `POST /faults/NAME?PARAMETER=VALUE`. The error is one
    /// line.
    pub fn parse(name: &str, parameters: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut parameters = Parameters {
            fault: name,
            left: parameters.clone(),
        };
        let fault = parameters.fault(name)?;
        match parameters.left.keys().next() {
            None => Ok(fault),
            Some(unknown) => Err(format!("{name} has no parameter {unknown:?}")),
        }
    }
}

struct Parameters<'a> {
    fault: &'a str,
    left: BTreeMap<String, String>,
}

impl Parameters<'_> {
    fn fault(&mut self, name: &str) -> Result<Fault, String> {
        Ok(match name {
            "card-lost" => Fault::Card(self.card()?, CardFault::Lost),
            "card-back" => Fault::Card(self.card()?, CardFault::Back),
            "unhealthy" => {
                let reason = self.left.remove("reason");
                let reason = reason.unwrap_or_else(|| "told to be unhealthy".to_owned());
                Fault::Card(self.card()?, CardFault::Unhealthy(reason))
            }
            "healthy" => Fault::Card(self.card()?, CardFault::Healthy),
            "ecc" => Fault::Card(self.card()?, CardFault::Ecc(self.number("count", Some(1))?)),
            "slow" => Fault::Slow(self.milliseconds("milliseconds", None)?),
            "eof" => Fault::Eof,
            "restart" => Fault::Restart(self.milliseconds("down_milliseconds", Some(500))?),
            "refuse-allocate" => Fault::RefuseAllocate(self.number("times", Some(1))?),
            "older-interface" => Fault::OlderInterface(self.number("on", Some(true))?),
            "feature-fails" => Fault::FeatureFails(self.number("on", Some(true))?),
            "replace-cards" => Fault::ReplaceCards(Box::new(self.profile()?)),
            unknown => {
                let unknown: String = unknown.chars().take(40).collect();
                return Err(format!(
                    "no fault {unknown:?}: there are card-lost, card-back, unhealthy, healthy, ecc, slow, eof, restart, refuse-allocate, older-interface, feature-fails, replace-cards"
                ));
            }
        })
    }

    /// A built-in one, with only the partitions that are named, where any are.
    fn profile(&mut self) -> Result<Profile, String> {
        let text = self.left.remove("profile");
        let text = text.ok_or_else(|| format!("{} needs profile=NAME", self.fault))?;
        let mut profile = Profile::built_in_called(&text)?;
        if let Some(only) = self.left.remove("partitions") {
            let names: Vec<&str> = only.split(',').collect();
            let all = std::mem::take(&mut profile.partitions);
            for name in names {
                let known = all.iter().find(|p| p.name.as_str() == name);
                let missing =
                    || format!("{}: profile {text} has no partition {name:?}", self.fault);
                profile.partitions.push(known.ok_or_else(missing)?.clone());
            }
        }
        Ok(profile)
    }

    fn card(&mut self) -> Result<CardId, String> {
        let text = self.left.remove("card");
        let text = text.ok_or_else(|| format!("{} needs card=ID", self.fault))?;
        CardId::new(&text).map_err(|e| e.to_string())
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        name: &str,
        otherwise: Option<T>,
    ) -> Result<T, String> {
        match (self.left.remove(name), otherwise) {
            (None, Some(value)) => Ok(value),
            (None, None) => Err(format!("{} needs {name}", self.fault)),
            (Some(text), _) => {
                let short: String = text.chars().take(40).collect();
                let wrong = |_| format!("{}: {name}={short:?} can't be read", self.fault);
                text.parse().map_err(wrong)
            }
        }
    }

    fn milliseconds(&mut self, name: &str, otherwise: Option<u64>) -> Result<Duration, String> {
        let milliseconds: u64 = self.number(name, otherwise)?;
        if milliseconds > MOST_MILLISECONDS {
            return Err(format!(
                "{}: {name}={milliseconds} is past {MOST_MILLISECONDS}",
                self.fault
            ));
        }
        Ok(Duration::from_millis(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Fault, String> {
        let (name, rest) = query.split_once('?').unwrap_or((query, ""));
        let parameters = rest
            .split('&')
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        Fault::parse(name, &parameters)
    }

    #[test]
    fn each_fault_is_read_with_its_parameters_and_defaults() {
        let card = || CardId::new("ppu-1").unwrap();
        for (text, fault) in [
            ("card-lost?card=ppu-1", Fault::Card(card(), CardFault::Lost)),
            ("card-back?card=ppu-1", Fault::Card(card(), CardFault::Back)),
            (
                "unhealthy?card=ppu-1&reason=hot",
                Fault::Card(card(), CardFault::Unhealthy("hot".into())),
            ),
            (
                "healthy?card=ppu-1",
                Fault::Card(card(), CardFault::Healthy),
            ),
            (
                "ecc?card=ppu-1&count=3",
                Fault::Card(card(), CardFault::Ecc(3)),
            ),
            (
                "slow?milliseconds=20",
                Fault::Slow(Duration::from_millis(20)),
            ),
            ("eof", Fault::Eof),
            ("restart", Fault::Restart(Duration::from_millis(500))),
            ("refuse-allocate?times=2", Fault::RefuseAllocate(2)),
            ("older-interface?on=false", Fault::OlderInterface(false)),
            ("feature-fails", Fault::FeatureFails(true)),
        ] {
            assert_eq!(parse(text), Ok(fault), "{text}");
        }
        let cut = parse("replace-cards?profile=gpu-8-mig&partitions=7g.141gb");
        let Ok(Fault::ReplaceCards(cut)) = cut else {
            panic!("{cut:?}");
        };
        let names: Vec<&str> = cut.partitions.iter().map(|p| p.name.as_str()).collect();
        assert_eq!((names, cut.cards), (vec!["7g.141gb"], 8));
    }

    #[test]
    fn what_is_wrong_is_named_in_one_line() {
        for (text, named) in [
            ("melt", "melt"),
            ("card-lost", "card=ID"),
            ("card-lost?card=PPU", "PPU"),
            ("slow?milliseconds=-1", "-1"),
            ("slow?milliseconds=99999999", "99999999"),
            ("eof?when=now", "when"),
            ("slow", "milliseconds"),
            ("replace-cards", "profile=NAME"),
            ("replace-cards?profile=gpu-9", "gpu-9"),
            (
                "replace-cards?profile=gpu-8-mig&partitions=1g.18gb,9g",
                "9g",
            ),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(named) && !why.contains('\n'), "{text}: {why}");
        }
    }
}
