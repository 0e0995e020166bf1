//! Counts with their uncertainty, and lists with their middle.

use serde_json::Value;
use serde_json::json;

/// The normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;
/// The bytes that findings are counted for.
const UNIT_BYTES: f64 = 10_000.0;

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that did.
    pub hits: usize,
    /// All.
    pub all: usize,
}

/// How many in so many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// How many there are.
    pub count: usize,
    /// In how many bytes.
    pub bytes: usize,
}

impl Share {
    /// Counts one more.
    pub fn note(&mut self, hit: bool) {
        self.hits += usize::from(hit);
        self.all += 1;
    }

    /// Returns the share in percent; nothing of nothing is zero.
    pub fn percent(self) -> f64 {
        if self.all == 0 { 0.0 } else { 100.0 * self.hits as f64 / self.all as f64 }
    }

    /// Returns the 95 % interval of Wilson, in percent.
    pub fn interval(self) -> (f64, f64) {
        if self.all == 0 {
            return (0.0, 100.0);
        }
        let (n, p) = (self.all as f64, self.hits as f64 / self.all as f64);
        let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let (middle, whole) = (p + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
        (100.0 * (middle - spread).max(0.0) / whole, 100.0 * (middle + spread) / whole)
    }

    /// Returns it as a cell of a table.
    pub fn cell(self) -> String {
        let (low, high) = self.interval();
        format!("{:.1} ({low:.1}–{high:.1})", self.percent())
    }

    /// Returns it for machines.
    pub fn value(self) -> Value {
        let (low, high) = self.interval();
        json!({ "hits": self.hits, "n": self.all, "percent": self.percent(), "low": low, "high": high })
    }
}

impl Rate {
    /// Returns how many there are in ten kilobytes; in no bytes there are none.
    pub fn per_10_kb(self) -> f64 {
        self.scaled(self.count as f64)
    }

    /// Returns the 95 % interval of what comes by chance this often (Byar), for ten kilobytes.
    pub fn interval(self) -> (f64, f64) {
        let bound = |count: f64, side: f64| {
            if count == 0.0 {
                return 0.0;
            }
            count * (1.0 - 1.0 / (9.0 * count) + side * Z / (3.0 * count.sqrt())).max(0.0).powi(3)
        };
        let count = self.count as f64;
        (self.scaled(bound(count, -1.0)), self.scaled(bound(count + 1.0, 1.0)))
    }

    /// Returns it as a cell of a table.
    pub fn cell(self) -> String {
        let (low, high) = self.interval();
        format!("{:.4} ({low:.4}–{high:.4})", self.per_10_kb())
    }

    /// Returns it for machines.
    pub fn value(self) -> Value {
        let (low, high) = self.interval();
        json!({ "count": self.count, "bytes": self.bytes, "per_10_kb": self.per_10_kb(), "low": low, "high": high })
    }

    fn scaled(self, count: f64) -> f64 {
        count * UNIT_BYTES / self.bytes.max(1) as f64
    }
}

/// Returns the value below which a share of a list lies; sorts the list.
pub fn quantile(list: &mut [f64], share: f64) -> f64 {
    list.sort_by(f64::total_cmp);
    let at = ((list.len() as f64 - 1.0) * share).round().max(0.0) as usize;
    list.get(at).copied().unwrap_or_default()
}
