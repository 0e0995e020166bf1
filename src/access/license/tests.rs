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
        not_before: None,
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
fn a_licence_for_an_agent_without_a_name_is_for_nobody() {
    let nobody = License { agent: Some(String::new()), ..license(Tier::Professional) };
    assert_eq!(nobody.check(moment(1_500_000)), Err(LicenseFault::Malformed));
    let somebody = License { agent: Some("billing".to_owned()), ..nobody };
    assert_eq!(somebody.check(moment(1_500_000)), Ok(()));
}

#[test]
fn a_licence_counts_from_the_moment_that_it_names_on() {
    let office = office(&License { not_before: Some(moment(1_500_000)), ..license(Tier::Professional) });
    let at = |second| {
        let standing = office.licensing.standing(moment(second));
        (standing.tier, standing.fault)
    };
    assert_eq!(at(1_000_000), (Tier::Community, Some(LicenseFault::NotYet)));
    assert_eq!(at(1_499_699), (Tier::Community, Some(LicenseFault::NotYet)));
    assert_eq!(at(1_499_700), (Tier::Professional, None), "a clock that is a little ahead");
    assert_eq!(at(1_999_999), (Tier::Professional, None));
    assert_eq!(at(2_000_000), (Tier::Community, Some(LicenseFault::Expired)));
    // A begin before the issue takes nothing from that, and one that is no time makes it no licence.
    let early = License { not_before: Some(moment(1)), ..license(Tier::Developer) };
    assert_eq!(early.check(moment(999_699)), Err(LicenseFault::NotYet));
    let (file, now) = (office.folder.path().join("license.jwt"), moment(1_500_000));
    for wrong in [serde_json::json!("soon"), serde_json::json!(1e300), serde_json::json!(i64::MAX)] {
        let mut claims = serde_json::to_value(license(Tier::Enterprise)).unwrap();
        claims["nbf"] = wrong;
        fs::write(&file, jose::SigningKey::sign(&office.key, &claims, None)).unwrap();
        office.licensing.reload(now);
        assert_eq!(office.licensing.standing(now).fault, Some(LicenseFault::Malformed), "{claims}");
    }
}

#[test]
fn a_licence_may_name_its_moments_in_fractions_of_a_second() {
    let mut claims = serde_json::to_value(license(Tier::Enterprise)).unwrap();
    for (name, seconds) in [("iat", 999_999.75), ("nbf", 1_000_000.5), ("exp", 1_999_999.123)] {
        claims[name] = seconds.into();
    }
    let office = office(&license(Tier::Community));
    let token = jose::SigningKey::sign(&office.key, &claims, None);
    let ends = Timestamp::from_millisecond(1_999_999_123).unwrap();
    let before = ends - std::time::Duration::from_millis(1);
    assert_eq!(office.licensing.verify(&token, before).map(|it| it.expires_at), Ok(ends));
    assert_eq!(office.licensing.verify(&token, ends), Err(LicenseFault::Expired));
    assert_eq!(office.licensing.verify(&token, moment(999_699)), Err(LicenseFault::NotYet));
}

#[test]
fn what_no_trusted_key_signed_does_not_count() {
    let office = office(&license(Tier::Enterprise));
    let stranger = SigningKey::generate();
    let file = office.folder.path().join("license.jwt");
    let now = moment(1_500_000);
    let after = |text: &str| {
        fs::write(&file, text).unwrap();
        office.licensing.reload(now);
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
    office.licensing.reload(now);
    assert_eq!(office.licensing.standing(now).fault, Some(LicenseFault::Unreadable));
}

/// It is shown, and decides nothing.
#[test]
fn the_end_of_a_licence_is_told_whoever_signed_it() {
    let office = office(&license(Tier::Enterprise));
    let now = moment(1_500_000);
    let ends_at = |text: &str| {
        fs::write(office.folder.path().join("license.jwt"), text).unwrap();
        office.licensing.reload(now);
        let standing = office.licensing.standing(now + TORN_FOR);
        assert!(standing.fault.is_some() && standing.tier == Tier::Community, "{standing:?}");
        standing.expires_at
    };
    let forged = license(Tier::Enterprise).sign(&SigningKey::generate());
    let odd = serde_json::json!({ "exp": 2_000_000, "tier": "none" });
    assert_eq!(ends_at(&forged), Some(moment(2_000_000)));
    assert_eq!(ends_at(&jose::SigningKey::sign(&office.key, &odd, None)), Some(moment(2_000_000)));
    assert_eq!(ends_at(&forged[..60]), None);
    assert_eq!(ends_at("garbage"), None);
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
    with.reload(now);
    assert_eq!((with.tier(now), with.standing(now).fault), (Tier::Community, Some(LicenseFault::Unreadable)));
}

#[test]
fn a_file_that_is_half_written_takes_no_tier_away_and_is_told() {
    let office = office(&license(Tier::Professional));
    let (file, pem) = (office.folder.path().join("license.jwt"), office.folder.path().join("key.pem"));
    let (now, whole) = (moment(1_500_000), license(Tier::Enterprise).sign(&office.key));
    let standing = |at| {
        office.licensing.reload(at);
        let Standing { tier, fault, unread, .. } = office.licensing.standing(at);
        (tier, fault, unread)
    };
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let torn = (Tier::Professional, None, Some(LicenseFault::Malformed));
        assert_eq!(standing(now), torn, "{length} bytes of the next licence");
    }
    // So it is for as long as a copy takes, however often it is looked at; then it counts as what it is.
    let torn = (Tier::Professional, None, Some(LicenseFault::Malformed));
    let ended = now + TORN_FOR;
    assert_eq!(standing(ended - Duration::from_millis(1)), torn);
    assert_eq!(office.licensing.standing(ended).fault, Some(LicenseFault::Malformed));
    assert_eq!(office.licensing.tier(ended), Tier::Community);
    assert_eq!(standing(ended), (Tier::Community, Some(LicenseFault::Malformed), None));
    assert_eq!(
        standing(now - Duration::from_secs(1)).0,
        Tier::Community,
        "a clock that is set back gives nothing"
    );
    fs::write(&file, &whole).unwrap();
    let last = moment(1_999_999);
    assert_eq!(standing(last), (Tier::Enterprise, None, None));
    fs::write(&file, "half").unwrap();
    assert_eq!(standing(last), (Tier::Enterprise, None, Some(LicenseFault::Malformed)));
    // What counts on ends as it always would.
    assert_eq!(standing(moment(2_000_000)).1, Some(LicenseFault::Expired));
    fs::write(&file, &whole).unwrap();
    assert_eq!(standing(now), (Tier::Enterprise, None, None));
    let key = fs::read(&pem).unwrap();
    fs::write(&pem, &key[..key.len() / 2]).unwrap();
    assert_eq!(standing(now), (Tier::Enterprise, None, Some(LicenseFault::Unreadable)));
    assert_eq!(office.licensing.verify(&whole, now), Ok(license(Tier::Enterprise)));
    fs::write(&pem, &key).unwrap();
    assert_eq!(standing(now), (Tier::Enterprise, None, None));
    // What is gone is gone on purpose.
    fs::remove_file(&pem).unwrap();
    assert_eq!(standing(now).0, Tier::Community);
    fs::write(&pem, &key).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(standing(now), (Tier::Community, Some(LicenseFault::Unreadable), None));
    // A process that begins with half a licence has none to go on with.
    fs::write(&file, &whole[..100]).unwrap();
    let config = LicenseConfig { file: Some(file), trusted_keys: vec![pem] };
    assert_eq!(Licensing::open(config).standing(now).fault, Some(LicenseFault::Malformed));
}

