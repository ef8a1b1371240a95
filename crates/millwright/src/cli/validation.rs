//! What is wrong with flags that can be read, all of it at once.
//!
//! Whoever starts a process with three wrong flags should not have to start it three times. So nothing here stops at the first: each sentence
//! names its flag and what would be right.

use clap::{ArgMatches, Command as Definition};
use driver_remote::Endpoint;

use super::both::{Common, Election};
use super::machine::{DriverFlags, MachineFlags};
use super::values::{Count, Places, Port, Ranged, Rate, Span};
use super::{BuiltIn, Choice, Command, media_type};

/// Values that are out of range, by their type.
pub(super) fn out_of_range(definition: &Definition, matches: &ArgMatches) -> Vec<String> {
    let sentence = |id: &str, name: &str| {
        complaint::<Span>(matches, id)
            .or_else(|| complaint::<Count>(matches, id))
            .or_else(|| complaint::<Places>(matches, id))
            .or_else(|| complaint::<Port>(matches, id))
            .or_else(|| complaint::<Rate>(matches, id))
            .map(|wrong| format!("--{name} {wrong}"))
    };
    definition.get_arguments().filter_map(|arg| sentence(arg.get_id().as_str(), arg.get_long()?)).collect()
}

fn complaint<T: Ranged + Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<String> {
    let wrong = matches.try_get_one::<T>(id).ok().flatten()?.complaint()?;
    let written = matches.get_raw(id).and_then(Iterator::last).unwrap_or_default().to_string_lossy();
    Some(format!("{wrong}, and {written} is not"))
}

/// Drivers that a build of our own program can bring along, and the cargo feature that does it.
const FEATURES: [(&str, &str); 5] =
    [("AWS", "aws"), ("OpenStack", "openstack"), ("virtual", "dev"), ("host", "dev"), ("qemu", "dev")];

/// Flags that do not go together, in a program that brings along these drivers.
pub(super) fn contradictions(command: &Command, built_in: &[BuiltIn<'_>]) -> Vec<String> {
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
                found.push(format!("--manager-port and --port must differ, and both are {}", flags.manager_port.get()));
            }
        }
        Command::Crds(_) | Command::Driver(_) => {}
        #[cfg(feature = "inspect")]
        Command::Operator(_) => {}
        #[cfg(feature = "dev")]
        Command::Dev(_) => {}
    }
    found
}

fn check_common(common: &Common, found: &mut Vec<String>) {
    let clusters = &common.clusters;
    if clusters.target_kubeconfig == "none" && clusters.control_kubeconfig.is_empty() {
        found.push(
            "--target-kubeconfig=none needs --control-kubeconfig: say which cluster holds the machines".to_owned(),
        );
    }
    if clusters.limit().1 == 0 && clusters.kube_api_burst.complaint().is_none() {
        found.push("--kube-api-burst must be above zero: with 0 no client can be made that sends anything".to_owned());
    }
    if common.idle.contention_profiling && !common.listening.profiling {
        found.push("--contention-profiling needs --profiling".to_owned());
    }
    if let Err(error) = media_type::check(&common.idle.kube_api_content_type) {
        found.push(format!("--kube-api-content-type must be a media type such as application/json: {error}"));
    }
    #[cfg(feature = "inspect")]
    found.extend(common.web_view.contradiction());
    if common.election.leader_elect {
        check_election(&common.election, found);
    }
}

