//! Log output on stderr, as text or JSON.
//!
//! [`subscriber`] creates a subscriber; the binary installs it globally. Timestamps use the injected clock, so that the log of
//! a simulation shows simulated time.

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

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text.
    #[default]
    Text,
    /// One JSON object per line.
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

/// Verbosity as in klog (`-v`): 0 to 3 is level info, 4 is debug, 6 is trace, 8 adds debug messages of libraries, 10 adds
/// their trace messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verbosity(pub i32);

/// Targets of this project: prefixes of the names of its libraries that log.
const TARGETS: [&str; 7] =
    ["controllers", "driver", "fake_apiserver", "fake_kube_controllers", "inspect", "millwright", "runtime"];

impl Verbosity {
    fn project(self) -> LevelFilter {
        match self.0 {
            ..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            6.. => LevelFilter::TRACE,
        }
    }

    fn libraries(self) -> LevelFilter {
        match self.0 {
            ..=7 => LevelFilter::WARN,
            8..=9 => LevelFilter::DEBUG,
            10.. => LevelFilter::TRACE,
        }
    }

    fn filter(self) -> Targets {
        Targets::new()
            .with_targets(TARGETS.map(|name| (name, self.project())))
            // kube logs responses that it cannot decode, and a response may contain a Secret. The error that its caller gets
            // contains the necessary information.
            .with_target("kube_client::client", LevelFilter::OFF)
            .with_default(self.libraries())
    }
}

/// Creates a subscriber that writes to `writer` (stderr in the binary).
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

/// A writer whose content tests can read.
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
    async fn json_line_is_one_flat_object() {
        let text = written(LogFormat::Json, 0, || tracing::info!(key = "ns/m", "created"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["timestamp"], "2026-01-01T00:00:00.000Z");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "created");
        assert_eq!(line["key"], "ns/m");
    }

    /// Shows EVT-5.
    #[tokio::test(start_paused = true)]
    async fn text_line_is_one_line() {
        let text = written(LogFormat::Text, 0, || tracing::info!(key = "ns/m", "created"));
        assert_eq!(text, "2026-01-01T00:00:00.000Z  INFO runtime::logs::tests: created key=\"ns/m\"\n");
    }

    /// Shows API-17.
    #[test]
    fn responses_of_the_api_server_are_not_logged() {
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
    fn verbosity_selects_levels(#[case] verbosity: i32, #[case] lines: usize) {
        let text = written(LogFormat::Text, verbosity, || {
            tracing::info!("info");
            tracing::debug!("debug");
            tracing::trace!("trace");
            tracing::debug!(target: "hyper::client", "library debug");
            tracing::trace!(target: "hyper::client", "library trace");
        });
        assert_eq!(text.lines().count(), lines, "{text}");
    }

    #[test]
    fn virtual_cloud_logs_at_the_level_of_the_project() {
        let text = written(LogFormat::Text, 0, || tracing::info!(target: "driver_virtual::provider", "created VM"));
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn unknown_format_error_lists_the_formats() {
        let error = "xml".parse::<LogFormat>().unwrap_err();
        assert_eq!(error.to_string(), "unknown log format \"xml\": use text or json");
    }
}
