//! Log lines on stderr, for people or for machines.
//!
//! [`subscriber`] builds a value; installing it for the process is the one global act, and the binary's. Timestamps come from
//! the injected clock, so that the log of a simulation shows the time the simulation lived in.

use jiff::Timestamp;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

use crate::Clock;

/// What a log line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(UnknownLogFormat(name.to_owned())),
        }
    }
}

/// A log format that is neither `text` nor `json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log format {0:?}: use text or json")]
pub struct UnknownLogFormat(String);

/// How much is said, in klog's counting (`-v`): 0 to 3 tell what happens, from 4 on also why, from 6 on every step, from 8
/// on what the libraries below us say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verbosity(pub i32);

/// Targets are names of libraries. Ours start with the project's name, except those that others would look for under their own.
const OURS: [&str; 5] = ["millwright", "aws_driver", "driver", "kube_controllers", "virtual_cloud"];

impl Verbosity {
    fn ours(self) -> LevelFilter {
        match self.0 {
            ..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            6.. => LevelFilter::TRACE,
        }
    }

    fn theirs(self) -> LevelFilter {
        match self.0 {
            ..=7 => LevelFilter::WARN,
            8..=9 => LevelFilter::DEBUG,
            10.. => LevelFilter::TRACE,
        }
    }

    fn filter(self) -> Targets {
        Targets::new()
            .with_targets(OURS.map(|name| (name, self.ours())))
            // kube logs an answer that it cannot decode word for word, and the answer may be a Secret. What is worth knowing
            // about it is in the error that its caller gets.
            .with_target("kube_client::client", LevelFilter::OFF)
            .with_default(self.theirs())
    }
}

/// A subscriber that writes to `writer` (the binary hands in stderr).
pub fn subscriber<W>(
    format: LogFormat,
    verbosity: Verbosity,
    clock: Clock,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_timer(WallTime(clock)).with_ansi(false).with_writer(writer);
    let filter = verbosity.filter();
    match format {
        LogFormat::Text => Box::new(Registry::default().with(lines.with_filter(filter))),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            Box::new(Registry::default().with(lines.with_filter(filter)))
        }
    }
}

struct WallTime(Clock);

impl FormatTime for WallTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now: Timestamp = self.0.now();
        write!(writer, "{now:.3}")
    }
}

/// Somewhere to write that can be read again.
#[cfg(test)]
pub(crate) mod page {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl io::Write for Page {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Page {
        type Writer = Self;

        fn make_writer(&'w self) -> Self {
            self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::page::Page;
    use super::*;
    use rstest::rstest;

    fn written(format: LogFormat, verbosity: i32, say: impl FnOnce()) -> String {
        let page = Page::default();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        tracing::subscriber::with_default(subscriber(format, Verbosity(verbosity), clock, page.clone()), say);
        page.text()
    }

    /// Shows EVT-5.
    #[tokio::test(start_paused = true)]
    async fn a_line_for_machines_is_one_flat_object() {
        let text = written(LogFormat::Json, 0, || tracing::info!(key = "ns/m", "created"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["timestamp"], "2026-01-01T00:00:00.000Z");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "created");
        assert_eq!(line["key"], "ns/m");
    }

    /// Shows EVT-5.
    #[tokio::test(start_paused = true)]
    async fn a_line_for_people_is_one_line() {
        let text = written(LogFormat::Text, 0, || tracing::info!(key = "ns/m", "created"));
        assert_eq!(text, "2026-01-01T00:00:00.000Z  INFO runtime::logs::tests: created key=\"ns/m\"\n");
    }

    /// Shows API-17.
    #[test]
    fn an_answer_of_the_api_server_is_never_written_down() {
        let say = || tracing::warn!(target: "kube_client::client", "hunter2, expected a string");
        assert_eq!(written(LogFormat::Text, 0, say), "");
        assert_eq!(written(LogFormat::Text, 10, say), "");
    }

    /// Shows EVT-5.
    #[rstest]
    #[case(-1, 1)]
    #[case(0, 1)]
    #[case(3, 1)]
    #[case(4, 2)]
    #[case(6, 3)]
    #[case(7, 3)]
    #[case(8, 4)]
    #[case(100, 5)]
    fn verbosity_opens_one_door_after_the_other(#[case] verbosity: i32, #[case] lines: usize) {
        let text = written(LogFormat::Text, verbosity, || {
            tracing::info!("what");
            tracing::debug!("why");
            tracing::trace!("every step");
            tracing::debug!(target: "hyper::client", "their why");
            tracing::trace!(target: "hyper::client", "their every step");
        });
        assert_eq!(text.lines().count(), lines, "{text}");
    }

    #[test]
    fn the_virtual_cloud_is_one_of_ours_although_its_name_does_not_say_so() {
        let text = written(LogFormat::Text, 0, || tracing::info!(target: "virtual_cloud::provider", "a VM is made"));
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn an_unknown_format_says_which_ones_there_are() {
        let error = "xml".parse::<LogFormat>().unwrap_err();
        assert_eq!(error.to_string(), "unknown log format \"xml\": use text or json");
    }
}
