//! Runs suites in parallel.
//!
//! A suite mostly waits: for a lease to expire, a Node to become NotReady, a creation to time out. Two of them share
//! two cores well, so each runs in a separate process with its own control plane, ports and folder, and takes the next
//! free job. Long suites start first, so that the jobs end at about the same time. A suite that checks a duration runs
//! alone.
//!
//! The output of a suite is written to a file next to its report and printed when the suite has ended; meanwhile, the
//! running suites are printed. Each process has a guard, which kills it and its children when this process ends.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use control_plane::guard::Guarded;
use tokio::time::{Instant, sleep};

use super::tally::{Ran, Tally};

/// Interval of the check for ended processes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time without output.
const MAX_SILENCE: Duration = Duration::from_mins(1);

/// Whether a suite can run in parallel with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parallelism {
    /// It can run in parallel with any suite.
    Any,
    /// It must run alone, because it checks durations.
    None,
}

/// A suite to run.
#[derive(Clone, Debug)]
pub(super) struct QueuedSuite {
    pub(super) name: &'static str,
    /// The arguments of the program that runs it.
    pub(super) arguments: Vec<String>,
    pub(super) company: Parallelism,
    /// Path of its report.
    pub(super) report: PathBuf,
}

/// Runs suites in parallel.
pub(super) struct Jobs<'a> {
    pub(super) jobs: usize,
    pub(super) program: &'a Path,
}

/// A running suite.
struct RunningSuite {
    queued: QueuedSuite,
    guarded: Guarded,
    begin: Instant,
    log: PathBuf,
}

impl Jobs<'_> {
    /// Runs all suites in about this order and prints the progress to `out`. An error concerns the runner; the result
    /// of each suite is in the return value.
    pub(super) async fn play(&self, queue: Vec<QueuedSuite>, out: &mut impl Write) -> anyhow::Result<Vec<Ran>> {
        let (mut waiting, mut playing, mut ran) = (queue, Vec::<RunningSuite>::new(), Vec::new());
        let mut spoken = Instant::now();
        while !(waiting.is_empty() && playing.is_empty()) {
            while let Some(at) = self.next(&waiting, &playing) {
                playing.push(self.begin(waiting.remove(at))?);
                writeln!(out, ">>> {}", now(&playing, waiting.len())).context(PRINT_FAILED)?;
                spoken = Instant::now();
            }
            let Some(at) = playing.iter_mut().position(|one| one.guarded.ended().is_some()) else {
                if spoken.elapsed() > MAX_SILENCE {
                    writeln!(out, ">>> {}", now(&playing, waiting.len())).context(PRINT_FAILED)?;
                    spoken = Instant::now();
                }
                sleep(POLL_INTERVAL).await;
                continue;
            };
            ran.push(playing.remove(at).conclude(out).await?);
        }
        Ok(ran)
    }

    /// Returns the index of the next suite that can start.
    fn next(&self, waiting: &[QueuedSuite], playing: &[RunningSuite]) -> Option<usize> {
        let companions: Vec<Parallelism> = playing.iter().map(|one| one.queued.company).collect();
        let waiting: Vec<Parallelism> = waiting.iter().map(|one| one.company).collect();
        first(&waiting, &companions, self.jobs)
    }

    fn begin(&self, queued: QueuedSuite) -> anyhow::Result<RunningSuite> {
        let log = queued.report.with_extension("log");
        for old in [&log, &queued.report] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("failed to remove {}", old.display()));
                }
                _ => {}
            }
        }
        let guarded = Guarded::start(self.program, &queued.arguments, &log)?;
        Ok(RunningSuite { queued, guarded, begin: Instant::now(), log })
    }
}

impl RunningSuite {
    /// Prints the output and the result. A suite has passed only if both its exit code and its report say so.
    async fn conclude(mut self, out: &mut impl Write) -> anyhow::Result<Ran> {
        let status = self.guarded.until_ended().await?;
        let QueuedSuite { name, report, .. } = self.queued;
        let said = fs::read(&self.log).with_context(|| format!("failed to read {}", self.log.display()))?;
        let took = self.begin.elapsed();
        writeln!(out, "--- {name} (finished after {} s)", took.as_secs()).context(PRINT_FAILED)?;
        out.write_all(&said).context(PRINT_FAILED)?;
        let tally = match Tally::read(&report) {
            Ok(tally) if status.success() || tally.failed > 0 => Some(tally),
            Ok(_) => None,
            Err(error) => {
                writeln!(out, "{name} exited with {status}: {error:#}").context(PRINT_FAILED)?;
                None
            }
        };
        Ok(Ran { suite: name, tally, took })
    }
}

const PRINT_FAILED: &str = "failed to print the progress";

/// Returns the first waiting suite that can run in parallel with the running ones.
fn first(waiting: &[Parallelism], playing: &[Parallelism], jobs: usize) -> Option<usize> {
    if playing.len() >= jobs || playing.contains(&Parallelism::None) {
        return None;
    }
    waiting.iter().position(|company| playing.is_empty() || *company == Parallelism::Any)
}

