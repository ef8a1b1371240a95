//! All registered families.
//!
//! A registry omits families without series, so a scrape does not show all families. The catalogue records every registered
//! family; a test compares it with the reference page of all metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::{Encoder, Registry, TextEncoder};

use super::MetricsError;

/// A registered family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Declared {
    /// Name.
    pub name: String,
    /// Help text.
    pub help: String,
    /// Names of all labels, sorted, including those with a constant value.
    pub labels: Vec<String>,
}

impl From<&Desc> for Declared {
    fn from(desc: &Desc) -> Self {
        let fixed = desc.const_label_pairs.iter().map(|pair| pair.name().to_owned());
        let mut labels: Vec<String> = desc.variable_labels.iter().cloned().chain(fixed).collect();
        labels.sort_unstable();
        Self { name: desc.fq_name.clone(), help: desc.help.clone(), labels }
    }
}

/// A registry that records its families. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct MetricCatalogue {
    registry: Registry,
    declared: Arc<Mutex<BTreeMap<String, Declared>>>,
}

impl MetricCatalogue {
    pub(super) fn register(&self, metric: impl Collector + 'static) -> Result<(), MetricsError> {
        let families: Vec<Declared> = metric.desc().into_iter().map(Declared::from).collect();
        self.registry.register(Box::new(metric)).map_err(MetricsError::Register)?;
        self.declared.lock().extend(families.into_iter().map(|family| (family.name.clone(), family)));
        Ok(())
    }

    /// Records dynamic families: all of them, or none if a name is already registered.
    pub(super) fn declare(&self, families: &[Declared]) -> Result<(), MetricsError> {
        let mut declared = self.declared.lock();
        if let Some(taken) = families.iter().find(|family| declared.contains_key(&family.name)) {
            return Err(MetricsError::Taken(taken.name.clone()));
        }
        declared.extend(families.iter().map(|family| (family.name.clone(), family.clone())));
        Ok(())
    }

    pub(super) fn declared(&self) -> Vec<Declared> {
        self.declared.lock().values().cloned().collect()
    }

    /// Returns the families of the registry as text.
    pub(super) fn encode(&self) -> Result<String, MetricsError> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).map_err(MetricsError::Encode)?;
        Ok(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
