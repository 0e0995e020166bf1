//! The pages that people see, and what these load.

use super::Media;
use super::Route;
use super::by;
use super::get;
use crate::admin::dashboard;
use crate::admin::dashboard::assets;

pub(super) fn rows() -> Vec<Route> {
    // Counted, for a page asks what it shows.
    let page = |path, handler, summary| get(path, "", handler, summary).public().media(Media::Html);
    vec![
        page("/", by!(dashboard::home), "Shows the overview, or leads to the page to sign in"),
        page(
            "/ui/{page}",
            by!(dashboard::other),
            "Shows a page of the dashboard, or leads to the page to sign in",
        ),
        page("/docs", by!(dashboard::docs), "Shows the API reference, or leads to the page to sign in"),
        get(assets::PATH, "", by!(assets::serve), "Gives a file that pages load")
            .public()
            .exempt()
            .media(Media::Asset),
    ]
}
