//! MCM's command line, held against ours: every flag with its default, every spelling, and the lines that production runs.

use std::ffi::OsString;

use clap::error::ErrorKind;
use rstest::rstest;

use super::definition::{HEADINGS, SERVERS, default_of, definition};
use super::pflag::is_boolean;
use super::{Asked, BuiltIn, Choice, Command, NEW, Servers, read};

/// Flags of both processes: the manager's default and the machine controller's.
const BOTH: [(&str, &str, &str); 22] = [
    ("port", "10258", "10259"),
    ("address", "0.0.0.0", "0.0.0.0"),
    ("cloud-provider", "", ""),
    ("concurrent-syncs", "10", "50"),
    ("min-resync-period", "12h", "12h"),
    ("profiling", "false", "false"),
    ("contention-profiling", "false", "false"),
    ("target-kubeconfig", "", ""),
    ("control-kubeconfig", "", ""),
    ("namespace", "default", "default"),
    ("kube-api-content-type", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"),
    ("kube-api-qps", "20", "20"),
    ("kube-api-burst", "30", "30"),
    ("controller-start-interval", "0s", "0s"),
    ("leader-elect", "true", "true"),
    ("leader-elect-lease-duration", "15s", "15s"),
    ("leader-elect-renew-deadline", "10s", "10s"),
    ("leader-elect-retry-period", "2s", "2s"),
    ("leader-elect-resource-lock", "leases", "leases"),
    ("v", "0", "0"),
    ("vmodule", "", ""),
    ("log-flush-frequency", "5s", "5s"),
];

const MANAGER: [(&str, &str); 4] = [
    ("safety-up", "2"),
    ("safety-down", "1"),
    ("machine-safety-overshooting-period", "1m"),
    ("autoscaler-scaledown-annotation-during-rollout", "true"),
];

const MACHINE: [(&str, &str); 14] = [
    ("machine-creation-timeout", "20m"),
    ("machine-health-timeout", "10m"),
    ("machine-drain-timeout", "2h"),
    ("machine-inplace-update-timeout", "20m"),
    ("machine-max-evict-retries", "360"),
    ("machine-pv-detach-timeout", "2m"),
    ("machine-pv-reattach-timeout", "90s"),
    ("machine-preserve-timeout", "96h"),
    ("machine-safety-apiserver-statuscheck-timeout", "30s"),
    ("machine-safety-apiserver-statuscheck-period", "1m"),
    ("machine-safety-orphan-vms-period", "15m"),
    ("node-conditions", "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"),
    ("bootstrap-token-auth-extra-groups", ""),
    ("resource-exhausted-retry", "10m"),
];

/// MCM's flags of a command of ours, with their defaults; `run` has those of both.
fn expected(command: &str) -> Vec<(&'static str, &'static str)> {
    let both = BOTH.iter().map(|(name, manager, machine)| match (command, *name) {
        ("manager", name) => (name, *manager),
        ("run", "concurrent-syncs") => ("concurrent-syncs", ""), // each component keeps its own
        (_, name) => (name, *machine),
    });
    let own = [("manager", &MANAGER[..]), ("machine-controller", &MACHINE[..])];
    let own =
        own.into_iter().filter(|(component, _)| [component, &"run"].contains(&&command)).flat_map(|(_, flags)| flags);
    let mut all: Vec<_> = both.chain(own.copied()).collect();
    all.sort_unstable();
    all
}

fn line(words: &[&str]) -> Result<Asked, clap::Error> {
    read(words.iter().map(OsString::from), &[BuiltIn { name: "virtual", choice: Choice::OnRequest }])
}

fn servers(words: &[&str]) -> Servers {
    match line(words).unwrap().command {
        Command::Manager(flags) => (*flags).into(),
        Command::MachineController(flags) => (*flags).into(),
        Command::Run(flags) => (*flags).into(),
        Command::Crds(options) => panic!("expected a server, got {options:?}"),
        Command::Driver(other) => panic!("expected a server, got {other:?}"),
        #[cfg(feature = "inspect")]
        Command::Operator(other) => panic!("expected a server, got {other:?}"),
        #[cfg(feature = "dev")]
        Command::Dev(other) => panic!("expected a server, got {other:?}"),
    }
}

fn run(flags: &[&str]) -> Servers {
    servers(&[&["millwright", "run"], flags].concat())
}

/// Shows FLG-1.
#[rstest]
fn every_flag_of_the_reference_is_there_with_its_default(
    #[values("manager", "machine-controller", "run")] command: &str,
) {
    let all = definition();
    let mut found: Vec<_> = all
        .find_subcommand(command)
        .unwrap()
        .get_arguments()
        .filter(|arg| arg.get_help_heading() != Some(NEW))
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), default_of(arg).unwrap_or_default())))
        .collect();
    found.sort_unstable();
    let expected: Vec<_> = expected(command).into_iter().map(|(n, d)| (n.to_owned(), d.to_owned())).collect();
    assert_eq!(found, expected);
}

