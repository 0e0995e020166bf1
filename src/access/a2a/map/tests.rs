use super::*;

const MAP: &str = "
capabilities:
  summarize:
  payments.transfer:
    description: Moves money.
    min_tier: professional
agents:
  planner:
    tier: developer
    capabilities: [summarize, payments.transfer]
    secrets:
      - file: planner.secret
      - env: PLANNER_SECRET
";

#[test]
fn a_map_is_read() {
    let map = CapabilityMap::parse(MAP, "map.yaml").unwrap();
    assert_eq!(map.min_tier("payments.transfer"), Tier::Professional);
    assert_eq!((map.min_tier("summarize"), map.min_tier("nothing")), (Tier::Community, Tier::Community));
    let planner = &map.agents["planner"];
    assert_eq!((planner.tier, planner.secrets.len()), (Some(Tier::Developer), 2));
    assert!(planner.capabilities.contains("payments.transfer"));
}

#[test]
fn every_fault_has_its_line() {
    let faulty = "capabilities:\n  summarize:\n    min_teir: developer\nagents:\n  planner:\n    tier: gold\n    \
                  capabilities: [sumarize]\n    secret: sesame\n  \"a b\":\n    secrets: [{file: x}]\n";
    let faults = CapabilityMap::parse(faulty, "map.yaml").unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    for (line, words) in [
        (3, "did you mean `min_tier`?"),
        (6, "expected one of community"),
        (7, "did you mean `summarize`?"),
        (8, "a secret does not belong here"),
        (5, "expected one or two places"),
        (9, "letters, digits"),
    ] {
        let start = format!("map.yaml:{line}:");
        assert!(told.iter().any(|it| it.starts_with(&start) && it.contains(words)), "{line} {told:#?}");
    }
    assert!(!told.concat().contains("sesame"));
}

#[test]
fn a_map_has_both_tables() {
    for (cut, faults) in [("", 2), ("capabilities:\n  summarize:\n", 1), ("agents: {}\n", 1)] {
        let told = CapabilityMap::parse(cut, "map.yaml").expect_err(cut);
        assert_eq!(told.len(), faults, "{told:?}");
    }
    let nobody = CapabilityMap::parse("capabilities: {}\nagents: {}\n", "map.yaml").unwrap();
    assert!(nobody.agents.is_empty());
}
