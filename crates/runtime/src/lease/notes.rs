//! Data that a leader passes to the next one, in annotations of the Lease.
//!
//! The annotations are written with the renewals, so they need no further requests or permissions. The next leader reads
//! them when it acquires the lease, also if another program has held it in between: renewals preserve annotations.
//!
//! Renewals have priority over notes. A note that is too long is not written. If the API server rejects a renewal because of
//! the notes, no more notes are written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Maximum length of a note. The API server accepts 256 KiB of annotations per object.
const MAX_LENGTH: usize = 64 * 1024;

/// Change of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Sets the annotation.
    Set(String),
    /// Removes the annotation.
    Remove,
    /// Keeps the annotation.
    Keep,
}

/// Returns the current note. Must not block.
type Source = Box<dyn Fn() -> Note + Send + Sync>;

/// The notes of one lease. Clones share their state.
#[derive(Clone, Default)]
pub struct Notes {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    received: BTreeMap<String, String>,
    sources: BTreeMap<&'static str, Source>,
    rejected: bool,
}

impl Notes {
    /// Returns the note of the previous leader with this name, once the lease is acquired.
    pub fn received(&self, name: &str) -> Option<String> {
        self.state.lock().received.get(name).cloned()
    }

    /// Writes the note of `source` with each renewal, to the annotation with this name.
    pub fn publish(&self, name: &'static str, source: impl Fn() -> Note + Send + Sync + 'static) {
        self.state.lock().sources.insert(name, Box::new(source));
    }

    /// Records the annotations of the acquired lease.
    pub(super) fn acquired(&self, annotations: Option<&BTreeMap<String, String>>) {
        self.state.lock().received = annotations.cloned().unwrap_or_default();
    }

    /// Applies the notes to the annotations of a lease before its renewal. Returns whether anything changed.
    pub(super) fn write(&self, annotations: &mut Option<BTreeMap<String, String>>) -> bool {
        let state = self.state.lock();
        if state.rejected {
            return false;
        }
        let before = annotations.clone();
        for (name, source) in &state.sources {
            match source() {
                Note::Set(text) if text.len() <= MAX_LENGTH => {
                    annotations.get_or_insert_default().insert((*name).to_owned(), text);
                }
                Note::Set(text) => {
                    tracing::error!(name, bytes = text.len(), "skipped annotation of the lease: text is too long");
                }
                Note::Remove => {
                    annotations.as_mut().and_then(|annotations| annotations.remove(*name));
                }
                Note::Keep => {}
            }
        }
        before != *annotations
    }

    /// Disables notes, after the API server rejected a renewal with notes.
    pub(super) fn disable(&self) {
        self.state.lock().rejected = true;
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Notes")
            .field("received", &state.received.keys())
            .field("published", &state.sources.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows LIM-20.
    #[test]
    fn notes_are_set_and_removed_and_other_annotations_kept() {
        let notes = Notes::default();
        let text = Arc::new(Mutex::new(Note::Set("a".into())));
        let source = text.clone();
        notes.publish("ours", move || source.lock().clone());
        let mut annotations = Some(BTreeMap::from([("theirs".to_owned(), "t".to_owned())]));
        assert!(notes.write(&mut annotations));
        assert_eq!(annotations.as_ref().unwrap()["ours"], "a");
        *text.lock() = Note::Keep;
        assert!(!notes.write(&mut annotations));
        *text.lock() = Note::Set("b".repeat(MAX_LENGTH + 1));
        assert!(!notes.write(&mut annotations), "too long, so the annotation is kept");
        *text.lock() = Note::Remove;
        assert!(notes.write(&mut annotations));
        assert_eq!(annotations.unwrap(), BTreeMap::from([("theirs".to_owned(), "t".to_owned())]));
    }
}
