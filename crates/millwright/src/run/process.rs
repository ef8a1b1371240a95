//! The life of the process, from the first request to the last.
//!
//! What ends it: a signal, a lost lease, or a part of it that died. Asked to end, it ends work first and gives the leases back
//! last: whoever sees one free may act at once. A driver call that is still out keeps the lease until it expires by itself. When a lease
//! is lost there is nothing to give back and nobody to wait for: the next leader may begin any moment.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use controllers::wiring::{Components, Parts, start};
use controllers::{Drivers, Listener};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use runtime::client::Waited;
use runtime::lease::{Elector, Ended, NotLeading};
use runtime::{Clock, Random, Tasks, tasks};
use tokio_util::sync::CancellationToken;

use super::component::{PreparedComponent, Role, Setting};
use super::{Connections, drivers, waiting};
use crate::built_in::BuiltIn;
use crate::cli::Servers;
use crate::http::StatePage;
use crate::traces;

/// How long a shutdown waits for work that has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// After how long an election that does nothing counts as stuck: far longer than any retry period.
const STANDSTILL: Duration = Duration::from_mins(30);

/// The process ends with 255, as the reference's does.
#[derive(Debug, thiserror::Error)]
#[error("stopped because a lease was lost, so that another replica can take over: {why}")]
pub(super) struct LostLease {
    why: NotLeading,
}

/// Works until asked to stop. An error says why it could not go on.
pub(super) async fn work(
    options: &Servers,
    connections: &Connections,
    built_in: Vec<BuiltIn>,
    clock: Clock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let random = Random::from_entropy();
    let setting = Setting::of(options, connections, &clock, &random);
    let (mut machines, mut fleet) = (None, None);
    if let Some(component) = &options.machine {
        machines =
            Some(PreparedComponent::of(Role::MachineController, &setting, component.listen, component.workers).await?);
    }
    if let Some(component) = &options.manager {
        fleet = Some(PreparedComponent::of(Role::Manager, &setting, component.listen, component.workers).await?);
    }
    let Some(first) = machines.as_ref().or(fleet.as_ref()) else { bail!("there is nothing to run") };
    let (metrics, last_decisions) = (first.component.metrics.clone(), first.controller_state.listener());
    if waiting::until_served(options, connections, &setting.discovery(&metrics), &random, stop).await == Waited::Stopped
    {
        return Ok(());
    }
    let (tasks, telling) = (&setting.tasks, &setting.telling);
    #[cfg(feature = "inspect")]
    let web_view = super::web_view::WebView::listen(&setting, &metrics).await?;
    let tracer = traces::begin(&options.common.tracing, &clock, &random, &metrics, telling)?;
    let last_decisions = Some(last_decisions).filter(|_| setting.state_page() == StatePage::Shown);
    let listeners = tracer.into_iter().chain(last_decisions);
    #[cfg(feature = "inspect")]
    let listeners = listeners.chain(web_view.as_ref().map(super::web_view::WebView::listener));
    let listeners: Vec<Listener> = listeners.collect();
    let (mut drivers, mut driver_places) = (Drivers::new(), 1);
    if let Some(flags) = options.machine.as_ref().map(|component| &component.flags.driver) {
        let found = drivers::at_hand(flags, built_in, &metrics, &clock, &random, &setting, stop).await?;
        let Some(found) = found else { return Ok(()) };
        (drivers, driver_places) = (found, flags.driver_calls_per_credential.get());
    }
    let (mut electors, mut states) = (Vec::new(), Vec::new());
    let mut take = |prepared: PreparedComponent| {
        electors.extend(prepared.elector);
        states.push((prepared.controller_state, prepared.component.leadership.clone()));
        prepared.component
    };
    let components = match (machines.map(&mut take), fleet.map(&mut take)) {
        (Some(machines), Some(fleet)) => Components::Both { machines, fleet },
        (Some(machines), None) => Components::Machines(machines),
        (None, Some(fleet)) => Components::Fleet(fleet),
        (None, None) => return Ok(()),
    };
    let parts = Parts {
        namespace: options.common.clusters.namespace.clone(),
        components,
        watches: setting.watches(&metrics),
        drivers,
        policy: options.policy(),
        driver_places,
        clock: clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        listener: (!listeners.is_empty()).then(|| Arc::new(listeners) as Listener),
    };
    #[cfg(feature = "failpoints")]
    let parts = crate::failpoints::Failpoints::from_environment().guard(parts);
    let cluster = start(parts).context("failed to set up metrics")?;
    #[cfg(feature = "inspect")]
    if let (Some(web_view), Some((_, leadership))) = (web_view, states.first()) {
        web_view.serve(cluster.clone(), leadership.clone(), telling);
    }
    for (controller_state, leadership) in states {
        controller_state.open(cluster.clone(), leadership);
    }
    let outcome = until_the_end(electors, tasks, stop).await;
    telling.shut_down(PATIENCE).await;
    outcome
}

/// Waits for whatever ends the process, then ends it in order.
async fn until_the_end(electors: Vec<Elector>, tasks: &Tasks, stop: &CancellationToken) -> anyhow::Result<()> {
    let give_back = CancellationToken::new();
    // An election that hangs loses the lease, and without it the process would idle for ever.
    let watched =
        |elector: Elector| tasks.watchdog().follow("the election", STANDSTILL, elector.run(give_back.clone()));
    let mut elections: FuturesUnordered<_> = electors.into_iter().map(watched).collect();
    let broken = tasks.stopping();
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        () = broken.cancelled() => None,
        Some(ended) = elections.next() => Some(ended),
    };
    if let Some(Ended::Lost(why)) = ended {
        tasks.shut_down(Duration::ZERO).await;
        return Err(LostLease { why: why.into() }.into());
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
