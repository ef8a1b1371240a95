//! Timeouts of driver calls.
//!
//! The timeout of a create is the creation timeout of its Machine: a later result is of no use. All other calls have a
//! timeout of their own. If a deletion had a short creation timeout, it would never complete, and the VM would be paid
//! forever.
//!
//! A creation timeout of zero limits no call. As in MCM, it means that a Machine is marked Failed on the first check at
//! which its Node has not joined.

use std::time::Duration;

use api::Machine;

use crate::Policy;
use crate::machine::{Call, creation_timeout};

/// Returns the timeout of a call about a Machine. The time in the queue has the same limit.
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
    #[case::from_flag("", 3 * MINUTE)]
    #[case::from_machine("2h", 120 * MINUTE)]
    #[case::zero_limits_no_call("0s", 15 * MINUTE)]
    fn create_timeout_is_the_creation_timeout(#[case] own: &str, #[case] expected: Duration) {
        assert_eq!(call_timeout(Call::Create, &machine(own), &policy()), expected);
    }

    /// Shows LIM-14.
    #[rstest]
    fn other_calls_do_not_use_the_creation_timeout(#[values(Call::Status, Call::Initialize, Call::Delete)] call: Call) {
        assert_eq!(call_timeout(call, &machine("1s"), &policy()), 15 * MINUTE);
    }
}
