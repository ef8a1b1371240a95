//! Compares the command line with MCM's: every flag with its default, every spelling, and the command lines of
//! production manifests.

use std::ffi::OsString;

use clap::error::ErrorKind;
use controllers::wiring::defaults;
use rstest::rstest;

use super::definition::{HEADINGS, SERVERS, default_of, definition};
use super::pflag::is_boolean;
use super::{BuiltIn, Choice, Command, Invocation, NEW, Servers, parse};

/// Flags of both processes, with the defaults of the manager and of the machine controller.
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

/// Returns MCM's flags of a command, with their defaults. `run` has the flags of both components.
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

fn line(words: &[&str]) -> Result<Invocation, clap::Error> {
    parse(words.iter().map(OsString::from), &[BuiltIn { name: "virtual", choice: Choice::OnRequest }])
}

fn servers(words: &[&str]) -> Servers {
    match line(words).unwrap().command {
        Command::Manager(flags) => (*flags).into(),
        Command::MachineController(flags) => (*flags).into(),
        Command::Run(flags) => (*flags).into(),
        Command::Crds(options) => panic!("expected a server, got {options:?}"),
        Command::Driver(other) => panic!("expected a server, got {other:?}"),
        #[cfg(feature = "inspect")]
        Command::Inspect(other) => panic!("expected a server, got {other:?}"),
        #[cfg(feature = "dev")]
        Command::Dev(other) => panic!("expected a server, got {other:?}"),
    }
}

fn run(flags: &[&str]) -> Servers {
    servers(&[&["millwright", "run"], flags].concat())
}

