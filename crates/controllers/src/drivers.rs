//! Selects the driver of a MachineClass.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Code, MachineClass};
use driver::{Driver, DriverError};
use planner::machine::DriverState;
use tokio::sync::watch;

/// The drivers of this process, by provider.
#[derive(Clone, Default)]
pub struct Drivers {
    by_provider: BTreeMap<String, Arc<dyn Driver>>,
    sole: Option<Arc<dyn Driver>>,
}

impl Drivers {
    /// Returns an empty set of drivers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the driver for classes of this provider.
    #[must_use]
    pub fn with(mut self, provider: &str, driver: Arc<dyn Driver>) -> Self {
        self.by_provider.insert(provider.to_owned(), driver);
        self
    }

    /// Returns a set with one driver that serves every class, whatever its provider, as in MCM.
    #[must_use]
    pub fn only(driver: Arc<dyn Driver>) -> Self {
        Self { by_provider: BTreeMap::new(), sole: Some(driver) }
    }

    /// Wraps each driver.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver>) -> Self {
        let by_provider = self.by_provider.into_iter().map(|(provider, driver)| (provider, wrap(driver))).collect();
        Self { by_provider, sole: self.sole.map(wrap) }
    }

    /// Returns a channel for each driver whose version can change at run time.
    pub(crate) fn changes(&self) -> impl Iterator<Item = watch::Receiver<u64>> {
        self.by_provider.values().chain(&self.sole).filter_map(|driver| driver.changes())
    }

    /// Returns the driver for a class, or an error with the fix.
    pub fn of(&self, class: &MachineClass) -> Result<Arc<dyn Driver>, DriverError> {
        let found = self.sole.as_ref().or_else(|| self.by_provider.get(&class.provider));
        found.cloned().ok_or_else(|| DriverError::new(Code::InvalidArgument, self.missing(class)))
    }

    /// Returns for the planner whether a class has a driver.
    pub(crate) fn state(&self, class: &MachineClass) -> DriverState {
        match self.of(class) {
            Ok(_) => DriverState::Served,
            Err(_) => DriverState::Missing(self.missing(class)),
        }
    }

    fn missing(&self, class: &MachineClass) -> String {
        let known: Vec<&str> = self.by_provider.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let fix = "correct the class, or start the process with --provider or --driver-endpoint for it";
        format!("provider: no driver serves {:?}; this process has {known}: {fix}", class.provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use driver::{Call, Capabilities, Created, Deleted, MachineRequest, Support};

    /// A driver that is identified by its capabilities.
    struct Offers(Support);

    #[async_trait]
    impl Driver for Offers {
        fn capabilities(&self) -> Capabilities {
            Capabilities { list: self.0, ..Capabilities::MINIMAL }
        }
        async fn create(&self, _: &Call, _: &MachineRequest) -> Result<Created, DriverError> {
            Err(DriverError::new(Code::Internal, ""))
        }
        async fn delete(&self, _: &Call, _: &MachineRequest) -> Result<Deleted, DriverError> {
            Ok(Deleted::default())
        }
    }

    fn class(provider: &str) -> MachineClass {
        MachineClass { provider: provider.to_owned(), ..MachineClass::default() }
    }

    fn found(drivers: &Drivers, provider: &str) -> Option<Support> {
        drivers.of(&class(provider)).ok().map(|driver| driver.capabilities().list)
    }

    /// Shows AWS-30.
    #[test]
    fn class_is_served_by_the_driver_of_its_provider_only() {
        let (aws, virt) = (Arc::new(Offers(Support::Offered)), Arc::new(Offers(Support::NotOffered)));
        let drivers = Drivers::new().with("AWS", aws).with("virtual", virt);
        assert_eq!(found(&drivers, "AWS"), Some(Support::Offered));
        assert_eq!(found(&drivers, "virtual"), Some(Support::NotOffered));
        for unknown in ["aws", "AWS ", "", "azure"] {
            let error = drivers.of(&class(unknown)).err().unwrap();
            assert_eq!(error.code(), Code::InvalidArgument);
            let message = error.message();
            assert!(
                message.contains(&format!("no driver serves {unknown:?}; this process has AWS, virtual")),
                "{message}"
            );
            assert!(message.contains("--provider") && message.contains("--driver-endpoint"), "{message}");
            assert_eq!(drivers.state(&class(unknown)), DriverState::Missing(message.to_owned()));
        }
    }

    #[test]
    fn sole_driver_serves_every_class() {
        let drivers = Drivers::only(Arc::new(Offers(Support::Offered)));
        assert_eq!(found(&drivers, "whatever"), Some(Support::Offered));
        assert_eq!(drivers.state(&class("whatever")), DriverState::Served);
        assert!(Drivers::new().of(&class("AWS")).err().unwrap().message().contains("this process has none"));
    }
}
