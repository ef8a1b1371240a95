//! Deletes the VMs that cases leave in a shared cloud.

use tokio::time::sleep;

use super::Bench;
use super::probe::{Failure, Probe, ensure};
use crate::Method;

/// Returns the names of all Machines for which the cases of this bench may have created VMs.
pub fn names(bench: &dyn Bench) -> [String; 3] {
    let name = bench.machine();
    [neighbour(&name), unknown(&name), name]
}

/// Returns a name that is a prefix of `name`.
pub(super) fn neighbour(name: &str) -> String {
    let mut letters = name.chars();
    letters.next_back();
    letters.as_str().to_owned()
}

/// Returns the name of a Machine without a VM.
pub(super) fn unknown(name: &str) -> String {
    format!("{name}-none")
}

/// Deletes the VMs of these Machines. Returns an error with those that remain after the timeout of the bench.
pub async fn sweep(bench: &dyn Bench, names: &[String]) -> Result<(), String> {
    let probe = &Probe::new(bench);
    let swept = async {
        // Recently created VMs may not be visible yet, so they cannot be deleted by name.
        sleep(probe.timing.shows_within).await;
        probe.shown(|| delete_all(probe, names)).await
    };
    let limit = probe.timing.case;
    let ended = tokio::time::timeout(limit, swept).await;
    ended.map_err(|_| format!("deletion of remaining VMs timed out after {} s", limit.as_secs()))?.map_err(|b| b.0)
}

async fn delete_all(probe: &Probe<'_>, names: &[String]) -> Result<(), Failure> {
    for name in names {
        probe.delete(&probe.stub(name, None)).await?;
    }
    if !probe.offers(Method::List) {
        return Ok(());
    }
    let listed = probe.list().await?;
    let left: Vec<String> = listed
        .iter()
        .filter(|(_, machine)| names.iter().any(|name| name == machine.as_str()))
        .map(|(id, machine)| format!("{id} of {machine}"))
        .collect();
    ensure(left.is_empty(), || format!("remaining VMs: {}", left.join(", ")))
}
