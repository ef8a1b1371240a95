//! Tests of leader election with the in-memory API server and injected faults.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::faults::Verb;
use fake_apiserver::{Options, Server};
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{ElectionConfig, Elector, Identity, Timing};
use runtime::{Clock, Leadership, Metrics, Random, Tasks};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

struct LeaseFixture {
    server: Server,
    clock: Clock,
    random: Random,
    metrics: Metrics,
    tasks: Tasks,
}

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
}

impl LeaseFixture {
    fn new(seed: u64) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let time = clock.clone();
        let server = Server::new(Options::new(Arc::new(move || time.now()), seed));
        let metrics = Metrics::new().unwrap();
        Self { server, clock, random: Random::seeded(seed), metrics, tasks: Tasks::new() }
    }

    fn client(&self, agent: &str) -> kube::Client {
        let spec = ClientSpec::new(UserAgent::new(agent, "v1", "test"));
        in_process(self.server.service(), "default", &spec, &self.metrics.rest)
    }

    fn start(&self, agent: &str, events: Option<EventSink>) -> Candidate {
        let (elector, leadership) = Elector::new(ElectionConfig {
            client: self.client(agent),
            namespace: "default".to_owned(),
            name: "machine-controller".to_owned(),
            identity: Identity::of_host(agent, &self.random),
            timing: Timing::default(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            events,
        })
        .unwrap();
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        self.tasks.spawn("election", async move {
            elector.run(stopping).await;
        });
        Candidate { leadership, stop }
    }

    fn record(&self) -> Arc<Value> {
        self.server.object("leases.coordination.k8s.io", "default", "machine-controller").unwrap()
    }
}

fn leading(candidates: &[&Candidate]) -> usize {
    candidates.iter().filter(|candidate| candidate.leadership.check().is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn disconnected_leader_is_replaced_without_overlap() {
    let fixture = LeaseFixture::new(1);
    let one = fixture.start("one", None);
    one.leadership.wait_until_leading().await.unwrap();
    let other = fixture.start("other", None);
    tokio::time::sleep(30 * SECOND).await;
    fixture.server.faults().on_any().by_agent("one").disconnect();
    let mut changes = vec![0];
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let leader = match (one.leadership.check().is_ok(), other.leadership.check().is_ok()) {
            (true, true) => panic!("both lead"),
            (true, false) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        if changes.last() != Some(&leader) {
            changes.push(leader);
        }
    }
    assert_eq!(changes, [0, 1, 2], "one, then none, then the other");
    let record = fixture.record();
    assert_eq!(record["spec"]["leaseTransitions"], 1);
    assert!(record["spec"]["holderIdentity"].as_str().unwrap().starts_with("other_"));
}

/// Shows LEA-2.
#[tokio::test(start_paused = true)]
async fn leader_keeps_the_lease_despite_conflicts_and_lost_responses() {
    for seed in 0..5 {
        let fixture = LeaseFixture::new(seed);
        let one = fixture.start("one", None);
        one.leadership.wait_until_leading().await.unwrap();
        let other = fixture.start("other", None);
        let faults = fixture.server.faults();
        faults.on(Verb::Update).of("leases").with_probability(0.1).conflict();
        faults.on(Verb::Update).of("leases").with_probability(0.05).lose_answer();
        faults.on([Verb::Get, Verb::Update]).of("leases").delay_between(Duration::ZERO, SECOND / 2);
        for _ in 0..3000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(leading(&[&one, &other]) <= 1, "seed {seed}: both lead");
        }
        assert_eq!(one.leadership.check(), Ok(()), "seed {seed}: lost a lease that could be renewed");
    }
}

/// Shows LEA-5.
#[tokio::test(start_paused = true)]
async fn handover_on_shutdown_takes_seconds_and_emits_events() {
    let fixture = LeaseFixture::new(3);
    let (writer, sink) = EventWriter::new(
        fixture.client("events"),
        "machine-controller",
        EventPolicy::default(),
        &fixture.clock,
        &fixture.random,
        &fixture.metrics,
    );
    let stop = fixture.tasks.stopping();
    fixture.tasks.spawn("events", async move {
        writer.run(stop).await;
    });
    let one = fixture.start("one", Some(sink.clone()));
    one.leadership.wait_until_leading().await.unwrap();
    let other = fixture.start("other", Some(sink));
    tokio::time::sleep(30 * SECOND).await;
    one.stop.cancel();
    let handover = tokio::time::timeout(5 * SECOND, other.leadership.wait_until_leading()).await;
    assert_eq!(handover, Ok(Ok(())), "a released lease is acquired without waiting");
    tokio::time::sleep(SECOND).await;

    let mut events: Vec<_> = fixture.server.objects("events");
    events.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    let messages: Vec<_> =
        events.iter().map(|event| event["message"].as_str().unwrap().split_once(' ').unwrap().1).collect();
    assert_eq!(messages, ["became leader", "stopped leading", "became leader"]);
    let first = &events[0];
    assert_eq!(first["reason"], "LeaderElection");
    assert_eq!(first["involvedObject"]["kind"], "Lease");
    assert_eq!(first["involvedObject"]["uid"], fixture.record()["metadata"]["uid"]);
    assert_eq!(first["source"]["component"], "machine-controller");
}

#[tokio::test(start_paused = true)]
async fn renewal_is_one_write_without_a_read() {
    let fixture = LeaseFixture::new(4);
    let one = fixture.start("one", None);
    one.leadership.wait_until_leading().await.unwrap();
    fixture.server.forget_requests();
    tokio::time::sleep(60 * SECOND).await;
    let verbs: Vec<_> = fixture.server.requests().iter().map(|request| request.tally.verb.clone()).collect();
    assert!((25..=30).contains(&verbs.len()), "{} requests in a minute", verbs.len());
    assert!(verbs.iter().all(|verb| verb == "update"), "{verbs:?}");
}
