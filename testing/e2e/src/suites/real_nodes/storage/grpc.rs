//! gRPC on a unix socket for the kubelet's calls to the plug-in.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::plugin::Plugin;

/// Serves until it is dropped.
pub(super) async fn serve(listener: UnixListener, plugin: Arc<Plugin>) {
    let mut callers = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        callers.spawn(attend(stream, plugin.clone()));
        while callers.try_join_next().is_some() {}
    }
}

async fn attend(stream: UnixStream, plugin: Arc<Plugin>) {
    let service = service_fn(move |request| respond(request, plugin.clone()));
    // A killed kubelet closes the connection.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, plugin: Arc<Plugin>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    Ok(match path.as_str() {
        "/pluginregistration.Registration/GetInfo" => unary(request, |(): ()| Ok(Plugin::info())).await,
        "/csi.v1.Node/NodeGetInfo" => unary(request, |(): ()| Ok(plugin.node())).await,
        "/csi.v1.Node/NodePublishVolume" => unary(request, |asked| plugin.publish(asked)).await,
        "/csi.v1.Node/NodeUnpublishVolume" => unary(request, |asked| plugin.unpublish(asked)).await,
        // No capabilities, and an empty response to the registration status.
        "/csi.v1.Node/NodeGetCapabilities" | "/pluginregistration.Registration/NotifyRegistrationStatus" => {
            unary(request, |(): ()| Ok(())).await
        }
        other => Status::unimplemented(format!("{other} is not served")).into_http(),
    })
}

/// Handles a unary call. The message `()` ignores all fields.
async fn unary<Asked, Answer>(
    request: Request<Incoming>,
    answer: impl Fn(Asked) -> Result<Answer, Status>,
) -> Response<Body>
where
    Asked: Message + Default + 'static,
    Answer: Message + Default + 'static,
{
    let call = |asked: tonic::Request<Asked>| ready(answer(asked.into_inner()).map(tonic::Response::new));
    Grpc::new(ProstCodec::default()).unary(tower::service_fn(call), request).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::Uri;
    use tonic::Code;
    use tonic::client;

    use super::super::super::homes::Homes;
    use super::super::events::Events;
    use super::super::plugin::{DRIVER, PluginInfo, Publish};
    use super::*;

    /// Calls the plug-in of a machine that does not exist.
    async fn call<Asked, Answer>(method: &'static str, asked: Asked) -> Result<Answer, Status>
    where
        Asked: Message + 'static,
        Answer: Message + Default + 'static,
    {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("csi.sock");
        let homes = Homes::new(Path::new("/nowhere"), "pool");
        let plugin = Plugin { machine: "none".to_owned(), homes, events: Events::default() };
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(UnixListener::bind(&socket).unwrap(), Arc::new(plugin)));
        let stream = TokioIo::new(UnixStream::connect(&socket).await.unwrap());
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tasks.spawn(async { connection.await.unwrap_or_default() });
        let carrier = tower::service_fn(move |request| sender.clone().send_request(request));
        let mut caller = client::Grpc::with_origin(carrier, Uri::from_static("http://plug-in"));
        caller.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static(method);
        caller.unary(tonic::Request::new(asked), path, ProstCodec::default()).await.map(tonic::Response::into_inner)
    }

    /// Shows HST-30.
    #[tokio::test]
    async fn registration_info_contains_the_name_of_the_driver() {
        let info: PluginInfo = call("/pluginregistration.Registration/GetInfo", ()).await.unwrap();
        assert_eq!((info.kind.as_str(), info.name.as_str()), ("CSIPlugin", DRIVER));
    }

    /// Shows HST-30.
    #[tokio::test]
    async fn a_mount_error_is_returned_to_the_kubelet() {
        let asked = Publish { volume: "store".to_owned(), target: "/target".to_owned() };
        let refused = call::<_, ()>("/csi.v1.Node/NodePublishVolume", asked).await.unwrap_err();
        assert_eq!(refused.code(), Code::Internal);
        assert!(refused.message().contains("/nowhere"), "{refused}");
    }

    /// Shows HST-30.
    #[tokio::test]
    async fn an_unsupported_call_returns_unimplemented() {
        let refused = call::<_, ()>("/csi.v1.Node/NodeStageVolume", ()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
    }
}
