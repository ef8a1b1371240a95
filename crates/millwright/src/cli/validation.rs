//! Checks of flags that could be parsed.
//!
//! All problems are reported together, so that a process with three wrong flags need not be started three times. Each
//! message names its flag and the valid values.

use clap::{ArgMatches, Command as Definition};
use driver_remote::Endpoint;

use super::common::{Common, Election};
use super::machine::{DriverFlags, MachineFlags};
use super::values::{Concurrency, Count, Port, Ranged, Rate, Span};
use super::{BuiltIn, Choice, Command, media_type};

/// Returns the values that are out of range, by their type.
pub(super) fn out_of_range(definition: &Definition, matches: &ArgMatches) -> Vec<String> {
    let sentence = |id: &str, name: &str| {
        problem::<Span>(matches, id)
            .or_else(|| problem::<Count>(matches, id))
            .or_else(|| problem::<Concurrency>(matches, id))
            .or_else(|| problem::<Port>(matches, id))
            .or_else(|| problem::<Rate>(matches, id))
            .map(|wrong| format!("--{name} {wrong}"))
    };
    definition.get_arguments().filter_map(|arg| sentence(arg.get_id().as_str(), arg.get_long()?)).collect()
}

fn problem<T: Ranged + Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<String> {
    let wrong = matches.try_get_one::<T>(id).ok().flatten()?.problem()?;
    let written = matches.get_raw(id).and_then(Iterator::last).unwrap_or_default().to_string_lossy();
    Some(format!("{wrong}, got {written}"))
}

/// Drivers that a build of the `millwright` program can contain, and the cargo feature of each.
const FEATURES: [(&str, &str); 5] =
    [("AWS", "aws"), ("OpenStack", "openstack"), ("virtual", "dev"), ("host", "dev"), ("qemu", "dev")];

