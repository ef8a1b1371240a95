//! Programs of the host, and errors for missing ones.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use driver::{Code, DriverError};
use tokio::process::Command;

use crate::error::HostError;

/// Settings of the process for all MachineClasses.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Search path of programs: the value of `PATH`.
    pub path: OsString,
}

/// A required program and its Debian package.
pub type Needed = (&'static str, &'static str);

/// Checks the requirements. `lacks` is an additional error. All missing programs are reported together.
pub fn check(lacks: Option<&str>, needed: &[Needed], is_there: impl Fn(&str) -> bool) -> Result<(), DriverError> {
    let tools = needed.iter().filter(|(program, _)| !is_there(program)).map(|(program, package)| {
        format!("the program {program} is missing: install the package {package} (Debian: apt-get install {package})")
    });
    let missing: Vec<String> = lacks.map(str::to_owned).into_iter().chain(tools).collect();
    if missing.is_empty() { Ok(()) } else { Err(DriverError::new(Code::FailedPrecondition, missing.join("; "))) }
}

impl Settings {
    /// Returns whether a program is on the path.
    pub fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|folder: PathBuf| folder.join(program).is_file())
    }
}

/// Runs a program. It holds the lock until it exits, even if this process is killed, because its work must not overlap
/// with that of the next process.
pub async fn run(lock: &File, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
    let failed = |source| HostError::Run { program: program.to_owned(), source };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(lock.try_clone().map_err(failed)?)).kill_on_drop(true);
    command.output().await.map_err(failed)
}

/// The same for a program that must succeed.
pub async fn done(lock: &File, step: &'static str, program: &str, arguments: &[&str]) -> Result<(), HostError> {
    let output = run(lock, program, arguments).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(HostError::Failed { step, said: format!("{program}: {}", last_line(&output.stderr)) })
}

/// Returns the last line that is not empty.
pub fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-2.
    #[test]
    fn each_missing_requirement_is_reported() {
        let needed = [("sh", "dash"), ("ip", "iproute2")];
        assert!(check(None, &needed, |_| true).is_ok());
        let error = check(Some("run it as root"), &needed, |program| program != "ip").unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        let expected = "run it as root; the program ip is missing: install the package iproute2 (Debian: apt-get install iproute2)";
        assert_eq!(error.message(), expected);
    }

    #[test]
    fn programs_are_searched_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ip"), "").unwrap();
        let settings = Settings { path: folder.path().into() };
        assert!(settings.has("ip") && !settings.has("mount"));
    }
}
