//! The screen: one line of totals, one of tokens and queues, then routes and findings.

use std::fmt::Write;
use std::time::Duration;

use super::figures::Figures;

/// Routes, and kinds of findings, that one screen shows.
const ROWS_MAX: usize = 12;
/// The longest name that is shown, in characters.
const NAME_CHARS_MAX: usize = 28;
const REQUESTS: &str = "requests_total";
const LATENCY: &str = "request_duration_seconds";
const FIRST_BYTE: &str = "time_to_first_byte_seconds";
const FINDINGS: &str = "detections_total";

/// Figures, and those of some time before.
#[derive(Clone, Copy)]
struct Change<'a> {
    now: &'a Figures,
    before: Option<(&'a Figures, Duration)>,
}

/// Draws a screen: rates since `before`, or everything where there is none.
pub(super) fn screen(now: &Figures, before: Option<(&Figures, Duration)>) -> String {
    let change = Change { now, before };
    let mut text = String::new();
    // A string takes what is written.
    let _ = change.draw(&mut text);
    text
}

impl Change<'_> {
    fn draw(self, out: &mut String) -> std::fmt::Result {
        let unit = if self.before.is_some() { "/s" } else { "" };
        let version = self.now.by("build_info", "version").into_keys().next().unwrap_or_default().to_owned();
        let span = match self.before {
            Some((_, elapsed)) => format!("the last {:.0} s", elapsed.as_secs_f64()),
            None => "since it began".to_owned(),
        };
        writeln!(out, "portcullis {version}, {span}")?;
        writeln!(
            out,
            "requests{unit} {}   under way {}   4xx{unit} {}   5xx{unit} {}   refused{unit} {}",
            self.amount(|figures| figures.sum(REQUESTS)),
            self.now.sum("inflight_requests"),
            self.amount(|figures| figures.sum_where(REQUESTS, "code", |code| code.starts_with('4'))),
            self.amount(|figures| figures.sum_where(REQUESTS, "code", |code| code.starts_with('5'))),
            self.amount(|figures| figures.sum("rejections_total")),
        )?;
        writeln!(
            out,
            "tokens{unit} in {} out {}   audit queue {}   buffered {} KiB   panics {}",
            self.amount(|figures| figures.sum_where("tokens_total", "type", |it| it == "prompt")),
            self.amount(|figures| figures.sum_where("tokens_total", "type", |it| it == "completion")),
            self.now.sum("audit_queue_length"),
            (self.now.sum("buffered_body_bytes") / 1024.0).ceil(),
            self.now.sum("panics_total"),
        )?;
        self.routes(out, unit)?;
        self.findings(out, unit)
    }

    fn routes(self, out: &mut String, unit: &str) -> std::fmt::Result {
        let requests = format!("requests{unit}");
        writeln!(
            out,
            "\n{:<NAME_CHARS_MAX$} {requests:>12} {:>9} {:>9} {:>9} {:>11}",
            "ROUTE", "p50 ms", "p95 ms", "p99 ms", "1st byte ms"
        )?;
        let mut routes: Vec<&str> = self.now.by(REQUESTS, "route").into_keys().collect();
        let busy =
            |route: &str| self.change(|figures| figures.sum_where(REQUESTS, "route", |it| it == route));
        routes.sort_by(|one, other| busy(other).total_cmp(&busy(one)).then(one.cmp(other)));
        for route in routes.into_iter().take(ROWS_MAX) {
            let took = self.spread(LATENCY, route);
            let first = self.spread(FIRST_BYTE, route);
            writeln!(
                out,
                "{:<NAME_CHARS_MAX$} {:>12} {:>9} {:>9} {:>9} {:>11}",
                shortened(route),
                self.amount(|figures| figures.sum_where(REQUESTS, "route", |it| it == route)),
                millis(took.quantile(0.5)),
                millis(took.quantile(0.95)),
                millis(took.quantile(0.99)),
                millis(first.quantile(0.5)),
            )?;
        }
        Ok(())
    }

    fn findings(self, out: &mut String, unit: &str) -> std::fmt::Result {
        let found = format!("found{unit}");
        writeln!(out, "\n{:<NAME_CHARS_MAX$} {found:>12}", "FINDINGS")?;
        for label in ["category", "action"] {
            for kind in self.now.by(FINDINGS, label).into_keys().take(ROWS_MAX) {
                let amount = self.amount(|figures| figures.sum_where(FINDINGS, label, |it| it == kind));
                writeln!(out, "{:<NAME_CHARS_MAX$} {amount:>12}", shortened(&format!("{label} {kind}")))?;
            }
        }
        Ok(())
    }

    fn spread(self, name: &str, route: &str) -> super::figures::Spread {
        let now = self.now.spread(name, "route", route);
        match self.before {
            Some((before, _)) => now.since(&before.spread(name, "route", route)),
            None => now,
        }
    }

    /// Returns how much a counter grew; a process that began anew counts from zero.
    fn change(self, of: impl Fn(&Figures) -> f64) -> f64 {
        let now = of(self.now);
        let before = self.before.map_or(0.0, |(before, _)| of(before));
        if now < before { now } else { now - before }
    }

    /// Returns how much a counter grew: in a second, or at all.
    fn amount(self, of: impl Fn(&Figures) -> f64) -> String {
        let change = self.change(of);
        match self.before {
            Some((_, elapsed)) => format!("{:.1}", change / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)),
            None => format!("{change:.0}"),
        }
    }
}

fn millis(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.1}", seconds * 1000.0))
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(requests: u64, blocked: u64) -> Figures {
        Figures::read(&format!(
            "portcullis_build_info{{version=\"1.2.3\"}} 1\n\
             portcullis_requests_total{{listener=\"proxy\",route=\"chat\",code=\"200\"}} {requests}\n\
             portcullis_request_duration_seconds_bucket{{route=\"chat\",le=\"0.1\"}} {requests}\n\
             portcullis_request_duration_seconds_bucket{{route=\"chat\",le=\"+Inf\"}} {requests}\n\
             portcullis_detections_total{{category=\"secrets\",severity=\"high\",action=\"block\"}} {blocked}\n"
        ))
        .expect("metrics")
    }

    fn has_row(screen: &str, cells: &[&str]) -> bool {
        screen.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == cells)
    }

    #[test]
    fn the_first_screen_tells_all_and_the_next_ones_rates() {
        let (first, next) = (page(100, 4), page(300, 10));
        let all = screen(&first, None);
        assert!(all.starts_with("portcullis 1.2.3, since it began\n"), "{all}");
        assert!(has_row(&all, &["chat", "100", "50.0", "95.0", "99.0", "-"]), "{all}");
        assert!(has_row(&all, &["category", "secrets", "4"]), "{all}");
        let rates = screen(&next, Some((&first, Duration::from_secs(2))));
        assert!(has_row(&rates, &["chat", "100.0", "50.0", "95.0", "99.0", "-"]), "{rates}");
        assert!(has_row(&rates, &["action", "block", "3.0"]), "{rates}");
        // A gateway that was started anew counts from zero.
        let anew = screen(&first, Some((&next, Duration::from_secs(2))));
        assert!(has_row(&anew, &["chat", "50.0", "50.0", "95.0", "99.0", "-"]), "{anew}");
    }
}
