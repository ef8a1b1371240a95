//! Who leads, as a number. A process that stands by and one that leads look the same from outside, and so does a pair of which neither
//! does: that is what an operator must be woken for.

use prometheus::IntGauge;

use super::Leadership;
use crate::metrics::{Hook, Metrics, MetricsError};

impl Leadership {
    /// Shows at each scrape whether we may act at that instant.
    pub fn show(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        let leading = IntGauge::new("millwright_leading", "1 while this process may act, 0 while it stands by.")
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
    use crate::lease::Standing;

    #[tokio::test(start_paused = true)]
    async fn a_scrape_tells_who_leads_and_who_does_no_longer() {
        let (stand, standing) = watch::channel(Standing::Candidate { holder: None });
        let metrics = Metrics::new().unwrap();
        Leadership::guarded(Clock::system(), standing, crate::lease::leadership::Vacancy::default())
            .show(&metrics)
            .unwrap();
        let shown =
            || metrics.encode().unwrap().lines().find(|line| line.starts_with("millwright_leading")).map(str::to_owned);
        assert_eq!(shown().as_deref(), Some("millwright_leading 0"));
        stand.send_replace(Standing::Leading { until: Instant::now() + Duration::from_secs(10) });
        assert_eq!(shown().as_deref(), Some("millwright_leading 1"));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(shown().as_deref(), Some("millwright_leading 0"), "a lease that was not renewed is none");
    }
}
