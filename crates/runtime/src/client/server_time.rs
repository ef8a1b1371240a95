//! The clock of an API server, as its `Date` headers show it.
//!
//! Timestamps in objects are written by the API server (creationTimestamp) and by this process. If the two clocks differ by minutes,
//! timeouts expire that have not passed. So each response is compared with the clock of this process.
//!
//! A response proves an interval only. The header has whole seconds, and the server wrote it at some time between the request and the
//! response. Of all skews that are possible, the smallest one is reported: a slow response or a slow network never looks like a skew.
//! The last few responses are remembered against elapsed time, so that a step of the own clock shows at once, without a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Clock;

/// Number of responses that are remembered.
const REMEMBERED: usize = 8;
/// Responses that follow faster are ignored.
const EVERY: Duration = Duration::from_secs(1);

/// The clock of one API server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ServerTime {
    responses: Arc<Mutex<VecDeque<Response>>>,
}

#[derive(Clone, Copy, Debug)]
struct Response {
    sent: Instant,
    received: Instant,
    date: Timestamp,
}

impl ServerTime {
    /// Records the time that a response shows.
    pub fn observed(&self, sent: Instant, received: Instant, date: Timestamp) {
        let mut responses = self.responses.lock();
        if responses.len() == REMEMBERED {
            responses.pop_front();
        }
        responses.push_back(Response { sent, received, date });
    }

    /// Returns how far the clock of this process is at least ahead of the server's; negative if it is behind. `None`
    /// before the first response.
    pub fn skew(&self, clock: &Clock) -> Option<SignedDuration> {
        let (wall, elapsed) = (clock.now(), clock.instant());
        let responses = self.responses.lock();
        responses.iter().map(|response| response.skew(wall, elapsed)).min_by_key(|skew| skew.abs())
    }

    /// Records the time in the headers of a response, if there is one.
    pub(super) fn read(&self, sent: Instant, received: Instant, headers: &HeaderMap) {
        let is_due = self.responses.lock().back().is_none_or(|last| received.duration_since(last.received) >= EVERY);
        let date = headers.get(DATE).filter(|_| is_due).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) {
            self.observed(sent, received, date.timestamp());
        }
    }
}

impl Response {
    /// Returns the smallest skew that this response allows.
    fn skew(self, wall: Timestamp, elapsed: Instant) -> SignedDuration {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let at = |instant: Instant| wall.checked_sub(signed(elapsed.duration_since(instant))).unwrap_or(wall);
        let latest = at(self.received).duration_since(self.date);
        let earliest = at(self.sent).duration_since(self.date).saturating_sub(SignedDuration::from_secs(1));
        if earliest > SignedDuration::ZERO { earliest } else { latest.min(SignedDuration::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const START: &str = "2026-01-01T12:00:00Z";

    /// Returns the skew after a request of this many seconds, at whose end the server's clock showed `date`.
    async fn skew(seconds: u64, date: &str) -> i64 {
        let (clock, server) = (Clock::starting_at(START.parse().unwrap()), ServerTime::default());
        let sent = clock.instant();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let mut headers = HeaderMap::new();
        headers.insert(DATE, date.parse().unwrap());
        server.read(sent, clock.instant(), &headers);
        server.skew(&clock).unwrap().as_secs()
    }

    /// Shows MC-CLK1.
    #[rstest]
    #[case::same(0, "Thu, 01 Jan 2026 12:00:00 GMT", 0)]
    #[case::whole_seconds(0, "Thu, 01 Jan 2026 11:59:59 GMT", 0)]
    #[case::ahead(0, "Thu, 01 Jan 2026 11:30:00 GMT", 30 * 60 - 1)]
    #[case::behind(0, "Thu, 01 Jan 2026 12:30:00 GMT", -30 * 60)]
    #[case::written_before_a_slow_network(50, "Thu, 01 Jan 2026 12:00:00 GMT", 0)]
    #[case::written_after_a_slow_network(50, "Thu, 01 Jan 2026 12:00:50 GMT", 0)]
    #[case::ahead_and_slow(50, "Thu, 01 Jan 2026 11:00:00 GMT", 60 * 60 - 1)]
    #[tokio::test(start_paused = true)]
    async fn skew_is_the_smallest_that_the_response_allows(
        #[case] seconds: u64,
        #[case] date: &str,
        #[case] expected: i64,
    ) {
        assert_eq!(skew(seconds, date).await, expected);
    }

    /// Shows MC-CLK1.
    #[tokio::test(start_paused = true)]
    async fn skew_of_one_wrong_response_is_not_reported() {
        let (clock, server) = (Clock::starting_at(START.parse().unwrap()), ServerTime::default());
        assert_eq!(server.skew(&clock), None);
        for date in [START, "2026-01-01T09:00:00Z"] {
            server.observed(clock.instant(), clock.instant(), date.parse().unwrap());
        }
        assert_eq!(server.skew(&clock), Some(SignedDuration::ZERO));
    }

    /// Shows MC-CLK1.
    #[tokio::test(start_paused = true)]
    async fn step_of_the_own_clock_shows_without_a_response() {
        let server = ServerTime::default();
        let now = Instant::now();
        server.observed(now, now, START.parse().unwrap());
        tokio::time::sleep(Duration::from_hours(1)).await;
        let stepped = Clock::starting_at("2026-01-01T13:30:00Z".parse().unwrap());
        assert_eq!(server.skew(&stepped).unwrap().as_secs(), 30 * 60 - 1);
    }
}
