//! Runs the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

/// Timeout of waits. Generous, because the tests do not measure speed.
const TIMEOUT: Duration = Duration::from_mins(1);

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millwright"))
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[])
}

/// Like `run`, with additional environment variables.
pub(crate) fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    binary().args(arguments).envs(environment.iter().copied()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a free port. Tests run in parallel, and each process needs ports for health and metrics.
pub(crate) fn free_port() -> u16 {
    control_plane::ports::exclusive().unwrap()
}

/// A process in the background. It is killed at the end of the test.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    /// Its temporary files, which a killed process cannot remove.
    _temporary: TempDir,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Like `start`, with additional environment variables.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.env("TMPDIR", temporary.path()).envs(environment.iter().copied());
        if let Some((&"run", flags)) = arguments.split_first() {
            let ports = [format!("--port={}", free_port()), format!("--manager-port={}", free_port())];
            // The last of two values wins, and --driver-endpoint overrides --provider.
            command.args(["run", "--provider=virtual"]).args(ports).args(flags);
        } else {
            command.args(arguments);
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let log = child.stderr.take().unwrap();
        Self::reading(child, log, temporary)
    }

    /// Starts the program and reads its stdout instead of its log.
    pub(crate) fn start_reading_stdout(arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.args(arguments).env("TMPDIR", temporary.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let printed = child.stdout.take().unwrap();
        Self::reading(child, printed, temporary)
    }

    /// Starts the program on a terminal of this size, which `script` of util-linux provides. Returns `None` if there is
    /// no `script`.
    pub(crate) fn start_on_a_terminal(columns: u16, arguments: &str, environment: &[(&str, &str)]) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_millwright");
        let line = format!("stty cols {columns} rows 50; TERM=xterm exec {program} {arguments}");
        let mut script = Command::new("script");
        let temporary = tempfile::tempdir().ok()?;
        script.args(["-q", "-e", "-c", &line, "/dev/null"]).env_remove("NO_COLOR");
        script.env("TMPDIR", temporary.path()).envs(environment.iter().copied());
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let shown = child.stdout.take()?;
        Some(Self::reading(child, shown, temporary))
    }

    /// Sends Ctrl-C to its terminal and waits for its end.
    pub(crate) fn press_ctrl_c(mut self) -> ExitStatus {
        self.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        self.child.wait().unwrap()
    }

    fn reading(child: Child, output: impl Read + Send + 'static, temporary: TempDir) -> Self {
        let (send, lines) = channel();
        let output = BufReader::new(output);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, seen: Vec::new(), _temporary: temporary }
    }

    /// Waits for a line that contains all of these texts.
    pub(crate) fn wait_for_line(&mut self, words: &[&str]) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(TIMEOUT) else {
                panic!("no line contains {words:?}: {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    /// Returns the lines that were read so far.
    pub(crate) fn lines_so_far(&self) -> &[String] {
        &self.seen
    }

    /// Sends SIGTERM, as the kubelet does, and waits for its end.
    pub(crate) fn terminate(self) -> ExitStatus {
        self.end("-TERM")
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for its end.
    pub(crate) fn interrupt(self) -> ExitStatus {
        self.end("-INT")
    }

    fn end(mut self, signal: &str) -> ExitStatus {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.child.wait().unwrap()
    }

    /// Sends SIGTERM, waits for its end, and returns all lines.
    #[cfg(feature = "otel")]
    pub(crate) fn terminate_and_read(mut self) -> (ExitStatus, Vec<String>) {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let status = self.child.wait().unwrap();
        let mut lines = std::mem::take(&mut self.seen);
        lines.extend(self.lines.iter()); // ends with its stderr
        (status, lines)
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
