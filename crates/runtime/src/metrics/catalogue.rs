//! Which families there are.
//!
//! A registry shows a family only once it has a series, so nobody could tell from a scrape what else may come. The catalogue keeps every
//! family that was ever entered, and the reference page of all metrics is held to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::{Encoder, Registry, TextEncoder};

use super::MetricsError;

/// A family: what it is called, what it says, what tells its series apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it says.
    pub help: String,
    /// The names of its labels, in order of the alphabet; those with a fixed value too.
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

/// A registry that remembers what was entered. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct MetricCatalogue {
    registry: Registry,
    declared: Arc<Mutex<BTreeMap<String, Declared>>>,
}

impl MetricCatalogue {
    pub(super) fn enter(&self, metric: impl Collector + 'static) -> Result<(), MetricsError> {
        let families: Vec<Declared> = metric.desc().into_iter().map(Declared::from).collect();
        self.registry.register(Box::new(metric)).map_err(MetricsError::Register)?;
        self.declared.lock().extend(families.into_iter().map(|family| (family.name.clone(), family)));
        Ok(())
    }

    /// Notes families that are written by somebody else: all of them, or none if one is taken.
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

    /// The families of the registry as text.
    pub(super) fn encode(&self) -> Result<String, MetricsError> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).map_err(MetricsError::Encode)?;
        Ok(String::from_utf8(text).unwrap_or_else(|odd| String::from_utf8_lossy(odd.as_bytes()).into_owned()))
    }
}
