//! What a process logs, for tests that look for what must not be in it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Everything that is logged, as text.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures all logs of this process at every level; once per process. It covers all threads, because the captured
    /// lines must not depend on which test's thread logs first.
    pub fn of_this_process() -> Result<Self, tracing::subscriber::SetGlobalDefaultError> {
        let log = Self::default();
        let format = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        tracing::subscriber::set_global_default(format.with_writer(log.clone()).finish())?;
        Ok(log)
    }

    /// What was logged until now.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The first line that holds one of these texts, and the text.
#[must_use]
pub fn told<'a>(text: &'a str, secrets: &[&'a str]) -> Option<(&'a str, &'a str)> {
    text.lines().find_map(|line| secrets.iter().find(|secret| line.contains(**secret)).map(|secret| (*secret, line)))
}
