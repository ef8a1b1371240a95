//! Programs that die with their starter, and a folder that vanishes with them.
//!
//! A test can be killed at any instruction, by a time limit or by an impatient developer, and then nobody runs its
//! destructors. An API server that survives it holds memory and ports until the machine is rebooted. Linux has a signal
//! for the death of a parent, but it follows the *thread* that forked, needs unsafe code, and exists nowhere else.
//!
//! A pipe needs none of that: its reader is told when the last writer is gone, whatever ended it. So each program is run by
//! a few lines of shell that wait for the program and for the end of their standard input, whichever comes first; and one
//! more such script, the sweeper, removes the folder they all work in. Stopping in good order is the same gesture: let go of
//! the pipe, then wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const GUARD: &str = include_str!("guard.sh");
const SWEEPER: &str = include_str!("sweeper.sh");

/// Why something guarded could not be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Its log cannot be written.
    #[error("failed to open the log {path}")]
    Log {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no shell, or no room for another process.
    #[error("failed to start the guard of {what}")]
    Spawn {
        /// What it was to guard.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The guard's end cannot be learned.
    #[error("failed to wait for the guard of {what}")]
    Wait {
        /// What it guarded.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The folder is still there after many tries.
    #[error("failed to remove {folder}")]
    NotSwept {
        /// The folder.
        folder: PathBuf,
    },
}

/// A running program that is killed when this value is dropped or its process dies.
#[derive(Debug)]
pub struct Guarded {
    what: String,
    guard: Child,
    lifeline: Option<ChildStdin>,
}

impl Guarded {
    /// Runs `program`; what it prints is appended to `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self, GuardError> {
        let failed = |source| GuardError::Log { path: log.to_owned(), source };
        let out = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = script(GUARD, program);
        command.args(arguments);
        Self::spawn(command, program.display().to_string(), out.into(), err.into())
    }

    /// Runs `program`, which prints where we print.
    pub fn speaking_for_us(program: &Path, arguments: &[String]) -> Result<Self, GuardError> {
        let mut command = script(GUARD, program);
        command.args(arguments);
        Self::spawn(command, program.display().to_string(), Stdio::inherit(), Stdio::inherit())
    }

    /// Runs `program` with all that it begins, as one group that is killed together. We hear what it says; what it complains about is written to `log`.
    pub(crate) fn heard(
        program: &Path,
        arguments: &[PathBuf],
        log: File,
    ) -> Result<(Self, Option<ChildStdout>), GuardError> {
        let mut command = script(GUARD, Path::new("setsid"));
        command.arg(program).args(arguments);
        let mut guarded = Self::spawn(command, program.display().to_string(), Stdio::piped(), log.into())?;
        let said = guarded.guard.stdout.take();
        Ok((guarded, said))
    }

    fn spawn(mut command: Command, what: String, out: Stdio, err: Stdio) -> Result<Self, GuardError> {
        command.stdin(Stdio::piped()).stdout(out).stderr(err).process_group(0);
        match command.spawn() {
            Ok(mut guard) => {
                let lifeline = guard.stdin.take();
                Ok(Self { what, guard, lifeline })
            }
            Err(source) => Err(GuardError::Spawn { what, source }),
        }
    }

    /// How the program ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.guard.try_wait().ok().flatten()
    }

    /// Waits until the program has ended by itself.
    pub async fn until_ended(&mut self) -> Result<ExitStatus, GuardError> {
        // The lifeline is not in the child any more, so this waiting does not let go of it.
        self.guard.wait().await.map_err(|source| GuardError::Wait { what: self.what.clone(), source })
    }

    /// Kills the program and waits until it is gone.
    pub async fn end(mut self) -> Result<ExitStatus, GuardError> {
        drop(self.lifeline.take());
        self.guard.wait().await.map_err(|source| GuardError::Wait { what: self.what, source })
    }
}

/// Removes a folder when this value is dropped or its process dies.
#[derive(Debug)]
pub struct Sweeper {
    folder: PathBuf,
    guarded: Guarded,
}

impl Sweeper {
    /// Takes `folder` into its care.
    pub fn start(folder: &Path) -> Result<Self, GuardError> {
        let what = folder.display().to_string();
        let guarded = Guarded::spawn(script(SWEEPER, folder), what, Stdio::null(), Stdio::null())?;
        Ok(Self { folder: folder.to_owned(), guarded })
    }