fn check_election(election: &Election, found: &mut Vec<String>) {
    let lock = &election.leader_elect_resource_lock;
    if lock != "leases" {
        found.push(format!("--leader-elect-resource-lock must be leases, and {lock:?} is not"));
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
            .map(|(name, duration)| format!("{name} must be above zero, and {duration} is not")),
    );
    if found.len() > before {
        return; // zero or less is shorter than anything: said once is enough
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
    found.extend(machine.safety.contradiction());
    check_driver(&machine.driver, built_in, found);
}

fn check_driver(driver: &DriverFlags, built_in: &[BuiltIn<'_>], found: &mut Vec<String>) {
    if driver.driver_call_timeout.get().is_zero() && driver.driver_call_timeout.complaint().is_none() {
        found.push("--driver-call-timeout must be above zero: with 0s every driver call would fail".to_owned());
    }
    match &driver.driver_endpoint {
        Some(Endpoint::MutualTls { .. }) if driver.tls().is_none() => found.push(
            "--driver-endpoint=tcp+mtls://… needs --driver-ca-file, --driver-cert-file and --driver-key-file"
                .to_owned(),
        ),
        None => found.extend(missing_driver(&driver.providers(), built_in)),
        Some(_) => {}
    }
}

/// What is wrong with a command line that names no endpoint.
fn missing_driver(providers: &[&str], built_in: &[BuiltIn<'_>]) -> Option<String> {
    let names: Vec<&str> = built_in.iter().map(|driver| driver.name).collect();
    let Some(unknown) = providers.iter().find(|provider| !names.contains(provider)) else {
        let chosen = !providers.is_empty() || built_in.iter().any(|driver| driver.choice == Choice::ByDefault);
        return (!chosen).then(|| no_driver_named(&names));
    };
    let of_a_feature = FEATURES.iter().find(|(name, _)| unknown.eq_ignore_ascii_case(name));
    Some(match (of_a_feature, names.as_slice()) {
        (Some((name, _)), names) if names.contains(name) => {
            format!("--provider={unknown} is spelled as classes spell it: --provider={name}")
        }
        (Some((_, feature)), _) => format!(
            "--provider={unknown} is not in this program: build it with the cargo feature `{feature}`, or say with --driver-endpoint where a driver listens"
        ),
        (None, []) => format!("--provider={unknown} needs --driver-endpoint: no driver is built in"),
        (None, names) => {
            format!("--provider={unknown} needs --driver-endpoint: built in is only {}", names.join(", "))
        }
    })
}

fn no_driver_named(names: &[&str]) -> String {
    match names {
        [] => "--driver-endpoint is missing: say where the driver of your cloud listens".to_owned(),
        names => format!(
            "--driver-endpoint or --provider is missing: say where the driver of your cloud listens, or ask for what is built in with --provider={}",
            names.join(" or --provider=")
        ),
    }
}

/// All complaints as one text; `None` when there is nothing to complain about.
pub(crate) fn summary(complaints: &[String]) -> Option<String> {
    match complaints {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("{} things are wrong with the flags:\n  {}", several.len(), several.join("\n  "))),
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
    #[case(&["AWS", "azure"], &[AWS, VIRTUAL], &["--provider=azure needs --driver-endpoint", "only AWS, virtual"])]
    #[case(&["azure"], &[], &["--provider=azure needs --driver-endpoint", "no driver is built in"])]
    #[case(&[], &[AWS, VIRTUAL], &["--driver-endpoint or --provider is missing", "--provider=AWS or --provider=virtual"])]
    #[case(&[], &[], &["--driver-endpoint is missing"])]
    #[case(&[], &[OWN], &[])]
    #[case(&["mycloud"], &[OWN], &[])]
    #[case(&["virtual"], &[OWN], &["--provider=virtual is not in this program"])]
    #[case(&["azure"], &[OWN], &["--provider=azure needs --driver-endpoint", "only mycloud"])]
    #[case(&[""], &[AWS], &["--provider= needs"])]
    fn without_an_endpoint_only_built_in_drivers_can_be_asked_for(
        #[case] providers: &[&str],
        #[case] built_in: &[BuiltIn<'_>],
        #[case] words: &[&str],
    ) {
        let complaint = missing_driver(providers, built_in);
        assert_eq!(complaint.is_none(), words.is_empty(), "{complaint:?}");
        let complaint = complaint.unwrap_or_default();
        assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    }
}
