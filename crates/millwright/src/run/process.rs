//! The life of the process, from the first request to the last.
//!
//! What ends it: a signal, a lost lease, or a part of it that died. In every case work ends first and the lease is given back
//! last: whoever sees it free may act at once. A driver call that is still out keeps the lease until it expires by itself.

use std::time::Duration;

use anyhow::{Context, bail};
use api::names;
use controllers::Drivers;
use controllers::wiring::{Parts, Scope, start_scope};
use runtime::client::{ClientSpec, UserAgent, Waited};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{Candidacy, Elector, Identity, Leadership};
use runtime::{Clock, Metrics, Random, Tasks, lease, tasks};
use tokio_util::sync::CancellationToken;

use super::{Connections, drivers, waiting};
use crate::cli::Servers;
use crate::traces;

/// How long a shutdown waits for work that has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// The clients of one process, each with the limits the reference gives it.
struct Clients {
    control: kube::Client,
    control_core: kube::Client,
    target: Option<kube::Client>,
    leases: kube::Client,
    events: kube::Client,
    kubelets: Option<kube::Client>,
}

impl Clients {
    fn new(options: &Servers, connections: &Connections, metrics: &Metrics) -> Self {
        let agent = UserAgent::new(options.name(), env!("CARGO_PKG_VERSION"), "unknown");
        let plain = |suffix| ClientSpec::new(agent.with_suffix(suffix));
        let (qps, burst) = options.common.clusters.limit();
        let limited = |suffix| plain(suffix).limited(qps, burst);
        let patience = options.common.election.timing().renew_deadline;
        let election = plain("machine-leader-election").on_own_lanes().within(patience);
        let Connections { control, target } = connections;
        let to_target = |spec: ClientSpec| target.as_ref().map(|target| target.client(&spec, &metrics.rest));
        Self {
            control: control.client(&limited("control-machines"), &metrics.rest),
            control_core: control.client(&limited("control-core"), &metrics.rest),
            target: to_target(limited("target-core")),
            leases: control.client(&election, &metrics.rest),
            // The event writer has a bucket of its own and drops what does not fit.
            events: control.client(&plain("events"), &metrics.rest),
            kubelets: to_target(plain("virtual-kubelets")),
        }
    }
}

#[cfg(feature = "failpoints")]
impl Clients {
    /// The same clients, with writes that can be deadly.
    fn guarded(self, failpoints: &crate::failpoints::Failpoints) -> Self {
        Self {
            control: failpoints.guard_client(self.control),
            control_core: failpoints.guard_client(self.control_core),
            target: self.target.map(|client| failpoints.guard_client(client)),
            ..self
        }
    }
}

/// Works until asked to stop. An error says why it could not go on.
pub(super) async fn work(
    options: &Servers,
    connections: &Connections,
    clock: Clock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let random = Random::from_entropy();
    let metrics = Metrics::new().context("failed to set up metrics")?;
    let clients = Clients::new(options, connections, &metrics);
    #[cfg(feature = "failpoints")]
    let failpoints = crate::failpoints::Failpoints::from_environment();
    #[cfg(feature = "failpoints")]
    let clients = clients.guarded(&failpoints);
    let served = waiting::until_served(connections, &clients.control, clients.target.as_ref(), &random, stop).await;
    if served == Waited::Stopped {
        return Ok(());
    }

    let telling = Tasks::new();
    let events = tell(&telling, clients.events, &clock, &random, &metrics);
    let (leadership, elector) = stand(options, clients.leases, &events, &clock, &random)?;
    let listener = traces::begin(&options.common.tracing, &clock, &random, &metrics, &telling)?;
    let tasks = Tasks::new();
    let mut drivers = Drivers::new();
    let (mut concurrency, mut driver_places) = (1, 1);
    if let Some(half) = &options.manager {
        concurrency = half.workers;
    }
    if let Some(half) = &options.machine {
        let flags = &half.flags.driver;
        (concurrency, driver_places) = (half.workers, flags.driver_calls_per_credential.get());
        match drivers::at_hand(flags, clients.kubelets, &clock, &random, &tasks, stop).await? {
            Some(found) => drivers = found,
            None => return Ok(()),
        }
    }
    #[cfg(feature = "failpoints")]
    let drivers = drivers.wrapped(|driver| failpoints.guard_driver(driver));
    let parts = Parts {
        namespace: options.common.clusters.namespace.clone(),
        control: clients.control,
        control_core: clients.control_core,
        target: clients.target,
        drivers,
        leadership,
        events,
        policy: options.policy(),
        concurrency,
        driver_places,
        metrics,
        clock,
        random,
        tasks: tasks.clone(),
        listener,
    };
    start_scope(parts, options.scope());
    let outcome = until_the_end(elector, &tasks, stop).await;
    telling.shut_down(PATIENCE).await;
    outcome
}

/// Waits for whatever ends the process, then ends it in order.
async fn until_the_end(elector: Option<Elector>, tasks: &Tasks, stop: &CancellationToken) -> anyhow::Result<()> {
    let give_back = CancellationToken::new();
    let mut election = std::pin::pin!(async {
        if let Some(elector) = elector {
            elector.run(give_back.clone()).await
        } else {
            give_back.cancelled().await;
            lease::Ended::Stopped
        }
    });
    let broken = tasks.stopping();
    let election_ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        () = broken.cancelled() => None,
        ended = &mut election => Some(ended),
    };
    let left = tasks.shut_down(PATIENCE).await;
    if election_ended.is_none() && left == tasks::Ended::Clean {
        give_back.cancel();
        election.await;
    }
    match election_ended {
        Some(lease::Ended::Lost(why)) => {
            bail!("stopped because leadership was lost ({why:?}); another replica takes over")
        }
        _ if !stop.is_cancelled() => bail!("stopped because a part of the controller failed; the log says which"),
        _ => Ok(()),
    }
}

fn tell(tasks: &Tasks, client: kube::Client, clock: &Clock, random: &Random, metrics: &Metrics) -> EventSink {
    let component = names::events::components::MACHINE_CONTROLLER;
    let (writer, sink) = EventWriter::new(client, component, EventPolicy::default(), clock, random, metrics);
    let stopping = tasks.stopping();
    tasks.spawn("events", async move {
        writer.run(stopping).await;
    });
    sink
}

/// Stands for election, unless told not to.
fn stand(
    options: &Servers,
    client: kube::Client,
    events: &EventSink,
    clock: &Clock,
    random: &Random,
) -> anyhow::Result<(Leadership, Option<Elector>)> {
    if !options.common.election.leader_elect {
        return Ok((Leadership::unguarded(), None));
    }
    let lock = match options.scope() {
        Scope::Fleet => names::MANAGER_LEASE,
        Scope::Machines | Scope::Everything => names::MACHINE_CONTROLLER_LEASE,
    };
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    let (elector, leadership) = Elector::new(Candidacy {
        client,
        namespace: options.common.clusters.namespace.clone(),
        name: lock.to_owned(),
        identity: Identity::of_host(&host, random),
        timing: options.common.election.timing(),
        clock: clock.clone(),
        random: random.clone(),
        events: Some(events.clone()),
    })?;
    Ok((leadership, Some(elector)))
}
