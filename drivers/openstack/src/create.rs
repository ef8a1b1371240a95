//! Making a server, once.
//!
//! Nova has no token that makes two requests one. So a create looks for the machine's server before it makes one, and goes on looking by name
//! while it waits: what an earlier request made comes to light in the same answer, and the younger of two is removed. The id in Nova's
//! answer is kept: a Nova that does not find the server by its name is asked for it by its id.
//!
//! What OpenStack refuses is cleaned up at once, as the reference does: a port or a volume without a server is paid for by nobody's use.
//! Where it is not known what was done, everything is left for the next attempt, which finds it by name.

use std::time::Duration;

use backoff::Exponential;
use driver::{Code, Created, DriverError, Found, MachineRequest};
use driver_common::codes::{During, Meaning};
use driver_common::poll::{Poll, Waited};
use driver_common::pressure::Place;
use driver_common::provider_spec::Scope;

use crate::answer::{Server, Stage, text};
use crate::bodies::{self, Launch, Owner};
use crate::catalogue::Service;
use crate::codes;
use crate::delete::Deletion;
use crate::find::{self, Settled, found};
use crate::ids::resolve;
use crate::ports::{port_for, volume_for};
use crate::request::{self, Ask};
use crate::session::{Failed, Session};
use crate::spec::Spec;

/// How long a server may take to be built, as long as the reference waits.
const BUILT: Poll = Poll {
    pauses: Exponential::new(Duration::from_millis(500), Duration::from_secs(5)),
    patience: Duration::from_mins(20),
};

/// A create with all that it needs.
pub(crate) struct Creation<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) request: &'a MachineRequest,
    pub(crate) spec: &'a Spec,
    pub(crate) scope: &'a Scope,
    pub(crate) user_data: &'a [u8],
}

impl Creation<'_> {
    /// The machine's server: the one that is there, or a new one.
    pub(crate) async fn run(&self) -> Result<Created, DriverError> {
        let server = match self.settled().await? {
            Some(settled) if settled.server.stage() == Stage::Made && settled.doubles.is_empty() => settled.server,
            Some(_) => self.built().await?,
            None => self.made().await?,
        };
        find::forget(self.session, self.request.machine_name(), self.uid());
        let Found { provider_id, node_name, addresses } = found(&self.scope.region, &server);
        Ok(Created { provider_id, node_name, last_known_state: None, addresses })
    }

    async fn made(&self) -> Result<Server, DriverError> {
        let place = self.place();
        if let Some(held) = self.session.cloud.turns.held(&place) {
            return Err(DriverError::new(Code::ResourceExhausted, held.reason));
        }
        if let Err(failed) = self.launch().await {
            return Err(self.given_up(failed).await);
        }
        let server = self.built().await?;
        self.session.cloud.turns.made(&place);
        Ok(server)
    }

    async fn launch(&self) -> Result<(), Failed> {
        let (session, spec) = (self.session, self.spec);
        let owner = Owner { machine: self.request.machine_name(), uid: self.uid(), marks: &self.scope.marks };
        let resolved = &resolve(session, spec).await?;
        let port = if spec.has_own_port() { Some(port_for(session, spec, owner, resolved).await?) } else { None };
        let volume = if spec.has_own_volume() { Some(volume_for(session, spec, owner, resolved).await?) } else { None };
        let (port, volume) = (port.as_deref(), volume.as_deref());
        let body = bodies::server(&Launch { spec, owner, resolved, port, volume, user_data: self.user_data });
        let answer = session.ask(&Ask::post(Service::Nova, "/servers", body), During::Create).await?;
        if let Some(id) = answer.get("server").map(|server| text(server, "id")).filter(|id| !id.is_empty()) {
            find::keep(session, owner.machine, owner.uid, id);
        }
        Ok(())
    }

    /// Waits until the server is built. A cloud that fails for a moment is asked again: the server is there and paid for.
    async fn built(&self) -> Result<Server, DriverError> {
        let waited = BUILT
            .until(
                self.session.call,
                || (self.session.cloud.chance)(),
                || async {
                    match self.settled().await {
                        Ok(Some(settled)) => {
                            self.remove_doubles(&settled).await?;
                            let server = settled.server;
                            Ok(Some(server).filter(|server| server.stage() != Stage::Building))
                        }
                        Ok(None) => {
                            let machine = self.request.machine_name();
                            Err(DriverError::new(
                                Code::Aborted,
                                format!("the server of {machine:?} vanished while it was built"),
                            ))
                        }
                        Err(error) if codes::is_passing(&error) => Ok(None),
                        Err(error) => Err(error),
                    }
                },
            )
            .await?;
        match waited {
            Waited::Done(server) if server.stage() == Stage::Failed => {
                let (error, meaning) = codes::fault(&self.fault(server).await?, &[self.session.hidden()]);
                Err(self.given_up(Failed { refusal: None, meaning, broken: false, error }).await)
            }
            Waited::Done(server) => Ok(server),
            Waited::InVain => {
                Err(DriverError::new(Code::DeadlineExceeded, "the server was not built within 20 minutes"))
            }
        }
    }

    /// Why a server failed. Nova's lists do not say, so it is asked for by its id.
    async fn fault(&self, server: Server) -> Result<String, DriverError> {
        if !server.fault.is_empty() {
            return Ok(server.fault);
        }
        let shown = find::by_id(self.session, &server.id, During::Create).await?;
        Ok(shown.map(|shown| shown.fault).unwrap_or_default())
    }

    async fn settled(&self) -> Result<Option<Settled>, DriverError> {
        let machine = self.request.machine_name();
        let servers = find::named(self.session, machine, self.uid(), During::Create).await?;
        find::settle(servers, &self.scope.marks, machine, self.uid())
    }

    async fn remove_doubles(&self, settled: &Settled) -> Result<(), DriverError> {
        for double in &settled.doubles {
            tracing::warn!(
                kept = settled.server.id,
                removed = double.id,
                "a machine has two servers; the younger one is removed"
            );
            match self.session.ask(&request::delete_server(&double.id), During::Elsewhere).await {
                Err(failed) if failed.is_absent() || failed.is(409) => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Cleans up after a create that OpenStack has refused, and remembers what it said of the zone.
    async fn given_up(&self, failed: Failed) -> DriverError {
        if failed.meaning == Meaning::NoCapacity {
            self.session.cloud.turns.refused(self.session.call, self.place(), failed.error.message());
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
                tracing::warn!(machine = self.request.machine_name(), %error, "what a failed create had made is left for the next attempt");
            }
        }
        failed.error
    }

    fn uid(&self) -> &str {
        self.request.machine.metadata.uid.as_str()
    }

    /// What a zone without capacity holds back: this class, in its zone.
    fn place(&self) -> Place {
        let metadata = &self.request.class.metadata;
        Place { class: format!("{}/{}", metadata.namespace, metadata.name), zone: self.spec.availability_zone.clone() }
    }
}
