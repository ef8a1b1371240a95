//! The [kill table](crate::suites::clouds::kill_table) of EC2.
//!
//! Machines run in parallel, each in a separate subnet: moto assigns the address of a terminated instance to the next
//! one, and a machine whose instance has the name of an existing Node is marked Failed.
//!
//! moto ignores client tokens of creations, so the driver must look up the instance first.

use anyhow::ensure;
use cloud_fakes::proxy::Asked;
use serde_json::Value;

use super::ec2::Ec2;
use super::objects::Place;
use crate::suites::clouds::kill_table::{CLASS, Killed, Victim};

/// EC2 behind its proxies, and a subnet for each lane.
pub(super) struct Table<'a> {
    pub(super) ec2: Ec2<'a>,
    pub(super) subnets: &'a [String],
}

impl Killed for Table<'_> {
    const SUITE: &'static str = "aws";
    const SENTENCE: &'static str = "one instance";
    const VICTIMS: &'static [Victim] = &[Victim::Both, Victim::Driver, Victim::Controller];

    fn port(&self) -> u16 {
        self.ec2.0.port()
    }

    fn lanes(&self) -> usize {
        self.subnets.len()
    }

    fn names(&self) -> impl FnMut(&Asked) -> Option<String> + Send + 'static {
        what
    }

    fn objects(&self, lane: usize, namespace: &str, _address: &str, machine: Value) -> Value {
        let subnet = self.subnets.get(lane).map(String::as_str).unwrap_or_default();
        let place = Place { namespace, subnet };
        place.with([place.class(CLASS, "m5.large"), machine])
    }

    async fn is_whole(&self, machine: &str) -> anyhow::Result<()> {
        let living = self.ec2.living_of(machine).await?.len();
        ensure!(living == 1, "EC2 has {living} instances of the machine");
        Ok(())
    }

    async fn is_gone(&self, machine: &str) -> anyhow::Result<()> {
        let ever = self.ec2.ever_of(machine).await?;
        let living = ever.iter().filter(|instance| instance.lives()).count();
        ensure!(living == 0, "EC2 still has {living} instances");
        ensure!(ever.len() == 1, "EC2 created {} instances of the machine", ever.len());
        Ok(())
    }
}

/// Returns the name of a request; `None` for the scan for orphan VMs, which runs periodically.
fn what(asked: &Asked) -> Option<String> {
    let (parameters, action) = (asked.parameters(), asked.action());
    if action != "DescribeInstances" {
        return Some(action);
    }
    let named = parameters.list("Filter").iter().any(|filter| filter.get("Name") == Some("tag:Name"));
    match (named, parameters.get("InstanceId.1")) {
        (true, _) => Some(format!("{action} (by name)")),
        (false, Some(_)) => Some(format!("{action} (by id)")),
        (false, None) => None,
    }
}
