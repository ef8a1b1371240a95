//! The life of the process, from the first request to the last.
//!
//! What ends it: a signal, a lost lease, or a part of it that died. Asked to end, it ends work first and gives the leases back
//! last: whoever sees one free may act at once. A driver call that is still out keeps the lease until it expires by itself. When a lease
//! is lost there is nothing to give back and nobody to wait for: the next leader may begin any moment.

use std::time::Duration;

use anyhow::{Context, bail};
use controllers::Drivers;
use controllers::wiring::{Halves, Parts, start};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use runtime::client::Waited;
use runtime::lease::{Elector, Ended};
use runtime::{Clock, Random, Tasks, tasks};
use tokio_util::sync::CancellationToken;

use super::post::{Post, Role, Setting};
use super::{Connections, drivers, waiting};
use crate::cli::Servers;
use crate::traces;

/// How long a shutdown waits for work that has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// Works until asked to stop. An error says why it could not go on.
pub(super) async fn work(
    options: &Servers,
    connections: &Connections,
    clock: Clock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let random = Random::from_entropy();
    let (tasks, telling) = (Tasks::new(), Tasks::new());
    let setting = Setting::of(options, connections, &clock, &random);
    let post = |role, workers| Post::of(role, &setting, workers, &telling);
    let machines = options.machine.as_ref().map(|half| post(Role::MachineController, half.workers)).transpose()?;
    let fleet = options.manager.as_ref().map(|half| post(Role::Manager, half.workers)).transpose()?;
    let Some(metrics) = machines.as_ref().or(fleet.as_ref()).map(|post| post.half.metrics.clone()) else {
        bail!("there is nothing to run");
    };
    if waiting::until_served(options, connections, &setting.discovery(&metrics), &random, stop).await == Waited::Stopped
    {
        return Ok(());
    }
    let listener = traces::begin(&options.common.tracing, &clock, &random, &metrics, &telling)?;
    let (mut drivers, mut driver_places) = (Drivers::new(), 1);
    if let Some(flags) = options.machine.as_ref().map(|half| &half.flags.driver) {
        let found = drivers::at_hand(flags, setting.kubelets(&metrics), &clock, &random, &tasks, stop).await?;
        let Some(found) = found else { return Ok(()) };
        (drivers, driver_places) = (found, flags.driver_calls_per_credential.get());
    }
    let mut electors = Vec::new();
    let mut leave = |post: Post| {
        electors.extend(post.elector);
        post.half
    };
    let halves = match (machines.map(&mut leave), fleet.map(&mut leave)) {
        (Some(machines), Some(fleet)) => Halves::Both { machines, fleet },
        (Some(machines), None) => Halves::Machines(machines),
        (None, Some(fleet)) => Halves::Fleet(fleet),
        (None, None) => return Ok(()),
    };
    let parts = Parts {
        namespace: options.common.clusters.namespace.clone(),
        halves,
        watches: setting.watches(&metrics),
        drivers,
        policy: options.policy(),
        driver_places,
        clock: clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        listener,
    };
    #[cfg(feature = "failpoints")]
    let parts = crate::failpoints::Failpoints::from_environment().guard(parts);
    start(parts).context("failed to set up metrics")?;
    let outcome = until_the_end(electors, &tasks, stop).await;
    telling.shut_down(PATIENCE).await;
    outcome
}

/// Waits for whatever ends the process, then ends it in order.
async fn until_the_end(electors: Vec<Elector>, tasks: &Tasks, stop: &CancellationToken) -> anyhow::Result<()> {
    let give_back = CancellationToken::new();
    let mut elections: FuturesUnordered<_> =
        electors.into_iter().map(|elector| elector.run(give_back.clone())).collect();
    let broken = tasks.stopping();
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        () = broken.cancelled() => None,
        Some(ended) = elections.next() => Some(ended),
    };
    if let Some(Ended::Lost(why)) = ended {
        tasks.shut_down(Duration::ZERO).await;
        bail!("stopped because leadership was lost ({why:?}); another replica takes over");
    }
    let left = {
        // The leases are held on to meanwhile: somebody still works under them.
        let mut ending = std::pin::pin!(tasks.shut_down(PATIENCE));
        loop {
            tokio::select! {
                biased;
                left = &mut ending => break left,
                Some(_) = elections.next() => {}
            }
        }
    };
    if left == tasks::Ended::Clean {
        give_back.cancel();
        while elections.next().await.is_some() {}
    }
    if stop.is_cancelled() {
        return Ok(());
    }
    bail!("stopped because a part of the controller failed; the log says which")
}
