//! Which findings of a scan are final, and where the next scan has to begin.

use std::ops::Range;

use crate::scan::threat::Finding;

/// What a scan of settled text settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// Where the next scan begins: behind all final findings, before all others.
    pub judged_to: usize,
    /// Where the findings end that are not final; `judged_to` or before it if all are.
    pub waits_for: usize,
    /// How many findings, from the first, are final.
    pub count: usize,
}

/// Tells how many of the findings that begin before `settled` can no longer change.
///
/// `found` is sorted by start. Findings that overlap stay together, and so do those of one encoded run: only what
/// ends before `settled` cannot be joined by anything that is still to come.
pub(super) fn settle(found: &[Finding], settled: usize, runs: &[Range<usize>]) -> Settled {
    let mut judged_to = settled;
    loop {
        let crossing = found.iter().filter(|it| it.span.start < judged_to && judged_to < it.span.end);
        let start = crossing.map(|it| it.span.start).min().unwrap_or(judged_to);
        let start = outside(start, runs);
        if start == judged_to {
            break;
        }
        judged_to = start;
    }
    let count = found.partition_point(|it| it.span.start < judged_to);
    let waits_for = found.iter().skip(count).map(|it| it.span.end).max().unwrap_or(0);
    Settled { judged_to, waits_for, count }
}

/// Moves an offset before all runs that it lies within.
pub(super) fn outside(mut at: usize, runs: &[Range<usize>]) -> usize {
    while let Some(run) = runs.iter().filter(|run| run.start < at && at < run.end).min_by_key(|run| run.start)
    {
        at = run.start;
    }
    at
}
