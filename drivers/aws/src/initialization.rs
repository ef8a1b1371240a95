//! What is left to do once an instance exists.
//!
//! Two things cannot be said in RunInstances: that an interface forwards packets that are not its own, and how many IPv6 prefixes it
//! has. Status asks whether something is left, initialize does it; both ask the same function here, so that they cannot
//! disagree and send a machine round in circles.

use crate::answer::{Instance, Interface};
use crate::launch::device_index;
use crate::spec::Spec;

/// One thing that is left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The interface checks source and destination, and must not.
    DisableCheck { interface: String },
    /// The interface has fewer prefixes than it should.
    AssignPrefixes { interface: String, count: i32 },
}

/// Whether an instance of this spec can have anything left to do.
pub(crate) fn is_needed(spec: &Spec) -> bool {
    spec.source_dest_checks == Some(false) || spec.network_interfaces.iter().any(|nic| nic.ipv6_prefix_count.is_some())
}

/// What is left to do for this instance.
pub(crate) fn steps(spec: &Spec, instance: &Instance) -> Vec<Step> {
    let checks = instance.interfaces.iter().filter(|nic| {
        // An interface for EFA has no such check and refuses to be told so.
        let adaptable = !matches!(nic.kind.as_str(), "efa" | "efa-only");
        spec.source_dest_checks == Some(false) && adaptable && nic.source_dest_check == Some(true)
    });
    let checks = checks.map(|nic| Step::DisableCheck { interface: nic.id.clone() });
    let prefixes = instance.interfaces.iter().filter_map(|nic| {
        let wanted = wanted_prefixes(spec, nic)?;
        let missing = wanted.saturating_sub(i32::try_from(nic.ipv6_prefixes).unwrap_or(i32::MAX));
        (missing > 0).then(|| Step::AssignPrefixes { interface: nic.id.clone(), count: missing })
    });
    checks.chain(prefixes).collect()
}

/// How many prefixes the spec wants for an interface. It is found by where it is plugged in: card and device, because device indices
/// repeat from card to card and need not follow the order of the list.
fn wanted_prefixes(spec: &Spec, nic: &Interface) -> Option<i32> {
    let plugged = (nic.card_index, nic.device_index?);
    let same = |(at, wanted): &(usize, &crate::spec::NetworkInterface)| {
        (wanted.network_card_index.unwrap_or_default(), device_index(*at, wanted)) == plugged
    };
    spec.network_interfaces.iter().enumerate().find(same)?.1.ipv6_prefix_count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::NetworkInterface;
    use rstest::rstest;

    fn nic(id: &str, kind: &str, check: Option<bool>) -> Interface {
        Interface {
            id: id.into(),
            kind: kind.into(),
            source_dest_check: check,
            device_index: Some(0),
            ..Interface::default()
        }
    }

    fn instance(interfaces: Vec<Interface>) -> Instance {
        Instance { id: "i-1".into(), interfaces, ..Instance::default() }
    }

    fn disabled(interface: &str) -> Step {
        Step::DisableCheck { interface: interface.into() }
    }

    /// Shows AWS-W1.
    #[test]
    fn every_interface_that_still_checks_is_named_not_only_the_first() {
        let spec = Spec { source_dest_checks: Some(false), ..Spec::default() };
        let vm = instance(vec![
            nic("a", "interface", Some(false)),
            nic("b", "interface", Some(true)),
            nic("c", "", Some(true)),
        ]);
        assert_eq!(steps(&spec, &vm), [disabled("b"), disabled("c")]);
    }

    /// Shows AWS-W1.
    #[rstest]
    #[case("efa")]
    #[case("efa-only")]
    fn an_interface_for_efa_is_left_alone(#[case] kind: &str) {
        let spec = Spec { source_dest_checks: Some(false), ..Spec::default() };
        assert_eq!(steps(&spec, &instance(vec![nic("a", kind, Some(true))])), []);
    }

    #[rstest]
    #[case(None)]
    #[case(Some(true))]
    fn checks_are_left_on_unless_the_class_switches_them_off(#[case] checks: Option<bool>) {
        let spec = Spec { source_dest_checks: checks, ..Spec::default() };
        assert_eq!(steps(&spec, &instance(vec![nic("a", "", Some(true)), nic("b", "", None)])), []);
        assert!(!is_needed(&spec));
    }

    fn wants(prefixes: Option<i32>, card: Option<i32>, device: Option<i32>) -> NetworkInterface {
        NetworkInterface {
            ipv6_prefix_count: prefixes,
            network_card_index: card,
            device_index: device,
            ..NetworkInterface::default()
        }
    }

    fn has(id: &str, prefixes: usize, card: i32, device: Option<i32>) -> Interface {
        Interface {
            id: id.into(),
            ipv6_prefixes: prefixes,
            card_index: card,
            device_index: device,
            ..Interface::default()
        }
    }

    /// Shows AWS-W3.
    #[rstest]
    #[case::missing(0, Some(2))]
    #[case::one_missing(1, Some(1))]
    #[case::enough(2, None)]
    #[case::more_than_wanted_is_no_negative_count(3, None)]
    fn missing_prefixes_are_assigned_and_surplus_ones_are_kept(#[case] assigned: usize, #[case] count: Option<i32>) {
        let spec = Spec { network_interfaces: vec![wants(Some(2), None, None)], ..Spec::default() };
        let expected: Vec<_> =
            count.map(|count| Step::AssignPrefixes { interface: "a".into(), count }).into_iter().collect();
        assert_eq!(steps(&spec, &instance(vec![has("a", assigned, 0, Some(0))])), expected);
        assert!(is_needed(&spec));
    }

    /// Shows AWS-W2.
    #[test]
    fn an_interface_is_found_by_card_and_device_not_by_its_place_in_the_list() {
        let spec = Spec {
            network_interfaces: vec![wants(None, Some(0), Some(1)), wants(Some(1), Some(1), Some(1))],
            ..Spec::default()
        };
        let vm = instance(vec![
            has("on card 0", 0, 0, Some(1)),
            has("on card 1", 0, 1, Some(1)),
            has("detached", 0, 1, None),
        ]);
        assert_eq!(steps(&spec, &vm), [Step::AssignPrefixes { interface: "on card 1".into(), count: 1 }]);
    }
}
