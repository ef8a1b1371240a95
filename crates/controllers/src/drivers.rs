//! Which driver serves which class.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Code, MachineClass};
use driver::{Driver, DriverError};
use plan::machine::DriverState;
use tokio::sync::watch;

/// The drivers of this process, by the provider they serve.
#[derive(Clone, Default)]
pub struct Drivers {
    by_provider: BTreeMap<String, Arc<dyn Driver>>,
    sole: Option<Arc<dyn Driver>>,
}

impl Drivers {
    /// No driver at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves classes of this provider.
    #[must_use]
    pub fn with(mut self, provider: &str, driver: Arc<dyn Driver>) -> Self {
        self.by_provider.insert(provider.to_owned(), driver);
        self
    }

    /// Serves every class, whatever it calls its provider; that is how the reference runs.
    #[must_use]
    pub fn only(driver: Arc<dyn Driver>) -> Self {
        Self { by_provider: BTreeMap::new(), sole: Some(driver) }
    }

    /// The same drivers, each in a wrapper.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver>) -> Self {
        let by_provider = self.by_provider.into_iter().map(|(provider, driver)| (provider, wrap(driver))).collect();
        Self { by_provider, sole: self.sole.map(wrap) }
    }

    /// Tells when a driver becomes another one, for each that may.
    pub(crate) fn changes(&self) -> impl Iterator<Item = watch::Receiver<u64>> {
        self.by_provider.values().chain(&self.sole).filter_map(|driver| driver.changes())
    }

    /// The driver for a class, or an error that names the fix.
    pub fn of(&self, class: &MachineClass) -> Result<Arc<dyn Driver>, DriverError> {
        let found = self.sole.as_ref().or_else(|| self.by_provider.get(&class.provider));
        found.cloned().ok_or_else(|| DriverError::new(Code::InvalidArgument, self.missing(class)))
    }

    /// Whether a class has a driver, as a plan sees it.
    pub(crate) fn state(&self, class: &MachineClass) -> DriverState {
        match self.of(class) {
            Ok(_) => DriverState::Served,
            Err(_) => DriverState::Missing(self.missing(class)),
        }
    }

    fn missing(&self, class: &MachineClass) -> String {
        let known: Vec<&str> = self.by_provider.keys().map(String::as_str).collect();
        format!("provider: no driver serves {:?}; this process has {}", class.provider, known.join(", "))
    }
}
