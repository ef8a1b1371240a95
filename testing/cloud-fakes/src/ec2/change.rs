//! Calls that change what is there: terminate, tag, the check of source and destination, IPv6.

use std::time::Duration;

use super::answer::Refusal;
use super::cloud::Cloud;
use super::describe::{unknown, well_formed};
use super::instance::State;
use super::interface::Interface;
use super::run::pairs_of;
use super::xml::{Element, node, set, text};
use crate::parameters::Parameters;

impl Cloud {
    /// All ids or none; what has ended stays ended, and that is no error.
    pub(super) fn terminate_instances(&mut self, now: Duration, asked: &Parameters) -> Result<Vec<Element>, Refusal> {
        let ids = asked.values("InstanceId");
        for id in &ids {
            well_formed("InvalidInstanceID.Malformed", "i-", id)?;
            let known = |one: &super::Instance| one.id == *id && one.is_shown(now, now, &self.settings);
            if !self.instances.iter().any(known) {
                return Err(unknown(id));
            }
        }
        let state = |state: State| vec![text("code", state as u8), text("name", state.name())];
        let settings = &self.settings;
        let ended = self.instances.iter_mut().filter(|instance| ids.contains(&instance.id.as_str())).map(|instance| {
            let before = instance.state(now, settings);
            instance.ended.get_or_insert(now);
            // The answer never calls an instance terminated that was not so before.
            let after = before.max(State::ShuttingDown);
            vec![
                text("instanceId", &instance.id),
                node("currentState", state(after)),
                node("previousState", state(before)),
            ]
        });
        Ok(vec![set("instancesSet", ended)])
    }

    pub(super) fn create_tags(&mut self, now: Duration, asked: &Parameters) -> Result<Vec<Element>, Refusal> {
        let given = pairs_of(asked, "Tag");
        let ids = asked.values("ResourceId");
        if let Some(id) = ids.iter().find(|id| !self.instances.iter().any(|instance| instance.id == **id)) {
            return Err(Refusal::new("InvalidID", format!("The ID '{id}' is not valid")));
        }
        for instance in self.instances.iter_mut().filter(|instance| ids.contains(&instance.id.as_str())) {
            let mut tags = instance.tags().clone();
            tags.extend(given.iter().cloned());
            instance.tags.set(now, tags);
        }
        Ok(vec![text("return", true)])
    }

    /// Which code AWS refuses an EFA interface with is not written down anywhere that we found; that it does is.
    pub(super) fn modify_network_interface(
        &mut self,
        now: Duration,
        asked: &Parameters,
    ) -> Result<Vec<Element>, Refusal> {
        let check = asked.get("SourceDestCheck.Value").map(|value| value == "true");
        let interface = self.interface(asked.get("NetworkInterfaceId"))?;
        if let Some(check) = check {
            if interface.is_efa() {
                let message = "an EFA interface has no check of source and destination";
                return Err(Refusal::new("OperationNotPermitted", message));
            }
            interface.source_dest_check.set(now, check);
        }
        Ok(vec![text("return", true)])
    }

    pub(super) fn assign_ipv6(&mut self, now: Duration, asked: &Parameters) -> Result<Vec<Element>, Refusal> {
        let number = self.next();
        let count = |key: &str| match asked.get(key).map(str::parse::<usize>) {
            None => Ok(0),
            Some(Ok(count)) => Ok(count),
            Some(Err(_)) => Err(Refusal::new("InvalidParameterValue", format!("{key} is not a positive number"))),
        };
        let (prefixes, addresses) = (count("Ipv6PrefixCount")?, count("Ipv6AddressCount")?);
        let interface = self.interface(asked.get("NetworkInterfaceId"))?;
        let prefixes: Vec<String> = (0..prefixes).map(|n| format!("2001:db8:ffff:{number:x}:{n:x}::/80")).collect();
        let addresses: Vec<String> = (0..addresses).map(|n| format!("2001:db8:{number:x}::{n:x}")).collect();
        let grown = |held: &[String], more: &[String]| [held, more].concat();
        interface.ipv6_prefixes.set(now, grown(interface.ipv6_prefixes.latest(), &prefixes));
        interface.ipv6_addresses.set(now, grown(interface.ipv6_addresses.latest(), &addresses));
        let items = |name: &str, given: &[String]| node(name, given.iter().map(|one| text("item", one)).collect());
        Ok(vec![
            text("networkInterfaceId", &interface.id),
            items("assignedIpv6Addresses", &addresses),
            items("assignedIpv6PrefixSet", &prefixes),
        ])
    }

    fn interface(&mut self, id: Option<&str>) -> Result<&mut Interface, Refusal> {
        let id = id.unwrap_or_default();
        let alive = self.instances.iter_mut().filter(|instance| instance.ended.is_none());
        let found = alive.flat_map(|instance| &mut instance.interfaces).find(|interface| interface.id == id);
        found.ok_or_else(|| {
            Refusal::new("InvalidNetworkInterfaceID.NotFound", format!("The networkInterface ID '{id}' does not exist"))
        })
    }
}