/// A deployment that trusts two keys, whose licence the first has signed.
struct TwoKeys {
    folder: tempfile::TempDir,
    keys: [SigningKey; 2],
    licensing: Licensing,
}

impl TwoKeys {
    fn new() -> Self {
        let (folder, keys) = (tempfile::tempdir().unwrap(), [SigningKey::generate(), SigningKey::generate()]);
        let path = |name: &str| folder.path().join(name);
        for (name, key) in ["0.pem", "1.pem"].into_iter().zip(&keys) {
            fs::write(path(name), key.public_pem()).unwrap();
        }
        fs::write(path("license.jwt"), license(Tier::Professional).sign(&keys[0])).unwrap();
        let config = LicenseConfig {
            file: Some(path("license.jwt")),
            trusted_keys: vec![path("0.pem"), path("1.pem")],
        };
        Self { licensing: Licensing::open(config), folder, keys }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn tear(&self, at: usize) {
        let pem = self.keys[at].public_pem();
        self.write(&format!("{at}.pem"), &pem[..pem.len() / 2]);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    fn tier(&self) -> Tier {
        self.licensing.reload(moment(1_500_000));
        self.licensing.tier(moment(1_500_000))
    }

    fn trusts(&self, at: usize) -> bool {
        let token = license(Tier::Developer).sign(&self.keys[at]);
        self.licensing.verify(&token, moment(1_500_000)).is_ok()
    }
}

#[test]
fn a_key_that_is_half_there_holds_up_no_other_file() {
    let office = TwoKeys::new();
    office.tear(1);
    assert_eq!(office.tier(), Tier::Professional);
    assert!(office.trusts(1), "it said this before");
    // A renewed licence counts, whichever key has signed it.
    for (key, tier) in [(0, Tier::Enterprise), (1, Tier::Developer), (0, Tier::Professional)] {
        office.write("license.jwt", &license(tier).sign(&office.keys[key]));
        assert_eq!(office.tier(), tier);
    }
    // What is withdrawn is gone.
    office.write("license.jwt", &license(Tier::Enterprise).sign(&SigningKey::generate()));
    assert_eq!(office.tier(), Tier::Community, "its own key is whole, and has not signed this");
    office.write("license.jwt", &license(Tier::Enterprise).sign(&office.keys[0]));
    assert_eq!(office.tier(), Tier::Enterprise);
    office.remove("0.pem");
    assert_eq!(office.tier(), Tier::Community);
    assert!(!office.trusts(0) && office.trusts(1));
    let office = TwoKeys::new();
    office.tear(0);
    office.remove("license.jwt");
    assert_eq!(office.tier(), Tier::Community);
}

#[test]
fn a_licence_counts_on_while_its_key_is_half_there_and_proves_no_other() {
    let office = TwoKeys::new();
    office.tear(0);
    assert_eq!(office.tier(), Tier::Professional);
    // The next key is on its way, and what it has signed came first.
    let next = SigningKey::generate();
    office.write("license.jwt", &license(Tier::Enterprise).sign(&next));
    assert_eq!(office.tier(), Tier::Professional);
    let late = moment(1_500_000) + TORN_FOR;
    assert_eq!(office.licensing.standing(late).fault, Some(LicenseFault::Unreadable), "it has had its time");
    office.write("0.pem", &next.public_pem());
    assert_eq!(office.tier(), Tier::Enterprise);
    // Half a licence changes nothing, but it does not outlive the key that it rests on.
    office.write("license.jwt", "half");
    assert_eq!(office.tier(), Tier::Enterprise);
    office.remove("0.pem");
    assert_eq!(office.tier(), Tier::Community);
}
