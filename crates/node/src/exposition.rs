//! Figures over HTTP, for a Prometheus on the same machine.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::metrics::Metrics;

/// How many connections are open at a time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 16;

/// How long the head of a request may take to come, and a connection from its beginning to its end.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const ALL_WITHIN: Duration = Duration::from_secs(20);

/// How much the head of a request may have: in bytes, and in fields.
const MAX_HEAD: usize = 8 << 10;
const MAX_FIELDS: usize = 64;

/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(500);

/// The one path that there is, and what is behind it.
const PATH: &str = "/metrics";
const TEXT_FORMAT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The address is not to be had.
#[derive(Debug, Error)]
#[error("metrics cannot be served at {address}: {cause}")]
pub struct ExpositionError {
    /// The address.
    pub address: SocketAddr,
    /// What the system says.
    pub cause: io::Error,
}

/// An address at which figures can be had.
pub(crate) struct Exposition {
    listener: TcpListener,
    address: SocketAddr,
}

/// Takes the address, if there is one.
pub(crate) async fn listen(
    address: Option<SocketAddr>,
) -> Result<Option<Exposition>, ExpositionError> {
    let Some(address) = address else { return Ok(None) };
    let failed = |cause| ExpositionError { address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Some(Exposition { listener, address }))
}

impl Exposition {
    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests for as long as it is polled.
    pub(crate) async fn serve(self, metrics: Metrics) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        let metrics = metrics.clone();
                        spawn_local(async move {
                            let _place = place;
                            converse(stream, metrics).await;
                        });
                    }
                    Err(_) => debug!(%from, "too many ask for metrics"),
                },
                Err(error) => {
                    warn!(%error, "nobody can ask for metrics for a moment");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Answers one request.
async fn converse(stream: TcpStream, metrics: Metrics) {
    let service = service_fn(move |request: Request<_>| {
        let response = answer(&request, &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_FIELDS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(ALL_WITHIN, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a request for metrics failed"),
        Err(_) => debug!("a request for metrics took too long"),
    }
}

/// What a request is answered; its body is not read.
fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<String> {
    let (status, kind, text) = match (request.uri().path(), request.method()) {
        (PATH, &Method::GET | &Method::HEAD) => (StatusCode::OK, TEXT_FORMAT, metrics.text()),
        (PATH, _) => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned()),
        (_, _) => (StatusCode::NOT_FOUND, PLAIN, format!("only {PATH}\n")),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
