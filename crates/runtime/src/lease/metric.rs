//! The metric `millwright_leading`. An alert on it fires if no replica leads.

use prometheus::IntGauge;

use super::Leadership;
use crate::metrics::{Hook, Metrics, MetricsError};

impl Leadership {
    /// Registers the metric `millwright_leading`, which is updated at each scrape.
    pub fn register_metric(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        let leading = IntGauge::new("millwright_leading", "1 if this process is the leader, 0 if it is a standby.")
            .map_err(MetricsError::Register)?;
        metrics.register(leading.clone())?;
        let leadership = self.clone();
        metrics.before_scrape(move || {
            leading.set(i64::from(leadership.check().is_ok()));
            Hook::Keep
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;
    use crate::Clock;
    use crate::lease::ElectionState;

    #[tokio::test(start_paused = true)]
    async fn metric_is_zero_when_the_lease_has_expired() {
        let (election, state) = watch::channel(ElectionState::Candidate { holder: None });
        let metrics = Metrics::new().unwrap();
        Leadership::guarded(Clock::system(), state, crate::lease::leadership::PreviousRenewal::default())
            .register_metric(&metrics)
            .unwrap();
        let value =
            || metrics.encode().unwrap().lines().find(|line| line.starts_with("millwright_leading")).map(str::to_owned);
        assert_eq!(value().as_deref(), Some("millwright_leading 0"));
        election.send_replace(ElectionState::Leading { until: Instant::now() + Duration::from_secs(10) });
        assert_eq!(value().as_deref(), Some("millwright_leading 1"));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(value().as_deref(), Some("millwright_leading 0"), "the lease has expired");
    }
}