/// Shows FLG-1.
#[rstest]
fn every_mcm_flag_exists_with_its_default(#[values("manager", "machine-controller", "run")] command: &str) {
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
fn every_flag_has_a_heading_and_a_help_text() {
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
fn gardener_manager_command_line_is_accepted() {
    let invocation = line(&[
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
    assert_eq!(invocation.problems, [""; 0]);
    let Command::Manager(flags) = invocation.command else { panic!("{:?}", invocation.command) };
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
fn gardener_machine_controller_command_line_is_accepted(
    #[values("--target-kubeconfig=none", "--target-kubeconfig=/var/run/kubeconfig")] target: &str,
) {
    let invocation = line(&[
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
        // The binary of an MCM provider has its cloud built in. Millwright needs the endpoint
        // (docs/tasks/migrate-from-mcm.md).
        "--driver-endpoint=unix:/run/driver/driver.sock",
    ])
    .unwrap();
    assert_eq!(invocation.problems, [""; 0]);
    let Command::MachineController(flags) = invocation.command else { panic!("{:?}", invocation.command) };
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
fn run_uses_the_defaults_of_each_component() {
    let ports_and_workers = |flags: &[&str]| {
        let servers = run(flags);
        let (manager, machine) = (servers.manager.unwrap(), servers.machine.unwrap());
        (manager.listen.port(), manager.workers, machine.listen.port(), machine.workers)
    };
    assert_eq!(ports_and_workers(&[]), (10258, 10, 10259, 50));
    assert_eq!(ports_and_workers(&["--concurrent-syncs=30", "--port=1", "--manager-port=2"]), (2, 30, 1, 30));
}

#[rstest]
#[case("manager", defaults::MANAGER_WORKERS)]
#[case("machine-controller", defaults::MACHINE_CONTROLLER_WORKERS)]
fn default_concurrency_in_help_is_the_default_of_the_wiring(#[case] command: &str, #[case] workers: usize) {
    let all = definition();
    let mut flags = all.find_subcommand(command).unwrap().get_arguments();
    let flag = flags.find(|arg| arg.get_id() == "concurrent_syncs").unwrap();
    assert_eq!(default_of(flag), Some(workers.to_string()));
}

/// Shows THR-9, FLG-4.
#[rstest]
#[case::after_equals_sign(&["--namespace=x", "--v=3"])]
#[case::next_word(&["--namespace", "x", "-v", "3"])]
#[case::letter_with_equals_sign(&["--namespace", "x", "-v=3"])]
#[case::letter_without_separator(&["--namespace", "x", "-v3"])]
#[case::last_one_wins(&["--namespace=a", "--v=1", "--namespace=x", "--v", "3"])]
#[case::other_words_are_ignored(&["stray", "--namespace=x", "--v=3", "more", "-"])]
#[case::ignored_after_two_dashes(&["--namespace=x", "--v=3", "--", "--namespace=y", "--nonsense"])]
fn values_are_parsed_as_in_pflag(#[case] flags: &[&str]) {
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
fn booleans_take_their_value_only_after_an_equals_sign(#[case] flags: &[&str], #[case] elect: bool) {
    assert_eq!(run(flags).common.election.leader_elect, elect);
}

/// Shows FLG-4.
#[test]
fn booleans_that_mcm_lacks_have_the_same_syntax() {
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
fn underscores_in_flag_names_are_dashes(#[case] flag: &str) {
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
#[case(&["--machine-safety-overshooting-period=1"], ErrorKind::ValueValidation, "use a value such as 90s")]
#[case(&["--vmodule=a=b"], ErrorKind::ValueValidation, "FILE=N")]
fn unreadable_flags_are_rejected_with_usage(#[case] flags: &[&str], #[case] kind: ErrorKind, #[case] words: &str) {
    let refused = line(&[&["millwright", "run"], flags].concat()).unwrap_err();
    let text = refused.to_string();
    assert_eq!((refused.kind(), refused.exit_code()), (kind, 2), "{text}");
    assert!(text.contains(words) && text.contains("Usage: millwright run"), "{text}");
}

/// Shows FLG-3.
#[rstest]
#[case("machine-controller-manager", "Usage: machine-controller-manager [OPTIONS]")]
#[case("./machine-controller-manager", "Usage: machine-controller-manager [OPTIONS]")]
#[case("/usr/bin/machine-controller", "Usage: machine-controller [OPTIONS]")]
fn program_name_of_mcm_selects_its_command(#[case] program: &str, #[case] usage: &str) {
    for help in ["--help", "-h"] {
        let text = line(&[program, "stray", help]).unwrap_err();
        assert_eq!((text.kind(), text.exit_code()), (ErrorKind::DisplayHelp, 0));
        assert!(text.to_string().contains(usage), "{text}");
    }
}

/// Shows FLG-10.
#[test]
fn help_is_grouped_and_wrapped_and_shows_defaults() {
    let help = line(&["millwright", "run", "--help"]).unwrap_err().to_string();
    for heading in HEADINGS {
        assert!(help.contains(&format!("\n{heading}:\n")), "{heading} is missing: {help}");
    }
    for (number, text) in help.lines().enumerate() {
        assert!(text.chars().count() <= 100, "line {number} is too long: {text}");
    }
    assert!(help.contains("[default: 20m]") && help.contains("[default: leases]"), "{help}");
    assert!(help.contains("[default: 50 for the machine controller, 10 for the manager]"), "{help}");
}

/// Shows FLG-7.
#[test]
fn all_flag_problems_are_reported_together() {
    let invocation = line(&[
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
    let problems = invocation.unwrap().problems;
    let expected = [
        ("--port", "1 to 65535"),
        ("--concurrent-syncs", "above zero"),
        ("--kube-api-qps", "above zero"),
        ("--kube-api-burst", "the client could not send requests"),
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
        let matching = problems.iter().filter(|text| text.starts_with(flag) && text.contains(remedy)).count();
        assert_eq!(matching, 1, "{flag}: {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
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
fn value_out_of_range_is_one_problem(#[case] flag: &str, #[case] words: &str) {
    let problems = line(&["millwright", "run", "--provider=virtual", flag]).unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains(words), "{problems:?}");
}

/// Shows FLG-7.
#[test]
fn leader_election_flags_are_not_checked_when_disabled() {
    let flags = ["--leader-elect=false", "--leader-elect-resource-lock=endpoints", "--leader-elect-lease-duration=0"];
    assert_eq!(line(&[&["millwright", "run", "--provider=virtual"], &flags[..]].concat()).unwrap().problems, [""; 0]);
}

/// Shows FLG-11.
#[rstest]
#[case("run", &[], 1)]
#[case("machine-controller", &[], 1)]
#[case("machine-controller", &["--provider=virtual"], 0)]
#[case("run", &["--driver-endpoint=unix:/run/driver.sock"], 0)]
#[case("run", &["--driver-endpoint=unix:/run/driver.sock", "--provider=aws"], 0)]
#[case("manager", &[], 0)]
fn machine_controller_needs_a_driver(#[case] command: &str, #[case] flags: &[&str], #[case] wrong: usize) {
    let problems = line(&[&["millwright", command], flags].concat()).unwrap().problems;
    assert_eq!(problems.len(), wrong, "{problems:?}");
    assert!(problems.iter().all(|text| text.contains("--driver-endpoint") && text.contains("--provider=virtual")));
}

/// Returns the arguments below each `args:` of a manifest, in the plain form of the manifests in deploy/.
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
fn manifests_in_deploy_are_accepted(#[case] manifest: &str, #[case] command: &str) {
    let containers = containers(manifest);
    assert!(containers.iter().any(|words| words.first().is_some_and(|word| word == command)), "{containers:?}");
    for words in containers {
        let mut words: Vec<&str> = ["millwright"].into_iter().chain(words.iter().map(String::as_str)).collect();
        if command != "manager" {
            // The kustomize components of deploy/ add a driver; without one, the manifests have no cloud.
            assert_eq!(line(&words).unwrap().problems.len(), 1, "{words:?}");
            words.push("--driver-endpoint=unix:/run/driver/driver.sock");
        }
        assert_eq!(line(&words).unwrap().problems, [""; 0]);
    }
}
