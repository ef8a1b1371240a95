//! Places where this process can be made to die, for `cargo xtask crash-table`. Compiled in by the feature `failpoints` only.
//!
//! Every effect of the controllers leaves the process in one of two ways: as a write to an API server or as a call to a driver.
//! Both are wrapped here, so that no controller knows of failpoints and none can be forgotten. An effect has three moments: before
//! it, after it but before anybody here has heard of it, and after its answer was noted. At the last one nothing further may
//! leave, or it would be the next effect's first moment.
//!
//! A point is the name of an effect with a count, such as `PATCH machines (providerID) #1`. An attempt that was refused, because a
//! kubelet wrote to the same Node for example, is no effect: the next attempt has the same count. The environment says where to die
//! (`MILLWRIGHT_FAILPOINT="<point>/<moment>"`) and where to write down every point that is passed (`MILLWRIGHT_FAILPOINT_LOG`).

mod client;
mod driver;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controllers::wiring::{Clients, Component, Parts};
use parking_lot::Mutex;

/// Where to die, and what was passed on the way. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Failpoints(Arc<State>);

#[derive(Default)]
struct State {
    deadly: Option<String>,
    log: Option<PathBuf>,
    passed: Mutex<BTreeMap<String, usize>>,
    dying: AtomicBool,
}

impl Failpoints {
    /// What the environment says.
    #[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
    pub(crate) fn from_environment() -> Self {
        let deadly = std::env::var("MILLWRIGHT_FAILPOINT").ok().filter(|point| !point.is_empty());
        let log = std::env::var_os("MILLWRIGHT_FAILPOINT_LOG").map(PathBuf::from);
        Self(Arc::new(State { deadly, log, ..State::default() }))
    }

    /// Controllers whose effects can be deadly.
    pub(crate) fn guard(&self, parts: Parts) -> Parts {
        let guarded = |clients: Clients| Clients {
            control: self.guard_client(clients.control),
            control_core: self.guard_client(clients.control_core),
            target: clients.target.map(|client| self.guard_client(client)),
            server_times: clients.server_times,
        };
        Parts {
            components: parts
                .components
                .map(|component| Component { clients: guarded(component.clients.clone()), ..component }),
            drivers: parts.drivers.wrapped(|driver| self.guard_driver(driver)),
            ..parts
        }
    }

    /// Lets an effect happen, unless this is where to die. `happened` tells from the answer whether it did.
    async fn around<T>(&self, name: &str, effect: impl Future<Output = T>, happened: impl Fn(&T) -> bool) -> T {
        if self.0.dying.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let point = self.next(name);
        self.reach(&point, "before").await;
        let answer = effect.await;
        if !happened(&answer) {
            return answer;
        }
        self.pass(name, &point);
        self.reach(&point, "done").await;
        if self.is_deadly(&point, "noted") {
            self.0.dying.store(true, Ordering::SeqCst);
            #[allow(clippy::disallowed_methods, reason = "it outlives nothing: the process ends with it")]
            tokio::spawn(async {
                // Noting an answer takes no waiting, so this is long; and nothing else leaves the process meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
                die();
            });
        }
        answer
    }

    /// The point that an effect of this name would be.
    fn next(&self, name: &str) -> String {
        format!("{name} #{}", self.0.passed.lock().get(name).copied().unwrap_or_default() + 1)
    }

    /// Counts an effect and writes it down.
    fn pass(&self, name: &str, point: &str) {
        *self.0.passed.lock().entry(name.to_owned()).or_default() += 1;
        if let Some(path) = &self.0.log {
            let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = written.and_then(|mut file| writeln!(file, "{point}")) {
                tracing::error!(%error, "failed to write down a failpoint");
            }
        }
    }

    async fn reach(&self, point: &str, moment: &str) {
        if self.is_deadly(point, moment) {
            self.0.dying.store(true, Ordering::SeqCst);
            die();
            std::future::pending::<()>().await;
        }
    }

    fn is_deadly(&self, point: &str, moment: &str) -> bool {
        self.0.deadly.as_deref().and_then(|deadly| deadly.rsplit_once('/')) == Some((point, moment))
    }
}

/// As the kernel or an operator would do it: nothing is flushed, nobody is told.
fn die() {
    let _ = std::process::Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
}
