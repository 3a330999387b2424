//! Pods of several containers, and what kubelet hands on between them.

use super::*;

#[test]
fn two_containers_of_whole_cards_get_different_ones_and_shares_may_have_one_together() {
    let ledger = node(&[144, 144, 144]);
    let two = request(&[(Role::App, &[(GPU, "1")]), (Role::App, &[(PPU, "2")])]);
    assert_eq!(binpack(&two, &ledger), Ok(vec![vec![0], vec![1, 2]]));
    let shares = request(&[(Role::App, &[(CORE, "50")]), (Role::App, &[(CORE, "50")])]);
    assert_eq!(binpack(&shares, &ledger), Ok(vec![vec![0], vec![0]]));
    assert_eq!(
        cards(&shares, &ledger, Policy::Spread),
        Ok(vec![vec![0], vec![1]])
    );
    let both = request(&[(Role::App, &[(CORE, "1")]), (Role::App, &[(GPU, "2")])]);
    assert_eq!(
        cards(&both, &ledger, Policy::Spread),
        Ok(vec![vec![0], vec![1, 2]])
    );
}

#[test]
fn case_2_two_containers_of_one_pod_get_1_and_2_and_5_and_5_gib() {
    let ledger = node(&[10, 10]);
    for (first, second) in [("1", "2"), ("5", "5")] {
        let pod = request(&[
            (Role::App, &[(MEMORY, first)]),
            (Role::App, &[(MEMORY, second)]),
        ]);
        assert_eq!(binpack(&pod, &ledger), Ok(vec![vec![0], vec![0]]));
    }
}

#[test]
fn a_step_back_is_taken_where_a_later_container_finds_no_room() {
    let ledger = node(&[144, 144]);
    let pod = request(&[(Role::App, &[(CORE, "10")]), (Role::App, &[(CORE, "100")])]);
    assert_eq!(
        cards(&pod, &ledger, Policy::Spread),
        Ok(vec![vec![0], vec![1]])
    );
    // Spread puts the first container on the larger card, where the second one must be.
    let ledger = node(&[100, 200]);
    let pod = request(&[
        (Role::App, &[(CORE, "10"), (MEMORY, "90")]),
        (Role::App, &[(CORE, "10"), (MEMORY, "10")]),
        (Role::App, &[(CORE, "10"), (MEMORY, "195")]),
    ]);
    assert_eq!(
        cards(&pod, &ledger, Policy::Spread),
        Ok(vec![vec![0], vec![0], vec![1]])
    );
}

#[test]
fn many_containers_that_barely_do_not_fit_are_answered_soon() {
    let mut ledger = node(&[100; 16]);
    for n in 0..16 {
        used(&mut ledger, n, n, u64::from(n));
    }
    let limits: Limits<'_> = &[(CORE, "43"), (MEMORY, "43")];
    let asks = vec![(Role::App, limits); 33];
    let text = why(&request(&asks), &ledger);
    assert_eq!(text, "no card has 43 core and 43GiB free");
}

#[test]
fn case_8_init_sidecar_app_peak_6_or_4_decides_whether_the_pod_fits() {
    let after = request(&[
        (Role::Init, &[(MEMORY, "4")]),
        (Role::Sidecar, &[(MEMORY, "2")]),
        (Role::App, &[(MEMORY, "2")]),
    ]);
    let before = request(&[
        (Role::Sidecar, &[(MEMORY, "2")]),
        (Role::Init, &[(MEMORY, "4")]),
        (Role::App, &[(MEMORY, "2")]),
    ]);
    assert_eq!(binpack(&after, &node(&[4])), Ok(vec![vec![0]; 3]));
    assert_eq!(binpack(&before, &node(&[6])), Ok(vec![vec![0]; 3]));
    assert_eq!(why(&before, &node(&[5])), "no card has 4GiB free");
    // Together they are too much for any card, but the sidecar may be on another.
    assert_eq!(
        binpack(&before, &node(&[5, 5])),
        Ok(vec![vec![0], vec![1], vec![1]])
    );
}

#[test]
fn a_container_goes_where_what_is_handed_on_to_it_lies() {
    let mut ledger = node(&[100, 100]);
    used(&mut ledger, 0, 0, 60);
    // The init container is too large for the fuller card; the app container would fit there.
    let pod = request(&[
        (Role::Init, &[(MEMORY, "50")]),
        (Role::App, &[(MEMORY, "10")]),
    ]);
    assert_eq!(binpack(&pod, &ledger), Ok(vec![vec![1], vec![1]]));
    // Core and memory that two init containers had come to one card.
    let pod = request(&[
        (Role::Init, &[(MEMORY, "50")]),
        (Role::Init, &[(CORE, "10"), (MEMORY, "1")]),
        (Role::App, &[(CORE, "20"), (MEMORY, "10")]),
    ]);
    assert_eq!(cards(&pod, &ledger, Policy::Spread), Ok(vec![vec![1]; 3]));
    let pod = request(&[
        (Role::Init, &[(MEMORY, "10")]),
        (Role::Init, &[(CORE, "10")]),
        (Role::App, &[(CORE, "20"), (MEMORY, "10")]),
    ]);
    assert_eq!(cards(&pod, &ledger, Policy::Spread), Ok(vec![vec![1]; 3]));
}

