//! Programs that are killed when their parent process ends, and a folder that is removed with them.
//!
//! A test process can be killed at any time, and then no destructors run. An API server that survives would occupy
//! memory and ports. Linux has a signal for the end of a parent, but it follows the *thread* that forked, needs unsafe
//! code, and is not portable.
//!
//! A pipe is portable: its reader is notified when the last writer is closed, for any reason. So each program is run by
//! a shell script that waits for the program and for the end of its standard input. Another such script, the sweeper,
//! removes the folder of the programs. A regular stop also closes the pipe and then waits.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const GUARD: &str = include_str!("guard.sh");
const SWEEPER: &str = include_str!("sweeper.sh");

/// A failure to start or stop a guarded program.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The log cannot be opened.
    #[error("failed to open the log {path}")]
    Log {
        /// The log.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The shell cannot be started.
    #[error("failed to start the guard of {what}")]
    Spawn {
        /// The guarded program.
        what: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The exit of the guard cannot be awaited.
    #[error("failed to wait for the guard of {what}")]
    Wait {
        /// The guarded program.
        what: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The folder still exists after many attempts.
    #[error("failed to remove {folder}")]
    NotSwept {
        /// The folder.
        folder: PathBuf,
    },
}

/// A running program that is killed when this value is dropped or its process ends.
#[derive(Debug)]
pub struct Guarded {
    what: String,
    guard: Child,
    lifeline: Option<ChildStdin>,
}

impl Guarded {
    /// Runs `program`; its output is appended to `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self, GuardError> {
        let failed = |source| GuardError::Log { path: log.to_owned(), source };
        let out = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = script(GUARD, program);
        command.args(arguments);
        Self::spawn(command, program.display().to_string(), out.into(), err.into())
    }

    /// Runs `program` with the output of this process.
    pub fn start_inherited(program: &Path, arguments: &[String]) -> Result<Self, GuardError> {
        let mut command = script(GUARD, program);
        command.args(arguments);
        Self::spawn(command, program.display().to_string(), Stdio::inherit(), Stdio::inherit())
    }

    /// Runs `program` and its child processes in one process group that is killed together. Returns its standard
    /// output; its standard error is written to `log`.
    pub(crate) fn start_piped(
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

    /// Returns the exit status, if the program has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.guard.try_wait().ok().flatten()
    }

    /// Waits until the program has exited.
    pub async fn until_ended(&mut self) -> Result<ExitStatus, GuardError> {
        // The lifeline is not part of the child any more, so waiting does not close it.
        self.guard.wait().await.map_err(|source| GuardError::Wait { what: self.what.clone(), source })
    }

    /// Kills the program and waits until it has exited.
    pub async fn end(mut self) -> Result<ExitStatus, GuardError> {
        drop(self.lifeline.take());
        self.guard.wait().await.map_err(|source| GuardError::Wait { what: self.what, source })
    }
}

/// Removes a folder when this value is dropped or its process ends.
#[derive(Debug)]
pub struct Sweeper {
    folder: PathBuf,
    guarded: Guarded,
}

impl Sweeper {
    /// Starts a sweeper of `folder`.
    pub fn start(folder: &Path) -> Result<Self, GuardError> {
        let what = folder.display().to_string();
        let guarded = Guarded::spawn(script(SWEEPER, folder), what, Stdio::null(), Stdio::null())?;
        Ok(Self { folder: folder.to_owned(), guarded })
    }

    /// Removes the folder now and waits until it does not exist any more.
    pub async fn sweep(self) -> Result<(), GuardError> {
        let status = self.guarded.end().await?;
        if status.success() { Ok(()) } else { Err(GuardError::NotSwept { folder: self.folder }) }
    }
}

/// Returns `sh -c <script> <name> <first argument>`. The name is shown by `ps` and in the shell's error messages.
fn script(text: &str, first: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text, "millwright-guard"]).arg(first);
    command
}

/// Returns the last `lines` lines of a log; an empty text if it cannot be read, because the text is part of another
/// error.
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

    /// Starts a program that sleeps forever, and a pipe that ends when it and its child processes have exited.
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

    /// Waits until the last writer, the sleeping program, has exited. The timeout makes a failure visible.
    async fn assert_dies(mut alive: tokio::net::unix::pipe::Receiver) {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(std::time::Duration::from_mins(1), alive.read_to_end(&mut rest)).await;
        assert_eq!(ended.expect("the program is still running").unwrap(), 0);
    }

    #[tokio::test]
    async fn a_program_is_killed_when_its_guard_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (guarded, alive) = sleeper(folder.path()).await;
        drop(guarded);
        assert_dies(alive).await;
    }

    /// Shows PLN-5.
    #[tokio::test]
    async fn a_program_is_killed_when_its_parent_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("alive");
        assert!(Command::new("mkfifo").arg(&fifo).status().await.unwrap().success());
        let mut alive = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        // The parent is a separate process that holds the lifeline of a guard, like a test run.
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
    async fn end_waits_until_the_program_has_exited() {
        let folder = tempfile::tempdir().unwrap();
        let (mut guarded, alive) = sleeper(folder.path()).await;
        assert_eq!(guarded.ended(), None);
        let status = guarded.end().await.unwrap();
        assert!(!status.success() && status.signal().is_none(), "the guard exited normally: {status}");
        let mut rest = [0; 1];
        assert_eq!(alive.try_read(&mut rest).unwrap(), 0, "already ended, without waiting");
    }

    #[tokio::test]
    async fn an_exited_program_is_reported_with_its_status_and_log() {
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
    async fn the_folder_is_removed_by_its_sweeper() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a folder with 'odd' letters");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        let sweeper = Sweeper::start(&folder).unwrap();
        assert!(folder.exists());
        sweeper.sweep().await.unwrap();
        assert!(!folder.exists());
    }
}
