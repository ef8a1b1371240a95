//! Trace and span ids that every process derives.
//!
//! Usually one process draws a random trace id and passes it on. The existence of a Machine spans several processes,
//! and a killed process passes nothing on. So the id of a trace is a hash of the uid of the Machine and the kind of the
//! trace, and the id of a span is a hash of its trace, its name and its start time. The next leader derives the same
//! ids without stored state.

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

/// One phase of a Machine, and one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceKind {
    /// From the creation of the Machine until it is Running.
    Creation,
    /// From the deletion of the Machine until it is gone.
    Deletion,
}

impl TraceKind {
    /// Returns the name of the trace.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Creation => "create machine",
            Self::Deletion => "delete machine",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Creation => "creation",
            Self::Deletion => "deletion",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TraceId(pub(super) [u8; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpanId(pub(super) [u8; 8]);

impl TraceId {
    /// Returns the trace id: the first half of SHA-256 of `<uid>/creation` or `<uid>/deletion`.
    pub(super) fn of(uid: &str, kind: TraceKind) -> Self {
        Self(first(&[uid, kind.word()].join("/")))
    }

    /// Returns the id of the root span.
    pub(super) fn root(self) -> SpanId {
        self.span("root", Timestamp::UNIX_EPOCH)
    }

    /// Returns the id of a span with this start time. Spans of the same name have different start times.
    pub(super) fn span(self, name: &str, began: Timestamp) -> SpanId {
        let trace = self.0.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        SpanId(first(&format!("{trace}/{name}/{}", began.as_nanosecond())))
    }
}

/// Returns the first bytes of the hash of a text.
fn first<const N: usize>(text: &str) -> [u8; N] {
    let hash = digest(&SHA256, text.as_bytes());
    let mut bytes = [0; N];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    bytes
}

/// Selection of the Machines that are traced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    below: f64,
}

impl Sampling {
    /// Samples this ratio of the Machines.
    pub(super) fn new(ratio: f64) -> Self {
        Self { below: ratio }
    }

    /// Reports whether this trace is sampled. The decision depends on the id only, so that all processes agree.
    pub(super) fn takes(self, trace: TraceId) -> bool {
        let [a, b, c, d, ..] = trace.0;
        f64::from(u32::from_be_bytes([a, b, c, d])) < self.below * (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows TRC-2.
    #[test]
    fn ids_depend_on_the_uid_and_the_kind_of_trace() {
        let creation = TraceId::of("u-1", TraceKind::Creation);
        assert_eq!(creation, TraceId::of("u-1", TraceKind::Creation));
        assert_ne!(creation, TraceId::of("u-1", TraceKind::Deletion));
        assert_ne!(creation, TraceId::of("u-2", TraceKind::Creation));
        let later = Timestamp::from_second(1).unwrap();
        assert_ne!(creation.span("ask", Timestamp::UNIX_EPOCH), creation.span("ask", later));
        assert_ne!(creation.root(), TraceId::of("u-1", TraceKind::Deletion).root());
    }

    /// Shows TRC-2.
    #[test]
    fn trace_id_matches_the_documented_command() {
        // printf %s 0a1b/creation | sha256sum | cut -c-32
        let hex = TraceId::of("0a1b", TraceKind::Creation).0.iter().fold(String::new(), |t, b| format!("{t}{b:02x}"));
        assert_eq!(hex, "a02f75a1d2c87d074cb60d7d24e9b192");
    }

    /// Shows TRC-5.
    #[test]
    fn sampling_takes_about_the_given_ratio() {
        let traces = || (0..2000).map(|n| TraceId::of(&format!("uid-{n}"), TraceKind::Creation));
        let taken = |ratio| traces().filter(|trace| Sampling::new(ratio).takes(*trace)).count();
        assert_eq!((taken(0.0), taken(1.0)), (0, 2000));
        assert!((120..280).contains(&taken(0.1)), "{}", taken(0.1));
    }
}
