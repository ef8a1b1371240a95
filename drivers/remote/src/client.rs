//! A driver client that reaches its cloud through another process.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::view::PersistentVolumeSpec;
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method,
    Owners, Support,
};
use runtime::client::Waited;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::connection::{Caller, Client, DriverConnection, MAX_LIST, MAX_RESPONSE};
use crate::dial::{Dial, TlsDial, UnixDial};
use crate::endpoint::{Endpoint, EndpointError};
use crate::link_error::LinkError;
use crate::messages::answer::{created, found, owners, protocol_violation};
use crate::messages::asked::{KnownLabels, Reports};
use crate::messages::request::{about_class, about_machine};
use crate::messages::{self as wire, disk};
use crate::tls::TlsFiles;

/// Interval at which an unchanged connection error is reported again.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// A driver in another process.
///
/// Each call is sent at most once. A call that could not be sent, and one whose response was lost, is `Unavailable`; in
/// the latter case the effect in the cloud is unknown. A call that ends early, by its deadline, its token or by being
/// dropped, also ends at the driver.
#[derive(Clone)]
pub struct RemoteDriver {
    connection: Arc<DriverConnection>,
    words: Arc<KnownLabels>,
}

impl RemoteDriver {
    /// Creates a driver for an endpoint without connecting. Until the first connection it has only the mandatory
    /// capabilities. TLS needs files; a unix socket ignores them.
    pub fn new(endpoint: &Endpoint, files: Option<&TlsFiles>, caller: Caller) -> Result<Self, EndpointError> {
        let dial: Box<dyn Dial> = match (endpoint, files) {
            (Endpoint::Unix(path), _) => Box::new(UnixDial(path.as_path().into())),
            (Endpoint::MutualTls { host, port }, Some(files)) => {
                Box::new(TlsDial { host: host.clone(), port: *port, files: files.clone() })
            }
            (Endpoint::MutualTls { .. }, None) => return Err(EndpointError::Files),
        };
        Ok(Self::over(dial, caller))
    }

    /// Creates a driver with a custom dialer.
    pub fn over(dial: Box<dyn Dial>, caller: Caller) -> Self {
        Self { connection: Arc::new(DriverConnection::new(dial, caller)), words: Arc::default() }
    }

    /// Connects to the driver unless a connection exists.
    pub async fn reach(&self) -> Result<(), Arc<LinkError>> {
        self.connection.client().await.map(drop)
    }

    /// Waits for a connection. Connection errors are passed to `report`: immediately when they change, otherwise every
    /// half minute.
    pub async fn wait_until_reached(&self, stop: &CancellationToken, mut report: impl FnMut(&str)) -> Waited {
        let mut reported: Option<(String, Instant)> = None;
        let waiting = async {
            while let Err(obstacle) = self.reach().await {
                let (sentence, now) = (obstacle.sentence(), Instant::now());
                if !reported.as_ref().is_some_and(|(last, at)| *last == sentence && now < *at + REPORT_INTERVAL) {
                    report(&sentence);
                    reported = Some((sentence, now));
                }
                tokio::time::sleep_until(self.connection.next_attempt().await).await;
            }
        };
        match stop.run_until_cancelled(waiting).await {
            Some(()) => Waited::Ready,
            None => Waited::Stopped,
        }
    }

    /// Sends a request within the limits of a call.
    async fn ask<Q, A, Sent>(
        &self,
        method: Method,
        call: &Call,
        question: Q,
        send: impl FnOnce(Client, tonic::Request<Q>) -> Sent,
    ) -> Result<A, DriverError>
    where
        A: Reports,
        Sent: Future<Output = Result<tonic::Response<A>, tonic::Status>>,
    {
        call.bound(async {
            let client = self.connection.client().await.map_err(not_sent)?;
            if self.connection.capabilities().support(method) == Support::NotOffered {
                let message = format!("this driver does not offer {}", method.operation());
                return Err(DriverError::new(Code::Unimplemented, message));
            }
            let client = client.max_decoding_message_size(match method {
                Method::List => MAX_LIST,
                _ => MAX_RESPONSE,
            });
            let mut request = tonic::Request::new(question);
            request.set_timeout(call.remaining());
            let mut answer = send(client, request).await.map(tonic::Response::into_inner).map_err(status_error)?;
            self.words.report(call, &mut answer);
            Ok(answer)
        })
        .await
    }
}

