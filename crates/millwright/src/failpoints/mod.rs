//! Failpoints at which this process can be killed, for `cargo xtask crash-table`. Compiled in by the feature
//! `failpoints` only.
//!
//! Every effect of the controllers is either a write to an API server or a call to a driver. Both are wrapped here, so
//! that the controllers need no failpoints and none can be missing. An effect has three moments: before it, after it
//! but before its response is processed, and after its response was processed. At the last moment, no further effect
//! may leave the process, because that would be the first moment of the next effect.
//!
//! A failpoint is the name of an effect with a number, such as `PATCH machines (providerID) #1`. A rejected attempt,
//! for example because of a conflict with a kubelet, is not an effect: the next attempt has the same number. The
//! environment sets the failpoint (`MILLWRIGHT_FAILPOINT="<point>/<moment>"`) and the file to which passed failpoints
//! are written (`MILLWRIGHT_FAILPOINT_LOG`).

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

/// The failpoint to die at, and the failpoints that were passed. Clones share their state.
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
    /// Reads the environment.
    #[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
    pub(crate) fn from_environment() -> Self {
        let deadly = std::env::var("MILLWRIGHT_FAILPOINT").ok().filter(|point| !point.is_empty());
        let log = std::env::var_os("MILLWRIGHT_FAILPOINT_LOG").map(PathBuf::from);
        Self(Arc::new(State { deadly, log, ..State::default() }))
    }

    /// Adds failpoints to the effects of the controllers.
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

    /// Runs an effect, unless the process is killed. `happened` reports whether the response shows an effect.
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
            #[allow(clippy::disallowed_methods, reason = "the process ends with this task")]
            tokio::spawn(async {
                // The response is processed without waiting, so this delay is sufficient; no other effect leaves the
                // process meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
                die();
            });
        }
        answer
    }

    /// Returns the failpoint of the next effect of this name.
    fn next(&self, name: &str) -> String {
        format!("{name} #{}", self.0.passed.lock().get(name).copied().unwrap_or_default() + 1)
    }

    /// Counts an effect and writes it to the file.
    fn pass(&self, name: &str, point: &str) {
        *self.0.passed.lock().entry(name.to_owned()).or_default() += 1;
        if let Some(path) = &self.0.log {
            let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = written.and_then(|mut file| writeln!(file, "{point}")) {
                tracing::error!(%error, "failed to write the failpoint to the file");
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

/// Kills the process without flushing, as the kernel or a user would.
fn die() {
    let _ = std::process::Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
}
