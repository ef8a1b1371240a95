//! What the cases leave behind in a cloud that is not thrown away.

use tokio::time::sleep;

use super::Bench;
use super::probe::{Broken, Probe, ensure};
use crate::Method;

/// The names of the machines that the cases of this bench may have made VMs for.
pub fn names(bench: &dyn Bench) -> [String; 3] {
    let name = bench.machine();
    [neighbour(&name), nobody(&name), name]
}

/// A name that another one begins with.
pub(super) fn neighbour(name: &str) -> String {
    let mut letters = name.chars();
    letters.next_back();
    letters.as_str().to_owned()
}

/// A machine that no case looks for.
pub(super) fn nobody(name: &str) -> String {
    format!("{name}-none")
}

/// Deletes the VMs of these machines, and says which are still there when the patience of the bench has passed.
pub async fn sweep(bench: &dyn Bench, names: &[String]) -> Result<(), String> {
    let probe = &Probe::new(bench);
    let swept = async {
        // What was made last may not show yet, and what does not show is not deleted by its name.
        sleep(probe.timing.shows_within).await;
        probe.shown(|| delete_all(probe, names)).await
    };
    let limit = probe.timing.case;
    let ended = tokio::time::timeout(limit, swept).await;
    ended.map_err(|_| format!("deleting what is left did not end within {} s", limit.as_secs()))?.map_err(|b| b.0)
}

async fn delete_all(probe: &Probe<'_>, names: &[String]) -> Result<(), Broken> {
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
    ensure(left.is_empty(), || format!("still there: {}", left.join(", ")))
}