#[async_trait]
impl Driver for RemoteDriver {
    fn capabilities(&self) -> Capabilities {
        self.connection.capabilities()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.connection.changes())
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        use wire::create_response::Result as Answer;
        let (machine, machine_class) = about_machine(request);
        let question = wire::CreateRequest { machine, machine_class };
        let send = |mut to: Client, question| async move { to.create(question).await };
        match self.ask(Method::Create, call, question, send).await?.result {
            Some(Answer::Created(made)) => created(made),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        use wire::delete_response::Result as Answer;
        let (machine, machine_class) = about_machine(request);
        let question = wire::DeleteRequest { machine, machine_class };
        let send = |mut to: Client, question| async move { to.delete(question).await };
        match self.ask(Method::Delete, call, question, send).await?.result {
            Some(Answer::Deleted(deleted)) => Ok(deleted.into()),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        use wire::initialize_response::Result as Answer;
        let (machine, machine_class) = about_machine(request);
        let question = wire::InitializeRequest { machine, machine_class };
        let send = |mut to: Client, question| async move { to.initialize(question).await };
        match self.ask(Method::Initialize, call, question, send).await?.result {
            Some(Answer::Initialized(vm)) => found(Some(vm)),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        use wire::status_response::Result as Answer;
        let (machine, machine_class) = about_machine(request);
        let question = wire::StatusRequest { machine, machine_class };
        let send = |mut to: Client, question| async move { to.status(question).await };
        match self.ask(Method::Status, call, question, send).await?.result {
            Some(Answer::Found(vm)) => found(Some(vm)),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        use wire::list_response::Result as Answer;
        let question = wire::ListRequest { machine_class: Some(about_class(request)) };
        let send = |mut to: Client, question| async move { to.list(question).await };
        match self.ask(Method::List, call, question, send).await?.result {
            Some(Answer::Owners(listed)) => owners(listed),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }

    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        use wire::volume_ids_response::Result as Answer;
        let question = wire::VolumeIdsRequest { volumes: volumes.iter().map(disk::volume).collect() };
        let send = |mut to: Client, question| async move { to.volume_ids(question).await };
        match self.ask(Method::VolumeIds, call, question, send).await?.result {
            Some(Answer::Ids(list)) => Ok(list.ids),
            Some(Answer::Failure(failure)) => Err(failure.into()),
            None => Err(no_result()),
        }
    }
}

fn no_result() -> DriverError {
    protocol_violation("the response contains neither a result nor a failure")
}

fn not_sent(why: Arc<LinkError>) -> DriverError {
    DriverError::new(Code::Unavailable, why.sentence()).because(why)
}

/// A gRPC status never comes from the cloud, so no gRPC code is converted to a driver code: `NOT_FOUND` or
/// `UNIMPLEMENTED` of a proxy would cause another VM to be created.
fn status_error(status: tonic::Status) -> DriverError {
    match status.code() {
        tonic::Code::DeadlineExceeded => {
            DriverError::new(Code::DeadlineExceeded, "the driver did not respond before the deadline of the call")
        }
        _ if std::error::Error::source(&status).is_some() => DriverError::new(
            Code::Unavailable,
            "lost the connection to the driver before its response; whether the request took effect is unknown",
        ),
        code => DriverError::new(
            Code::Unavailable,
            format!("the driver failed ({code:?}: {}); whether the request took effect is unknown", status.message()),
        ),
    }
    .because(status)
}
