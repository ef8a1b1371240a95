//! How sets keep their machines, where MCM leaves no choice.

use clap::Args;
use planner::machineset::{InPlaceRank, MinReady, Replacement, SetPolicy};

/// How sets keep their machines.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
pub(crate) struct Fleet {
    /// Replace a machine that goes only once it is gone, for quotas that have no room for both. MCM replaces it at once.
    #[arg(long)]
    replace_machines_once_gone: bool,
    /// Count a machine as available only once it has been ready for minReadySeconds. MCM stores them and never waits.
    #[arg(long)]
    await_min_ready_seconds: bool,
    /// Delete machines in an in-place update last when a set shrinks. MCM deletes them first.
    #[arg(long)]
    spare_in_place_updates: bool,
}

impl Fleet {
    /// The policy with these choices in it.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let set = SetPolicy {
            replacement: if self.replace_machines_once_gone { Replacement::OnceGone } else { Replacement::AtOnce },
            min_ready: if self.await_min_ready_seconds { MinReady::Awaited } else { MinReady::Stored },
            in_place_rank: if self.spare_in_place_updates { InPlaceRank::Last } else { InPlaceRank::First },
            ..policy.set
        };
        planner::Policy { set, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct FleetCommand {
        #[command(flatten)]
        fleet: Fleet,
    }

    /// Shows MS-W9, MS-W19.
    #[test]
    fn without_flags_sets_do_as_the_reference_does_and_each_flag_changes_one_thing() {
        let policy = |flags: &[&str]| {
            let command = FleetCommand::parse_from(["millwright"].iter().chain(flags));
            command.fleet.apply(planner::Policy::default())
        };
        assert_eq!(policy(&[]), planner::Policy::default());
        assert_eq!(policy(&["--replace-machines-once-gone"]).set.replacement, Replacement::OnceGone);
        assert_eq!(policy(&["--await-min-ready-seconds"]).set.min_ready, MinReady::Awaited);
        assert_eq!(policy(&["--spare-in-place-updates"]).set.in_place_rank, InPlaceRank::Last);
    }
}
