//! The time that scanning one text may take: past it nothing is said to be clean.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use serde_json::Value;
use serde_json::json;

use crate::browser::Browser;
use crate::world::World;

/// A clock that goes on by so many milliseconds whenever it is looked at.
struct Hasty {
    step_ms: u64,
    looks: AtomicU64,
}

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        "2026-05-01T12:00:00Z".parse().unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.step_ms * self.looks.fetch_add(1, Ordering::Relaxed))
    }
}

/// Asks a plane whose clock goes on by so much at every look.
async fn asked(step_ms: u64, path: &str, body: &Value) -> (u16, Value) {
    let world = World::start_as(Tier::Enterprise, |office| {
        office.clock = Arc::new(Hasty { step_ms, looks: AtomicU64::new(0) });
    });
    let mut service = Browser::open(&world);
    service.fields = vec![("x-api-key", world.key("service").to_owned())];
    let shown = service.call("POST", path, &body.to_string()).await;
    (shown.status, serde_json::from_str(&shown.text).unwrap())
}

#[tokio::test]
async fn a_text_that_took_too_long_is_not_called_clean() {
    let content = json!({ "content": "hello" });
    for path in ["/v1/scan", "/api/v1/scan"] {
        assert_eq!(asked(1, path, &content).await.0, 200);
        let (status, told) = asked(2500, path, &content).await;
        let error = "the content was not judged whole within 2000 ms, `scan_ms` in [limits], so nothing is said of it: \
                     send it in parts";
        assert_eq!((status, &told["error"]), (503, &error.into()), "{path}");
    }
}

/// The first look is before the text is read, and in time.
#[tokio::test]
async fn the_fail_mode_decides_on_a_text_that_took_too_long() {
    for (policy, allowed) in [("default", false), ("monitor", true)] {
        let prompt = json!({ "prompt": "hello", "policy": policy });
        let (status, told) = asked(1500, "/api/v1/screen", &prompt).await;
        let reason = "the content cannot be inspected: it could not be scanned in time";
        assert_eq!((status, &told["reason"]), (200, &reason.into()), "{policy}");
        assert_eq!(told["allowed"], allowed, "{policy}");
        let (_, told) = asked(1, "/api/v1/screen", &prompt).await;
        assert_eq!((&told["allowed"], &told["action"]), (&true.into(), &"allow".into()), "{policy}");
    }
}
