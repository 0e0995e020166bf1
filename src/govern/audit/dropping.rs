//! Who is told of entries that retention drops from the journal.

use std::sync::Arc;

use parking_lot::RwLock;

use super::event::Entry;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::segment::HEADER_BYTES;
use super::stored;

type Listener = Box<dyn Fn(&Entry) + Send + Sync>;

/// Those who are told.
#[derive(Clone, Default)]
pub(super) struct Dropping(Arc<RwLock<Vec<Listener>>>);

impl Dropping {
    pub(super) fn subscribe(&self, listener: impl Fn(&Entry) + Send + Sync + 'static) {
        self.0.write().push(Box::new(listener));
    }

    /// Tells every entry of a segment that is about to go, as far as it can be read.
    pub(super) fn tell(&self, log: &Log, segment: u64) -> Result<(), ReadError> {
        let listeners = self.0.read();
        if listeners.is_empty() {
            return Ok(());
        }
        let mut reader = log.reader(Position { segment, offset: HEADER_BYTES });
        while let Some((_, payload)) = reader.next_readable()?.filter(|(at, _)| at.segment == segment) {
            let Ok(entry) = stored::entry(payload, &log.keyring) else { continue };
            listeners.iter().for_each(|listener| listener(&entry));
        }
        Ok(())
    }
}
