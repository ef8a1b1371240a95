//! A driver that is killed without warning at any moment, and the one that comes after it.
//!
//! The victim is a test of the same program, which is started again for it alone. By itself that test does nothing: it calls [`obey`], which has no order.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use api::MachineClass;
use driver::Call;
use serde::{Deserialize, Serialize};

use super::{CLUSTER, OneHost, request};

/// Environment variable with the order for a victim process.
const ORDER: &str = "MILLWRIGHT_TEST_VICTIM";

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Verb {
    Create,
    Delete,
}

#[derive(Debug, Deserialize, Serialize)]
struct Order {
    verb: Verb,
    class: MachineClass,
    machine: String,
}

/// Makes or removes a machine, if this process is a victim.
pub async fn obey<Host: OneHost>() {
    #[allow(clippy::disallowed_methods, reason = "how a test tells its victim what to do")]
    let Ok(order) = std::env::var(ORDER) else { return };
    let Order { verb, class, machine } = serde_json::from_str(&order).unwrap();
    let request = request::<Host>(class, &machine);
    match verb {
        Verb::Create => drop(Host::driver().create(&Call::default(), &request).await.unwrap()),
        Verb::Delete => drop(Host::driver().delete(&Call::default(), &request).await.unwrap()),
    }
}

/// How a driver dies.
#[derive(Clone, Copy, Debug)]
pub struct Deaths {
    /// The name of the test that [obeys](obey).
    pub victim: &'static str,
    /// How much longer than the one before it each victim lives.
    pub step: Duration,
    /// After how many it is enough, if none was done before it was killed.
    pub most: u32,
}

impl Deaths {
    /// Kills drivers at different stages of a call. The next driver must finish or remove what each leaves. `left`
    /// describes the stage that a victim reached, for the log.
    #[allow(clippy::print_stdout, reason = "a test tells at which stages it killed")]
    pub async fn play<Host: OneHost>(self, host: &Host, left: impl Fn(&str) -> String) {
        let (call, driver, before) = (Call::default(), Host::driver(), host.traces());
        let mut stages = BTreeSet::new();
        for number in 0..self.most {
            let delay = self.step * number;
            let name = host.machine(&format!("k{number}"));
            let request = host.request(&name);
            let done = self.kill_after(host, Verb::Create, &name, delay).await;
            stages.insert(left(&name));
            if number % 2 == 0 {
                for _ in 0..2 {
                    driver.create(&call, &request).await.unwrap();
                    assert_eq!(host.running(&name), 1, "killed after {delay:?}");
                }
                self.kill_after(host, Verb::Delete, &name, delay).await;
            }
            driver.delete(&call, &request).await.unwrap();
            assert_eq!(host.traces(), before, "killed after {delay:?}");
            if done {
                break;
            }
        }
        println!("killed at these stages: {stages:?}");
    }

    /// Starts a victim and kills it after so long; whether it was done before that.
    async fn kill_after<Host: OneHost>(self, host: &Host, verb: Verb, machine: &str, delay: Duration) -> bool {
        let order = Order { verb, class: host.class(CLUSTER), machine: machine.to_owned() };
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.victim])
            .env(ORDER, serde_json::to_string(&order).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(delay).await;
        let done = victim.try_wait().unwrap().is_some();
        victim.kill().unwrap();
        victim.wait().unwrap();
        done
    }
}