    /// Removes the folder now and waits until it is gone.
    pub async fn sweep(self) -> Result<(), GuardError> {
        let status = self.guarded.end().await?;
        if status.success() { Ok(()) } else { Err(GuardError::NotSwept { folder: self.folder }) }
    }
}

/// `sh -c <script> <name> <first argument>`: the name is what `ps` shows and what the shell puts before its complaints.
fn script(text: &str, first: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text, "millwright-guard"]).arg(first);
    command
}

/// The last `lines` lines of a log; what could not be read is an empty text, because it goes into an error of its own.
pub fn tail(log: &Path, lines: usize) -> String {
    const WINDOW: u64 = 64 * 1024;
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use tokio::io::AsyncReadExt;

    fn sh(script: &str) -> Vec<String> {
        vec!["-c".to_owned(), script.to_owned()]
    }

    /// A program that waits for ever, and a pipe that ends when it and all its like are gone.
    async fn sleeper(folder: &Path) -> (Guarded, tokio::net::unix::pipe::Receiver) {
        let fifo = folder.join("alive");
        assert!(Command::new("mkfifo").arg(&fifo).status().await.unwrap().success());
        let mut alive = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        let script = format!("exec 9>'{}'; echo up >&9; exec sleep 1000", fifo.display());
        let guarded = Guarded::start(Path::new("sh"), &sh(&script), &folder.join("log")).unwrap();
        alive.readable().await.unwrap();
        alive.read_exact(&mut [0; 3]).await.unwrap();
        (guarded, alive)
    }

    /// Waits until the last writer, the sleeping program, is dead. A guard that forgets to kill must fail a test, not hang it.
    async fn assert_dies(mut alive: tokio::net::unix::pipe::Receiver) {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(std::time::Duration::from_mins(1), alive.read_to_end(&mut rest)).await;
        assert_eq!(ended.expect("the program still lives").unwrap(), 0);
    }

    #[tokio::test]
    async fn a_program_dies_when_its_starter_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let (guarded, alive) = sleeper(folder.path()).await;
        drop(guarded);
        assert_dies(alive).await;
    }

    /// Shows PLN-5.
    #[tokio::test]
    async fn a_program_dies_when_its_starter_is_killed_without_warning() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("alive");
        assert!(Command::new("mkfifo").arg(&fifo).status().await.unwrap().success());
        let mut alive = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        // The starter is a process of its own: it holds the lifeline of a guard, as a test run would.
        let program = format!("exec 9>'{}'; echo up >&9; exec sleep 1000", fifo.display());
        let mut starter = Command::new("sh")
            .args(["-c", "mkfifo \"$3\"; sh -c \"$1\" guard sh -c \"$2\" <\"$3\" & exec sleep 1000 >\"$3\"", "starter"])
            .args([GUARD, &program])
            .arg(folder.path().join("lifeline"))
            .spawn()
            .unwrap();
        alive.readable().await.unwrap();
        alive.read_exact(&mut [0; 3]).await.unwrap();
        starter.kill().await.unwrap();
        assert_dies(alive).await;
    }

    #[tokio::test]
    async fn ending_a_program_waits_until_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (mut guarded, alive) = sleeper(folder.path()).await;
        assert_eq!(guarded.ended(), None);
        let status = guarded.end().await.unwrap();
        assert!(!status.success() && status.signal().is_none(), "the guard itself ended in good order: {status}");
        let mut rest = [0; 1];
        assert_eq!(alive.try_read(&mut rest).unwrap(), 0, "already ended, without waiting");
    }

    #[tokio::test]
    async fn a_program_that_ends_by_itself_is_noticed_with_its_status_and_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut guarded =
            Guarded::start(Path::new("sh"), &sh("echo first; echo no such flag >&2; exit 7"), &log).unwrap();
        let status = guarded.until_ended().await.unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(guarded.ended().and_then(|s| s.code()), Some(7));
        assert_eq!(tail(&log, 1), "no such flag");
        assert_eq!(tail(&log, 5), "first\nno such flag");
    }

    /// Shows PLN-5, HST-17.
    #[tokio::test]
    async fn the_folder_goes_when_its_sweeper_is_let_go() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a folder with 'odd' letters");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        let sweeper = Sweeper::start(&folder).unwrap();
        assert!(folder.exists());
        sweeper.sweep().await.unwrap();
        assert!(!folder.exists());
    }
}
