//! Checks at the end of the demo, which must pass for every order of events.

use super::environment::{CONTROLLER, Environment};
use super::objects::{MIN_PODS, SURGE};
use super::observer::Observer;
use super::printer::Printer;

/// Number of Machines in the scenario: six, six more for the rollout, one replacement of a failed Node.
const MACHINES: usize = 13;
/// Maximum number of requests to the API server per Machine, over all controllers, from creation to deletion with a
/// drain. In a pool of six, the status updates of the MachineDeployment have a larger share per Machine than in a pool
/// of one hundred.
const MAX_REQUESTS: u64 = 30;

/// Checks the results of the scenario.
pub(super) fn run(environment: &Environment, observer: &Observer, printer: &Printer) -> bool {
    let vms = environment.cloud.count(driver::Method::Create);
    let left = (environment.cloud.vms().len(), environment.server.objects("nodes").len(), tokens(environment));
    let counts = environment.server.request_counts();
    let controller = || counts.iter().filter(|(tally, _)| tally.user_agent.starts_with(CONTROLLER));
    let requests: u64 = controller().filter(|(tally, _)| tally.verb != "watch").map(|(_, n)| n).sum();
    let refused = || controller().filter(|(tally, _)| tally.code == 409 && tally.resource.starts_with("machine"));
    let conflicts: u64 = refused().map(|(_, n)| n).sum();
    let which: Vec<String> = refused().map(|(tally, n)| format!("; {n} × {} {}", tally.verb, tally.resource)).collect();
    let made = observer.machines();
    let each = requests / u64::try_from(made.max(1)).unwrap_or(1);

    let mut all = true;
    let mut check = |name: &str, passed: bool, detail: String| {
        printer.check(name, passed, detail);
        all &= passed;
    };
    check("no unnecessary machine", made == MACHINES, format!("{made} created, {MACHINES} needed"));
    check("replicas and maxSurge not exceeded", observer.most() <= 6 + SURGE, format!("at most {}", observer.most()));
    check("one VM per machine", vms == u64::try_from(made).unwrap_or(0), format!("{vms} created"));
    check(
        "PodDisruptionBudget respected during the rollout",
        observer.fewest() >= MIN_PODS,
        format!("at least {} pods ready", observer.fewest()),
    );
    check(
        "no resources left",
        left == (0, 0, 0),
        format!("{} VMs, {} nodes, {} bootstrap tokens", left.0, left.1, left.2),
    );
    check("API requests per machine", each <= MAX_REQUESTS, format!("{each} (limit {MAX_REQUESTS})"));
    check(
        "no conflicts between the controllers",
        conflicts == 0,
        format!("{conflicts} writes with an outdated resourceVersion{}", which.concat()),
    );
    all
}

fn tokens(environment: &Environment) -> usize {
    let is_token = |secret: &serde_json::Value| {
        secret.pointer("/type").and_then(|kind| kind.as_str()) == Some("bootstrap.kubernetes.io/token")
    };
    environment.server.objects("secrets").iter().filter(|secret| is_token(secret)).count()
}
