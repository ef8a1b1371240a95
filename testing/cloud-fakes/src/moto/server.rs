//! A moto that runs.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use control_plane::cache::CacheError;
use control_plane::guard::{GuardError, Guarded, Sweeper, tail};
use control_plane::ports;
use tokio::time::{Instant, sleep};

use super::cache::{Cache, Installation};
use super::requirements::{Requirements, RequirementsError};
use crate::exchange::{self, Answer};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// It answers after half a second; a machine that compiles at the same time takes longer.
const PATIENCE: Duration = Duration::from_mins(2);
const LAST_WORDS: usize = 15;

/// A moto that runs until it is stopped or dropped, or its process ends: see [`control_plane::guard`]. It needs the real clock.
#[derive(Debug)]
pub struct Moto {
    port: u16,
    server: Guarded,
    sweeper: Sweeper,
}

/// Why moto did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The cache directory is unknown.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The required moto version is unknown.
    #[error(transparent)]
    Requirements(#[from] RequirementsError),
    /// No folder for its log.
    #[error("failed to make a folder in {parent}")]
    Folder {
        /// Where.
        parent: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("failed to reserve a port")]
    Port(#[source] io::Error),
    /// It cannot be started at all.
    #[error("failed to start moto")]
    Guard(#[from] GuardError),
    /// It ended while it should have become ready.
    #[error("failed to start moto: it ended with {status}. Its last output:\n{last_words}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// It runs but does not answer.
    #[error("failed to wait for moto: not ready within {PATIENCE:?}. Its last output:\n{last_words}")]
    NotReady {
        /// The end of its log.
        last_words: String,
    },
}

/// moto for the test of this name, or `None` where it is not installed: then a line on standard error says that the test was skipped.
/// The line is not held back by the test harness as the output of a test that passes is.
pub async fn for_test(test: &str) -> Result<Option<Moto>, StartError> {
    match Installation::find(&Cache::of_this_user()?, &Requirements::of_this_repository()?) {
        Ok(installation) => Moto::start(&installation).await.map(Some),
        Err(missing) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "test {test} ... skipped: {missing}");
            Ok(None)
        }
    }
}

impl Moto {
    /// Starts moto and waits until it answers. If that fails, nothing is left.
    pub async fn start(installation: &Installation) -> Result<Self, StartError> {
        Self::start_with(installation, &[]).await
    }

    /// The same with variables of its environment, such as `MOTO_ENABLE_AMI_VALIDATION`.
    pub async fn start_with(installation: &Installation, variables: &[(&str, &str)]) -> Result<Self, StartError> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new().prefix("millwright-moto-").tempdir_in(&parent);
        let folder = folder.map_err(|source| StartError::Folder { parent, source })?;
        // From here on the sweeper answers for the folder; until it runs, the value above does.
        let sweeper = Sweeper::start(folder.path())?;
        let log = folder.keep().join("log");
        let port = ports::exclusive().map_err(StartError::Port)?;
        let mut arguments: Vec<String> = vec!["-i".into()];
        // The starter's own credentials, region and proxies are none of its business.
        arguments.extend(["PATH=/usr/bin:/bin", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"].map(String::from));
        arguments.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        arguments.push(installation.python().display().to_string());
        arguments.extend(["-m", "moto.server", "-H", "127.0.0.1", "-p"].map(String::from));
        arguments.push(port.to_string());
        let mut server = Guarded::start(std::path::Path::new("/usr/bin/env"), &arguments, &log)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = server.ended() {
                return Err(StartError::Ended { status, last_words: tail(&log, LAST_WORDS) });
            }
            if exchange::get(port, "/moto-api/data.json").await.is_ok_and(|answer| answer.status == 200) {
                return Ok(Self { port, server, sweeper });
            }
            if Instant::now() >= deadline {
                return Err(StartError::NotReady { last_words: tail(&log, LAST_WORDS) });
            }
            sleep(PAUSE).await;
        }
    }

    /// Where its services are, all of them: `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The port of the loopback address it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Forgets all that was made.
    pub async fn reset(&self) -> io::Result<Answer> {
        exchange::post(self.port, "/moto-api/reset", &[], "").await
    }

    /// Enables permission checks after this number of calls; they are disabled at the start.
    pub async fn check_authority_after(&self, calls: u32) -> io::Result<()> {
        // Of a form it would see no body.
        let answer = exchange::post_text(self.port, "/moto-api/reset-auth", &calls.to_string()).await?;
        if answer.status == 200 { Ok(()) } else { Err(io::Error::other(answer.body)) }
    }

    /// Calls an action of a service, as a region's client: which service and region is read from the header that a signature has.
    pub async fn call(&self, service: &str, region: &str, parameters: &[(&str, &str)]) -> io::Result<Answer> {
        let who = format!(
            "AWS4-HMAC-SHA256 Credential=testing/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let headers = [("Authorization", who.as_str()), ("X-Amz-Date", "20260101T000000Z")];
        exchange::post(self.port, "/", &headers, &exchange::form(parameters)).await
    }

    /// Ends it, removes what it wrote, and waits until both is done.
    pub async fn stop(self) -> Result<(), GuardError> {
        self.server.end().await?;
        self.sweeper.sweep().await
    }

    /// Waits until it has ended by itself.
    pub async fn until_ended(&mut self) -> Result<ExitStatus, GuardError> {
        self.server.until_ended().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn moto_makes_an_instance_and_is_gone_when_it_is_stopped() {
        let Some(moto) = for_test("moto_makes_an_instance_and_is_gone_when_it_is_stopped").await.unwrap() else {
            return;
        };
        let port = moto.port();
        let run = [("Action", "RunInstances"), ("Version", "2016-11-15"), ("ImageId", "ami-03cf127a")];
        let answer = moto.call("ec2", "eu-west-1", &[&run[..], &[("MinCount", "1"), ("MaxCount", "1")]].concat()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains("<instanceId>i-"), "{}", answer.body);
        moto.stop().await.unwrap();
        assert!(exchange::get(port, "/").await.is_err());
    }

    /// Shows AWS-28.
    #[tokio::test]
    async fn moto_checks_permissions_when_enabled() {
        let Some(moto) = for_test("moto_checks_permissions_when_enabled").await.unwrap() else { return };
        let ask = async || {
            let asked = [("Action", "DescribeVpcs"), ("Version", "2016-11-15")];
            moto.call("ec2", "eu-west-1", &asked).await.unwrap().status
        };
        moto.check_authority_after(0).await.unwrap();
        assert_eq!(ask().await, 401);
        moto.check_authority_after(1_000).await.unwrap();
        assert_eq!(ask().await, 200);
        moto.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_moto_that_ends_at_once_is_shown_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let requirements = folder.path().join("requirements.txt");
        std::fs::write(&requirements, "moto==5.2.5").unwrap();
        let requirements = Requirements::read(&requirements).unwrap();
        let cache = Cache::at(folder.path());
        let bin = cache.finished(&requirements).join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/sh", bin.join("python")).unwrap();
        let error = Moto::start(&Installation::find(&cache, &requirements).unwrap()).await.unwrap_err();
        assert!(matches!(error, StartError::Ended { .. }), "{error}");
        assert!(error.to_string().contains("moto.server"), "{error}");
    }
}
