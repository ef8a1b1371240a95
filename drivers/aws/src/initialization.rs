//! Initialization of an existing instance.
//!
//! RunInstances cannot disable the source/destination check of an interface or assign IPv6 prefixes. GetMachineStatus
//! reports pending steps and InitializeMachine executes them. Both use the function [`steps`], so that they always
//! agree.

use crate::answer::{Instance, Interface};
use crate::launch::device_index;
use crate::spec::Spec;

/// A pending initialization step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Disable the source/destination check of the interface.
    DisableCheck { interface: String },
    /// Assign the missing IPv6 prefixes to the interface.
    AssignPrefixes { interface: String, count: i32 },
}

/// Returns whether instances of this spec need initialization.
pub(crate) fn is_needed(spec: &Spec) -> bool {
    spec.source_dest_checks == Some(false) || spec.network_interfaces.iter().any(|nic| nic.ipv6_prefix_count.is_some())
}

/// Returns the pending initialization steps of this instance.
pub(crate) fn steps(spec: &Spec, instance: &Instance) -> Vec<Step> {
    let checks = instance.interfaces.iter().filter(|nic| {
        // EFA interfaces have no such check and reject the request.
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

/// Returns how many prefixes the spec wants for an interface. Interfaces are matched by network card and device index:
/// device indices repeat on each card, and their order may differ from the list.
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
    fn every_interface_with_the_check_enabled_is_returned() {
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
    fn efa_interface_needs_no_step(#[case] kind: &str) {
        let spec = Spec { source_dest_checks: Some(false), ..Spec::default() };
        assert_eq!(steps(&spec, &instance(vec![nic("a", kind, Some(true))])), []);
    }

    #[rstest]
    #[case(None)]
    #[case(Some(true))]
    fn checks_stay_enabled_unless_the_class_disables_them(#[case] checks: Option<bool>) {
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
    fn interface_is_matched_by_card_and_device_index() {
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