/// Returns the flags that conflict, in a program with these drivers.
pub(super) fn conflicts(command: &Command, built_in: &[BuiltIn<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    match command {
        Command::Manager(flags) => check_common(&flags.common, &mut found),
        Command::MachineController(flags) => {
            check_common(&flags.common, &mut found);
            check_machine(&flags.machine, built_in, &mut found);
        }
        Command::Run(flags) => {
            check_common(&flags.common, &mut found);
            check_machine(&flags.machine, built_in, &mut found);
            if flags.manager_port == flags.common.listening.port {
                found.push(format!("--manager-port and --port must differ, both are {}", flags.manager_port.get()));
            }
        }
        Command::Crds(_) | Command::Driver(_) => {}
        #[cfg(feature = "inspect")]
        Command::Inspect(_) => {}
        #[cfg(feature = "dev")]
        Command::Dev(_) => {}
    }
    found
}

fn check_common(common: &Common, found: &mut Vec<String>) {
    let clusters = &common.clusters;
    if clusters.target_kubeconfig == "none" && clusters.control_kubeconfig.is_empty() {
        found.push(
            "--target-kubeconfig=none requires --control-kubeconfig, which selects the cluster of the Machines"
                .to_owned(),
        );
    }
    if clusters.limit().1 == 0 && clusters.kube_api_burst.problem().is_none() {
        found.push("--kube-api-burst must be above zero: with 0 the client could not send requests".to_owned());
    }
    if common.no_effect.contention_profiling && !common.listening.profiling {
        found.push("--contention-profiling requires --profiling".to_owned());
    }
    if let Err(error) = media_type::check(&common.no_effect.kube_api_content_type) {
        found.push(format!("--kube-api-content-type must be a media type such as application/json: {error}"));
    }
    #[cfg(feature = "inspect")]
    found.extend(common.web_view.conflict());
    if common.election.leader_elect {
        check_election(&common.election, found);
    }
}

fn check_election(election: &Election, found: &mut Vec<String>) {
    let lock = &election.leader_elect_resource_lock;
    if lock != "leases" {
        found.push(format!("--leader-elect-resource-lock must be leases, got {lock:?}"));
    }
    let named = [
        ("--leader-elect-lease-duration", election.leader_elect_lease_duration),
        ("--leader-elect-renew-deadline", election.leader_elect_renew_deadline),
        ("--leader-elect-retry-period", election.leader_elect_retry_period),
    ];
    let before = found.len();
    found.extend(
        named
            .iter()
            .filter(|(_, duration)| duration.as_nanos() <= 0)
            .map(|(name, duration)| format!("{name} must be above zero, got {duration}")),
    );
    if found.len() > before {
        return; // a duration of zero or less would fail the following checks too
    }
    let [(lease_name, lease), (renew_name, renew), (retry_name, retry)] = named;
    if lease <= renew {
        found.push(format!("{lease_name} ({lease}) must be longer than {renew_name} ({renew})"));
    }
    if renew.to_std() <= retry.to_std().mul_f64(1.2) {
        found.push(format!("{renew_name} ({renew}) must be longer than 1.2 times {retry_name} ({retry})"));
    }
}

fn check_machine(machine: &MachineFlags, built_in: &[BuiltIn<'_>], found: &mut Vec<String>) {
    found.extend(machine.safety.conflict());
    check_driver(&machine.driver, built_in, found);
}

fn check_driver(driver: &DriverFlags, built_in: &[BuiltIn<'_>], found: &mut Vec<String>) {
    if driver.driver_call_timeout.get().is_zero() && driver.driver_call_timeout.problem().is_none() {
        found.push("--driver-call-timeout must be above zero: with 0s every driver call would fail".to_owned());
    }
    match &driver.driver_endpoint {
        Some(Endpoint::MutualTls { .. }) if driver.tls().is_none() => found.push(
            "--driver-endpoint=tcp+mtls://… requires --driver-ca-file, --driver-cert-file and --driver-key-file"
                .to_owned(),
        ),
        None => found.extend(missing_driver(&driver.providers(), built_in)),
        Some(_) => {}
    }
}

/// Returns the problem of a command line that has no driver endpoint.
fn missing_driver(providers: &[&str], built_in: &[BuiltIn<'_>]) -> Option<String> {
    let names: Vec<&str> = built_in.iter().map(|driver| driver.name).collect();
    let Some(unknown) = providers.iter().find(|provider| !names.contains(provider)) else {
        let chosen = !providers.is_empty() || built_in.iter().any(|driver| driver.choice == Choice::ByDefault);
        return (!chosen).then(|| no_driver_named(&names));
    };
    let of_a_feature = FEATURES.iter().find(|(name, _)| unknown.eq_ignore_ascii_case(name));
    Some(match (of_a_feature, names.as_slice()) {
        (Some((name, _)), names) if names.contains(name) => {
            format!("--provider={unknown} is unknown. Use the spelling of MachineClasses: --provider={name}")
        }
        (Some((_, feature)), _) => format!(
            "--provider={unknown} is not in this program. Build it with the cargo feature `{feature}`, or set --driver-endpoint"
        ),
        (None, []) => format!("--provider={unknown} requires --driver-endpoint: no driver is built in"),
        (None, names) => {
            format!(
                "--provider={unknown} requires --driver-endpoint: the only built-in drivers are {}",
                names.join(", ")
            )
        }
    })
}

fn no_driver_named(names: &[&str]) -> String {
    match names {
        [] => "--driver-endpoint is missing. Set it to the endpoint of the driver of your cloud".to_owned(),
        names => format!(
            "--driver-endpoint or --provider is missing. Set the endpoint of the driver of your cloud, or enable a built-in driver with --provider={}",
            names.join(" or --provider=")
        ),
    }
}

/// Returns all problems as one text, or `None` if there are none.
pub(crate) fn summary(problems: &[String]) -> Option<String> {
    match problems {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("{} flags are invalid:\n  {}", several.len(), several.join("\n  "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const VIRTUAL: BuiltIn<'_> = BuiltIn { name: "virtual", choice: Choice::OnRequest };
    const AWS: BuiltIn<'_> = BuiltIn { name: "AWS", choice: Choice::OnRequest };
    const OWN: BuiltIn<'_> = BuiltIn { name: "mycloud", choice: Choice::ByDefault };

    /// Shows AWS-30.
    #[rstest]
    #[case(&["virtual"], &[VIRTUAL], &[])]
    #[case(&["AWS"], &[AWS, VIRTUAL], &[])]
    #[case(&["AWS", "virtual"], &[AWS, VIRTUAL], &[])]
    #[case(&["virtual"], &[AWS], &["--provider=virtual is not in this program", "feature `dev`", "--driver-endpoint"])]
    #[case(&["AWS"], &[], &["--provider=AWS is not in this program", "feature `aws`", "--driver-endpoint"])]
    #[case(&["OpenStack"], &[AWS], &["--provider=OpenStack is not in this program", "feature `openstack`"])]
    #[case(&["aws"], &[AWS], &["--provider=aws", "--provider=AWS"])]
    #[case(&["AWS", "azure"], &[AWS, VIRTUAL], &["--provider=azure requires --driver-endpoint", "are AWS, virtual"])]
    #[case(&["azure"], &[], &["--provider=azure requires --driver-endpoint", "no driver is built in"])]
    #[case(&[], &[AWS, VIRTUAL], &["--driver-endpoint or --provider is missing", "--provider=AWS or --provider=virtual"])]
    #[case(&[], &[], &["--driver-endpoint is missing"])]
    #[case(&[], &[OWN], &[])]
    #[case(&["mycloud"], &[OWN], &[])]
    #[case(&["virtual"], &[OWN], &["--provider=virtual is not in this program"])]
    #[case(&["azure"], &[OWN], &["--provider=azure requires --driver-endpoint", "are mycloud"])]
    #[case(&[""], &[AWS], &["--provider= requires"])]
    fn only_built_in_drivers_need_no_endpoint(
        #[case] providers: &[&str],
        #[case] built_in: &[BuiltIn<'_>],
        #[case] words: &[&str],
    ) {
        let problem = missing_driver(providers, built_in);
        assert_eq!(problem.is_none(), words.is_empty(), "{problem:?}");
        let problem = problem.unwrap_or_default();
        assert!(words.iter().all(|word| problem.contains(word)), "{problem}");
    }
}
