mod pods;

use super::*;
use crate::{
    card::{Card, CardKind, Health, Inventory, Link, tests::card},
    ledger::{CardHold, Hold},
    name::{CardId, PodUid},
    phase,
    plan::GrantMode,
    request::{ContainerSpec, Role},
};

const GPU: &str = "aliyun.com/gpu";
const PPU: &str = "alibabacloud.com/ppu";
const CORE: &str = "aliyun.com/gpu-core";
const MEMORY: &str = "aliyun.com/gpu-memory";

type Limits<'a> = &'a [(&'a str, &'a str)];

fn request(containers: &[(Role, Limits<'_>)]) -> PodRequest {
    let names: Vec<String> = (0..containers.len()).map(|n| format!("c{n}")).collect();
    let specs = containers
        .iter()
        .zip(&names)
        .map(|((role, limits), name)| ContainerSpec {
            name,
            role: *role,
            limits: limits.to_vec(),
        });
    PodRequest::read(specs, &Settings::default()).unwrap()
}

fn app(limits: Limits<'_>) -> PodRequest {
    request(&[(Role::App, limits)])
}

fn node(sizes: &[u64]) -> Ledger {
    of_cards((0..).zip(sizes).map(|(n, gib)| card(n, *gib)).collect())
}

fn of_cards(cards: Vec<Card>) -> Ledger {
    Ledger::new(Inventory::new(cards).unwrap())
}

fn id(n: u32) -> CardId {
    CardId::new(&format!("ppu-{n}")).unwrap()
}

fn pod(n: u32) -> PodUid {
    PodUid::new(&format!("pod-{n}")).unwrap()
}

fn used(ledger: &mut Ledger, n: u32, core: u32, gib: u64) {
    let share = CardHold::share(CorePercent::new(core), MemoryBytes::from_gib(gib));
    let held: Hold = [(id(n), share)].into_iter().collect();
    ledger.hold(&pod(n), held).unwrap();
}

fn taken(ledger: &mut Ledger, cards: &[u32]) {
    let held: Hold = cards.iter().map(|n| (id(*n), CardHold::whole())).collect();
    ledger.hold(&pod(1000), held).unwrap();
}

/// The cards of each container, and that `fits` and `score` say the same as `place`.
fn cards(request: &PodRequest, ledger: &Ledger, policy: Policy) -> Result<Vec<Vec<u32>>, NoFit> {
    let settings = Settings::default();
    let request = &request.by(policy);
    let trial = Trial::new(request, &settings);
    let placed = place(request, ledger, &settings);
    assert_eq!(
        trial.fits(ledger),
        placed.as_ref().map(|_| ()).map_err(Clone::clone)
    );
    assert_eq!(trial.score(ledger).is_some(), placed.is_ok());
    let plan = placed?;
    assert!(trial.could_fit(ledger));
    assert_eq!(place(request, ledger, &settings), Ok(plan.clone()));
    assert_eq!(
        ledger.check(&pod(9999), &phase::peak(request, &plan)),
        Ok(())
    );
    let number = |card: &CardId| card.as_str().trim_start_matches("ppu-").parse().unwrap();
    let of_container =
        |c: &crate::plan::ContainerGrants| c.grants.iter().map(|g| number(&g.card)).collect();
    Ok(plan.containers.iter().map(of_container).collect())
}

fn binpack(request: &PodRequest, ledger: &Ledger) -> Result<Vec<Vec<u32>>, NoFit> {
    cards(request, ledger, Policy::Binpack)
}

fn why(request: &PodRequest, ledger: &Ledger) -> String {
    binpack(request, ledger).unwrap_err().to_string()
}

#[test]
fn binpack_takes_the_fullest_card_that_fits_and_spread_the_emptiest() {
    let mut ledger = node(&[144, 144, 144, 144]);
    used(&mut ledger, 1, 30, 30);
    used(&mut ledger, 2, 60, 30);
    let half = app(&[(CORE, "40"), (MEMORY, "24")]);
    assert_eq!(binpack(&half, &ledger), Ok(vec![vec![2]]));
    assert_eq!(cards(&half, &ledger, Policy::Spread), Ok(vec![vec![0]]));
    let more = app(&[(CORE, "41"), (MEMORY, "24")]);
    assert_eq!(binpack(&more, &ledger), Ok(vec![vec![1]]));
    taken(&mut ledger, &[0, 3]);
    assert_eq!(cards(&half, &ledger, Policy::Spread), Ok(vec![vec![1]]));
}

#[test]
fn a_card_shared_by_a_share_of_nothing_comes_before_a_free_one() {
    let mut ledger = node(&[144, 144]);
    used(&mut ledger, 1, 0, 0);
    let share = app(&[(MEMORY, "1")]);
    assert_eq!(binpack(&share, &ledger), Ok(vec![vec![1]]));
    assert_eq!(cards(&share, &ledger, Policy::Spread), Ok(vec![vec![0]]));
}

#[test]
fn core_without_memory_takes_the_same_part_of_the_cards_memory() {
    let ledger = node(&[15]);
    let plan = place(&app(&[(CORE, "50")]), &ledger, &Settings::default()).unwrap();
    let mode = &plan.containers[0].grants[0].mode;
    let (core, memory) = (CorePercent::new(50), MemoryBytes::from_gib(7));
    assert_eq!(*mode, GrantMode::Share { core, memory });
    let plan = place(&app(&[(MEMORY, "3")]), &ledger, &Settings::default()).unwrap();
    let mode = &plan.containers[0].grants[0].mode;
    let (core, memory) = (CorePercent::ZERO, MemoryBytes::from_gib(3));
    assert_eq!(*mode, GrantMode::Share { core, memory });
}

#[test]
fn the_reasons_are_few_and_say_what_is_missing() {
    let mut ledger = node(&[144, 144]);
    used(&mut ledger, 0, 60, 100);
    used(&mut ledger, 1, 90, 10);
    let share = app(&[(CORE, "50"), (MEMORY, "24")]);
    assert_eq!(why(&share, &ledger), "no card has 50 core and 24GiB free");
    assert_eq!(
        why(&app(&[(CORE, "50")]), &ledger),
        "no card has 50 core and 50% of its memory free"
    );
    assert_eq!(
        why(&app(&[(MEMORY, "140")]), &ledger),
        "no card has 140GiB free"
    );
    assert_eq!(
        why(&app(&[(MEMORY, "145")]), &ledger),
        "no healthy card is as large as 145GiB"
    );
    assert_eq!(why(&app(&[(GPU, "1")]), &ledger), "0 of 1 whole cards free");
    assert_eq!(why(&app(&[(PPU, "3")]), &ledger), "only 2 of 3 cards here");
    let empty = of_cards(Vec::new());
    assert_eq!(
        why(&share, &empty),
        "no card here serves aliyun.com/gpu-core"
    );
    assert_eq!(
        why(&app(&[(PPU, "1")]), &empty),
        "no card here serves alibabacloud.com/ppu"
    );
    let memory = app(&[(CORE, "200"), (MEMORY, "289")]);
    assert_eq!(
        why(&memory, &node(&[144, 144])),
        "no 2 free cards have 289GiB together"
    );
}

#[test]
fn preemption_is_named_useless_where_no_pod_is_in_the_way() {
    let settings = Settings::default();
    let mut ledger = node(&[144, 144]);
    taken(&mut ledger, &[0, 1]);
    let could =
        |request: &PodRequest, ledger: &Ledger| Trial::new(request, &settings).could_fit(ledger);
    assert!(could(&app(&[(GPU, "2")]), &ledger));
    assert!(!could(&app(&[(GPU, "3")]), &ledger));
    assert!(could(&app(&[(MEMORY, "144")]), &ledger));
    assert!(!could(&app(&[(MEMORY, "145")]), &ledger));
    assert!(!could(&app(&[(CORE, "1")]), &of_cards(Vec::new())));
}

#[test]
fn an_unhealthy_card_is_never_picked() {
    let mut sick = card(0, 144);
    sick.health = Health::Unhealthy("lost".into());
    let ledger = of_cards(vec![sick.clone(), card(1, 144)]);
    assert_eq!(binpack(&app(&[(CORE, "1")]), &ledger), Ok(vec![vec![1]]));
    assert_eq!(binpack(&app(&[(GPU, "1")]), &ledger), Ok(vec![vec![1]]));
    assert_eq!(why(&app(&[(GPU, "2")]), &ledger), "1 of 2 whole cards free");
    let ledger = of_cards(vec![sick]);
    assert_eq!(
        why(&app(&[(GPU, "1")]), &ledger),
        "no healthy card here serves aliyun.com/gpu"
    );
    assert_eq!(
        why(&app(&[(CORE, "1")]), &ledger),
        "no healthy card here serves aliyun.com/gpu-core"
    );
}

#[test]
fn a_name_limits_the_kinds_of_card() {
    let mut gpu = card(0, 80);
    gpu.kind = CardKind::Gpu;
    let ledger = of_cards(vec![gpu.clone(), card(1, 144)]);
    assert_eq!(binpack(&app(&[(PPU, "1")]), &ledger), Ok(vec![vec![1]]));
    assert_eq!(binpack(&app(&[(GPU, "2")]), &ledger), Ok(vec![vec![0, 1]]));
    assert_eq!(
        why(&app(&[(PPU, "1")]), &of_cards(vec![gpu])),
        "no card here serves alibabacloud.com/ppu"
    );
}

#[test]
fn a_name_limits_the_models_of_card() {
    let settings: Settings = serde_json::from_str(
        r#"{"resources":[
            {"name":"a.com/any","gives":"wholeCard"},
            {"name":"a.com/small","gives":"wholeCard","models":["S","XS"]},
            {"name":"a.com/core","gives":"corePercent","models":["S","L"]},
            {"name":"a.com/memory","gives":"memory","models":["L"]}]}"#,
    )
    .unwrap();
    assert_eq!(settings.validate(), Ok(()));
    let of = |n: u32, model: &str| Card {
        model: model.into(),
        ..card(n, 80)
    };
    let ledger = of_cards(vec![of(0, "XL"), of(1, "S"), of(2, "L"), of(3, "S")]);
    let placed = |limits: Limits<'_>| {
        let container = ContainerSpec {
            name: "main",
            role: Role::App,
            limits: limits.to_vec(),
        };
        let request = PodRequest::read([container], &settings).unwrap();
        let trial = Trial::new(&request, &settings);
        let placed = place(&request, &ledger, &settings);
        assert_eq!(trial.fits(&ledger).is_ok(), placed.is_ok());
        assert_eq!(trial.could_fit(&ledger), placed.is_ok());
        let grants = placed
            .map_err(|why| why.to_string())?
            .containers
            .remove(0)
            .grants;
        Ok(grants
            .into_iter()
            .map(|grant| grant.card)
            .collect::<Vec<_>>())
    };
    assert_eq!(placed(&[("a.com/small", "2")]), Ok(vec![id(1), id(3)]));
    assert_eq!(
        placed(&[("a.com/small", "3")]),
        Err("only 2 of 3 cards here".to_owned())
    );
    assert_eq!(placed(&[("a.com/any", "1")]), Ok(vec![id(0)]));
    assert_eq!(placed(&[("a.com/core", "10")]), Ok(vec![id(1)]));
    // Both names must cover the card.
    let both = placed(&[("a.com/core", "10"), ("a.com/memory", "1")]);
    assert_eq!(both, Ok(vec![id(2)]));
    let other = of_cards(vec![of(0, "XL")]);
    let request = {
        let limits = vec![("a.com/small", "1")];
        let container = ContainerSpec {
            name: "main",
            role: Role::App,
            limits,
        };
        PodRequest::read([container], &settings).unwrap()
    };
    let why = place(&request, &other, &settings).unwrap_err().to_string();
    assert_eq!(why, "no card here serves a.com/small");
}

