//! A part of a page: which answer it shows, and how. What each page has is in [`parts`](super::parts), how it is written in
//! [`shown`](super::shown).

/// A part of a page.
#[derive(Debug)]
pub struct Part {
    /// What it is called.
    pub title: &'static str,
    /// Which answer it shows: a path of the contract, and its query.
    pub asked: (&'static str, &'static str),
    /// Where the rows of a table are in it, as a JSON pointer (RFC 6901); `None`: it is a list of facts. The members of an
    /// object are rows of a `name` and a `value`.
    pub rows: Option<&'static str>,
    /// What is shown, and where it is in the answer, or in each row.
    pub cells: &'static [Cell],
    /// What is said where there are no rows.
    pub none: &'static str,
}

/// A name, where its value is (RFC 6901), and how it is written.
pub type Cell = (&'static str, &'static str, Form);

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is; of a list each of its texts.
    Text,
    /// As what does not break: names of programs.
    Code,
    /// As what is told at a glance.
    Badge,
    /// As a whole number.
    Count,
    /// As a number with as many digits as it has, four at most behind the point.
    Decimal,
    /// As hundredths.
    Percent,
    /// As milliseconds.
    Millis,
    /// As seconds.
    Seconds,
    /// As a size.
    Bytes,
    /// As a moment.
    Moment,
}

/// Returns a part that is a list of facts.
pub const fn facts(title: &'static str, asked: (&'static str, &'static str), cells: &'static [Cell]) -> Part {
    Part { title, asked, rows: None, cells, none: "" }
}

/// Returns a part that is a table.
pub const fn table(
    title: &'static str,
    asked: (&'static str, &'static str),
    rows: &'static str,
    cells: &'static [Cell],
    none: &'static str,
) -> Part {
    Part { title, asked, rows: Some(rows), cells, none }
}
