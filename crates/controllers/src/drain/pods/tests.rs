use std::time::Duration;

use fake_apiserver::faults::Verb;
use fake_apiserver::{Options, Server};
use runtime::cache::RetrySignal;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::queue::RetryPolicy;
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::json;

use super::*;

struct PodWatchFixture {
    server: Server,
    watches: PodWatches,
    queue: Queue<Key>,
    tasks: Tasks,
}

fn fixture(separate: usize) -> PodWatchFixture {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let now = clock.clone();
    let server = Server::new(Options::new(Arc::new(move || now.now()), 1));
    let (metrics, random, tasks) = (Metrics::new().unwrap(), Random::seeded(1), Tasks::new());
    let spec = ClientSpec::new(UserAgent::new("drain", "0", "test")).within(Duration::from_secs(20));
    let client = in_process(server.service(), "default", &spec, &metrics.rest);
    let queue = Queue::new("machine", RetryPolicy::default(), &metrics, &random);
    let watcher = Watcher { client, clock, random, tasks: tasks.clone(), retry_signal: RetrySignal::default() };
    PodWatchFixture { server, watches: PodWatches::new(watcher, queue.clone(), separate), queue, tasks }
}

impl PodWatchFixture {
    fn add(&self, name: &str, node: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
        });
        self.server.insert(&pod).unwrap();
    }

    fn open(&self, node: &str) -> PodWatch {
        self.watches.open(node, &Key::new("ns", format!("machine-of-{node}")))
    }

    /// Requests about pods, as verb and count.
    fn requests(&self, verb: &str) -> u64 {
        let counts = self.server.request_counts();
        counts.iter().filter(|(tally, _)| tally.verb == verb && tally.resource == "pods").map(|(_, count)| count).sum()
    }

    async fn woken(&self) -> String {
        self.queue.next().await.key().name.to_string()
    }
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn names(watch: &PodWatch) -> Option<Vec<String>> {
    use api::Object;
    watch.pods().map(|pods| pods.iter().map(|pod| pod.name().to_owned()).collect())
}

/// Shows MC-D3.
#[tokio::test(start_paused = true)]
async fn drain_lists_and_watches_the_pods_of_its_node_only() {
    let fixture = fixture(32);
    fixture.add("here", "n1");
    fixture.add("elsewhere", "n2");
    let watch = fixture.open("n1");
    assert_eq!(names(&watch), None, "the pods were not listed yet");
    assert_eq!(fixture.woken().await, "machine-of-n1");
    assert_eq!(names(&watch).unwrap(), ["here"]);
    fixture.add("later", "n1");
    settle().await;
    assert_eq!(fixture.woken().await, "machine-of-n1");
    assert_eq!(names(&watch).unwrap(), ["here", "later"]);
    assert_eq!((fixture.requests("list"), fixture.requests("watch"), fixture.server.open_watches()), (1, 1, 1));
    drop(watch);
    settle().await;
    assert_eq!(fixture.server.open_watches(), 0, "the watch has ended");
}

#[tokio::test(start_paused = true)]
async fn node_without_pods_wakes_its_machine() {
    let fixture = fixture(32);
    let watch = fixture.open("n1");
    assert_eq!(fixture.woken().await, "machine-of-n1");
    assert_eq!(names(&watch).unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn drains_above_the_limit_share_one_filtered_watch() {
    let fixture = fixture(2);
    for n in 0..10 {
        fixture.add(&format!("p{n}"), &format!("n{n}"));
    }
    let watches: Vec<_> = (0..6).map(|n| fixture.open(&format!("n{n}"))).collect();
    settle().await;
    for (n, watch) in watches.iter().enumerate() {
        assert_eq!(names(watch).unwrap(), [format!("p{n}")]);
    }
    assert_eq!(fixture.server.open_watches(), 3, "two separate watches and one shared watch");
    assert_eq!(watches[5].cache().len(), 4, "the pods of other Nodes are not stored");

    let late = fixture.open("n7");
    settle().await;
    assert_eq!(names(&late).unwrap(), ["p7"], "pods that were not stored before are listed once");
    fixture.add("q7", "n7");
    settle().await;
    assert_eq!(names(&late).unwrap(), ["p7", "q7"]);
    assert_eq!(fixture.server.open_watches(), 3);

    drop(late);
    assert_eq!(watches[5].cache().len(), 4, "its pods are removed when its drain ends");
    drop(watches);
    settle().await;
    assert_eq!(fixture.server.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn permit_of_an_ended_drain_is_used_again() {
    let fixture = fixture(1);
    let first = fixture.open("n1");
    drop(first);
    let second = fixture.open("n2");
    assert!(matches!(second.source, Source::Own { .. }));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_watch() {
    let fixture = fixture(1);
    let _watches = [fixture.open("n1"), fixture.open("n2"), fixture.open("n3")];
    settle().await;
    assert_eq!(fixture.server.open_watches(), 2);
    fixture.tasks.shut_down(Duration::from_secs(1)).await;
    assert_eq!(fixture.server.open_watches(), 0);
}

/// Shows DR-15.
#[tokio::test(start_paused = true)]
async fn node_that_joins_during_the_first_list_is_listed_on_its_own() {
    let fixture = fixture(0);
    (0..501).for_each(|n| fixture.add(&format!("p{n}"), "elsewhere"));
    // The second page takes five seconds and shows the same moment as the first. The watch opens late.
    fixture.server.faults().on(Verb::List).of("pods").skipping(1).once().delay(Duration::from_secs(5));
    fixture.server.faults().on(Verb::Watch).of("pods").once().delay(Duration::from_mins(1));
    let _first = fixture.open("n0");
    settle().await;
    fixture.add("bound-before-the-cordon", "n1");
    let second = fixture.open("n1");
    while fixture.woken().await != "machine-of-n1" {}
    assert_eq!(names(&second).unwrap(), ["bound-before-the-cordon"]);
}
