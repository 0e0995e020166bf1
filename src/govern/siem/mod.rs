//! Forwarding of the audit log to the platforms of a security team.
//!
//! In: the audit log, and a [`config::SiemConfig`]. Out: every entry that a sink's filter lets through, in the
//! platform's own form, in order and at least once; figures in a [`SinkStatus`] for each sink.
//!
//! [`Sinks`] follow the configuration while they run. A sink reads the log itself, from a place that is kept in the
//! store and moves on only when the platform has taken what came before. A receiver that is down, slow or says
//! nonsense therefore loses nothing and holds nobody up: the entries wait in the log, as long as its retention keeps
//! them. Entries that a platform refuses for what they are go to the sink's dead letters, by their ids, and the rest
//! goes on. A sink that does not run says so ([`SinkState::Failed`]) and is begun again. None of that degrades the
//! gateway: traffic does not wait for a security team's platform, whose outage is the metrics' and the alerts' to tell.
//!
//! Where an entry goes is the operator's word alone: addresses come from the configuration, redirections are
//! not followed, and addresses of private networks, and names that lead there, need `allow_private`.

mod address;
mod backoff;
pub mod config;
mod cursor;
mod dead;
mod format;
mod forwarder;
mod http;
mod sink;
mod sinks;
mod status;

pub use self::address::is_private_address;
pub use self::forwarder::SinkError;
pub use self::forwarder::Surroundings;
pub use self::sink::ReadSecret;
pub use self::sink::check;
pub use self::sinks::Sinks;
pub use self::sinks::Standings;
pub use self::status::SinkState;
pub use self::status::SinkStatus;
pub use self::status::Told;