/// Returns the running suites, their durations, and the number of waiting suites.
fn now(playing: &[RunningSuite], waiting: usize) -> String {
    let each = |one: &RunningSuite| match one.begin.elapsed().as_secs() {
        0 => format!("{} started", one.queued.name),
        seconds => format!("{} running for {seconds} s", one.queued.name),
    };
    let all: Vec<String> = playing.iter().map(each).collect();
    format!("{}; {waiting} waiting", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    use Parallelism::{Any, None as Nobody};

    #[rstest]
    #[case::a_free_job_is_taken(&[Any, Any], &[Any], Some(0))]
    #[case::no_free_job(&[Any], &[Any, Any], None)]
    #[case::no_suite_waits(&[], &[], None)]
    #[case::an_exclusive_suite_is_skipped(&[Nobody, Any], &[Any], Some(1))]
    #[case::an_exclusive_suite_waits(&[Nobody], &[Any], None)]
    #[case::an_exclusive_suite_starts_if_no_other_runs(&[Nobody, Any], &[], Some(0))]
    #[case::an_exclusive_suite_runs_alone(&[Any], &[Nobody], None)]
    fn the_next_suite_is_selected(
        #[case] waiting: &[Parallelism],
        #[case] playing: &[Parallelism],
        #[case] begins: Option<usize>,
    ) {
        assert_eq!(first(waiting, playing, 2), begins);
    }

    const GOOD: &str = r#"{"passed": 2, "failed": 0, "skipped": 0}"#;
    const BAD: &str = r#"{"passed": 1, "failed": 1, "skipped": 0}"#;

    /// Creates a suite from a shell script; `$0` is its report.
    fn suite(folder: &Path, name: &'static str, script: &str) -> QueuedSuite {
        let report = folder.join(format!("{name}.json"));
        let arguments = vec!["-c".to_owned(), script.to_owned(), report.display().to_string()];
        QueuedSuite { name, arguments, company: Any, report }
    }

    async fn played(jobs: usize, queue: Vec<QueuedSuite>) -> (Vec<Ran>, String) {
        let mut out = Vec::new();
        let ran = Jobs { jobs, program: Path::new("sh") }.play(queue, &mut out).await.unwrap();
        (ran, String::from_utf8(out).unwrap())
    }

    fn tally(ran: &[Ran], name: &str) -> Option<Tally> {
        ran.iter().find(|one| one.suite == name).unwrap().tally
    }

    #[tokio::test]
    async fn output_of_parallel_suites_is_not_interleaved() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let meet = |own: &Path, other: &Path| {
            // Neither ends before the other has started.
            format!(
                "echo first; : >'{}'; while [ ! -e '{}' ]; do sleep 0.01; done; echo last >&2; echo '{GOOD}' >\"$0\"",
                own.display(),
                other.display()
            )
        };
        let both = vec![suite(folder.path(), "one", &meet(&a, &b)), suite(folder.path(), "other", &meet(&b, &a))];
        let (ran, said) = played(2, both).await;
        let good = Some(Tally::of(2, 0));
        assert_eq!((tally(&ran, "one"), tally(&ran, "other")), (good, good));
        for name in ["one", "other"] {
            let (_, whole) = said.split_once(&format!("--- {name} (finished after ")).unwrap();
            assert!(whole.split_once('\n').unwrap().1.starts_with("first\nlast\n"), "{said}");
        }
    }

    #[tokio::test]
    async fn failed_and_killed_suites_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let all = vec![
            suite(folder.path(), "red", &format!("echo '{BAD}' >\"$0\"; exit 1")),
            suite(folder.path(), "dead", "echo last line; kill -KILL $$"),
            // A report that was written before a failure does not show the result.
            suite(folder.path(), "cheat", &format!("echo '{GOOD}' >\"$0\"; exit 1")),
            suite(folder.path(), "green", &format!("echo '{GOOD}' >\"$0\"")),
        ];
        fs::write(folder.path().join("dead.json"), GOOD).unwrap();
        let (ran, said) = played(2, all).await;
        assert_eq!(tally(&ran, "red"), Some(Tally::of(1, 1)));
        assert_eq!(tally(&ran, "green"), Some(Tally::of(2, 0)));
        assert_eq!((tally(&ran, "dead"), tally(&ran, "cheat")), (None, None));
        assert!(said.contains("last line\n"), "{said}");
        assert!(said.contains("dead exited with exit status: 137: failed to read "), "{said}");
    }

    #[tokio::test]
    async fn running_and_waiting_suites_are_printed() {
        let folder = tempfile::tempdir().unwrap();
        let quick = format!("echo '{GOOD}' >\"$0\"");
        let (_, said) = played(1, vec![suite(folder.path(), "a", &quick), suite(folder.path(), "b", &quick)]).await;
        assert!(said.starts_with(">>> a started; 1 waiting\n--- a (finished "), "{said}");
        assert!(said.contains(">>> b started; 0 waiting\n"), "{said}");
    }
}
