//! What must be true in the end, whatever the order in which things happened.

use super::environment::{CONTROLLER, Environment};
use super::objects::{MIN_PODS, SURGE};
use super::printer::Printer;
use super::witness::Witness;

/// Machines that the story needs: six, six more for the rollout, one for the node that died.
const MACHINES: usize = 13;
/// Requests to the API server for each of them, over all controllers, from its creation through a drain to its end. A pool of six pays
/// more of its deployment's status for each machine than one of a hundred.
const MOST_REQUESTS: u64 = 30;

/// Holds the story against what was promised.
pub(super) fn review(environment: &Environment, witness: &Witness, printer: &Printer) -> bool {
    let vms = environment.cloud.count(driver::Method::Create);
    let left = (environment.cloud.vms().len(), environment.server.objects("nodes").len(), tokens(environment));
    let counts = environment.server.request_counts();
    let ours = || counts.iter().filter(|(tally, _)| tally.user_agent.starts_with(CONTROLLER));
    let requests: u64 = ours().filter(|(tally, _)| tally.verb != "watch").map(|(_, n)| n).sum();
    let refused = || ours().filter(|(tally, _)| tally.code == 409 && tally.resource.starts_with("machine"));
    let conflicts: u64 = refused().map(|(_, n)| n).sum();
    let which: Vec<String> = refused().map(|(tally, n)| format!("; {n} × {} {}", tally.verb, tally.resource)).collect();
    let made = witness.machines();
    let each = requests / u64::try_from(made.max(1)).unwrap_or(1);

    let mut all = true;
    let mut check = |promise: &str, kept: bool, detail: String| {
        printer.promise(promise, kept, detail);
        all &= kept;
    };
    check("no machine too many", made == MACHINES, format!("{made} were made, {MACHINES} were needed"));
    check("never more than wanted and surge", witness.most() <= 6 + SURGE, format!("{} at most", witness.most()));
    check("one VM for one machine", vms == u64::try_from(made).unwrap_or(0), format!("{vms} created"));
    check(
        "the budget was kept while all machines rolled",
        witness.fewest() >= MIN_PODS,
        format!("never fewer than {} pods ready", witness.fewest()),
    );
    check(
        "nothing is left behind",
        left == (0, 0, 0),
        format!("{} VMs, {} nodes, {} bootstrap tokens", left.0, left.1, left.2),
    );
    check("a handful of requests", each <= MOST_REQUESTS, format!("{each} a machine, for its whole life"));
    check(
        "no conflict with ourselves",
        conflicts == 0,
        format!("{conflicts} writes refused as outdated{}", which.concat()),
    );
    all
}

fn tokens(environment: &Environment) -> usize {
    let is_token = |secret: &serde_json::Value| {
        secret.pointer("/type").and_then(|kind| kind.as_str()) == Some("bootstrap.kubernetes.io/token")
    };
    environment.server.objects("secrets").iter().filter(|secret| is_token(secret)).count()
}