#[test]
fn a_card_that_cannot_be_shared_is_for_whole_asks_only() {
    let mut solid = card(0, 144);
    solid.shareable = false;
    let ledger = of_cards(vec![solid, card(1, 144)]);
    assert_eq!(binpack(&app(&[(CORE, "100")]), &ledger), Ok(vec![vec![1]]));
    assert_eq!(
        binpack(&app(&[(CORE, "200")]), &ledger),
        Ok(vec![vec![0, 1]])
    );
}

/// Eight cards: pairs 0-1, 2-3, 4-5, 6-7 on a switch each, fours on a NUMA node, and fast links
/// within the even and within the odd cards of a NUMA node.
fn machine() -> Vec<Card> {
    let linked = |n: u32, peer: u32| n != peer && n / 4 == peer / 4 && n % 2 == peer % 2;
    let cards = (0..8).map(|n| Card {
        numa: Some(n / 4),
        switch: Some(format!("sw{}", n / 2)),
        links: (0..8)
            .filter(|peer| linked(n, *peer))
            .map(|peer| Link {
                peer: id(peer),
                bandwidth: 50_000_000_000,
            })
            .collect(),
        ..card(n, 80)
    });
    cards.collect()
}

#[test]
fn whole_cards_hang_together_and_the_rest_is_broken_least() {
    let mut ledger = of_cards(machine());
    let gpus = |count| app(&[(GPU, count)]);
    assert_eq!(binpack(&gpus("2"), &ledger), Ok(vec![vec![0, 2]]));
    assert_eq!(binpack(&gpus("4"), &ledger), Ok(vec![vec![0, 1, 2, 3]]));
    taken(&mut ledger, &[2]);
    // Card 0 has lost its peer: it goes first where one is asked.
    assert_eq!(binpack(&gpus("1"), &ledger), Ok(vec![vec![0]]));
    assert_eq!(binpack(&gpus("2"), &ledger), Ok(vec![vec![1, 3]]));
    assert_eq!(binpack(&gpus("4"), &ledger), Ok(vec![vec![4, 5, 6, 7]]));
    taken(&mut ledger, &[2, 4, 5, 3]);
    // No links are left but 6 and 7 share a switch, as 0 and 1 do.
    assert_eq!(binpack(&gpus("2"), &ledger), Ok(vec![vec![0, 1]]));
    taken(&mut ledger, &[1, 2, 3, 5, 6]);
    // Only 4 and 7 are on one NUMA node.
    assert_eq!(binpack(&gpus("2"), &ledger), Ok(vec![vec![4, 7]]));
    assert_eq!(binpack(&gpus("3"), &ledger), Ok(vec![vec![0, 4, 7]]));
}

