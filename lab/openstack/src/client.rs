//! OpenStack's own client `openstack`, for a user of the lab. It is independent of the driver.

use std::io;
use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The administrator.
pub const ADMIN: User = User { name: "admin", password: "secret", project: "admin" };
/// The user of the driver: role `member` in the project of all servers.
pub const TENANT: User = User { name: "mcm", password: "mcm-secret", project: "shoot" };
/// A user with read access to that project: role `reader`.
pub const READER: User = User { name: "looker", password: "looker-secret", project: "shoot" };

/// A user of domain `Default`, with a password that is not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: &'static str,
    /// Its password.
    pub password: &'static str,
    /// The project it works in.
    pub project: &'static str,
}

/// The client for a user.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub(crate) init: u32,
    pub(crate) user: User,
}

/// A failed command of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be started.
    #[error("failed to run nsenter (Debian: util-linux)")]
    Run(#[source] io::Error),
    /// It failed.
    #[error("`{line}` failed: {said}")]
    Failed {
        /// The command.
        line: String,
        /// Its output.
        said: String,
    },
    /// It did not print JSON.
    #[error("`{line}` did not print JSON")]
    NoJson {
        /// The command.
        line: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Client {
    /// Runs a command with output, such as `server list`, and returns the output.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value, ClientError> {
        let said = self.text(&[arguments, &["--format", "json"]].concat()).await?;
        serde_json::from_str(&said).map_err(|source| ClientError::NoJson { line: arguments.join(" "), source })
    }

    /// Runs several commands in one process, because its start takes a second.
    pub async fn each<const N: usize>(&self, commands: [&[&str]; N]) -> Result<[Value; N], ClientError> {
        let lines: Vec<String> = commands.iter().map(|words| format!("{} --format json\n", words.join(" "))).collect();
        let said = self.run(&[], &lines.concat()).await?;
        let line = || lines.concat().trim_end().replace('\n', "; ");
        let values = serde_json::Deserializer::from_str(&said).into_iter().collect::<Result<Vec<Value>, _>>();
        let values = values.map_err(|source| ClientError::NoJson { line: line(), source })?;
        // A failed command prints its error and nothing else.
        values.try_into().map_err(|_| ClientError::Failed { line: line(), said })
    }

    /// Runs a command and returns its output.
    pub async fn text(&self, arguments: &[&str]) -> Result<String, ClientError> {
        self.run(arguments, "").await
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Result<String, ClientError> {
        let User { name, password, project } = self.user;
        let who =
            [format!("OS_USERNAME={name}"), format!("OS_PASSWORD={password}"), format!("OS_PROJECT_NAME={project}")];
        let who: Vec<&str> = who.iter().map(String::as_str).collect();
        inside(self.init, &[&["env"], &who[..], &["openstack"], arguments].concat(), input).await
    }
}

/// Runs a program in the namespaces of a lab, with the administrator's variables, and returns its output.
pub(crate) async fn inside(init: u32, words: &[&str], input: &str) -> Result<String, ClientError> {
    let target = init.to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &target, "--mount", "--uts", "--ipc", "--pid", "--root", "--wd", "--"]);
    // The variables of the calling process (a proxy, a missing locale) must not be inherited.
    command.args([
        "env",
        "-i",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LC_ALL=C.UTF-8",
        "bash",
        "/stack/with.sh",
    ]);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(ClientError::Run)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await.map_err(ClientError::Run)?;
    }
    let Output { status, stdout, stderr } = child.wait_with_output().await.map_err(ClientError::Run)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let shown = words.iter().filter(|word| !word.starts_with("OS_")).copied().collect::<Vec<_>>().join(" ");
    Err(ClientError::Failed { line: shown, said: String::from_utf8_lossy(&stderr).trim().to_owned() })
}
