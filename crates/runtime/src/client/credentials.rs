//! Who we are, put on each request.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use tower::{BoxError, Service};

use super::reread::{FileError, Reread};

/// A bearer token from a file, as it stands in the header.
#[derive(Debug)]
pub(crate) struct TokenFile {
    header: Reread<HeaderValue>,
}

impl TokenFile {
    pub(crate) fn open(path: PathBuf) -> Result<Self, FileError> {
        Ok(Self { header: Reread::open(vec![path], bearer)? })
    }

    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.header.paths().first()
    }
}

fn bearer(contents: &[Vec<u8>]) -> Result<HeaderValue, String> {
    let text = contents.concat();
    // People end files with a newline; a header must not have one.
    let token = std::str::from_utf8(&text).map_err(|_| "it holds no token".to_owned())?.trim();
    if token.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| "it holds no token".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

/// A service that puts the token of a file on each request.
#[derive(Clone)]
pub(crate) struct WithToken<S> {
    pub(crate) carrier: S,
    pub(crate) token: Arc<TokenFile>,
}

impl<S, B> Service<Request<Body>> for WithToken<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.carrier.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let token = self.token.clone();
        request.headers_mut().insert(AUTHORIZATION, (*token.header.current()).clone());
        let answer = self.carrier.call(request);
        Box::pin(async move {
            let answer = answer.await;
            // The request is not repeated here: that is its author's to decide. But the next one looks twice.
            if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
                token.header.distrust();
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_end_in_a_newline_but_not_be_empty() {
        assert_eq!(bearer(&[b"abc\n".to_vec()]).unwrap(), "Bearer abc");
        assert!(bearer(&[b"\n".to_vec()]).is_err());
        assert!(bearer(&[b"a\x01b".to_vec()]).is_err());
    }

    #[test]
    fn a_token_does_not_show_when_printed() {
        assert!(!format!("{:?}", bearer(&[b"hunter2".to_vec()]).unwrap()).contains("hunter2"));
    }
}
