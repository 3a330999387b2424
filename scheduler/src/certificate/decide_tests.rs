//! What is made when, on made-up clocks.

use super::{
    content::Content,
    decide::{AUTHORITY_LIFE, Needs, SERVING_LIFE, is_for, needs},
    make::bundle,
    read::read,
    testing::{DAY, START, names, of_others, step},
};

const NAME: &str = "scheduler.kube-system.svc";

fn first() -> Content {
    step(&Content::default(), &names(&[NAME]), START).0
}

fn needed(content: &Content, now: u64) -> Needs {
    needs(&read(content, now), &names(&[NAME]), now)
}

const SERVING: Needs = Needs {
    authority: false,
    serving: true,
};
const ALL: Needs = Needs {
    authority: true,
    serving: true,
};

#[test]
fn an_empty_secret_gets_a_ca_for_ten_years_and_a_certificate_for_ninety_days() {
    assert_eq!(needed(&Content::default(), START), ALL);
    let (content, found) = step(&Content::default(), &names(&[NAME, "10.0.0.1"]), START);
    assert!(found.is_ours);
    assert_eq!(found.authorities.len(), 1);
    assert_eq!(found.authorities[0].life.until, START + 3650 * DAY);
    let serving = found.serving.unwrap();
    assert_eq!(serving.life.until, START + 90 * DAY);
    assert!(is_for(&serving, &names(&[NAME, "10.0.0.1"])));
    assert!(!is_for(&serving, &names(&["other.kube-system.svc"])));
    // A clock that is half an hour behind sees no need either.
    assert_eq!(needed(&content, START - 1800), Needs::NOTHING);
}

#[test]
fn a_certificate_is_renewed_when_less_than_a_third_of_it_is_left() {
    let content = first();
    assert_eq!(needed(&content, START + 59 * DAY), Needs::NOTHING);
    let late = START + 61 * DAY;
    assert_eq!(needed(&content, late), SERVING);
    let (renewed, found) = step(&content, &names(&[NAME]), late);
    assert!(renewed.ca_crt == content.ca_crt && renewed.ca_key == content.ca_key);
    assert!(renewed.tls_key != content.tls_key);
    assert_eq!(found.serving.unwrap().life.until, late + 90 * DAY);
}

#[test]
fn another_name_makes_another_certificate_and_one_less_does_not() {
    let wanted = names(&[NAME, "scheduler"]);
    let content = first();
    let now = START + DAY;
    assert_eq!(needs(&read(&content, now), &wanted, now), SERVING);
    let (content, _) = step(&content, &wanted, now);
    assert_eq!(needed(&content, now), Needs::NOTHING);
}

#[test]
fn the_old_ca_signs_as_long_as_it_can_and_the_new_one_is_published_long_before() {
    let wanted = names(&[NAME]);
    let mut content = first();
    let old = read(&content, START).authorities.remove(0);
    let end = old.life.until;
    let mut published_since = None;
    let mut signed_by_new_since = None;
    let mut now = START;
    // Past the end of the old CA, looking every ten days, and not to where the new one wears out.
    while now < end + AUTHORITY_LIFE / 4 {
        let found;
        (content, found) = step(&content, &wanted, now);
        // A kube-scheduler that started today accepts what is served today.
        assert_eq!(needs(&found, &wanted, now), Needs::NOTHING);
        if found.authorities.len() > 1 {
            published_since.get_or_insert(now);
        }
        let only_old = Content {
            ca_crt: bundle([&old]).into_bytes(),
            ca_key: Vec::new(),
            ..content.clone()
        };
        let trusted_by_old = !needs(&read(&only_old, now), &wanted, now).serving;
        if !trusted_by_old {
            signed_by_new_since.get_or_insert(now);
        }
        now += 10 * DAY;
    }
    let published = published_since.expect("a second CA");
    let signed = signed_by_new_since.expect("a certificate of the second CA");
    let third = AUTHORITY_LIFE / 3;
    assert!((end - third..end - third + 20 * DAY).contains(&published));
    assert!(
        signed >= end - SERVING_LIFE,
        "{} days early",
        (end - signed) / DAY
    );
    assert!(
        signed <= end,
        "a client of the old CA was served a day too long"
    );
    // The old one has left the bundle, with its key.
    let found = read(&content, now);
    assert_eq!(found.authorities.len(), 1);
    assert_eq!(
        content.ca_key.windows(5).filter(|w| w == b"BEGIN").count(),
        1
    );
}