#[test]
fn what_is_handed_on_forces_later_shares_together_until_it_is_used_up() {
    let ledger = node(&[100, 100]);
    let inits = |first: &'static str, second: &'static str| {
        request(&[
            (Role::Init, &[(MEMORY, "50")]),
            (Role::App, &[(MEMORY, first)]),
            (Role::App, &[(MEMORY, second)]),
        ])
    };
    assert_eq!(
        binpack(&inits("50", "60"), &ledger),
        Ok(vec![vec![0], vec![0], vec![1]])
    );
    assert_eq!(
        why(&inits("45", "60"), &ledger),
        "no card has 60GiB free beside the containers that kubelet puts on the same card"
    );
    // The larger of two init containers counts, not the first: 10 are left for the last.
    let larger_second = request(&[
        (Role::Init, &[(MEMORY, "40")]),
        (Role::Init, &[(MEMORY, "60")]),
        (Role::App, &[(MEMORY, "50")]),
        (Role::App, &[(MEMORY, "60")]),
    ]);
    assert!(matches!(
        binpack(&larger_second, &ledger),
        Err(NoFit::Together { .. })
    ));
}

#[test]
fn whole_cards_are_handed_on_under_the_same_name() {
    let ledger = node(&[144; 4]);
    let pod = |first: Limits<'_>, second: Limits<'_>, third: Limits<'_>| {
        binpack(
            &request(&[(Role::Init, first), (Role::App, second), (Role::App, third)]),
            &ledger,
        )
    };
    assert_eq!(
        pod(&[(GPU, "2")], &[(GPU, "1")], &[(GPU, "2")]),
        Ok(vec![vec![0, 1], vec![0], vec![1, 2]])
    );
    assert_eq!(
        pod(&[(GPU, "2")], &[(PPU, "1")], &[(GPU, "2")]),
        Ok(vec![vec![0, 1], vec![2], vec![0, 1]])
    );
    assert_eq!(
        pod(&[(GPU, "4")], &[(GPU, "3")], &[(GPU, "1")]),
        Ok(vec![vec![0, 1, 2, 3], vec![0, 1, 2], vec![3]])
    );
    assert_eq!(
        pod(&[(CORE, "200")], &[(CORE, "300")], &[(CORE, "50")]),
        Ok(vec![vec![0, 1], vec![0, 1, 2], vec![3]])
    );
}

#[test]
fn what_kubelet_would_stretch_over_cards_is_refused() {
    let ledger = node(&[144; 8]);
    let pod = |first: Limits<'_>, second: Limits<'_>| {
        why(
            &request(&[(Role::Init, first), (Role::App, second)]),
            &ledger,
        )
    };
    let core = "kubelet would hand an init container's aliyun.com/gpu-core on to a container that it can't serve";
    assert_eq!(pod(&[(CORE, "200")], &[(CORE, "100")]), core);
    assert_eq!(pod(&[(CORE, "300")], &[(CORE, "200")]), core);
    assert_eq!(pod(&[(CORE, "50")], &[(CORE, "200")]), core);
    let memory = core.replace("core", "memory");
    assert_eq!(
        pod(&[(CORE, "200"), (MEMORY, "10")], &[(MEMORY, "10")]),
        memory
    );
    assert_eq!(
        pod(&[(MEMORY, "10")], &[(CORE, "200"), (MEMORY, "10")]),
        memory
    );
}

#[test]
fn whole_cards_by_core_have_the_memory_together() {
    let ledger = node(&[40, 40, 80, 80]);
    let pod = |memory| app(&[(CORE, "200"), (MEMORY, memory)]);
    assert_eq!(binpack(&pod("80"), &ledger), Ok(vec![vec![0, 1]]));
    assert_eq!(binpack(&pod("81"), &ledger), Ok(vec![vec![2, 3]]));
    assert_eq!(binpack(&pod("160"), &ledger), Ok(vec![vec![2, 3]]));
    assert_eq!(
        why(&pod("161"), &ledger),
        "no 2 free cards have 161GiB together"
    );
}
