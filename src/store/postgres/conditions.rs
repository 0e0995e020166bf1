//! What is asked of the rows of all nodes, as SQL. Only the names of columns are written; what comes from outside is
//! an argument.

use tokio_postgres::types::ToSql;

use crate::id::Ulid;
use crate::store::Order;
use crate::store::archive::ArchiveFilter;
use crate::store::archive::ArchivePage;
use crate::store::key::Key;

/// The condition for rows whose gravest finding is of a category.
const GRAVEST: &str = "category = $";

/// Which rows of a search are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// All whose ids are asked for.
    All,
    /// Those of them whose ids tell when they were recorded.
    ByIds,
    /// Those of them whose ids do not.
    SetBack,
    /// Whatever their ids, those that were recorded between two moments that their ids do not tell.
    Recorded(i64, i64),
}

/// The conditions of a search, and their arguments.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) sql: String,
    /// The number of the argument that is a category.
    category: Option<usize>,
    arguments: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Conditions {
    pub(super) fn of(filter: &ArchiveFilter, rows: Rows) -> Self {
        let mut all = Self::default();
        if let Rows::Recorded(from_ms, to_ms) = rows {
            all.add("recorded >= $", from_ms);
            all.add("recorded <= $", to_ms);
        } else {
            all.add("id >= $", filter.ids.start.to_bytes());
            if filter.ids.end < Ulid(u128::MAX) {
                all.add("id < $", filter.ids.end.to_bytes());
            }
        }
        match rows {
            Rows::ByIds => all.sql += " AND recorded IS NULL",
            Rows::SetBack => all.sql += " AND recorded IS NOT NULL",
            Rows::All | Rows::Recorded(..) => {}
        }
        if let Some((node, newest)) = &filter.but {
            all.add("(node <> $", node.clone());
            let number = all.push(newest.to_bytes());
            all.sql += &format!(" OR id <= ${number})");
        }
        if filter.has_category {
            all.sql += " AND category IS NOT NULL";
        }
        all.add_some("node = $", &filter.node);
        if let Some(category) = &filter.category {
            all.add(GRAVEST, category.clone());
            all.category = Some(all.arguments.len());
        }
        all.add_some("severity = $", &filter.severity);
        all.add_some("event_type = $", &filter.event_type);
        all.add_some("action = $", &filter.action);
        all.add_some("route = $", &filter.route);
        all.add_some("policy = $", &filter.policy);
        if let Some(detector) = &filter.detector {
            all.add("detectors @> $", vec![detector.clone()]);
        }
        all.add_some("entity = $", &filter.entity);
        all.add_some("request_id = $", &filter.request_id);
        if let Some(subject) = &filter.subject {
            all.add("(entity = $", subject.clone());
            let number = all.push(subject.clone());
            all.sql += &format!(" OR actor = ${number})");
        }
        all
    }

    /// Returns the same for rows with a finding of the category that is not their gravest one, with the same arguments;
    /// `None`: no category is asked for.
    pub(super) fn of_others(&self) -> Option<String> {
        let number = self.category?;
        let others = format!("others <> '' AND ${number} = ANY(string_to_array(others, ','))");
        Some(self.sql.replacen(&format!("{GRAVEST}{number}"), &others, 1))
    }

    /// Returns the same for the tallies of whole hours; nobody is asked for there.
    pub(super) fn of_tallies(filter: &ArchiveFilter) -> Self {
        let (mut all, whole) = (Self::default(), filter.whole_hours());
        all.add("hour >= $", whole.start);
        all.add("hour < $", whole.end);
        if filter.has_category {
            all.sql += " AND category <> ''";
        }
        all.add_some("node = $", &filter.node);
        all.add_some("category = $", &filter.category);
        all.add_some("severity = $", &filter.severity);
        all.add_some("event_type = $", &filter.event_type);
        all
    }

    /// Lets only those through that come after the ones of the page before.
    pub(super) fn beyond(&mut self, wanted: &ArchivePage) {
        let Some((id, node)) = &wanted.beyond else { return };
        let after = if wanted.order == Order::Ascending { '>' } else { '<' };
        self.add(&format!("(id, node) {after} ($"), id.to_bytes());
        let number = self.push(node.clone());
        self.sql += &format!(", ${number})");
    }

    /// Adds a condition, which ends with the sign of its argument.
    fn add(&mut self, condition: &str, argument: impl ToSql + Sync + Send + 'static) {
        let number = self.push(argument);
        let and = if self.sql.is_empty() { "" } else { " AND " };
        self.sql += &format!("{and}{condition}{number}");
    }

    fn add_some(&mut self, condition: &str, argument: &Option<String>) {
        if let Some(argument) = argument {
            self.add(condition, argument.clone());
        }
    }

    fn push(&mut self, argument: impl ToSql + Sync + Send + 'static) -> usize {
        self.arguments.push(Box::new(argument));
        self.arguments.len()
    }

    pub(super) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.arguments.iter().map(|argument| -> &(dyn ToSql + Sync) { &**argument }).collect()
    }
}