#[test]
fn a_ca_past_its_end_is_replaced() {
    let now = START + AUTHORITY_LIFE + DAY;
    assert_eq!(needed(&first(), now), ALL);
    let (content, found) = step(&first(), &names(&[NAME]), now);
    assert_eq!(found.authorities.len(), 1);
    assert_eq!(needed(&content, now), Needs::NOTHING);
}

#[test]
fn a_ca_that_is_shorter_than_a_certificate_signs_shorter_ones() {
    let now = START + AUTHORITY_LIFE - 40 * DAY;
    let content = first();
    // As where the administrator gave a short CA: the only one that can sign.
    let found = read(&content, now);
    let needed = Needs {
        authority: false,
        serving: true,
    };
    let made = super::make::make(&content, &found, needed, &names(&[NAME]), now).unwrap();
    let serving = read(&made, now).serving.unwrap();
    assert_eq!(serving.life.until, found.authorities[0].life.until);
}

#[test]
fn what_somebody_else_looks_after_is_not_ours() {
    let content = of_others(NAME, START, START + 90 * DAY);
    let found = read(&content, START + DAY);
    assert!(!found.is_ours);
    assert_eq!(found.faults, []);
    assert_eq!(found.authorities.len(), 1);
    let serving = found.serving.unwrap();
    assert!(!serving.life.is_near_its_end(START + 70 * DAY));
    assert!(serving.life.is_near_its_end(START + 76 * DAY));
    assert!(step(&content, &names(&["other"]), START + 100 * DAY).0 == content);
}

#[test]
fn what_cannot_be_read_is_named_by_its_key_and_made_anew_where_it_is_ours() {
    type Damage = fn(&mut Content, &Content);
    let (good, other) = (first(), first());
    let cases: [(Damage, &str, Needs); 7] = [
        (
            |c, _| c.tls_crt = b"-----BEGIN".into(),
            "tls.crt: ",
            SERVING,
        ),
        (|c, _| c.tls_crt = b"junk".into(), "tls.crt: ", SERVING),
        (|c, _| c.tls_crt.clear(), "tls.crt: missing", SERVING),
        (|c, _| c.tls_key = b"junk".into(), "tls.key: ", SERVING),
        (
            |c, o| c.tls_key.clone_from(&o.tls_key),
            "tls.key: not the key of the certificate",
            SERVING,
        ),
        (|c, _| c.ca_crt = b"junk".into(), "ca.crt: ", ALL),
        (
            |c, o| c.ca_crt.clone_from(&o.ca_crt),
            "ca.crt: no CA certificate for the key",
            ALL,
        ),
    ];
    for (damage, named, wanted) in cases {
        let mut content = good.clone();
        damage(&mut content, &other);
        let found = read(&content, START);
        let faults: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        assert!(faults[0].starts_with(named), "{named}: {faults:?}");
        assert!(found.is_ours, "{named}");
        assert_eq!(needed(&content, START), wanted, "{named}");
        step(&content, &names(&[NAME]), START);
    }
}

#[test]
fn a_ca_key_that_cannot_be_read_is_not_written_over() {
    let mut content = first();
    content.ca_key =
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
            .into();
    let found = read(&content, START);
    assert!(!found.is_ours);
    assert!(found.faults[0].to_string().starts_with("ca.key: "));
    assert!(found.serving.is_some(), "it can still be served");
}

#[test]
fn nothing_that_can_be_printed_shows_a_key() {
    let content = first();
    let found = read(&content, START);
    let key = String::from_utf8(content.tls_key.clone()).unwrap();
    let printed = format!("{:?}", found.serving.unwrap().certified);
    let secret: Vec<u8> = rustls::pki_types::pem::PemObject::from_pem_slice(key.as_bytes())
        .map(|key: rustls::pki_types::PrivateKeyDer<'_>| key.secret_der().to_vec())
        .unwrap();
    let bytes = format!("{secret:?}");
    let inner = bytes.trim_matches(['[', ']']);
    assert!(!printed.contains(inner) && !printed.contains("PRIVATE"));
    // What is published is certificates only, whatever the Secret's key holds.
    let mut mixed = of_others(NAME, START, START + DAY);
    mixed.ca_crt.extend_from_slice(&mixed.tls_key.clone());
    let published = bundle(&read(&mixed, START).authorities);
    assert!(published.contains("BEGIN CERTIFICATE") && !published.contains("PRIVATE"));
}
