//! Errors on the host.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver::{Code, DriverError};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or directory cannot be used.
    #[error("failed to {step} {path}")]
    File {
        /// The step.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program cannot be run at all.
    #[error("failed to run {program}")]
    Run {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("failed to {step}: {said}")]
    Failed {
        /// The step.
        step: &'static str,
        /// The last line of its output.
        said: String,
    },
    /// A timeout.
    #[error("timed out after {} s waiting until {what}{said}", timeout.as_secs())]
    TimedOut {
        /// The expected state.
        what: &'static str,
        /// The timeout.
        timeout: Duration,
        /// Details; begins with a colon, or is empty.
        said: String,
    },
}

impl HostError {
    /// Adds the step and the path to an I/O error.
    pub fn on<T>(path: &Path, step: &'static str, outcome: io::Result<T>) -> Result<T, Self> {
        outcome.map_err(|source| Self::File { step, path: path.to_owned(), source })
    }
}

impl From<HostError> for DriverError {
    fn from(error: HostError) -> Self {
        let code = match &error {
            HostError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => Code::ResourceExhausted,
            HostError::TimedOut { .. } => Code::Unavailable,
            _ => Code::Internal,
        };
        let message = match &error {
            HostError::File { source, .. } | HostError::Run { source, .. } => format!("{error}: {source}"),
            HostError::Failed { .. } | HostError::TimedOut { .. } => error.to_string(),
        };
        DriverError::new(code, message).because(error)
    }
}