/// Shows FLG-10.
#[test]
fn every_flag_stands_under_a_heading_and_says_what_it_is_for() {
    let all = definition();
    for (command, _) in SERVERS {
        for arg in all.find_subcommand(command).unwrap().get_arguments() {
            let heading = arg.get_help_heading().unwrap_or_default();
            assert!(HEADINGS.contains(&heading), "{}: {heading:?}", arg.get_id());
            assert!(arg.get_help().is_some_and(|help| !help.to_string().is_empty()), "{}", arg.get_id());
        }
    }
}

/// Shows FLG-2.
#[test]
fn the_manager_that_gardener_starts_is_understood() {
    let asked = line(&[
        "./machine-controller-manager",
        "--control-kubeconfig=inClusterConfig",
        "--machine-safety-overshooting-period=1m",
        "--namespace=shoot--foo--bar",
        "--port=10258",
        "--safety-up=2",
        "--safety-down=1",
        "--target-kubeconfig=/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig",
        "--concurrent-syncs=30",
        "--kube-api-qps=150",
        "--kube-api-burst=200",
        "--v=3",
    ])
    .unwrap();
    assert_eq!(asked.complaints, [""; 0]);
    let Command::Manager(flags) = asked.command else { panic!("{:?}", asked.command) };
    let servers = Servers::from(*flags);
    let component = servers.manager.as_ref().unwrap();
    assert!(servers.machine.is_none());
    assert_eq!((component.listen.to_string().as_str(), component.workers), ("0.0.0.0:10258", 30));
    assert_eq!(servers.common.clusters.limit(), (150.0, 200));
    assert_eq!(servers.common.clusters.namespace, "shoot--foo--bar");
    assert_eq!(servers.common.clusters.control_kubeconfig, "inClusterConfig");
    assert_eq!(servers.common.log.verbosity, 3);
    assert_eq!(servers.policy(), planner::Policy::default());
}

/// Shows FLG-2.
#[rstest]
fn the_machine_controller_that_gardener_starts_is_understood(
    #[values("--target-kubeconfig=none", "--target-kubeconfig=/var/run/kubeconfig")] target: &str,
) {
    let asked = line(&[
        "/machine-controller",
        "--control-kubeconfig=inClusterConfig",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--machine-creation-timeout=20m",
        "--machine-drain-timeout=2h",
        "--machine-health-timeout=10m",
        "--machine-safety-apiserver-statuscheck-timeout=30s",
        "--machine-safety-apiserver-statuscheck-period=1m",
        "--machine-safety-orphan-vms-period=30m",
        "--namespace=shoot--foo--bar",
        "--port=10259",
        target,
        "--v=3",
        // A provider's binary has its cloud built in; to ours somebody has to say where it is (docs/migration.md).
        "--driver-endpoint=unix:/run/driver/driver.sock",
    ])
    .unwrap();
    assert_eq!(asked.complaints, [""; 0]);
    let Command::MachineController(flags) = asked.command else { panic!("{:?}", asked.command) };
    let servers = Servers::from(*flags);
    let component = servers.machine.as_ref().unwrap();
    assert!(servers.manager.is_none());
    assert_eq!((component.listen.to_string().as_str(), component.workers), ("0.0.0.0:10259", 50));
    let mut policy = planner::Policy::default();
    policy.safety.orphan_period = std::time::Duration::from_mins(30);
    assert_eq!(servers.policy(), policy);
}

