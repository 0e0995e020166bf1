//! What patches and profiles take away and bring.

use serde_json::json;

use super::*;
use crate::policy::fixture::shipped;
use crate::policy::reload::Origin;
use crate::policy::reload::Run;
use crate::policy::reload::tests::World;
use crate::policy::reload::tests::by;
use crate::policy::revision::Revision;

/// As what a file does not name: what is shown is in force, and a restart and a way back say the same.
#[test]
fn what_a_patch_takes_away_has_what_is_built_in() {
    let mut world = World::default();
    world.write("[limits]\nscan_ms = 5\n[limits.tiers.community]\nburst = 7\n[a2a]\nreplay_window_s = 9\n");
    let (reloader, _) = world.start();
    let rules = |document: &Document| {
        let mut rules = rules_of(document);
        rules.remove("policies");
        rules
    };
    let built_in = rules(&shipped());
    for patch in [
        json!({"limits": {"scan_ms": null}}),
        json!({"limits": {"tiers": {"community": {"burst": null}}}}),
        json!({"a2a": null, "routes": []}),
        json!({"limits": {"tiers": null}, "detectors": null, "routes": null, "siem": null}),
        json!({"policies": {"strict": null}}),
        json!({"limits": null}),
    ] {
        let told = reloader.patch(patch.clone(), &by("ann"), None, Run::Real);
        told.unwrap_or_else(|error| panic!("{patch}: {error:?}"));
    }
    assert_eq!(rules(&reloader.current().document), built_in);
    let limits = &reloader.handle().load().limits;
    assert_eq!((limits.scan_ms, limits.tiers[0].burst), (2000, Some(100)));
    assert!(reloader.handle().load().policy("strict").is_none(), "what is removed stays removed");
    let Revision { number, etag, .. } = reloader.current().revision.clone();
    reloader.patch(json!({"limits": {"scan_ms": 9}}), &by("ann"), None, Run::Real).unwrap();
    assert_eq!(reloader.rollback(number, &by("ann"), None, Run::Real).unwrap().etag, etag);
    drop(reloader);
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevision), "{origin:?}");
    assert_eq!(reloader.current().document.etag(), etag);
}

#[test]
fn a_profile_brings_the_built_in_policies_that_it_names() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let strict = || reloader.current().document.root()["policies"]["strict"].clone();
    let (built_in, own) = (strict(), json!({"fail_mode": "open"}));
    for (made, expected) in [(Value::Null, &built_in), (own.clone(), &own)] {
        let without = json!({"policies": {"default": {"shadow": null}, "strict": null}});
        reloader.patch(without, &by("ann"), None, Run::Real).unwrap();
        reloader.patch(json!({"policies": {"strict": made}}), &by("ann"), None, Run::Real).unwrap();
        reloader
            .apply_profile("production", &by("ann"), None, Run::Real)
            .unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(&strict(), expected);
    }
}
