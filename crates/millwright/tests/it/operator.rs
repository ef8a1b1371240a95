//! The commands of an operator, as a person types them, on the cluster in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Program, run, text};

/// A pool of three machines that run, for as long as the value lives.
pub(crate) struct Pool {
    _dev: Program,
    kubeconfig: PathBuf,
}

impl Pool {
    pub(crate) fn start() -> Self {
        let mut dev = Program::start_talking(&["dev"]);
        let line = dev.says(&["export KUBECONFIG="]);
        let pool = Self { kubeconfig: PathBuf::from(line.split_once('=').unwrap().1), _dev: dev };
        // The deployment counts a moment after its machines run.
        pool.until(&["status"], |said| said.contains("3/3 ready") && said.contains("3 machines: 3 fine"));
        pool
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// What a command prints, and whether it succeeded.
    fn say(&self, arguments: &[&str]) -> (bool, String) {
        let kubeconfig = self.kubeconfig.to_string_lossy();
        let output = run(&[arguments, &["--kubeconfig", &kubeconfig]].concat());
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let (success, said) = self.say(arguments);
        assert!(success, "{arguments:?}: {said}");
        said
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let (success, said) = self.say(arguments);
        assert!(!success, "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
        said
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test runs on the real clock")]
    fn until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        for _ in 0..240 {
            let (_, said) = self.say(arguments);
            if holds(&said) {
                return said;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        panic!("waited a minute in vain: {}", self.say(arguments).1);
    }
}

/// Shows OPR-5.
#[test]
fn a_pool_is_shown_rolled_taken_back_and_explained() {
    let pool = Pool::start();
    let tree = pool.succeeds(&["status"]);
    assert!(tree.contains("✓ machinedeployment/pool  3/3 ready") && tree.contains("✓ 3 machines Running"), "{tree}");
    assert!(!tree.contains('\x1b'), "no colours into a pipe: {tree}");
    let read: Value = serde_json::from_str(&pool.succeeds(&["status", "pool", "-o", "json"])).unwrap();
    let machines = &read["machineDeployments"][0]["sets"][0]["machines"];
    assert_eq!(machines.as_array().unwrap().len(), 3, "{read}");
    let machine = machines[0]["name"].as_str().unwrap();
    let told = pool.succeeds(&["explain", &format!("machine/{machine}")]);
    assert!(told.contains("fine: everything is as it should be"), "{told}");

    // A template that nobody wants, and the way back.
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
    assert!(pool.succeeds(&["explain", "mcd/pool"]).contains("it is paused"));
    pool.succeeds(&["rollout", "resume", "pool"]);
}

#[test]
fn whoever_watches_through_a_pipe_is_told_when_something_changes() {
    let pool = Pool::start();
    let kubeconfig = pool.kubeconfig.to_string_lossy();
    let mut watch = Program::start_talking(&["status", "pool", "-w", "--kubeconfig", &kubeconfig]);
    watch.says(&["3 machines: 3 fine"]);
    pool.succeeds(&["rollout", "pause", "pool"]);
    watch.says(&["machinedeployment/pool", "paused"]);
    let pictures = watch.heard_so_far().iter().filter(|line| line.contains("machinedeployment/pool")).count();
    assert!(pictures <= 3, "it is printed again and again: {:?}", watch.heard_so_far());
}

/// Shows OPR-8.
#[test]
fn what_cannot_be_answered_is_told_in_one_sentence() {
    let pool = Pool::start();
    assert!(
        pool.fails(&["explain", "machine/nobody"]).contains("there is no machine \"nobody\" in namespace \"default\"")
    );
    assert!(pool.fails(&["explain", "nobody"]).contains("names no kind"));
    assert!(pool.fails(&["status", "nobody"]).contains("there is no MachineDeployment \"nobody\""));
    assert!(pool.fails(&["rollout", "status", "nobody"]).contains("there is no MachineDeployment \"nobody\""));
    assert!(pool.fails(&["rollout", "undo", "pool"]).contains("no rollout history found"));
    let missing = run(&["status", "--kubeconfig", "/nowhere/config"]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("--kubeconfig"), "{}", text(&missing.stderr));
}

/// Shows OPR-9.
#[test]
fn mistakes_are_found_in_files_without_a_cluster_and_in_a_cluster() {
    let pool = Pool::start();
    assert_eq!(pool.succeeds(&["check", "--account=none"]), "Nothing is wrong.\n");
    let unknown = pool.succeeds(&["check"]);
    assert!(
        unknown.starts_with("not checked: what the controllers may do: the leader's pod \"millwright-dev\""),
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
    let said = text(&alone.stdout);
    assert!(said.contains("spec.minReadySeconds") && said.contains("did you mean drainTimeout?"), "{said}");
    assert!(
        said.contains("not checked: whether MachineClass \"nowhere\" exists") && said.contains("2 mistakes found"),
        "{said}"
    );
    let (success, over) = pool.say(&["check", "-f", &file]);
    assert!(!success && over.contains("MachineClass \"nowhere\" does not exist"), "{over}");
    let odd = folder.path().join("odd.yaml");
    std::fs::write(&odd, "password: [hunter2").unwrap();
    let output = run(&["check", "-f", &odd.to_string_lossy()]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("is no YAML") && !said.contains("hunter2"), "{said}");
}

#[test]
fn shells_and_man_are_told_of_every_command() {
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
fn a_plan_tells_what_would_happen_and_changes_nothing() {
    let pool = Pool::start();
    let folder = tempfile::TempDir::new().unwrap();
    let (file, drawing) = (folder.path().join("changed.yaml"), folder.path().join("plan.svg"));
    let changed = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineDeployment\nmetadata: { name: pool }\n\
                   spec: { template: { spec: { class: { name: large } } } }\n";
    std::fs::write(&file, changed).unwrap();
    let before = pool.succeeds(&["status", "--unfold"]);
    let (file, drawing) = (file.to_string_lossy(), drawing.to_string_lossy());
    let told = pool.succeeds(&["plan", "-f", &file, "--quota", "10", "--svg", &drawing]);
    assert!(told.contains("3 made, 3 deleted; 3 before, 3 after"), "{told}");
    assert!(told.contains("4 machines at most, 4 VMs of 10 that there is room for"), "{told}");
    assert!(told.contains("median of 3 machines") && told.ends_with("Nothing was written to the cluster.\n"), "{told}");
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
