//! Random inputs for tests of parsers.
//!
//! A parser of foreign input must return a result for every input: a panic costs a reconcile, and a misread value can
//! cost a Machine. [`fuzz`] changes known inputs at random and passes each result to the parser. By default it uses the
//! same few thousand inputs in every run, so that tests are reproducible. With `FUZZ_SECONDS` it runs for that time
//! with a random seed, which it prints (`docs/contributing/testing.md`). An input that fails is added to the corpus of
//! its test.

mod mutation;

use std::time::{Duration, Instant};

/// Number of inputs in a run of a test.
const RUNS: u64 = 4_000;

/// Passes the corpus, and inputs derived from it, to `read`. `read` panics on an error.
#[allow(clippy::print_stderr, reason = "a manual run must print its seed")]
#[allow(clippy::disallowed_methods, reason = "tests only; a manual run uses a random seed")]
pub fn fuzz(corpus: &[&[u8]], read: impl Fn(&[u8])) {
    for input in corpus {
        run_one(input, &read);
    }
    let Some(seconds) = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()) else {
        return for_runs(corpus, &read, 1);
    };
    let seed = fastrand::u64(..);
    let (begin, mut random, mut runs) = (Instant::now(), fastrand::Rng::with_seed(seed), 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        run_one(&mutation::mutated(corpus, &mut random), &read);
        runs += 1;
    }
    eprintln!("{runs} inputs from seed {seed}");
}

fn for_runs(corpus: &[&[u8]], read: &impl Fn(&[u8]), seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..RUNS {
        run_one(&mutation::mutated(corpus, &mut random), read);
    }
}

/// Passes one input to `read`, and prints it on a panic.
fn run_one(input: &[u8], read: &impl Fn(&[u8])) {
    let guard = PrintOnPanic(input);
    read(guard.0);
}

struct PrintOnPanic<'a>(&'a [u8]);

impl Drop for PrintOnPanic<'_> {
    #[allow(clippy::print_stderr, reason = "a failed test must print its input")]
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
    fn seed_determines_the_inputs() {
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }

    #[test]
    fn inputs_differ_and_resemble_the_corpus() {
        let all = inputs(1);
        assert!(all.iter().collect::<BTreeSet<_>>().len() > all.len() / 2, "most of them differ");
        assert!(all.iter().filter(|input| input.starts_with(b"{\"repl")).count() > all.len() / 20);
        assert!(all.iter().any(|input| std::str::from_utf8(input).is_err()), "some are not UTF-8");
    }
}