/// Shows FLG-9.
#[test]
fn both_components_in_one_process_keep_what_is_theirs_until_told_otherwise() {
    let told = |flags: &[&str]| {
        let servers = run(flags);
        let (manager, machine) = (servers.manager.unwrap(), servers.machine.unwrap());
        (manager.listen.port(), manager.workers, machine.listen.port(), machine.workers)
    };
    assert_eq!(told(&[]), (10258, 10, 10259, 50));
    assert_eq!(told(&["--concurrent-syncs=30", "--port=1", "--manager-port=2"]), (2, 30, 1, 30));
}

/// Shows THR-9, FLG-4.
#[rstest]
#[case::behind_a_sign(&["--namespace=x", "--v=3"])]
#[case::in_the_next_word(&["--namespace", "x", "-v", "3"])]
#[case::one_letter_with_a_sign(&["--namespace", "x", "-v=3"])]
#[case::one_letter_glued(&["--namespace", "x", "-v3"])]
#[case::the_last_one_wins(&["--namespace=a", "--v=1", "--namespace=x", "--v", "3"])]
#[case::words_of_no_flag_are_ignored(&["stray", "--namespace=x", "--v=3", "more", "-"])]
#[case::nothing_counts_behind_two_dashes(&["--namespace=x", "--v=3", "--", "--namespace=y", "--nonsense"])]
fn a_value_is_read_as_pflag_reads_it(#[case] flags: &[&str]) {
    let servers = run(flags);
    assert_eq!((servers.common.clusters.namespace.as_str(), servers.common.log.verbosity), ("x", 3));
}

/// Shows FLG-4.
#[rstest]
#[case(&["--leader-elect"], true)]
#[case(&["--leader-elect=false", "--leader_elect"], true)]
#[case(&["--leader-elect", "false"], true)]
#[case(&["--leader-elect=false"], false)]
#[case(&["--leader_elect=F"], false)]
#[case(&["--leader-elect=0"], false)]
#[case(&["--leader-elect=FALSE"], false)]
#[case(&["--leader-elect=false", "--leader-elect=1"], true)]
#[case(&["--leader-elect=false", "--leader-elect=T"], true)]
#[case(&["--leader-elect=false", "--leader-elect=True"], true)]
fn a_boolean_takes_its_value_behind_a_sign_only(#[case] flags: &[&str], #[case] elect: bool) {
    assert_eq!(run(flags).common.election.leader_elect, elect);
}

/// Shows FLG-4.
#[test]
fn our_own_booleans_are_spelled_alike() {
    let all = definition();
    let run = all.find_subcommand("run").unwrap();
    for arg in run.get_arguments().filter(|arg| is_boolean(arg)) {
        let name = arg.get_long().unwrap();
        for value in ["", "=true", "=false"] {
            let flag = format!("--{name}{value}");
            assert!(line(&["millwright", "run", &flag]).is_ok(), "{flag}");
        }
    }
}

/// Shows FLG-4.
#[rstest]
#[case("machine_safety-orphan_vms-period=1h")]
#[case("machine-safety-orphan-vms-period=1h")]
#[case("machine_safety_orphan_vms_period=60m")]
fn underscores_in_names_are_dashes(#[case] flag: &str) {
    let policy = run(&[&format!("--{flag}")]).policy();
    assert_eq!(policy.safety.orphan_period.as_secs(), 3600);
}

