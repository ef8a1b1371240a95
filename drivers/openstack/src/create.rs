//! Creates the server of a machine exactly once.
//!
//! Nova has no idempotency token. A create therefore looks for the machine's server by name before it creates one, and
//! keeps looking while it waits: a server of an earlier request appears in the same list, and the younger duplicate is
//! deleted. The id in Nova's response is kept, because some Nova installations do not find the server by name.
//!
//! If OpenStack rejects a request, the port and the volume are deleted immediately, as in the reference. If the outcome
//! of a request is unknown, everything is kept for the next attempt, which finds it by name.

use std::time::Duration;

use backoff::Exponential;
use driver::{Code, Created, DriverError, Found, MachineRequest};
use driver_common::codes::{During, Meaning};
use driver_common::poll::{Poll, Waited};
use driver_common::pressure::ClassInZone;
use driver_common::provider_spec::Scope;

use crate::answer::{Server, Stage, text};
use crate::bodies::{self, Launch, Owner};
use crate::catalogue::Service;
use crate::codes;
use crate::delete::Deletion;
use crate::find::{self, MachineServers, found};
use crate::ids::resolve;
use crate::ports::{port_for, volume_for};
use crate::request::{self, ApiRequest};
use crate::session::{Failed, Session};
use crate::spec::Spec;

/// Wait until a server is built. The reference waits equally long.
const BUILT: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(5)),
    timeout: Duration::from_mins(20),
};

/// The inputs of a create.
pub(crate) struct Creation<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) request: &'a MachineRequest,
    pub(crate) spec: &'a Spec,
    pub(crate) scope: &'a Scope,
    pub(crate) user_data: &'a [u8],
}

impl Creation<'_> {
    /// Returns the machine's server: the existing one or a new one.
    pub(crate) async fn run(&self) -> Result<Created, DriverError> {
        let server = match self.selected().await? {
            Some(selected) if selected.server.stage() == Stage::Built && selected.duplicates.is_empty() => {
                selected.server
            }
            Some(_) => self.built().await?,
            None => self.made().await?,
        };
        find::forget(self.session, self.request.machine_name(), self.uid());
        let Found { provider_id, node_name, addresses } = found(&self.scope.region, &server);
        Ok(Created { provider_id, node_name, last_known_state: None, addresses })
    }

    async fn made(&self) -> Result<Server, DriverError> {
        let place = self.place();
        if let Some(held) = self.session.cloud.rate_limiter.blocked(&place) {
            return Err(DriverError::new(Code::ResourceExhausted, held.reason));
        }
        if let Err(failed) = self.launch().await {
            return Err(self.clean_up(failed).await);
        }
        let server = self.built().await?;
        self.session.cloud.rate_limiter.unblock(&place);
        Ok(server)
    }

    async fn launch(&self) -> Result<(), Failed> {
        let (session, spec) = (self.session, self.spec);
        let owner =
            Owner { machine: self.request.machine_name(), uid: self.uid(), cluster_tags: &self.scope.cluster_tags };
        let resolved = &resolve(session, spec).await?;
        let port = if spec.has_own_port() { Some(port_for(session, spec, owner, resolved).await?) } else { None };
        let volume = if spec.has_own_volume() { Some(volume_for(session, spec, owner, resolved).await?) } else { None };
        let (port, volume) = (port.as_deref(), volume.as_deref());
        let body = bodies::server(&Launch { spec, owner, resolved, port, volume, user_data: self.user_data });
        let answer = session.execute(&ApiRequest::post(Service::Nova, "/servers", body), During::Create).await?;
        if let Some(id) = answer.get("server").map(|server| text(server, "id")).filter(|id| !id.is_empty()) {
            find::keep(session, owner.machine, owner.uid, id);
        }
        Ok(())
    }

    /// Waits until the server is built. Transient errors are retried, because the server already exists and incurs
    /// cost.
    async fn built(&self) -> Result<Server, DriverError> {
        let waited = BUILT
            .until(
                self.session.call,
                || (self.session.cloud.chance)(),
                || async {
                    match self.selected().await {
                        Ok(Some(selected)) => {
                            self.delete_duplicates(&selected).await?;
                            let server = selected.server;
                            Ok(Some(server).filter(|server| server.stage() != Stage::Building))
                        }
                        Ok(None) => {
                            let machine = self.request.machine_name();
                            Err(DriverError::new(
                                Code::Aborted,
                                format!("the server of {machine:?} disappeared during its build"),
                            ))
                        }
                        Err(error) if codes::is_transient(&error) => Ok(None),
                        Err(error) => Err(error),
                    }
                },
            )
            .await?;
        match waited {
            Waited::Done(server) if server.stage() == Stage::Failed => {
                let (error, meaning) = codes::fault(&self.fault(server).await?, &[self.session.hidden()]);
                Err(self.clean_up(Failed { refusal: None, meaning, broken: false, error }).await)
            }
            Waited::Done(server) => Ok(server),
            Waited::TimedOut => {
                Err(DriverError::new(Code::DeadlineExceeded, "the server was not built within 20 minutes"))
            }
        }
    }

    /// Returns the fault of a failed server. Nova's lists omit it, so the server is read by its id.
    async fn fault(&self, server: Server) -> Result<String, DriverError> {
        if !server.fault.is_empty() {
            return Ok(server.fault);
        }
        let shown = find::by_id(self.session, &server.id, During::Create).await?;
        Ok(shown.map(|shown| shown.fault).unwrap_or_default())
    }

    async fn selected(&self) -> Result<Option<MachineServers>, DriverError> {
        let machine = self.request.machine_name();
        let servers = find::named(self.session, machine, self.uid(), During::Create).await?;
        find::select(servers, &self.scope.cluster_tags, machine, self.uid())
    }

    async fn delete_duplicates(&self, selected: &MachineServers) -> Result<(), DriverError> {
        for duplicate in &selected.duplicates {
            tracing::warn!(
                kept = selected.server.id,
                removed = duplicate.id,
                "deleting the younger of two servers of a machine"
            );
            match self.session.execute(&request::delete_server(&duplicate.id), During::Elsewhere).await {
                Err(failed) if failed.is_absent() || failed.is(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Cleans up after a rejected create and blocks the zone if it has no capacity.
    async fn clean_up(&self, failed: Failed) -> DriverError {
        if failed.meaning == Meaning::NoCapacity {
            self.session.cloud.rate_limiter.block(self.session.call, self.place(), failed.error.message());
        }
        if failed.error.code() == Code::InvalidArgument {
            self.session.cloud.ids.forget(&self.session.account);
        }
        let is_certain = matches!(
            failed.error.code(),
            Code::ResourceExhausted | Code::InvalidArgument | Code::Internal | Code::PermissionDenied
        );
        if is_certain {
            let deletion = Deletion {
                session: self.session,
                spec: self.spec,
                scope: self.scope,
                machine: self.request.machine_name(),
                uid: self.uid(),
                named: None,
            };
            if let Err(error) = deletion.run().await {
                tracing::warn!(machine = self.request.machine_name(), %error, "failed to clean up after a failed create; retrying in the next attempt");
            }
        }
        failed.error
    }

    fn uid(&self) -> &str {
        self.request.machine.metadata.uid.as_str()
    }

    /// Returns what NoCapacity blocks: this class in its zone.
    fn place(&self) -> ClassInZone {
        let metadata = &self.request.class.metadata;
        ClassInZone {
            class: format!("{}/{}", metadata.namespace, metadata.name),
            zone: self.spec.availability_zone.clone(),
        }
    }
}
