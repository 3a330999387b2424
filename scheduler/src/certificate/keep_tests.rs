use super::*;

const NOW: i64 = 1_800_000_000;

fn names() -> Vec<String> {
    vec!["extender.kube-system.svc".to_owned()]
}

/// Follows every write, as the program does; what is kept and what follows at the end.
fn settle(mut kept: Kept, now: i64) -> (Kept, Next, usize) {
    let mut writes = 0;
    loop {
        let next = next(&kept, &names(), now).unwrap();
        match next.write {
            Some(new) => {
                kept = new;
                writes += 1;
                assert!(writes < 4, "it never settles");
            }
            None => return (kept, next, writes),
        }
    }
}

fn fresh() -> Kept {
    settle(Kept::default(), NOW).0
}

fn cas(kept: &Kept) -> Vec<String> {
    read::split(kept.ca.as_ref().unwrap())
}

#[test]
fn an_empty_secret_gets_a_ca_and_a_certificate_in_one_write() {
    let (kept, next, writes) = settle(Kept::default(), NOW);
    assert_eq!(writes, 1);
    let pair = next.serve.unwrap();
    let facts = read::facts(&pair.certificate).unwrap();
    assert_eq!(facts.names, names());
    assert_eq!((facts.not_after, next.expires), (NOW + LIFE, NOW + LIFE));
    assert!(!facts.is_ca);
    let ca = read::facts(kept.ca.as_ref().unwrap()).unwrap();
    assert!(ca.is_ca && facts.signed_by(&ca));
    assert_eq!(ca.not_after, NOW + CA_LIFE);
    assert_eq!(next.publish, kept.ca);
}

#[test]
fn nothing_is_written_while_all_is_well() {
    let kept = fresh();
    for later in [0, DAY, LIFE - RENEWAL] {
        assert_eq!(settle(kept.clone(), NOW + later).2, 0);
    }
}

#[test]
fn a_certificate_near_its_end_is_renewed_under_the_same_ca() {
    let kept = fresh();
    let (renewed, next, writes) = settle(kept.clone(), NOW + LIFE - RENEWAL + 1);
    assert_eq!(writes, 1);
    assert_eq!((&renewed.ca, &renewed.ca_key), (&kept.ca, &kept.ca_key));
    assert_eq!(next.expires, NOW + 2 * LIFE - RENEWAL + 1);
}

#[test]
fn another_name_gives_another_certificate() {
    let kept = fresh();
    let wanted = vec![names()[0].clone(), "extender".to_owned()];
    let next = next(&kept, &wanted, NOW).unwrap();
    assert_eq!(next.why, "tls.crt is not for extender");
    let facts = read::facts(next.write.unwrap().certificate.as_ref().unwrap()).unwrap();
    assert_eq!(facts.names, wanted);
}

#[test]
fn the_next_ca_is_known_for_years_before_it_signs() {
    let kept = fresh();
    let published = NOW + CA_LIFE - CA_RENEWAL + 1;
    let (with_next, next, _) = settle(kept.clone(), published);
    assert_eq!(cas(&with_next).len(), 2);
    assert_eq!(cas(&with_next)[0], cas(&kept)[0], "the old one comes first");
    assert_eq!(next.publish, with_next.ca);
    let old = read::facts(&cas(&kept)[0]).unwrap();
    let serving = |next: &Next| read::facts(&next.serve.as_ref().unwrap().certificate).unwrap();
    assert!(serving(&next).signed_by(&old), "the old one signs");
    assert_eq!(settle(with_next.clone(), published + 1).2, 0);

    let change = NOW + CA_LIFE - CA_CHANGE + 1;
    assert!(
        change - published > 3 * 365 * DAY,
        "time to restart kube-scheduler once"
    );
    let (changed, next, _) = settle(with_next.clone(), change);
    assert_eq!(cas(&changed)[0], cas(&with_next)[1]);
    assert_eq!(
        cas(&changed)[1],
        cas(&with_next)[0],
        "old certificates are still good"
    );
    assert!(serving(&next).signed_by(&read::facts(&cas(&changed)[0]).unwrap()));
    assert_eq!(changed.next_ca_key, None);
    assert_eq!(settle(changed, change + 1).2, 0);
}

#[test]
fn whatever_is_damaged_of_ours_is_made_anew_and_named() {
    let junk = || Some("junk".to_owned());
    let other = fresh();
    let damaged = |damage: &dyn Fn(&mut Kept)| {
        let mut kept = fresh();
        damage(&mut kept);
        kept
    };
    let not_pem = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    let all = [
        (
            "tls.crt: it is no PEM certificate",
            damaged(&|k| k.certificate = junk()),
        ),
        (
            "tls.key is no private key",
            damaged(&|k| k.key = junk().map(Key)),
        ),
        (
            "tls.key is not the key of tls.crt",
            damaged(&|k| k.key.clone_from(&other.key)),
        ),
        (
            "ca.crt: it is no PEM certificate",
            damaged(&|k| k.ca = Some(not_pem.into())),
        ),
        ("ca.crt holds no certificate", damaged(&|k| k.ca = junk())),
        (
            "ca.key is no private key",
            damaged(&|k| k.ca_key = junk().map(Key)),
        ),
        (
            "ca.key is not the key of ca.crt",
            damaged(&|k| k.ca_key.clone_from(&other.ca_key)),
        ),
    ];
    for (why, kept) in all {
        let next = next(&kept, &names(), NOW).unwrap();
        assert_eq!(next.why, why);
        let (_, settled, _) = settle(kept, NOW);
        assert!(settled.serve.is_some(), "{why}");
    }
    let ended = next(&fresh(), &names(), NOW + CA_LIFE + 1).unwrap();
    assert_eq!(ended.why, "ca.crt has ended");
    let swapped = Kept {
        ca: other.ca.clone(),
        ca_key: other.ca_key.clone(),
        ..fresh()
    };
    assert_eq!(
        next(&swapped, &names(), NOW).unwrap().why,
        "tls.crt is not of ca.crt"
    );
}

#[test]
fn a_certificate_without_a_ca_key_is_somebody_elses_and_never_written() {
    let kept = Kept {
        ca_key: None,
        ..fresh()
    };
    let well = next(&kept, &names(), NOW).unwrap();
    assert!(well.serve.is_some() && well.write.is_none() && well.why.is_empty());
    assert_eq!(well.publish, kept.ca);
    let late = next(&kept, &names(), NOW + LIFE - DAY).unwrap();
    assert!(late.serve.is_some() && late.write.is_none());
    assert!(late.why.contains("near its end"), "{}", late.why);
    let wrong = next(&kept, &["elsewhere".to_owned()], NOW).unwrap();
    assert!(wrong.serve.is_none() && wrong.write.is_none());
    assert!(wrong.why.contains("is not for elsewhere"), "{}", wrong.why);
}

#[test]
fn keys_are_never_shown() {
    let kept = fresh();
    let shown = format!("{kept:?}");
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
}
