//! Checks whether the host has capacity for another machine.
//!
//! The limits of all machines are added up, not their usage: an idle machine may use its memory at any time.

use std::fmt;
use std::fs;

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes.
    pub memory: u64,
}

/// The exhausted resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Thousandths of a core.
    Cpu {
        /// Requested by the machine.
        asked: u64,
        /// Not used by other machines.
        free: u64,
        /// The total budget.
        budget: u64,
    },
    /// Bytes.
    Memory {
        /// Requested by the machine.
        asked: u64,
        /// Not used by other machines.
        free: u64,
        /// The total budget.
        budget: u64,
    },
}

/// Limits for all machines together, as far as the MachineClass sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bytes.
    pub memory: Option<u64>,
}

impl Budget {
    /// Uses the capacity of the host for limits that are not set.
    #[must_use]
    pub fn or(self, host: Resources) -> Resources {
        Resources { cpu_millis: self.cpu_millis.unwrap_or(host.cpu_millis), memory: self.memory.unwrap_or(host.memory) }
    }
}

/// Returns the capacity of the host: cores that this process may use, and memory.
pub fn of_this_host() -> Resources {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Resources { cpu_millis: u64::try_from(cores).unwrap_or(1) * 1000, memory: total_memory(&meminfo) }
}

fn total_memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Returns what is exhausted if a machine of this size is added to `others`.
pub fn lack(asked: Resources, others: impl IntoIterator<Item = Resources>, budget: Resources) -> Option<Lack> {
    let taken = others.into_iter().fold(Resources::default(), |sum, one| Resources {
        cpu_millis: sum.cpu_millis.saturating_add(one.cpu_millis),
        memory: sum.memory.saturating_add(one.memory),
    });
    let cpu = budget.cpu_millis.saturating_sub(taken.cpu_millis);
    let memory = budget.memory.saturating_sub(taken.memory);
    if asked.cpu_millis > cpu {
        Some(Lack::Cpu { asked: asked.cpu_millis, free: cpu, budget: budget.cpu_millis })
    } else if asked.memory > memory {
        Some(Lack::Memory { asked: asked.memory, free: memory, budget: budget.memory })
    } else {
        None
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { asked, free, budget } => {
                write!(f, "the machine requests {asked}m of CPU, but only {free}m of the host's {budget}m are free")
            }
            Self::Memory { asked, free, budget } => {
                let mib = |bytes: &u64| bytes >> 20;
                let (asked, free, budget) = (mib(asked), mib(free), mib(budget));
                write!(
                    f,
                    "the machine requests {asked}Mi of memory, but only {free}Mi of the host's {budget}Mi are free"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const BUDGET: Resources = Resources { cpu_millis: 2000, memory: 4 << 30 };

    /// Shows HST-8.
    #[rstest]
    #[case::room_for_one(&[], 2000, 4 << 30, None)]
    #[case::exactly_full(&[(1000, 2 << 30)], 1000, 2 << 30, None)]
    #[case::cpu(&[(1000, 0)], 1001, 0, Some("the machine requests 1001m of CPU, but only 1000m of the host's 2000m are free"))]
    #[case::memory(&[(0, 4 << 30)], 0, 1 << 20, Some("the machine requests 1Mi of memory, but only 0Mi of the host's 4096Mi are free"))]
    #[case::overdrawn(&[(9000, 0)], 1, 0, Some("the machine requests 1m of CPU, but only 0m of the host's 2000m are free"))]
    fn a_machine_must_fit_into_the_remaining_budget(
        #[case] others: &[(u64, u64)],
        #[case] cpu_millis: u64,
        #[case] memory: u64,
        #[case] told: Option<&str>,
    ) {
        let others = others.iter().map(|&(cpu_millis, memory)| Resources { cpu_millis, memory });
        let lack = lack(Resources { cpu_millis, memory }, others, BUDGET);
        assert_eq!(lack.map(|lack| lack.to_string()).as_deref(), told);
    }

    #[test]
    fn the_host_s_memory_is_read_in_bytes() {
        assert_eq!(total_memory("MemTotal:       24684196 kB\nMemFree: 1 kB\n"), 24_684_196 * 1024);
        assert_eq!(total_memory(""), 0);
    }
}
