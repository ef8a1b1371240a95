//! Ids that every process finds for itself.
//!
//! A trace is usually known to one process, which draws its id at random and hands it on. A machine's life outlives processes, and a
//! killed one hands on nothing. So the id of a trace is a hash of the machine's uid and the part of its life, and the id of a span
//! a hash of its trace, its name and when it began: the next leader arrives at the same trace by itself, and nothing is written down.

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

/// One part of a machine's life, and one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceKind {
    /// From its creation until it runs.
    Creation,
    /// From its deletion until it is gone.
    Deletion,
}

impl TraceKind {
    /// The name of the trace.
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
    /// The trace of this part of a machine's life: the first half of SHA-256 of `<uid>/creation` or `<uid>/deletion`.
    pub(super) fn of(uid: &str, kind: TraceKind) -> Self {
        Self(first(&[uid, kind.word()].join("/")))
    }

    /// The span that all others hang on.
    pub(super) fn root(self) -> SpanId {
        self.span("root", Timestamp::UNIX_EPOCH)
    }

    /// A span that began at this time. One name begins but once at a time.
    pub(super) fn span(self, name: &str, began: Timestamp) -> SpanId {
        let trace = self.0.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        SpanId(first(&format!("{trace}/{name}/{}", began.as_nanosecond())))
    }
}

/// The first bytes of a text's hash.
fn first<const N: usize>(text: &str) -> [u8; N] {
    let hash = digest(&SHA256, text.as_bytes());
    let mut bytes = [0; N];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    bytes
}

/// Which lives are traced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    below: f64,
}

impl Sampling {
    /// This share of them.
    pub(super) fn new(ratio: f64) -> Self {
        Self { below: ratio }
    }

    /// Whether this one is. The id decides, so that every process answers the same.
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
    fn every_process_finds_the_same_ids_and_each_life_its_own() {
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
    fn the_documented_way_to_a_trace_leads_there() {
        // printf %s 0a1b/creation | sha256sum | cut -c-32
        let hex = TraceId::of("0a1b", TraceKind::Creation).0.iter().fold(String::new(), |t, b| format!("{t}{b:02x}"));
        assert_eq!(hex, "a02f75a1d2c87d074cb60d7d24e9b192");
    }

    /// Shows TRC-5.
    #[test]
    fn a_tenth_of_all_lives_is_about_a_tenth() {
        let traces = || (0..2000).map(|n| TraceId::of(&format!("uid-{n}"), TraceKind::Creation));
        let taken = |ratio| traces().filter(|trace| Sampling::new(ratio).takes(*trace)).count();
        assert_eq!((taken(0.0), taken(1.0)), (0, 2000));
        assert!((120..280).contains(&taken(0.1)), "{}", taken(0.1));
    }
}
