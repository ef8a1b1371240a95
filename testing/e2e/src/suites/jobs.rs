//! Suites side by side.
//!
//! A suite mostly waits: for a lease to run out, a node to fall silent, a creation to time out. Two of them share two cores
//! well, so each is played by a process of its own with its own control plane, ports and folder, and takes the next free job.
//! Who takes long begins first, so that the jobs end together. One that holds a duration to a limit has the machine to itself.
//!
//! What a suite prints goes to a file beside its report and comes out whole when it has ended; between that, people are told what is being
//! played. Each process hangs from a guard, so that nothing is left of it or of what it started, whatever ends us.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use control_plane::guard::Guarded;
use tokio::time::{Instant, sleep};

use super::tally::{Ran, Tally};

/// How often we look who has ended.
const GLANCE: Duration = Duration::from_millis(100);
/// How long nothing may be said.
const SILENCE: Duration = Duration::from_mins(1);

/// Whom a suite can have beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Anybody.
    Any,
    /// Nobody: it is about how long something takes.
    None,
}

/// A suite that is to be played.
#[derive(Clone, Debug)]
pub(super) struct Passenger {
    pub(super) name: &'static str,
    /// The arguments of the program that plays it.
    pub(super) arguments: Vec<String>,
    pub(super) company: Company,
    /// Where it leaves its report.
    pub(super) report: PathBuf,
}

/// So many jobs, and what plays a suite.
pub(super) struct Jobs<'a> {
    pub(super) jobs: usize,
    pub(super) program: &'a Path,
}

/// A suite that is being played.
struct Playing {
    passenger: Passenger,
    guarded: Guarded,
    begin: Instant,
    log: PathBuf,
}

impl Jobs<'_> {
    /// Plays them all, in about this order, and tells `out` of it. An error is one of ours; how each suite went is in the answer.
    pub(super) async fn play(&self, passengers: Vec<Passenger>, out: &mut impl Write) -> anyhow::Result<Vec<Ran>> {
        let (mut waiting, mut playing, mut ran) = (passengers, Vec::<Playing>::new(), Vec::new());
        let mut spoken = Instant::now();
        while !(waiting.is_empty() && playing.is_empty()) {
            while let Some(at) = self.next(&waiting, &playing) {
                playing.push(self.begin(waiting.remove(at))?);
                writeln!(out, ">>> {}", now(&playing, waiting.len())).context(MUTE)?;
                spoken = Instant::now();
            }
            let Some(at) = playing.iter_mut().position(|one| one.guarded.ended().is_some()) else {
                if spoken.elapsed() > SILENCE {
                    writeln!(out, ">>> {}", now(&playing, waiting.len())).context(MUTE)?;
                    spoken = Instant::now();
                }
                sleep(GLANCE).await;
                continue;
            };
            ran.push(playing.remove(at).conclude(out).await?);
        }
        Ok(ran)
    }

    /// Who may begin now: the first who can have those who play beside it.
    fn next(&self, waiting: &[Passenger], playing: &[Playing]) -> Option<usize> {
        let companions: Vec<Company> = playing.iter().map(|one| one.passenger.company).collect();
        let waiting: Vec<Company> = waiting.iter().map(|one| one.company).collect();
        first(&waiting, &companions, self.jobs)
    }

    fn begin(&self, passenger: Passenger) -> anyhow::Result<Playing> {
        let log = passenger.report.with_extension("log");
        for old in [&log, &passenger.report] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("failed to remove {}", old.display()));
                }
                _ => {}
            }
        }
        let guarded = Guarded::start(self.program, &passenger.arguments, &log)?;
        Ok(Playing { passenger, guarded, begin: Instant::now(), log })
    }
}

impl Playing {
    /// Says all that it printed, and how it went: well only if the process says so and the report does not deny it.
    async fn conclude(mut self, out: &mut impl Write) -> anyhow::Result<Ran> {
        let status = self.guarded.until_ended().await?;
        let Passenger { name, report, .. } = self.passenger;
        let said = fs::read(&self.log).with_context(|| format!("failed to read {}", self.log.display()))?;
        let took = self.begin.elapsed();
        writeln!(out, "--- {name} (ended after {} s)", took.as_secs()).context(MUTE)?;
        out.write_all(&said).context(MUTE)?;
        let tally = match Tally::read(&report) {
            Ok(tally) if status.success() || tally.failed > 0 => Some(tally),
            Ok(_) => None,
            Err(error) => {
                writeln!(out, "{name} ended with {status}, and {error:#}").context(MUTE)?;
                None
            }
        };
        Ok(Ran { suite: name, tally, took })
    }
}

