//! A run of the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

/// How long a test waits for what must happen. Generous, because nothing here measures speed.
const PATIENCE: Duration = Duration::from_mins(1);

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millwright"))
}

/// Runs to the end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[])
}

/// The same with variables of its own in its environment.
pub(crate) fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    binary().args(arguments).envs(environment.iter().copied()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Tests run side by side, and each process wants ports for health and metrics.
pub(crate) fn free_port() -> u16 {
    control_plane::ports::exclusive().unwrap()
}

/// A run that goes on in the background. It is killed when the test ends.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    /// Where it keeps its temporary files: whoever is killed cannot remove them.
    _temporary: TempDir,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// A run with variables of its own in its environment.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.env("TMPDIR", temporary.path()).envs(environment.iter().copied());
        if let Some((&"run", flags)) = arguments.split_first() {
            let ports = [format!("--port={}", free_port()), format!("--manager-port={}", free_port())];
            // Of two the last one wins, and with an endpoint the name of the provider chooses nothing.
            command.args(["run", "--provider=virtual"]).args(ports).args(flags);
        } else {
            command.args(arguments);
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let log = child.stderr.take().unwrap();
        Self::heard(child, log, temporary)
    }

    /// A run of which one hears what it prints instead of its log.
    pub(crate) fn start_talking(arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.args(arguments).env("TMPDIR", temporary.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let printed = child.stdout.take().unwrap();
        Self::heard(child, printed, temporary)
    }

    /// A run on a terminal of this size, which `script` of util-linux plays, with what it prints there; None where there is no `script`.
    pub(crate) fn start_on_a_terminal(columns: u16, arguments: &str, environment: &[(&str, &str)]) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_millwright");
        let line = format!("stty cols {columns} rows 50; TERM=xterm exec {program} {arguments}");
        let mut script = Command::new("script");
        let temporary = tempfile::tempdir().ok()?;
        script.args(["-q", "-e", "-c", &line, "/dev/null"]).env_remove("NO_COLOR");
        script.env("TMPDIR", temporary.path()).envs(environment.iter().copied());
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let shown = child.stdout.take()?;
        Some(Self::heard(child, shown, temporary))
    }

    /// Presses ctrl-C on its terminal, and waits until it has ended.
    pub(crate) fn press_ctrl_c(mut self) -> ExitStatus {
        self.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        self.child.wait().unwrap()
    }

    fn heard(child: Child, output: impl Read + Send + 'static, temporary: TempDir) -> Self {
        let (send, lines) = channel();
        let output = BufReader::new(output);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, said: Vec::new(), _temporary: temporary }
    }

    /// Waits until it says something that contains all of these.
    pub(crate) fn says(&mut self, words: &[&str]) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("it never said {words:?}, only: {:#?}", self.said);
            };
            self.said.push(line.clone());
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    /// What it has said so far, as far as anybody waited for it.
    pub(crate) fn heard_so_far(&self) -> &[String] {
        &self.said
    }

    /// Asks it to end, as a kubelet does, and waits until it has.
    pub(crate) fn terminate(self) -> ExitStatus {
        self.end("-TERM")
    }

    /// Asks it to end, as ctrl-C does, and waits until it has.
    pub(crate) fn interrupt(self) -> ExitStatus {
        self.end("-INT")
    }

    fn end(mut self, signal: &str) -> ExitStatus {
        let asked = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        self.child.wait().unwrap()
    }

    /// Asks it to end, waits until it has, and gives everything it ever said.
    #[cfg(feature = "otel")]
    pub(crate) fn last_words(mut self) -> (ExitStatus, Vec<String>) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(asked.success());
        let status = self.child.wait().unwrap();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter()); // ends with its stderr
        (status, said)
    }

    /// Ends it without a warning.
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
