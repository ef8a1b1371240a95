//! What went wrong on the host.

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
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program cannot be run at all.
    #[error("failed to run {program}")]
    Run {
        /// Which one.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("failed to {step}: {said}")]
    Failed {
        /// What it was to do.
        step: &'static str,
        /// Its last words.
        said: String,
    },
    /// What was begun did not come about.
    #[error("failed to see {what} within {} s{said}", patience.as_secs())]
    Late {
        /// What it would have been.
        what: &'static str,
        /// How long we waited.
        patience: Duration,
        /// What is known of the reason; begins with a colon, or is empty.
        said: String,
    },
}

impl HostError {
    /// Does something with a path.
    pub fn on<T>(path: &Path, step: &'static str, outcome: io::Result<T>) -> Result<T, Self> {
        outcome.map_err(|source| Self::File { step, path: path.to_owned(), source })
    }
}

impl From<HostError> for DriverError {
    fn from(error: HostError) -> Self {
        let code = match &error {
            HostError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => Code::ResourceExhausted,
            HostError::Late { .. } => Code::Unavailable,
            _ => Code::Internal,
        };
        let message = match &error {
            HostError::File { source, .. } | HostError::Run { source, .. } => format!("{error}: {source}"),
            HostError::Failed { .. } | HostError::Late { .. } => error.to_string(),
        };
        DriverError::new(code, message).because(error)
    }
}
