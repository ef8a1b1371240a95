//! What a leader leaves for the next one: annotations of the Lease.
//!
//! They go out with the renewals, so they cost no request and need no permission beyond those of the election, and they are as fresh as
//! the last renewal. Whoever takes the lease over finds them, also after a candidate of another program held it in between: renewals
//! leave annotations alone.
//!
//! A renewal matters more than any note. A note that is too long is not written, and after a renewal that the API server would not take
//! there are no notes any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The API server takes 256 KiB of annotations in all.
const LONGEST: usize = 64 * 1024;

/// What is to stand in an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This.
    Text(String),
    /// Nothing.
    Nothing,
    /// What stands there.
    AsBefore,
}

/// Says what is to be noted right now. It must not wait.
type Source = Box<dyn Fn() -> Note + Send + Sync>;

/// The notes of one lease. Clones are the same.
#[derive(Clone, Default)]
pub struct Notes {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    found: BTreeMap<String, String>,
    sources: BTreeMap<&'static str, Source>,
    refused: bool,
}

impl Notes {
    /// What the last leader left under this name, once we have won.
    pub fn found(&self, name: &str) -> Option<String> {
        self.inside.lock().found.get(name).cloned()
    }

    /// Keeps a note under this name from now on.
    pub fn keep(&self, name: &'static str, source: impl Fn() -> Note + Send + Sync + 'static) {
        self.inside.lock().sources.insert(name, Box::new(source));
    }

    /// We have won a lease with these annotations.
    pub(super) fn won(&self, annotations: Option<&BTreeMap<String, String>>) {
        self.inside.lock().found = annotations.cloned().unwrap_or_default();
    }

    /// Puts the notes among the annotations of a lease that is about to be renewed. Says whether it changed anything.
    pub(super) fn write(&self, annotations: &mut Option<BTreeMap<String, String>>) -> bool {
        let inside = self.inside.lock();
        if inside.refused {
            return false;
        }
        let before = annotations.clone();
        for (name, source) in &inside.sources {
            match source() {
                Note::Text(text) if text.len() <= LONGEST => {
                    annotations.get_or_insert_default().insert((*name).to_owned(), text);
                }
                Note::Text(text) => tracing::error!(name, bytes = text.len(), "a note on the lease is too long"),
                Note::Nothing => {
                    annotations.as_mut().and_then(|annotations| annotations.remove(*name));
                }
                Note::AsBefore => {}
            }
        }
        before != *annotations
    }

    /// The API server did not take a renewal that carried notes.
    pub(super) fn refuse(&self) {
        self.inside.lock().refused = true;
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.inside.lock();
        f.debug_struct("Notes").field("found", &inside.found.keys()).field("kept", &inside.sources.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows LIM-20.
    #[test]
    fn notes_are_written_among_others_annotations_and_taken_off_again() {
        let notes = Notes::default();
        let text = Arc::new(Mutex::new(Note::Text("a".into())));
        let source = text.clone();
        notes.keep("ours", move || source.lock().clone());
        let mut annotations = Some(BTreeMap::from([("theirs".to_owned(), "t".to_owned())]));
        assert!(notes.write(&mut annotations));
        assert_eq!(annotations.as_ref().unwrap()["ours"], "a");
        *text.lock() = Note::AsBefore;
        assert!(!notes.write(&mut annotations));
        *text.lock() = Note::Text("b".repeat(LONGEST + 1));
        assert!(!notes.write(&mut annotations), "too long, so the last one stays");
        *text.lock() = Note::Nothing;
        assert!(notes.write(&mut annotations));
        assert_eq!(annotations.unwrap(), BTreeMap::from([("theirs".to_owned(), "t".to_owned())]));
    }
}
