//! The conditions that kubelets report for a Node that joins, and for a pod that is created and deleted, in the order
//! in which a watch shows them. Real kubelets (`real-nodes`) and the simulated ones of the virtual cloud (`pool`) must
//! report the same, so that results with one apply to the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep};

use crate::test_bed::{Process, TestBed};

const JOIN_CONDITIONS: [&str; 2] = ["False KubeletNotReady", "True KubeletReady"];
const DELETED: &str = ", being deleted";
/// Its containers stop by themselves within the grace period.
const POD_PHASES: [&str; 4] = ["Pending", "Running", "Running, being deleted", "Succeeded, being deleted"];

const NODES: &str = r#"{.metadata.name}|{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}{"\n"}"#;
const PODS: &str = r#"{.metadata.name}|{.status.phase}|{.metadata.deletionTimestamp}{"\n"}"#;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Two watches that record what they receive. They end when this value is dropped.
pub(super) struct Recording {
    nodes: Watch,
    pods: Watch,
}

struct Watch {
    _process: Process,
    output: PathBuf,
}

impl Recording {
    /// Starts before the first object exists.
    pub(super) fn start(test_bed: &TestBed<'_>) -> anyhow::Result<Self> {
        let watch = |kind: &str, template: &str| {
            let template = format!("--output=jsonpath={template}");
            let (process, output) =
                test_bed.start_kubectl(&format!("words-of-{kind}"), &["get", kind, "--watch", &template])?;
            anyhow::Ok(Watch { _process: process, output })
        };
        Ok(Self { nodes: watch("nodes", NODES)?, pods: watch("pods", PODS)? })
    }

    /// Checks that every Node joined like a real one.
    pub(super) fn nodes_joined(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.words(str::to_owned)?;
        ensure!(!nodes.is_empty(), "no Node was recorded");
        for (node, words) in nodes {
            ensure!(
                words.starts_with(&JOIN_CONDITIONS.map(str::to_owned)),
                "Node {node} reported {words:?} instead of {JOIN_CONDITIONS:?} first"
            );
        }
        Ok(())
    }

    /// Checks that every deleted pod was reported like on a real node. The watch may be behind other clients, so the
    /// check is retried.
    pub(super) async fn pods_came_and_went(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            match self.judge_pods() {
                Err(_) if begin.elapsed() < TIMEOUT => sleep(Duration::from_millis(100)).await,
                judged => return judged,
            }
        }
    }

    fn judge_pods(&self) -> anyhow::Result<()> {
        let mut pods = self.pods.words(|said| match said.split_once('|') {
            Some((phase, deleted)) if !deleted.is_empty() => format!("{phase}{DELETED}"),
            Some((phase, _)) => phase.to_owned(),
            None => said.to_owned(),
        })?;
        pods.retain(|_, words| words.iter().any(|word| word.ends_with(DELETED)));
        ensure!(!pods.is_empty(), "no deletion of a pod was recorded");
        for (pod, words) in pods {
            ensure!(words == POD_PHASES, "pod {pod} reported {words:?} instead of {POD_PHASES:?}");
        }
        Ok(())
    }
}

impl Watch {
    /// Returns the reports of each object, without repetitions.
    fn words(&self, word: impl Fn(&str) -> String) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let lines = fs::read_to_string(&self.output).context("failed to read the output of a watch")?;
        let mut all = BTreeMap::<String, Vec<String>>::new();
        for (name, said) in lines.lines().filter_map(|line| line.split_once('|')) {
            let (words, word) = (all.entry(name.to_owned()).or_default(), word(said));
            if words.last() != Some(&word) {
                words.push(word);
            }
        }
        Ok(all)
    }
}
