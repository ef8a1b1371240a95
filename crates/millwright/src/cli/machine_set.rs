//! Flags for MachineSets, where MCM offers no choice.

use clap::Args;
use planner::machineset::{InPlaceRank, MinReady, Replacement, SetPolicy};

/// How MachineSets keep their Machines.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
pub(crate) struct MachineSetFlags {
    /// Create the replacement of a Machine only after the Machine is gone, for quotas without spare capacity. MCM
    /// creates it immediately.
    #[arg(long)]
    replace_machines_once_gone: bool,
    /// Count a Machine as available only after it has been ready for minReadySeconds. MCM stores the field and ignores
    /// it.
    #[arg(long)]
    await_min_ready_seconds: bool,
    /// Delete Machines in an in-place update last when a MachineSet scales down. MCM deletes them first.
    #[arg(long)]
    spare_in_place_updates: bool,
}

impl MachineSetFlags {
    /// Returns the policy with these flags applied.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let set = SetPolicy {
            replacement: if self.replace_machines_once_gone { Replacement::OnceGone } else { Replacement::Immediate },
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
    struct SetCommand {
        #[command(flatten)]
        sets: MachineSetFlags,
    }

    /// Shows MS-W9, MS-W19.
    #[test]
    fn set_flags_default_to_mcm_and_change_one_setting_each() {
        let policy = |flags: &[&str]| {
            let command = SetCommand::parse_from(["millwright"].iter().chain(flags));
            command.sets.apply(planner::Policy::default())
        };
        assert_eq!(policy(&[]), planner::Policy::default());
        assert_eq!(policy(&["--replace-machines-once-gone"]).set.replacement, Replacement::OnceGone);
        assert_eq!(policy(&["--await-min-ready-seconds"]).set.min_ready, MinReady::Awaited);
        assert_eq!(policy(&["--spare-in-place-updates"]).set.in_place_rank, InPlaceRank::Last);
    }
}
