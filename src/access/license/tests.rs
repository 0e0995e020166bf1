//! Licences that count, and those that do not.

use super::*;

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn license(tier: Tier) -> License {
    License {
        subject: "Northwind".to_owned(),
        tier,
        issued_at: moment(1_000_000),
        expires_at: moment(2_000_000),
        agent: None,
        features: vec!["extra".to_owned()],
    }
}

struct Office {
    folder: tempfile::TempDir,
    key: SigningKey,
    licensing: Licensing,
}

fn office(license: &License) -> Office {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::generate();
    fs::write(folder.path().join("key.pem"), key.public_pem()).unwrap();
    fs::write(folder.path().join("license.jwt"), license.sign(&key) + "\n").unwrap();
    let config = LicenseConfig {
        file: Some(folder.path().join("license.jwt")),
        trusted_keys: vec![folder.path().join("key.pem")],
    };
    Office { licensing: Licensing::open(config), folder, key }
}

#[test]
fn no_licence_is_the_community_tier_for_ever() {
    let standing = Licensing::open(LicenseConfig::default()).standing(moment(1_500_000));
    assert_eq!((standing.tier, standing.fault, standing.expires_at), (Tier::Community, None, None));
}

#[test]
fn a_licence_counts_from_its_issue_to_its_end() {
    let office = office(&license(Tier::Professional));
    let at = |second| {
        let standing = office.licensing.standing(moment(second));
        assert_eq!(office.licensing.tier(moment(second)), standing.tier);
        (standing.tier, standing.fault)
    };
    assert_eq!(at(1_500_000), (Tier::Professional, None));
    assert_eq!(at(1_999_999), (Tier::Professional, None));
    assert_eq!(at(2_000_000), (Tier::Community, Some(LicenseFault::Expired)));
    assert_eq!(at(999_700), (Tier::Professional, None), "issued by a clock that is a little ahead");
    assert_eq!(at(999_699), (Tier::Community, Some(LicenseFault::NotYet)));
}

#[test]
fn what_no_trusted_key_signed_does_not_count() {
    let office = office(&license(Tier::Enterprise));
    let stranger = SigningKey::generate();
    let file = office.folder.path().join("license.jwt");
    let now = moment(1_500_000);
    let after = |text: &str| {
        fs::write(&file, text).unwrap();
        office.licensing.reload();
        let standing = office.licensing.standing(now);
        (standing.tier, standing.fault)
    };
    let forged = license(Tier::Enterprise).sign(&stranger);
    assert_eq!(after(&forged), (Tier::Community, Some(LicenseFault::Forged)));
    assert_eq!(after("garbage"), (Tier::Community, Some(LicenseFault::Malformed)));
    let bound = License { agent: Some("a".to_owned()), ..license(Tier::Enterprise) };
    assert_eq!(after(&bound.sign(&office.key)), (Tier::Community, Some(LicenseFault::ForAgent)));
    assert_eq!(office.licensing.verify(&bound.sign(&office.key), now), Ok(bound));
    assert_eq!(office.licensing.verify(&forged, now), Err(LicenseFault::Forged));
    assert_eq!(after(&license(Tier::Developer).sign(&office.key)), (Tier::Developer, None));
    // The key is replaced: what the old one signed counts no more, what the new one signs does.
    fs::write(office.folder.path().join("key.pem"), stranger.public_pem()).unwrap();
    assert_eq!(
        after(&license(Tier::Developer).sign(&office.key)),
        (Tier::Community, Some(LicenseFault::Forged))
    );
    assert_eq!(after(&forged), (Tier::Enterprise, None));
    fs::remove_file(&file).unwrap();
    office.licensing.reload();
    assert_eq!(office.licensing.standing(now).fault, Some(LicenseFault::Unreadable));
}

#[test]
fn a_key_that_cannot_be_read_takes_nothing_from_the_others_and_is_told() {
    let Office { folder, key, .. } = office(&license(Tier::Professional));
    let now = moment(1_500_000);
    let trusted_keys = vec![folder.path().join("missing.pem"), folder.path().join("key.pem")];
    let of_file = |file| Licensing::open(LicenseConfig { file, trusted_keys: trusted_keys.clone() });
    let with = of_file(Some(folder.path().join("license.jwt")));
    assert_eq!((with.standing(now).tier, with.standing(now).fault), (Tier::Professional, None));
    let without = of_file(None);
    assert_eq!(without.standing(now).fault, Some(LicenseFault::Unreadable));
    let of_agent = License { agent: Some("planner".to_owned()), ..license(Tier::Developer) };
    assert_eq!(without.verify(&of_agent.sign(&key), now), Ok(of_agent));
    // What only the missing one can have signed is told as that.
    fs::write(folder.path().join("license.jwt"), license(Tier::Enterprise).sign(&SigningKey::generate()))
        .unwrap();
    with.reload();
    assert_eq!((with.tier(now), with.standing(now).fault), (Tier::Community, Some(LicenseFault::Unreadable)));
}
