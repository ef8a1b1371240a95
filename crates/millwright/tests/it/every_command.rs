//! Runs every command for operators against one `millwright dev`, with only the variable that its banner names.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Program, run_with, text};

/// A user in a second terminal.
struct User {
    kubeconfig: String,
}

impl User {
    /// Returns the output of a command that must end with this exit code.
    fn run(&self, line: &str, code: i32) -> String {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = run_with(&arguments, &[("KUBECONFIG", &self.kubeconfig)]);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "millwright {line}: {printed}");
        printed
    }

    /// Returns the output of a command that must contain these texts.
    fn run_expecting(&self, line: &str, code: i32, decisive: &[&str]) -> String {
        let printed = self.run(line, code);
        for words in decisive {
            assert!(printed.contains(words), "millwright {line} does not print {words:?}: {printed}");
        }
        printed
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test runs on the real clock")]
    fn wait_for(&self, line: &str, words: &str) {
        let begin = Instant::now();
        while !self.run(line, 0).contains(words) {
            assert!(begin.elapsed() < Duration::from_mins(1), "millwright {line} never prints {words:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Shows OPR-23.
#[test]
fn every_command_works_on_dev() {
    let mut dev = Program::start_reading_stdout(&["dev", "--machines=2", "--boot-time=50ms"]);
    let line = dev.wait_for_line(&["export KUBECONFIG="]);
    let user = User { kubeconfig: line.split_once('=').unwrap().1.to_owned() };
    user.wait_for("status", "✓ machinedeployment/pool  2/2 ready");

    let machine = check_status(&user);
    check_explain(&user, &machine);
    check_rollout(&user);
    let folder = TempDir::new().unwrap();
    check_check_and_plan(&user, folder.path());
    assert_eq!(dev.interrupt().code(), Some(0));
    let gone = user.run("status", 1);
    assert_eq!(gone.trim_end().lines().count(), 1, "one line: {gone}");
}

/// Returns the name of a Machine.
fn check_status(user: &User) -> String {
    user.run_expecting(
        "status",
        0,
        &["✓ 2 machines Running", "2 machines: 2 healthy, 0 in progress, 0 need attention."],
    );
    user.run_expecting("status pool --unfold -o yaml", 0, &["machineDeployments:", "phase: Running"]);
    user.run_expecting("status unknown", 1, &["there is no MachineDeployment \"unknown\" in namespace \"default\""]);
    user.run_expecting("status --sideways", 2, &["--sideways"]);
    let tree: Value = serde_json::from_str(&user.run("status -o json", 0)).unwrap();
    let machines = tree.pointer("/machineDeployments/0/sets/0/machines").and_then(Value::as_array).unwrap();
    assert_eq!(machines.len(), 2, "{tree}");
    machines[0]["name"].as_str().unwrap().to_owned()
}

fn check_explain(user: &User, machine: &str) {
    let fine = "healthy: up to date";
    user.run_expecting("explain machinedeployment/pool", 0, &["machinedeployment/pool in namespace default", fine]);
    user.run_expecting(&format!("explain machine/{machine}"), 0, &["phase: Running", fine]);
    let set = machine.rsplit_once('-').unwrap().0;
    user.run_expecting(&format!("explain machineset {set}"), 0, &[fine]);
    let explanation: Value = serde_json::from_str(&user.run("explain mcd/pool -o json", 0)).unwrap();
    assert!(explanation["verdict"]["standing"].is_string(), "{explanation}");
    user.run_expecting("explain machine/unknown", 1, &["there is no machine \"unknown\" in namespace \"default\""]);
}

fn check_rollout(user: &User) {
    let done = "machinedeployment \"pool\" successfully rolled out\n";
    user.run_expecting("rollout status pool", 0, &[done]);
    user.run_expecting("rollout undo pool", 1, &["no rollout history found"]);
    user.run_expecting("rollout restart pool", 0, &["machinedeployment.machine.sapcloud.io/pool restarted\n"]);
    user.run_expecting("rollout status pool --timeout=1ms", 1, &["timed out"]);
    // The Leases of dev show that a controller runs.
    let moving = user.run_expecting("status", 0, &["… machinedeployment/pool", "rollout      ["]);
    assert!(!moving.contains('✗'), "{moving}");
    user.run_expecting("rollout status machinedeployment/pool --timeout=60s", 0, &[done]);
    user.run_expecting("rollout history pool", 0, &["\n1 ", "\n2 (current)"]);
    user.run_expecting("rollout history pool --revision=1", 0, &["revision: 1\n", "class: small\n"]);
    user.run_expecting("rollout pause pool", 0, &["/pool paused\n"]);
    user.run_expecting("rollout pause pool", 1, &["is already paused"]);
    user.run_expecting("explain mcd/pool", 0, &["the MachineDeployment is paused"]);
    user.run_expecting("rollout undo pool", 1, &["resume it first"]);
    user.run_expecting("rollout resume pool", 0, &["/pool resumed\n"]);
    user.run_expecting("rollout undo pool --to-revision=1", 0, &["/pool rolled back to revision 1\n"]);
    user.run_expecting("rollout status pool --timeout=60s", 0, &[done]);
    user.run_expecting("rollout history pool", 0, &["\n3 (current)"]);
}

fn check_check_and_plan(user: &User, folder: &Path) {
    user.run_expecting("check --account=none", 0, &["No mistakes found.\n"]);
    let file = folder.join("changed.yaml");
    let change = |class: &str| {
        let spec = format!("spec: {{ template: {{ spec: {{ class: {{ name: {class} }} }} }} }}");
        let text = format!(
            "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineDeployment\nmetadata: {{ name: pool }}\n{spec}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    change("large");
    let decisive =
        ["2 created, 2 deleted; 2 before, 2 after", "peak        3 machines", "Nothing was written to the cluster.\n"];
    user.run_expecting(&format!("plan -f {}", file.display()), 0, &decisive);
    user.run_expecting("rollout history pool", 0, &["\n3 (current)"]);
    user.run_expecting(&format!("plan -f {}/missing.yaml", folder.display()), 1, &["missing.yaml"]);
    change("nowhere");
    let wrong = ["spec.template.spec.class.name", "MachineClass \"nowhere\" does not exist"];
    let kubeconfig = &user.kubeconfig;
    user.run_expecting(&format!("check -f {} --kubeconfig {kubeconfig}", file.display()), 1, &wrong);
}