const MUTE: &str = "failed to say what is being played";

/// The first of those who wait that can begin beside the others.
fn first(waiting: &[Company], playing: &[Company], jobs: usize) -> Option<usize> {
    if playing.len() >= jobs || playing.contains(&Company::None) {
        return None;
    }
    waiting.iter().position(|company| playing.is_empty() || *company == Company::Any)
}

/// Who plays, for how long, and how many wait.
fn now(playing: &[Playing], waiting: usize) -> String {
    let each = |one: &Playing| match one.begin.elapsed().as_secs() {
        0 => format!("{} begins", one.passenger.name),
        seconds => format!("{} plays for {seconds} s", one.passenger.name),
    };
    let all: Vec<String> = playing.iter().map(each).collect();
    format!("{}; {waiting} to come", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    use Company::{Any, None as Nobody};

    #[rstest]
    #[case::a_free_job_is_taken(&[Any, Any], &[Any], Some(0))]
    #[case::no_job_is_free(&[Any], &[Any, Any], None)]
    #[case::nobody_waits(&[], &[], None)]
    #[case::who_wants_quiet_is_passed(&[Nobody, Any], &[Any], Some(1))]
    #[case::who_wants_quiet_waits(&[Nobody], &[Any], None)]
    #[case::who_wants_quiet_begins_on_empty_jobs(&[Nobody, Any], &[], Some(0))]
    #[case::who_wants_quiet_has_it(&[Any], &[Nobody], None)]
    fn who_begins(#[case] waiting: &[Company], #[case] playing: &[Company], #[case] begins: Option<usize>) {
        assert_eq!(first(waiting, playing, 2), begins);
    }

    const GOOD: &str = r#"{"passed": 2, "failed": 0, "skipped": 0}"#;
    const BAD: &str = r#"{"passed": 1, "failed": 1, "skipped": 0}"#;

    /// A suite that is a few lines of shell; `$0` is its report.
    fn suite(folder: &Path, name: &'static str, script: &str) -> Passenger {
        let report = folder.join(format!("{name}.json"));
        let arguments = vec!["-c".to_owned(), script.to_owned(), report.display().to_string()];
        Passenger { name, arguments, company: Any, report }
    }

    async fn played(jobs: usize, passengers: Vec<Passenger>) -> (Vec<Ran>, String) {
        let mut out = Vec::new();
        let ran = Jobs { jobs, program: Path::new("sh") }.play(passengers, &mut out).await.unwrap();
        (ran, String::from_utf8(out).unwrap())
    }

    fn tally(ran: &[Ran], name: &str) -> Option<Tally> {
        ran.iter().find(|one| one.suite == name).unwrap().tally
    }

    #[tokio::test]
    async fn what_suites_print_side_by_side_comes_out_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let meet = |own: &Path, other: &Path| {
            // Neither can go on unless the other has begun.
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
            let (_, whole) = said.split_once(&format!("--- {name} (ended after ")).unwrap();
            assert!(whole.split_once('\n').unwrap().1.starts_with("first\nlast\n"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_suite_that_fails_or_dies_is_told_and_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let all = vec![
            suite(folder.path(), "red", &format!("echo '{BAD}' >\"$0\"; exit 1")),
            suite(folder.path(), "dead", "echo my last words; kill -KILL $$"),
            // A report from before it died says nothing of how it ended.
            suite(folder.path(), "cheat", &format!("echo '{GOOD}' >\"$0\"; exit 1")),
            suite(folder.path(), "green", &format!("echo '{GOOD}' >\"$0\"")),
        ];
        fs::write(folder.path().join("dead.json"), GOOD).unwrap();
        let (ran, said) = played(2, all).await;
        assert_eq!(tally(&ran, "red"), Some(Tally::of(1, 1)));
        assert_eq!(tally(&ran, "green"), Some(Tally::of(2, 0)));
        assert_eq!((tally(&ran, "dead"), tally(&ran, "cheat")), (None, None));
        assert!(said.contains("my last words\n"), "{said}");
        assert!(said.contains("dead ended with exit status: 137, and failed to read "), "{said}");
    }

    #[tokio::test]
    async fn people_are_told_who_plays_and_how_many_wait() {
        let folder = tempfile::tempdir().unwrap();
        let quick = format!("echo '{GOOD}' >\"$0\"");
        let (_, said) = played(1, vec![suite(folder.path(), "a", &quick), suite(folder.path(), "b", &quick)]).await;
        assert!(said.starts_with(">>> a begins; 1 to come\n--- a (ended "), "{said}");
        assert!(said.contains(">>> b begins; 0 to come\n"), "{said}");
    }
}
