//! QMP, the protocol of qemu: JSON lines over a socket in the machine's directory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::command_line::SOCKET;

/// Timeout of a command, which usually takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Presses the power button of the machine. The guest may ignore it.
pub(crate) async fn power_down(home: &Path) -> io::Result<()> {
    execute(home, "system_powerdown").await.map(drop)
}

/// Executes a command of qemu and returns the result.
pub(crate) async fn execute(home: &Path, command: &str) -> io::Result<Value> {
    let asked = timeout(TIMEOUT, async {
        // The path through the directory's file descriptor is short, regardless of the machine's name.
        let folder = File::open(home)?;
        let path: PathBuf = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into();
        let mut stream = BufReader::new(UnixStream::connect(path).await?);
        drop(folder);
        next(&mut stream, |line| line.get("QMP").cloned()).await?;
        for command in ["qmp_capabilities", command] {
            let line = format!("{}\n", json!({ "execute": command }));
            stream.get_mut().write_all(line.as_bytes()).await?;
            let answer = next(&mut stream, answer).await?;
            if command != "qmp_capabilities" {
                return answer;
            }
        }
        Err(io::Error::other("no command was sent"))
    });
    asked.await.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "qemu does not respond"))?
}

/// Returns the first line for which `wanted` returns a value. Events are skipped.
async fn next<T>(stream: &mut BufReader<UnixStream>, wanted: impl Fn(&Value) -> Option<T>) -> io::Result<T> {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(found) = wanted(&serde_json::from_str(&line)?) {
            return Ok(found);
        }
    }
}

/// Returns the result in a line; `None` if it is an event.
fn answer(line: &Value) -> Option<io::Result<Value>> {
    let refusal = || line.pointer("/error/desc").and_then(Value::as_str).map(|text| Err(io::Error::other(text)));
    line.get("return").cloned().map(Ok).or_else(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    /// A simulated qemu that sends a greeting, an event before each result, and an error for unknown commands.
    async fn serve(listener: UnixListener) {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        stream.get_mut().write_all(b"{\"QMP\": {}}\n").await.unwrap();
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
            let known = line.contains("qmp_capabilities") || line.contains("system_powerdown");
            let answer = if known { "{\"return\": {}}" } else { "{\"error\": {\"desc\": \"no such command\"}}" };
            let said = format!("{{\"event\": \"POWERDOWN\"}}\n{answer}\n");
            stream.get_mut().write_all(said.as_bytes()).await.unwrap();
            line.clear();
        }
    }

    /// Shows HST-24.
    #[tokio::test]
    async fn events_are_skipped_and_errors_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        for (command, told) in [("system_powerdown", None), ("dance", Some("no such command"))] {
            let path = folder.path().join(SOCKET);
            let serving = serve(UnixListener::bind(&path).unwrap());
            let (answer, ()) = tokio::join!(execute(folder.path(), command), serving);
            assert_eq!(answer.err().map(|error| error.to_string()).as_deref(), told);
            std::fs::remove_file(path).unwrap();
        }
        assert!(power_down(folder.path()).await.is_err(), "the socket is closed");
    }
}
