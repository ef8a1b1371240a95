//! Every command of an operator on one `millwright dev`, in the order in which somebody tries them, with nothing but the variable that its banner names.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Program, run_with, text};

/// Somebody in a second terminal.
struct Person {
    kubeconfig: String,
}

impl Person {
    /// What a command prints when it ends with this exit code.
    fn types(&self, line: &str, code: i32) -> String {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = run_with(&arguments, &[("KUBECONFIG", &self.kubeconfig)]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "millwright {line}: {said}");
        said
    }

    /// The same, and all of these are in it.
    fn reads(&self, line: &str, code: i32, decisive: &[&str]) -> String {
        let said = self.types(line, code);
        for words in decisive {
            assert!(said.contains(words), "millwright {line} does not say {words:?}: {said}");
        }
        said
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test runs on the real clock")]
    fn waits_for(&self, line: &str, words: &str) {
        let begin = Instant::now();
        while !self.types(line, 0).contains(words) {
            assert!(begin.elapsed() < Duration::from_mins(1), "millwright {line} never says {words:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Shows OPR-23.
#[test]
fn every_command_does_on_dev_what_its_page_says() {
    let mut dev = Program::start_talking(&["dev", "--machines=2", "--boot-time=50ms"]);
    let line = dev.says(&["export KUBECONFIG="]);
    let person = Person { kubeconfig: line.split_once('=').unwrap().1.to_owned() };
    person.waits_for("status", "✓ machinedeployment/pool  2/2 ready");

    let machine = looks(&person);
    explains(&person, &machine);
    rolls(&person);
    let folder = TempDir::new().unwrap();
    asks_before(&person, folder.path());
    assert_eq!(dev.interrupt().code(), Some(0));
    let gone = person.types("status", 1);
    assert_eq!(gone.trim_end().lines().count(), 1, "one sentence: {gone}");
}

/// The name of a machine.
fn looks(person: &Person) -> String {
    person.reads("status", 0, &["✓ 2 machines Running", "2 machines: 2 fine, 0 on their way, 0 in trouble."]);
    person.reads("status pool --unfold -o yaml", 0, &["machineDeployments:", "phase: Running"]);
    person.reads("status nobody", 1, &["there is no MachineDeployment \"nobody\" in namespace \"default\""]);
    person.reads("status --sideways", 2, &["--sideways"]);
    let tree: Value = serde_json::from_str(&person.types("status -o json", 0)).unwrap();
    let machines = tree.pointer("/machineDeployments/0/sets/0/machines").and_then(Value::as_array).unwrap();
    assert_eq!(machines.len(), 2, "{tree}");
    machines[0]["name"].as_str().unwrap().to_owned()
}

fn explains(person: &Person, machine: &str) {
    let fine = "fine: everything is as it should be";
    person.reads("explain machinedeployment/pool", 0, &["machinedeployment/pool in namespace default", fine]);
    person.reads(&format!("explain machine/{machine}"), 0, &["phase: Running", fine]);
    let set = machine.rsplit_once('-').unwrap().0;
    person.reads(&format!("explain machineset {set}"), 0, &[fine]);
    let told: Value = serde_json::from_str(&person.types("explain mcd/pool -o json", 0)).unwrap();
    assert!(told["verdict"]["standing"].is_string(), "{told}");
    person.reads("explain machine/nobody", 1, &["there is no machine \"nobody\" in namespace \"default\""]);
}

fn rolls(person: &Person) {
    let done = "machinedeployment \"pool\" successfully rolled out\n";
    person.reads("rollout status pool", 0, &[done]);
    person.reads("rollout undo pool", 1, &["no rollout history found"]);
    person.reads("rollout restart pool", 0, &["machinedeployment.machine.sapcloud.io/pool restarted\n"]);
    person.reads("rollout status pool --timeout=1ms", 1, &["timed out"]);
    // Its leases say that somebody acts.
    let moving = person.reads("status", 0, &["… machinedeployment/pool", "rollout ["]);
    assert!(!moving.contains('✗'), "{moving}");
    person.reads("rollout status machinedeployment/pool --timeout=60s", 0, &[done]);
    person.reads("rollout history pool", 0, &["\n1 ", "\n2 (current)"]);
    person.reads("rollout history pool --revision=1", 0, &["revision: 1\n", "class: small\n"]);
    person.reads("rollout pause pool", 0, &["/pool paused\n"]);
    person.reads("rollout pause pool", 1, &["is already paused"]);
    person.reads("explain mcd/pool", 0, &["it is paused"]);
    person.reads("rollout undo pool", 1, &["resume it first"]);
    person.reads("rollout resume pool", 0, &["/pool resumed\n"]);
    person.reads("rollout undo pool --to-revision=1", 0, &["/pool rolled back to revision 1\n"]);
    person.reads("rollout status pool --timeout=60s", 0, &[done]);
    person.reads("rollout history pool", 0, &["\n3 (current)"]);
}

fn asks_before(person: &Person, folder: &Path) {
    person.reads("check --account=none", 0, &["Nothing is wrong.\n"]);
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
        ["2 made, 2 deleted; 2 before, 2 after", "3 machines at most", "Nothing was written to the cluster.\n"];
    person.reads(&format!("plan -f {}", file.display()), 0, &decisive);
    person.reads("rollout history pool", 0, &["\n3 (current)"]);
    person.reads(&format!("plan -f {}/missing.yaml", folder.display()), 1, &["missing.yaml"]);
    change("nowhere");
    let wrong = ["spec.template.spec.class.name", "MachineClass \"nowhere\" does not exist"];
    let kubeconfig = &person.kubeconfig;
    person.reads(&format!("check -f {} --kubeconfig {kubeconfig}", file.display()), 1, &wrong);
}
