//! Captures the log of a test.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use runtime::logs::{LogFormat, Verbosity, subscriber};
use serde_json::Value;

use crate::test_cluster::TestCluster;

/// The captured log.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures the log of this thread.
    pub(crate) fn open(
        &self,
        cluster: &TestCluster,
        format: LogFormat,
        verbosity: i32,
    ) -> tracing::subscriber::DefaultGuard {
        // With a single subscriber, `tracing` caches the interest of the first thread, and the threads of other tests have none. A second
        // subscriber disables this.
        static OTHER: OnceLock<tracing::Dispatch> = OnceLock::new();
        OTHER.get_or_init(|| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default()));
        let page = self.clone();
        let log = subscriber(format, Verbosity(verbosity), cluster.clock.clone(), move || page.clone());
        tracing::subscriber::set_default(log)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the parsed log lines about objects of a kind.
    pub(crate) fn about(&self, kind: &str) -> Vec<Value> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get(kind).is_some()).collect()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