/// Shows FLG-6.
#[rstest]
#[case(&["--nonsense"], ErrorKind::UnknownArgument, "--nonsense")]
#[case(&["-namespace=x"], ErrorKind::UnknownArgument, "unknown shorthand flag: 'n' in -namespace=x")]
#[case(&["--namespace"], ErrorKind::TooFewValues, "flag needs an argument: --namespace")]
#[case(&["-v"], ErrorKind::TooFewValues, "flag needs an argument: -v")]
#[case(&["---v=3"], ErrorKind::InvalidValue, "bad flag syntax: ---v=3")]
#[case(&["--=3"], ErrorKind::InvalidValue, "bad flag syntax: --=3")]
#[case(&["--v=high"], ErrorKind::ValueValidation, "--v")]
#[case(&["--leader-elect=yes"], ErrorKind::ValueValidation, "true or false")]
#[case(&["--address=localhost"], ErrorKind::ValueValidation, "an IP address")]
#[case(&["--port=http"], ErrorKind::ValueValidation, "a whole number")]
#[case(&["--kube-api-qps=fast"], ErrorKind::ValueValidation, "a number")]
#[case(&["--machine-safety-overshooting-period=1"], ErrorKind::ValueValidation, "write it like 90s")]
#[case(&["--vmodule=a=b"], ErrorKind::ValueValidation, "FILE=N")]
fn what_cannot_be_read_is_refused_with_usage(#[case] flags: &[&str], #[case] kind: ErrorKind, #[case] words: &str) {
    let refused = line(&[&["millwright", "run"], flags].concat()).unwrap_err();
    let said = refused.to_string();
    assert_eq!((refused.kind(), refused.exit_code()), (kind, 2), "{said}");
    assert!(said.contains(words) && said.contains("Usage: millwright run"), "{said}");
}

/// Shows FLG-3.
#[rstest]
#[case("machine-controller-manager", "Usage: machine-controller-manager [OPTIONS]")]
#[case("./machine-controller-manager", "Usage: machine-controller-manager [OPTIONS]")]
#[case("/usr/bin/machine-controller", "Usage: machine-controller [OPTIONS]")]
fn called_by_a_name_of_the_reference_it_is_that_process(#[case] program: &str, #[case] usage: &str) {
    for help in ["--help", "-h"] {
        let said = line(&[program, "stray", help]).unwrap_err();
        assert_eq!((said.kind(), said.exit_code()), (ErrorKind::DisplayHelp, 0));
        assert!(said.to_string().contains(usage), "{said}");
    }
}

/// Shows FLG-10.
#[test]
fn help_is_grouped_wrapped_and_tells_defaults() {
    let help = line(&["millwright", "run", "--help"]).unwrap_err().to_string();
    for heading in HEADINGS {
        assert!(help.contains(&format!("\n{heading}:\n")), "{heading} is missing: {help}");
    }
    for (number, text) in help.lines().enumerate() {
        assert!(text.chars().count() <= 100, "line {number} is too long: {text}");
    }
    assert!(help.contains("[default: 20m]") && help.contains("[default: leases]"), "{help}");
    assert!(help.contains("[default: 50 for machines, 10 for sets and deployments]"), "{help}");
}

/// Shows FLG-7.
#[test]
fn all_that_is_wrong_is_told_at_once_by_flag_and_remedy() {
    let asked = line(&[
        "machine-controller",
        "--port=0",
        "--concurrent-syncs=0",
        "--kube-api-qps=0",
        "--kube-api-burst=0",
        "--min-resync-period=-1s",
        "--machine-drain-timeout=-5m",
        "--machine-max-evict-retries=-1",
        "--machine-safety-apiserver-statuscheck-timeout=2m",
        "--contention-profiling",
        "--kube-api-content-type=",
        "--target-kubeconfig=none",
        "--leader-elect-resource-lock=endpoints",
        "--leader-elect-lease-duration=5s",
        "--leader-elect-retry-period=9s",
        "--provider=aws",
    ]);
    let complaints = asked.unwrap().complaints;
    let expected = [
        ("--port", "1 to 65535"),
        ("--concurrent-syncs", "above zero"),
        ("--kube-api-qps", "above zero"),
        ("--kube-api-burst", "no client can be made"),
        ("--min-resync-period", "negative"),
        ("--machine-drain-timeout", "negative"),
        ("--machine-max-evict-retries", "negative"),
        (
            "--machine-safety-apiserver-statuscheck-period (1m0s)",
            "--machine-safety-apiserver-statuscheck-timeout (2m0s)",
        ),
        ("--contention-profiling", "--profiling"),
        ("--kube-api-content-type", "application/json"),
        ("--target-kubeconfig=none", "--control-kubeconfig"),
        ("--leader-elect-resource-lock", "leases"),
        ("--leader-elect-lease-duration (5s)", "--leader-elect-renew-deadline (10s)"),
        ("--leader-elect-renew-deadline (10s)", "--leader-elect-retry-period (9s)"),
        ("--provider=aws", "--driver-endpoint"),
    ];
    for (flag, remedy) in expected {
        let told = complaints.iter().filter(|said| said.starts_with(flag) && said.contains(remedy)).count();
        assert_eq!(told, 1, "{flag}: {complaints:#?}");
    }
    assert_eq!(complaints.len(), expected.len(), "{complaints:#?}");
}

