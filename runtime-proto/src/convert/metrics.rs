//! Metrics: which, and their values.

use std::{collections::BTreeSet, time::Duration};

use model::name::CardId;

use super::{Malformed, allocation::consumer, at_most, text};
use crate::{
    client::{CardSample, ContainerSample, Metric, MetricConfig, MetricType, Snapshot},
    wire,
};

/// Descriptors, and values of one sample.
const MOST_METRICS: usize = 256;
/// As many as cards are taken.
const MOST_CARDS: usize = 256;
/// 256 cards with 64 shares each.
const MOST_CONTAINERS: usize = 16384;
/// What is assumed where the Runtime does not say how often it reads the hardware.
const USUAL_INTERVAL: Duration = Duration::from_secs(10);
/// A shorter one would only be a mistake of unit.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn metric_config(answer: wire::ExporterGetConfigResponse) -> MetricConfig {
    let mut malformed = Malformed::default();
    let mut names = BTreeSet::new();
    let (mut card, mut container) = (Vec::new(), Vec::new());
    for wire in at_most(answer.metrics, MOST_METRICS, "metrics", &mut malformed) {
        let name = text::one_line(&wire.name, 80);
        let list = match wire::MetricScope::try_from(wire.scope) {
            Ok(wire::MetricScope::Card) => &mut card,
            Ok(wire::MetricScope::Container) => &mut container,
            Ok(wire::MetricScope::Unspecified) | Err(_) => {
                malformed.add(&format!(
                    "metric {name:?}: scope {} is not known",
                    wire.scope
                ));
                continue;
            }
        };
        list.push(match metric(wire) {
            Ok(metric) if !names.insert(metric.name.clone()) => {
                malformed.add(&format!("metric {name:?} is there twice"));
                None
            }
            Ok(metric) => Some(metric),
            Err(why) => {
                malformed.add(&format!("metric {name:?}: {why}"));
                None
            }
        });
    }
    let interval = match answer.collection_interval_milliseconds {
        0 => USUAL_INTERVAL,
        milliseconds => Duration::from_millis(milliseconds.into()).max(LEAST_INTERVAL),
    };
    MetricConfig {
        version: answer.config_version,
        card,
        container,
        collection_interval: interval,
        malformed: malformed.into_lines(),
    }
}

fn metric(wire: wire::MetricDescriptor) -> Result<Metric, String> {
    if !text::is_metric_name(&wire.name) {
        return Err("the name is not a Prometheus name".to_owned());
    }
    let kind = match wire::MetricType::try_from(wire.r#type) {
        Ok(wire::MetricType::Gauge) => MetricType::Gauge,
        Ok(wire::MetricType::Counter) => MetricType::Counter,
        Ok(wire::MetricType::Unspecified) | Err(_) => {
            return Err(format!("type {} is not known", wire.r#type));
        }
    };
    Ok(Metric {
        name: wire.name,
        help: text::one_line(&wire.help, 300),
        kind,
    })
}

/// The number of values of a sample is not checked here: it is the consumer that holds the
/// configuration, and takes a value that is missing as not measured.
pub(crate) fn snapshot(answer: wire::MetricSnapshot) -> Snapshot {
    let mut malformed = Malformed::default();
    let mut cards = Vec::new();
    let mut ids = BTreeSet::new();
    for wire in at_most(answer.cards, MOST_CARDS, "card samples", &mut malformed) {
        match CardId::new(&wire.card_id) {
            Ok(card) if !ids.insert(card.clone()) => {
                malformed.add(&format!("the sample of card {card} is there twice"));
            }
            Ok(card) => cards.push(CardSample {
                card,
                values: values(wire.values),
            }),
            Err(error) => malformed.add(&format!("card sample: {error}")),
        }
    }
    let mut containers = Vec::new();
    let mut seen = BTreeSet::new();
    let all = at_most(
        answer.containers,
        MOST_CONTAINERS,
        "container samples",
        &mut malformed,
    );
    for wire in all {
        let whose = CardId::new(&wire.card_id)
            .map_err(|e| e.to_string())
            .and_then(|card| Ok((card, consumer(&wire.consumer.unwrap_or_default())?)));
        match whose {
            Ok((card, consumer)) if !seen.insert((card.clone(), consumer.clone())) => {
                malformed.add(&format!(
                    "the sample of container {} of pod {} on card {card} is there twice",
                    consumer.container, consumer.pod
                ));
            }
            Ok((card, consumer)) => containers.push(ContainerSample {
                card,
                consumer,
                values: values(wire.values),
            }),
            Err(why) => malformed.add(&format!("container sample: {why}")),
        }
    }
    Snapshot {
        config_version: answer.config_version,
        timestamp_milliseconds: answer.timestamp_milliseconds,
        cards,
        containers,
        malformed: malformed.into_lines(),
    }
}

fn values(mut values: Vec<f64>) -> Vec<f64> {
    values.truncate(MOST_METRICS);
    values
}
