//! The pages of the dashboard as they leave the gateway: for whom, with which headers, and with nothing inline.

use portcullis::access::key::NewKey;
use portcullis::access::role::Role;
use portcullis::access::scope::Scope;
use portcullis::access::tier::Tier;
use portcullis::admin::dashboard::menu::PAGES;
use portcullis::admin::dashboard::parts;
use portcullis::clock::Clock;

use crate::browser::Browser;
use crate::browser::Shown;
use crate::world::World;

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Returns the attributes of a name in a page.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!("{name}=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn policy(shown: &Shown) -> &str {
    shown.headers["content-security-policy"].to_str().unwrap()
}

#[tokio::test]
async fn whoever_has_not_signed_in_comes_back_to_where_it_was_going() {
    let world = World::start(Tier::Community);
    let mut browser = Browser::open(&world);
    let cases = [
        ("/", "/login"),
        ("/?a=b", "/login?next=%2F%3Fa%3Db"),
        ("/ui/audit?severity=high", "/login?next=%2Fui%2Faudit%3Fseverity%3Dhigh"),
        ("/docs", "/login?next=%2Fdocs"),
    ];
    for (asked, led) in cases {
        let shown = browser.get(asked).await;
        assert_eq!((shown.status, shown.location()), (303, led), "{asked}");
    }
    for nowhere in ["/ui/nothing", "/ui/overview", "/ui/docs", "/ui/"] {
        assert_eq!(browser.get(nowhere).await.status, 404, "{nowhere}");
    }
}

#[tokio::test]
async fn every_role_gets_its_pages_with_nothing_inline() {
    let world = World::start(Tier::Enterprise);
    for role in Role::ALL {
        let mut browser = Browser::open(&world);
        browser.sign_in(role.as_str()).await;
        for entry in PAGES {
            let may = entry.needs.is_empty()
                || entry.needs.iter().any(|need| role.may(portcullis::access::role::Permission(need)));
            let address = entry.address();
            let shown = browser.get(&address).await;
            let wanted = if may || address == "/" { 200 } else { 403 };
            assert_eq!(shown.status, wanted, "{address} {}", role.as_str());
            assert!(policy(&shown).contains("script-src 'self'; connect-src 'self'"), "{address}");
            assert!(policy(&shown).contains("require-trusted-types-for 'script'; trusted-types 'none'"));
            assert!(!policy(&shown).contains("unsafe"), "{address}");
            assert_eq!(shown.headers["cache-control"], "no-store", "{address}");
            let scripts = shown.text.matches("<script").count();
            assert_eq!(scripts, shown.text.matches("<script type=\"module\" src=\"/assets/").count());
            assert!(!shown.text.contains("style=") && !shown.text.contains("<style"), "{address}");
            for inline in ["javascript:", " onload=", " onclick=", " onerror="] {
                assert!(!shown.text.contains(inline), "{address}: {inline}");
            }
            let marked = shown.text.contains(&format!("data-page=\"{}\"", entry.id));
            assert_eq!(marked, may, "{address} {}", role.as_str());
            let links = attributes(&shown.text, "href");
            assert_eq!(links.iter().filter(|link| **link == address).count() >= 1, may || address == "/");
        }
    }
}

#[tokio::test]
async fn what_a_page_tells_is_there_before_any_script_has_run() {
    let world = World::start(Tier::Enterprise);
    let mut browser = Browser::open(&world);
    browser.sign_in("admin").await;
    let mut titles = 0;
    for entry in PAGES {
        let shown = browser.get(&entry.address()).await;
        for part in parts::of(entry.id) {
            let headed = format!(">{}</h2>", part.title);
            assert!(shown.text.contains(&headed), "{}: {}: {}", entry.id, part.title, shown.text);
            titles += 1;
        }
        assert!(!shown.text.contains("notice problem"), "{}: {}", entry.id, shown.text);
    }
    assert!(titles > 20);
    let keys = browser.get("/ui/keys").await.text;
    for role in Role::ALL {
        assert!(keys.contains(&format!("data-label=\"Name\">{}</td>", role.as_str())), "{keys}");
    }
    assert!(browser.get("/ui/system").await.text.contains("<dt>Store</dt>"));
    // Of a page that it sees, a role is shown what it may ask.
    browser.sign_in("analyst").await;
    let overview = browser.get("/").await.text;
    assert!(overview.contains(">Traffic</h2>") && overview.contains(">Health</h2>"), "{overview}");
    browser.sign_in("operator").await;
    let people = browser.get("/ui/people").await;
    assert!(people.status == 403 && !people.text.contains("<table"), "{}", people.text);
}

#[tokio::test]
async fn what_a_tier_withholds_a_page_says_in_words() {
    let world = World::start(Tier::Community);
    let mut browser = Browser::open(&world);
    browser.sign_in("admin").await;
    let trust = browser.get("/ui/trust").await.text;
    assert!(trust.contains(">Agents</h2>"), "{trust}");
    let withheld =
        "<p class=\"notice problem\">trust needs tier Professional or above; here it is Community</p>";
    assert!(trust.contains(withheld), "{trust}");
}

#[tokio::test]
async fn files_are_kept_for_ever_under_their_own_address_and_never_under_another() {
    let world = World::start(Tier::Community);
    let mut browser = Browser::open(&world);
    let page = browser.get("/login").await;
    let files: Vec<&str> =
        attributes(&page.text, "href").into_iter().filter(|link| link.starts_with("/assets/")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let shown = browser.get(file).await;
        assert_eq!(shown.headers["cache-control"], "public, max-age=31536000, immutable", "{file}");
        let name = file.rsplit_once('/').unwrap().1;
        let other = browser.get(&format!("/assets/of-another-release/{name}")).await;
        assert_eq!((other.status, &other.text), (200, &shown.text));
        assert_eq!(other.headers["cache-control"], "no-store");
    }
    let script = browser.get("/assets/x/app.js").await;
    assert_eq!(script.headers["content-type"], "text/javascript; charset=utf-8");
    for nothing in ["/assets/x/none.js", "/assets/x/..%2Fmod.rs", "/assets/app.js"] {
        assert_eq!(browser.get(nothing).await.status, 404, "{nothing}");
    }
}

#[tokio::test]
async fn a_name_is_a_text_on_every_page() {
    let world = World::start(Tier::Community);
    let new = NewKey {
        name: HOSTILE.to_owned(),
        role: Role::Admin,
        tier: Tier::Community,
        expires_at: None,
        scope: Scope::default(),
    };
    let (_, key) = world.office.keys.create(world.office.new_id(), new, world.clock.now()).unwrap();
    let mut browser = Browser::open(&world);
    browser.sign_in(&key).await;
    for entry in PAGES {
        let shown = browser.get(&entry.address()).await;
        assert!(!shown.text.contains("<img"), "{}", entry.address());
        assert!(shown.text.contains("id=\"who\">&lt;img src=x onerror=alert(1)&gt;<"), "{}", shown.text);
    }
}
