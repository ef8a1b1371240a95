//! Runs the process from its first request to its last.
//!
//! A signal, a lost lease or a failed task ends the process. At a shutdown, work ends first and the leases are released
//! last, because another replica may act as soon as a lease is free. If a driver call is still running, the lease is
//! not released and expires. If a lease is lost, the process exits immediately, because the next leader may start at
//! any moment.

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

use super::component::{PreparedComponent, ProcessContext, Role};
use super::{Connections, drivers, waiting};
use crate::built_in::BuiltIn;
use crate::cli::Servers;
use crate::http::StatePage;
use crate::traces;

/// Timeout for running work at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without progress after which the leader election counts as stuck. Far longer than any retry period.
const ELECTION_STUCK_AFTER: Duration = Duration::from_mins(30);

/// The process exits with 255, as MCM does.
#[derive(Debug, thiserror::Error)]
#[error("stopped because the lease was lost: {why}")]
pub(super) struct LostLease {
    why: NotLeading,
}

/// Runs until a shutdown is requested. The error is the reason why the process cannot continue.
pub(super) async fn work(
    options: &Servers,
    connections: &Connections,
    built_in: Vec<BuiltIn>,
    clock: Clock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let random = Random::from_entropy();
    let context = ProcessContext::of(options, connections, &clock, &random);
    let (mut machines, mut manager) = (None, None);
    if let Some(component) = &options.machine {
        machines = Some(
            PreparedComponent::prepare(Role::MachineController, &context, component.listen, component.workers).await?,
        );
    }
    if let Some(component) = &options.manager {
        manager = Some(PreparedComponent::prepare(Role::Manager, &context, component.listen, component.workers).await?);
    }
    let Some(first) = machines.as_ref().or(manager.as_ref()) else { bail!("no component is enabled") };
    let (metrics, last_decisions) = (first.component.metrics.clone(), first.controller_state.listener());
    if waiting::until_served(options, connections, &context.discovery(&metrics), &random, stop).await == Waited::Stopped
    {
        return Ok(());
    }
    let (tasks, support_tasks) = (&context.tasks, &context.support_tasks);
    #[cfg(feature = "inspect")]
    let web_view = super::web_view::WebView::listen(&context, &metrics).await?;
    let tracer = traces::begin(&options.common.tracing, &clock, &random, &metrics, support_tasks)?;
    let last_decisions = Some(last_decisions).filter(|_| context.state_page() == StatePage::Shown);
    let listeners = tracer.into_iter().chain(last_decisions);
    #[cfg(feature = "inspect")]
    let listeners = listeners.chain(web_view.as_ref().map(super::web_view::WebView::listener));
    let listeners: Vec<Listener> = listeners.collect();
    let (mut drivers, mut driver_calls_per_credential) = (Drivers::new(), 1);
    if let Some(flags) = options.machine.as_ref().map(|component| &component.flags.driver) {
        let created = drivers::create(flags, built_in, &metrics, &clock, &random, &context, stop).await?;
        let Some(created) = created else { return Ok(()) };
        (drivers, driver_calls_per_credential) = (created, flags.driver_calls_per_credential.get());
    }
    let (mut electors, mut states) = (Vec::new(), Vec::new());
    let mut take = |prepared: PreparedComponent| {
        electors.extend(prepared.elector);
        states.push((prepared.controller_state, prepared.component.leadership.clone()));
        prepared.component
    };
    let components = match (machines.map(&mut take), manager.map(&mut take)) {
        (Some(machines), Some(manager)) => Components::Both { machines, manager },
        (Some(machines), None) => Components::Machines(machines),
        (None, Some(manager)) => Components::Manager(manager),
        (None, None) => return Ok(()),
    };
    let parts = Parts {
        namespace: options.common.clusters.namespace.clone(),
        components,
        watches: context.watches(&metrics),
        drivers,
        policy: options.policy(),
        driver_calls_per_credential,
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
        web_view.serve(cluster.clone(), leadership.clone(), support_tasks);
    }
    for (controller_state, leadership) in states {
        controller_state.set(cluster.clone(), leadership);
    }
    let outcome = until_stopped(electors, tasks, stop).await;
    support_tasks.shut_down(SHUTDOWN_TIMEOUT).await;
    outcome
}

/// Waits for the end of the process, then stops the tasks in order.
async fn until_stopped(electors: Vec<Elector>, tasks: &Tasks, stop: &CancellationToken) -> anyhow::Result<()> {
    let release = CancellationToken::new();
    // A hanging election loses the lease. Without the watchdog the process would then be idle indefinitely.
    let watched =
        |elector: Elector| tasks.watchdog().follow("the election", ELECTION_STUCK_AFTER, elector.run(release.clone()));
    let mut elections: FuturesUnordered<_> = electors.into_iter().map(watched).collect();
    let failed = tasks.stopping();
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        () = failed.cancelled() => None,
        Some(ended) = elections.next() => Some(ended),
    };
    if let Some(Ended::Lost(why)) = ended {
        tasks.shut_down(Duration::ZERO).await;
        return Err(LostLease { why: why.into() }.into());
    }
    let left = {
        // Renew the leases meanwhile, because tasks still act under them.
        let mut ending = std::pin::pin!(tasks.shut_down(SHUTDOWN_TIMEOUT));
        loop {
            tokio::select! {
                biased;
                left = &mut ending => break left,
                Some(_) = elections.next() => {}
            }
        }
    };
    if left == tasks::Ended::Clean {
        release.cancel();
        while elections.next().await.is_some() {}
    }
    if stop.is_cancelled() {
        return Ok(());
    }
    bail!("stopped because a task of the controller failed; see the log")
}
