//! What kubelets say of a node that joins and of a pod that comes and goes, in the order in which a watch shows it. Real kubelets
//! (`real-nodes`) and the simulated ones of the virtual cloud (`pool`) are held to the same words, so that what is shown with
//! the one is true of the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep};

use crate::test_bed::{Process, TestBed};

const JOINS: [&str; 2] = ["False KubeletNotReady", "True KubeletReady"];
const TOLD_TO_GO: &str = ", told to go";
/// Its containers end by themselves and in time.
const COMES_AND_GOES: [&str; 4] = ["Pending", "Running", "Running, told to go", "Succeeded, told to go"];

const NODES: &str = r#"{.metadata.name}|{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}{"\n"}"#;
const PODS: &str = r#"{.metadata.name}|{.status.phase}|{.metadata.deletionTimestamp}{"\n"}"#;

const PATIENCE: Duration = Duration::from_secs(10);

/// Two watches that write down what they see. They end with it.
pub(super) struct Recording {
    nodes: Watch,
    pods: Watch,
}

struct Watch {
    _process: Process,
    output: PathBuf,
}

impl Recording {
    /// Begins before there is anything to be seen.
    pub(super) fn start(test_bed: &TestBed<'_>) -> anyhow::Result<Self> {
        let watch = |kind: &str, template: &str| {
            let template = format!("--output=jsonpath={template}");
            let (process, output) =
                test_bed.start_kubectl(&format!("words-of-{kind}"), &["get", kind, "--watch", &template])?;
            anyhow::Ok(Watch { _process: process, output })
        };
        Ok(Self { nodes: watch("nodes", NODES)?, pods: watch("pods", PODS)? })
    }

    /// Whether every node joined as real ones do.
    pub(super) fn nodes_joined(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.words(str::to_owned)?;
        ensure!(!nodes.is_empty(), "no node was seen");
        for (node, words) in nodes {
            ensure!(words.starts_with(&JOINS.map(str::to_owned)), "{node} said {words:?}, and not {JOINS:?} first");
        }
        Ok(())
    }

    /// Whether every pod that was told to go came and went as on real nodes. Whoever saw them go may have been told before the
    /// watch was.
    pub(super) async fn pods_came_and_went(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            match self.judge_pods() {
                Err(_) if begin.elapsed() < PATIENCE => sleep(Duration::from_millis(100)).await,
                judged => return judged,
            }
        }
    }

    fn judge_pods(&self) -> anyhow::Result<()> {
        let mut pods = self.pods.words(|said| match said.split_once('|') {
            Some((phase, deleted)) if !deleted.is_empty() => format!("{phase}{TOLD_TO_GO}"),
            Some((phase, _)) => phase.to_owned(),
            None => said.to_owned(),
        })?;
        pods.retain(|_, words| words.iter().any(|word| word.ends_with(TOLD_TO_GO)));
        ensure!(!pods.is_empty(), "no pod was seen to go");
        for (pod, words) in pods {
            ensure!(words == COMES_AND_GOES, "of {pod} was said {words:?}, and not {COMES_AND_GOES:?}");
        }
        Ok(())
    }
}

impl Watch {
    /// What was said of each object, without repetitions.
    fn words(&self, word: impl Fn(&str) -> String) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let lines = fs::read_to_string(&self.output).context("failed to read what a watch has shown")?;
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
