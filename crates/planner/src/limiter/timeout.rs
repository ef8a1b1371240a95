//! How long a driver call may take.
//!
//! A create may take as long as its machine may take to join: an answer after that is of no use to anybody. Every other call has
//! a bound of its own. A deletion that is cut off because *creations* are given little time would never end, and the VM would be
//! paid for ever.
//!
//! A creation timeout of zero bounds no call. The reference accepts it and calls the driver all the same; what it means there,
//! and here, is that a machine is marked Failed at the first look at which its Node has not joined.

use std::time::Duration;

use api::Machine;

use crate::Policy;
use crate::machine::{Call, creation_timeout};

/// How long this call about this machine may take. How long it may wait for its turn is bounded by the same.
#[must_use]
pub fn call_timeout(call: Call, machine: &Machine, policy: &Policy) -> Duration {
    match call {
        Call::Create => match creation_timeout(machine, policy) {
            Duration::ZERO => policy.driver_call_timeout,
            own => own,
        },
        Call::Status | Call::Initialize | Call::Delete => policy.driver_call_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    const MINUTE: Duration = Duration::from_mins(1);

    fn policy() -> Policy {
        Policy { creation_timeout: 3 * MINUTE, driver_call_timeout: 15 * MINUTE, ..Policy::default() }
    }

    fn machine(own: &str) -> Machine {
        let annotations = json!({ "node.machine.sapcloud.io/effective-creation-timeout": own });
        serde_json::from_value(json!({ "metadata": { "name": "m", "annotations": annotations } })).unwrap()
    }

    /// Shows LIM-14.
    #[rstest]
    #[case::of_the_flag("", 3 * MINUTE)]
    #[case::its_own("2h", 120 * MINUTE)]
    #[case::zero_bounds_no_call("0s", 15 * MINUTE)]
    fn a_create_may_take_as_long_as_its_machine_has_to_join(#[case] own: &str, #[case] expected: Duration) {
        assert_eq!(call_timeout(Call::Create, &machine(own), &policy()), expected);
    }

    /// Shows LIM-14.
    #[rstest]
    fn no_other_call_is_bounded_by_the_creation_timeout(
        #[values(Call::Status, Call::Initialize, Call::Delete)] call: Call,
    ) {
        assert_eq!(call_timeout(call, &machine("1s"), &policy()), 15 * MINUTE);
    }
}