#[test]
fn scores_follow_the_policy_the_use_and_the_links() {
    let settings = Settings::default();
    let score = |request: &PodRequest, ledger: &Ledger, nodes| {
        let plan = place(request, ledger, &settings).unwrap();
        let mut request = request.clone();
        request.placement.nodes = nodes;
        let trial = Trial::new(&request, &settings);
        let ours = trial.score(ledger).unwrap();
        assert_eq!(ours, super::score(&plan, ledger, nodes));
        ours
    };
    let half = app(&[(CORE, "50")]);
    let empty = node(&[144; 4]);
    let mut begun = node(&[144; 4]);
    used(&mut begun, 3, 50, 24);
    let mut full = node(&[144; 4]);
    taken(&mut full, &[0, 1, 2]);
    assert!(score(&half, &begun, Policy::Binpack) > score(&half, &empty, Policy::Binpack));
    assert!(score(&half, &begun, Policy::Spread) < score(&half, &empty, Policy::Spread));
    assert_eq!(score(&app(&[(GPU, "1")]), &full, Policy::Binpack), 10);
    assert_eq!(score(&app(&[(GPU, "1")]), &full, Policy::Spread), 0);
    let linked = of_cards(machine());
    let loose = node(&[80; 8]);
    let pair = app(&[(GPU, "2")]);
    for nodes in [Policy::Binpack, Policy::Spread] {
        assert!(score(&pair, &linked, nodes) > score(&pair, &loose, nodes));
    }
    // Filled to the last card, but its cards share no more than a NUMA node.
    let near = |n| Card {
        numa: Some(0),
        ..card(n, 80)
    };
    let mut near = of_cards((0..8).map(near).collect());
    taken(&mut near, &[0, 1, 2, 3, 4, 5]);
    let gained =
        |nodes| i16::from(score(&pair, &linked, nodes)) - i16::from(score(&pair, &near, nodes));
    assert!(gained(Policy::Binpack) <= 0, "{}", gained(Policy::Binpack));
    assert!(
        gained(Policy::LinkAware) >= 4,
        "{}",
        gained(Policy::LinkAware)
    );
    assert_eq!(
        score(&half, &begun, Policy::LinkAware),
        score(&half, &begun, Policy::Binpack)
    );
    assert_eq!(
        Trial::new(&app(&[(GPU, "5")]), &settings).score(&empty),
        None
    );
}

#[test]
fn of_sets_with_equal_links_spread_takes_the_one_in_the_emptiest_part() {
    let mut ledger = of_cards(machine());
    taken(&mut ledger, &[0]);
    let one = app(&[(GPU, "1")]);
    // Card 2 has lost its peer; the others still have theirs.
    assert_eq!(binpack(&one, &ledger), Ok(vec![vec![2]]));
    let spread = cards(&one, &ledger, Policy::Spread).unwrap();
    assert_ne!(spread, vec![vec![2]]);
    // The links go before that.
    let pair = cards(&app(&[(GPU, "2")]), &ledger, Policy::Spread).unwrap();
    assert_eq!(pair[0][0] % 2, pair[0][1] % 2, "{pair:?}");
    assert_eq!(pair[0][0] / 4, pair[0][1] / 4, "{pair:?}");
}

#[test]
fn a_pod_that_asks_for_nothing_fits_anywhere() {
    let nothing = app(&[]);
    assert_eq!(binpack(&nothing, &of_cards(Vec::new())), Ok(Vec::new()));
}
