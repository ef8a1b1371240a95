//! Foreign bytes, for tests of what reads them.
//!
//! Whoever reads what others wrote must answer, whatever it is: a panic costs a reconcile, and a text that is read otherwise than it is
//! written costs a machine. [`fuzz`] changes known inputs at random, again and again, and has each of them read. Without further ado it
//! takes the same few thousand inputs in every run, so that a test that passes passes again. By hand it goes on for as long as
//! `FUZZ_SECONDS` says, from a seed of its own that it prints (`docs/testing.md`). An input that was not read well goes into the corpus
//! of its test.

mod change;

use std::time::{Duration, Instant};

/// How many inputs are read in every run of a test.
const RUNS: u64 = 4_000;

/// Has inputs read that are made from those of the corpus; `read` panics if something is wrong with what it makes of one. The corpus
/// itself is read first.
#[allow(clippy::print_stderr, reason = "whoever fuzzes by hand wants to know the seed")]
#[allow(clippy::disallowed_methods, reason = "it is no part of a program, and by hand it is to differ each time")]
pub fn fuzz(corpus: &[&[u8]], read: impl Fn(&[u8])) {
    for input in corpus {
        shown(input, &read);
    }
    let Some(seconds) = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()) else {
        return for_runs(corpus, &read, 1);
    };
    let seed = fastrand::u64(..);
    let (begin, mut dice, mut runs) = (Instant::now(), fastrand::Rng::with_seed(seed), 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        shown(&change::changed(corpus, &mut dice), &read);
        runs += 1;
    }
    eprintln!("{runs} inputs from seed {seed}");
}

fn for_runs(corpus: &[&[u8]], read: &impl Fn(&[u8]), seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    for _ in 0..RUNS {
        shown(&change::changed(corpus, &mut dice), read);
    }
}

/// Reads one input, and prints it if that fails.
fn shown(input: &[u8], read: &impl Fn(&[u8])) {
    let guard = Shown(input);
    read(guard.0);
}

struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    #[allow(clippy::print_stderr, reason = "a test that fails has to say with what")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was: {}", self.0.escape_ascii());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let inputs = RefCell::default();
        for_runs(
            &[b"{\"replicas\": 3}", b"1h30m"],
            &|input: &[u8]| Vec::push(&mut inputs.borrow_mut(), input.to_vec()),
            seed,
        );
        inputs.into_inner()
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }

    #[test]
    fn inputs_differ_and_resemble_the_corpus() {
        let all = inputs(1);
        assert!(all.iter().collect::<BTreeSet<_>>().len() > all.len() / 2, "most of them differ");
        assert!(all.iter().filter(|input| input.starts_with(b"{\"repl")).count() > all.len() / 20);
        assert!(all.iter().any(|input| std::str::from_utf8(input).is_err()), "some are no text");
    }
}
