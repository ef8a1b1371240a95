//! Tests of the commands for operators on the cluster in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Program, run, text};

/// A pool of three Running Machines. It stops when the value is dropped.
pub(crate) struct Pool {
    _dev: Program,
    kubeconfig: PathBuf,
}

impl Pool {
    pub(crate) fn start() -> Self {
        let mut dev = Program::start_reading_stdout(&["dev"]);
        let line = dev.wait_for_line(&["export KUBECONFIG="]);
        let pool = Self { kubeconfig: PathBuf::from(line.split_once('=').unwrap().1), _dev: dev };
        // The status of the MachineDeployment follows its Machines with a delay.
        pool.until(&["status"], |printed| printed.contains("3/3 ready") && printed.contains("3 machines: 3 healthy"));
        pool
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns whether a command succeeded, and its output.
    fn say(&self, arguments: &[&str]) -> (bool, String) {
        let kubeconfig = self.kubeconfig.to_string_lossy();
        let output = run(&[arguments, &["--kubeconfig", &kubeconfig]].concat());
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let (success, printed) = self.say(arguments);
        assert!(success, "{arguments:?}: {printed}");
        printed
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let (success, printed) = self.say(arguments);
        assert!(!success, "{arguments:?}: {printed}");
        assert_eq!(printed.trim_end().lines().count(), 1, "one line: {printed}");
        printed
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test runs on the real clock")]
    fn until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        for _ in 0..240 {
            let (_, printed) = self.say(arguments);
            if holds(&printed) {
                return printed;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        panic!("timed out after a minute: {}", self.say(arguments).1);
    }
}

/// Shows OPR-5.
#[test]
fn pool_is_shown_rolled_out_rolled_back_and_explained() {
    let pool = Pool::start();
    let tree = pool.succeeds(&["status"]);
    assert!(tree.contains("✓ machinedeployment/pool  3/3 ready") && tree.contains("✓ 3 machines Running"), "{tree}");
    assert!(!tree.contains('\x1b'), "no colours into a pipe: {tree}");
    let read: Value = serde_json::from_str(&pool.succeeds(&["status", "pool", "-o", "json"])).unwrap();
    let machines = &read["machineDeployments"][0]["sets"][0]["machines"];
    assert_eq!(machines.as_array().unwrap().len(), 3, "{read}");
    let machine = machines[0]["name"].as_str().unwrap();
    let explanation = pool.succeeds(&["explain", &format!("machine/{machine}")]);
    assert!(explanation.contains("healthy: up to date"), "{explanation}");

    // Roll out another template and roll it back.
    let restarted = pool.succeeds(&["rollout", "restart", "machinedeployment/pool"]);
    assert_eq!(restarted, "machinedeployment.machine.sapcloud.io/pool restarted\n");
    let done = pool.succeeds(&["rollout", "status", "pool", "--timeout", "60s"]);
    assert!(done.ends_with("machinedeployment \"pool\" successfully rolled out\n"), "{done}");
    let history = pool.succeeds(&["rollout", "history", "pool"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 (current)"), "{history}");
    let back = pool.succeeds(&["rollout", "undo", "pool"]);
    assert_eq!(back, "machinedeployment.machine.sapcloud.io/pool rolled back to revision 1\n");
    pool.succeeds(&["rollout", "status", "pool", "--timeout", "60s"]);
    assert!(pool.succeeds(&["rollout", "history", "pool"]).contains("\n3 (current)"));

    pool.succeeds(&["rollout", "pause", "pool"]);
    assert!(pool.fails(&["rollout", "pause", "pool"]).contains("is already paused"));
    assert!(pool.fails(&["rollout", "undo", "pool"]).contains("resume it first"));
    assert!(pool.succeeds(&["explain", "mcd/pool"]).contains("the MachineDeployment is paused"));
    pool.succeeds(&["rollout", "resume", "pool"]);
}

#[test]
fn watch_prints_changes_only_into_a_pipe() {
    let pool = Pool::start();
    let kubeconfig = pool.kubeconfig.to_string_lossy();
    let mut watch = Program::start_reading_stdout(&["status", "pool", "-w", "--kubeconfig", &kubeconfig]);
    watch.wait_for_line(&["3 machines: 3 healthy"]);
    pool.succeeds(&["rollout", "pause", "pool"]);
    watch.wait_for_line(&["machinedeployment/pool", "paused"]);
    let pictures = watch.lines_so_far().iter().filter(|line| line.contains("machinedeployment/pool")).count();
    assert!(pictures <= 3, "the output is repeated without a change: {:?}", watch.lines_so_far());
}

/// Shows OPR-8.
#[test]
fn errors_are_one_line() {
    let pool = Pool::start();
    assert!(
        pool.fails(&["explain", "machine/unknown"])
            .contains("there is no machine \"unknown\" in namespace \"default\"")
    );
    assert!(pool.fails(&["explain", "unknown"]).contains("has no kind"));
    assert!(pool.fails(&["status", "unknown"]).contains("there is no MachineDeployment \"unknown\""));
    assert!(pool.fails(&["rollout", "status", "unknown"]).contains("there is no MachineDeployment \"unknown\""));
    assert!(pool.fails(&["rollout", "undo", "pool"]).contains("no rollout history found"));
    let missing = run(&["status", "--kubeconfig", "/nowhere/config"]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("--kubeconfig"), "{}", text(&missing.stderr));
}

/// Shows OPR-9.
#[test]
fn check_finds_mistakes_in_files_and_in_a_cluster() {
    let pool = Pool::start();
    assert_eq!(pool.succeeds(&["check", "--account=none"]), "No mistakes found.\n");
    let unknown = pool.succeeds(&["check"]);
    assert!(
        unknown.starts_with(
            "not checked: permissions of the controllers: failed to get the leader's pod \"millwright-dev\""
        ),
        "{unknown}"
    );
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("pool.yaml");
    let manifest = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineDeployment\nmetadata: { name: new }\nspec:\n  replicas: 2\n  \
        minReadySeconds: 5\n  selector: { matchLabels: { name: new } }\n  strategy: { type: Recreate }\n  template:\n    metadata: { labels: { name: new } }\n    \
        spec: { class: { kind: MachineClass, name: nowhere }, drainTimout: 1h }\n---\n";
    std::fs::write(&path, manifest).unwrap();
    let file = path.to_string_lossy();
    let alone = run(&["check", "-f", &file]);
    assert_eq!(alone.status.code(), Some(1));
    let printed = text(&alone.stdout);
    assert!(printed.contains("spec.minReadySeconds") && printed.contains("did you mean drainTimeout?"), "{printed}");
    assert!(
        printed.contains("not checked: whether MachineClass \"nowhere\" exists")
            && printed.contains("2 mistakes found"),
        "{printed}"
    );
    let (success, over) = pool.say(&["check", "-f", &file]);
    assert!(!success && over.contains("MachineClass \"nowhere\" does not exist"), "{over}");
    let odd = folder.path().join("odd.yaml");
    std::fs::write(&odd, "password: [hunter2").unwrap();
    let output = run(&["check", "-f", &odd.to_string_lossy()]);
    let printed = text(&output.stderr);
    assert!(
        !output.status.success() && printed.contains("is not valid YAML") && !printed.contains("hunter2"),
        "{printed}"
    );
}

#[test]
fn completion_and_manual_pages_contain_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&run(&["completion", shell]).stdout);
        assert!(script.contains("explain") && script.contains("target-kubeconfig"), "{shell}: {script}");
    }
    let folder = tempfile::TempDir::new().unwrap();
    assert!(run(&["man", "--dir", &folder.path().to_string_lossy()]).status.success());
    let page = std::fs::read_to_string(folder.path().join("millwright-rollout-undo.1")).unwrap();
    assert!(page.contains("to\\-revision"), "{page}");
}

/// Shows OPR-14.
#[test]
fn plan_shows_the_effect_and_changes_nothing() {
    let pool = Pool::start();
    let folder = tempfile::TempDir::new().unwrap();
    let (file, drawing) = (folder.path().join("changed.yaml"), folder.path().join("plan.svg"));
    let changed = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineDeployment\nmetadata: { name: pool }\n\
                   spec: { template: { spec: { class: { name: large } } } }\n";
    std::fs::write(&file, changed).unwrap();
    let before = pool.succeeds(&["status", "--unfold"]);
    let (file, drawing) = (file.to_string_lossy(), drawing.to_string_lossy());
    let plan = pool.succeeds(&["plan", "-f", &file, "--quota", "10", "--svg", &drawing]);
    assert!(plan.contains("3 created, 3 deleted; 3 before, 3 after"), "{plan}");
    assert!(plan.contains("4 machines, 4 VMs (quota 10)"), "{plan}");
    assert!(plan.contains("median of 3 machines") && plan.ends_with("Nothing was written to the cluster.\n"), "{plan}");
    assert!(std::fs::read_to_string(&*drawing).unwrap().starts_with("<svg "));
    let read: Value = serde_json::from_str(&pool.succeeds(&["plan", "-f", &file, "-o", "json"])).unwrap();
    assert_eq!((&read["machinesAtOnce"], &read["finished"]), (&4.into(), &true.into()), "{read}");
    let names = |tree: &str| -> Vec<String> {
        tree.lines().filter_map(|line| line.split("machine/").nth(1)?.split(' ').next().map(str::to_owned)).collect()
    };
    assert_eq!(names(&pool.succeeds(&["status", "--unfold"])), names(&before));
    let refused = pool.fails(&["plan", "-f", &file, "-f", "/nowhere.yaml"]);
    assert!(refused.contains("/nowhere.yaml"), "{refused}");
}