/// Shows FLG-7.
#[rstest]
#[case("--port=65536", "1 to 65535")]
#[case("--port=-1", "1 to 65535")]
#[case("--kube-api-burst=-1", "negative")]
#[case("--kube-api-qps=nan", "above zero")]
#[case("--safety-up=-1", "negative")]
#[case("--machine-safety-overshooting-period=-1s", "negative")]
#[case("--leader-elect-retry-period=0s", "above zero")]
#[case("--controller-start-interval=-1s", "negative")]
#[case("--manager-port=10259", "must differ")]
#[case("--driver-calls-per-credential=0", "above zero")]
#[case("--driver-call-timeout=0s", "above zero")]
#[case("--driver-call-timeout=-1s", "negative")]
fn a_value_out_of_range_is_one_complaint(#[case] flag: &str, #[case] words: &str) {
    let complaints = line(&["millwright", "run", "--provider=virtual", flag]).unwrap().complaints;
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains(words), "{complaints:?}");
}

/// Shows FLG-7.
#[test]
fn an_election_that_is_off_has_no_rules() {
    let flags = ["--leader-elect=false", "--leader-elect-resource-lock=endpoints", "--leader-elect-lease-duration=0"];
    assert_eq!(line(&[&["millwright", "run", "--provider=virtual"], &flags[..]].concat()).unwrap().complaints, [""; 0]);
}

/// Shows FLG-11.
#[rstest]
#[case("run", &[], 1)]
#[case("machine-controller", &[], 1)]
#[case("machine-controller", &["--provider=virtual"], 0)]
#[case("run", &["--driver-endpoint=unix:/run/driver.sock"], 0)]
#[case("run", &["--driver-endpoint=unix:/run/driver.sock", "--provider=aws"], 0)]
#[case("manager", &[], 0)]
fn whoever_makes_machines_is_told_where(#[case] command: &str, #[case] flags: &[&str], #[case] wrong: usize) {
    let complaints = line(&[&["millwright", command], flags].concat()).unwrap().complaints;
    assert_eq!(complaints.len(), wrong, "{complaints:?}");
    assert!(complaints.iter().all(|said| said.contains("--driver-endpoint") && said.contains("--provider=virtual")));
}

/// The words behind each `args:` of a manifest, in the plain form in which ours are written.
fn containers(manifest: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        match line.strip_prefix("- ") {
            _ if line == "args:" => {
                inside = true;
                found.push(Vec::new());
            }
            Some(word) if inside => found.last_mut().unwrap().push(word.trim_matches('"').to_owned()),
            _ => inside = false,
        }
    }
    found
}

/// Shows FLG-2.
#[rstest]
#[case(include_str!("../../../../deploy/one-process/deployment.yaml"), "run")]
#[case(include_str!("../../../../deploy/two-processes/manager.yaml"), "manager")]
#[case(include_str!("../../../../deploy/two-processes/machine-controller.yaml"), "machine-controller")]
fn the_manifests_that_we_ship_are_understood(#[case] manifest: &str, #[case] command: &str) {
    let containers = containers(manifest);
    assert!(containers.iter().any(|words| words.first().is_some_and(|word| word == command)), "{containers:?}");
    for words in containers {
        let mut words: Vec<&str> = ["millwright"].into_iter().chain(words.iter().map(String::as_str)).collect();
        if command != "manager" {
            // As a component of deploy/ adds it: without one, the manifests alone have no cloud.
            assert_eq!(line(&words).unwrap().complaints.len(), 1, "{words:?}");
            words.push("--driver-endpoint=unix:/run/driver/driver.sock");
        }
        assert_eq!(line(&words).unwrap().complaints, [""; 0]);
    }
}
