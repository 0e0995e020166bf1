//! How the deployment stands against frameworks of controls, from what can be seen while it runs.
//!
//! In: frameworks as data (`plugins/frameworks`, [`framework`]), each control tied to *checks* of a closed set
//! ([`check`]), and the [`Facts`](facts::Facts) of this moment. Out: a [`Report`](report::Report): for each control
//! whether its checks are met, with evidence and the query that shows it again.
//!
//! A gateway sees little of an organisation. A control without checks, or whose checks cannot be answered, is not
//! assessed; it counts neither as met nor as failed, and the report says how much was assessed at all.
//! What it does not promise: that a control is fulfilled. It shows that what the gateway can do for it is done.

pub mod check;
pub mod desk;
pub mod facts;
pub mod framework;
pub mod report;
