//! Implements the protocol for a driver: decode, call, encode.

use std::sync::Arc;
use std::time::Duration;

use driver::{Call, Driver, DriverError, MeterBuffer, Support};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::messages::request::{class_request, machine_request};
use crate::messages::{self as wire, disk, driver_server};
use crate::serve::{About, PROBE};

pub(crate) struct Service {
    driver: Arc<dyn Driver>,
    about: About,
}

impl Service {
    pub(crate) fn new(driver: Arc<dyn Driver>, about: About) -> Self {
        Self { driver, about }
    }
}

/// The limits of a call as set by the caller.
struct Limits {
    call: Call,
    /// The cloud requests, which the caller counts.
    asked: Arc<MeterBuffer>,
    /// If the caller disconnects, this future is dropped, and the token cancels the driver's other work.
    _gone: DropGuard,
}

impl Limits {
    fn of(metadata: &MetadataMap) -> Self {
        let canceled = CancellationToken::new();
        let timeout = metadata.get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?));
        let asked = Arc::new(MeterBuffer::default());
        let call = Call::within(timeout.unwrap_or(Call::DEFAULT_TIMEOUT)).canceled_by(canceled.clone());
        Self { call: call.metered(asked.clone()), asked, _gone: canceled.drop_guard() }
    }

    fn cloud_requests(&self) -> Vec<wire::CloudRequest> {
        self.asked.take().into_iter().map(Into::into).collect()
    }

    fn cloud_pressure(&self) -> Vec<wire::CloudPressure> {
        self.asked.take_pressure().into_iter().map(Into::into).collect()
    }

    /// Applies the limits, even if the driver ignores them.
    async fn bound<T>(&self, work: impl Future<Output = Result<T, DriverError>>) -> Result<T, DriverError> {
        let answer = self.call.bound(work).await;
        if let Err(error) = &answer {
            let cause = std::error::Error::source(error);
            tracing::debug!(code = %error.code(), message = error.message(), cause, "call failed");
        }
        answer
    }
}

/// Parses a gRPC timeout: at most eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = if (1..=8).contains(&digits.len()) { digits.parse().ok()? } else { return None };
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[tonic::async_trait]
impl driver_server::Driver for Service {
    async fn describe(
        &self,
        request: Request<wire::DescribeRequest>,
    ) -> Result<Response<wire::DescribeResponse>, Status> {
        match request.get_ref().client.as_str() {
            // A kubelet probes every few seconds.
            PROBE => tracing::debug!("answered probe"),
            client => tracing::info!(client, "caller connected"),
        }
        let offered = self.driver.capabilities();
        let offers = |support| support == Support::Offered;
        Ok(Response::new(wire::DescribeResponse {
            name: self.about.name.clone(),
            version: self.about.version.clone(),
            capabilities: Some(wire::Capabilities {
                initialize: offers(offered.initialize),
                status: offers(offered.status),
                list: offers(offered.list),
                volume_ids: offers(offered.volume_ids),
            }),
        }))
    }

    async fn create(&self, request: Request<wire::CreateRequest>) -> Result<Response<wire::CreateResponse>, Status> {
        use wire::create_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let wire::CreateRequest { machine, machine_class } = request.into_inner();
        let work = async { self.driver.create(&limits.call, &machine_request(machine, machine_class)?).await };
        let result = match limits.bound(work).await {
            Ok(made) => Answer::Created(made.into()),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::CreateResponse {
            result: Some(result),
            cloud_requests: limits.cloud_requests(),
            cloud_pressure: limits.cloud_pressure(),
        }))
    }

    async fn delete(&self, request: Request<wire::DeleteRequest>) -> Result<Response<wire::DeleteResponse>, Status> {
        use wire::delete_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let wire::DeleteRequest { machine, machine_class } = request.into_inner();
        let work = async { self.driver.delete(&limits.call, &machine_request(machine, machine_class)?).await };
        let result = match limits.bound(work).await {
            Ok(gone) => Answer::Deleted(gone.into()),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::DeleteResponse {
            result: Some(result),
            cloud_requests: limits.cloud_requests(),
            cloud_pressure: limits.cloud_pressure(),
        }))
    }

    async fn initialize(
        &self,
        request: Request<wire::InitializeRequest>,
    ) -> Result<Response<wire::InitializeResponse>, Status> {
        use wire::initialize_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let wire::InitializeRequest { machine, machine_class } = request.into_inner();
        let work = async { self.driver.initialize(&limits.call, &machine_request(machine, machine_class)?).await };
        let result = match limits.bound(work).await {
            Ok(vm) => Answer::Initialized(vm.into()),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::InitializeResponse {
            result: Some(result),
            cloud_requests: limits.cloud_requests(),
            cloud_pressure: limits.cloud_pressure(),
        }))
    }

    async fn status(&self, request: Request<wire::StatusRequest>) -> Result<Response<wire::StatusResponse>, Status> {
        use wire::status_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let wire::StatusRequest { machine, machine_class } = request.into_inner();
        let work = async { self.driver.status(&limits.call, &machine_request(machine, machine_class)?).await };
        let result = match limits.bound(work).await {
            Ok(vm) => Answer::Found(vm.into()),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::StatusResponse {
            result: Some(result),
            cloud_requests: limits.cloud_requests(),
            cloud_pressure: limits.cloud_pressure(),
        }))
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Result<Response<wire::ListResponse>, Status> {
        use wire::list_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let wire::ListRequest { machine_class } = request.into_inner();
        let work = async { self.driver.list(&limits.call, &class_request(machine_class)?).await };
        let result = match limits.bound(work).await {
            Ok(owners) => Answer::Owners(owners.into()),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::ListResponse {
            result: Some(result),
            cloud_requests: limits.cloud_requests(),
            cloud_pressure: limits.cloud_pressure(),
        }))
    }

    async fn volume_ids(
        &self,
        request: Request<wire::VolumeIdsRequest>,
    ) -> Result<Response<wire::VolumeIdsResponse>, Status> {
        use wire::volume_ids_response::Result as Answer;
        let limits = Limits::of(request.metadata());
        let volumes: Vec<_> = request.into_inner().volumes.into_iter().map(disk::spec).collect();
        let result = match limits.bound(self.driver.volume_ids(&limits.call, &volumes)).await {
            Ok(ids) => Answer::Ids(wire::VolumeIdList { ids }),
            Err(error) => Answer::Failure(error.into()),
        };
        Ok(Response::new(wire::VolumeIdsResponse { result: Some(result) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("20M", Some(Duration::from_mins(20)))]
    #[case("1H", Some(Duration::from_hours(1)))]
    #[case("7S", Some(Duration::from_secs(7)))]
    #[case("99999999m", Some(Duration::from_millis(99_999_999)))]
    #[case("5u", Some(Duration::from_micros(5)))]
    #[case("5n", Some(Duration::from_nanos(5)))]
    #[case("999999999m", None)]
    #[case("5", None)]
    #[case("m", None)]
    #[case("5x", None)]
    #[case("", None)]
    #[case("5é", None)]
    fn grpc_timeout_is_parsed(#[case] text: &str, #[case] read: Option<Duration>) {
        assert_eq!(timeout(text), read);
    }
}
