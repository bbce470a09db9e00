//! A real server in this process and a real client of it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use evenkeel::api::Service;
use evenkeel::proto::v1::spread_service_server::SpreadServiceServer;
use evenkeel::server::end_reservations;
use evenkeel::snapshot::{Limits, Now, Registry, Unobserved};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;

use crate::caller::Caller;

const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// A server that ends when this is dropped.
pub struct Server {
    /// The registry behind it.
    pub registry: Arc<Registry>,
    /// Cancelling this drains the server.
    pub draining: CancellationToken,
    caller: Caller,
    task: tokio::task::JoinHandle<()>,
}

/// A registry that nobody observes.
pub fn unobserved(limits: Limits) -> Arc<Registry> {
    Arc::new(Registry::new(limits, Arc::new(Unobserved)))
}

impl Server {
    /// One server for all cases of a test, and the threads that it runs on.
    pub fn shared() -> &'static (Runtime, Self) {
        static SHARED: OnceLock<(Runtime, Server)> = OnceLock::new();
        SHARED.get_or_init(|| {
            let runtime = Runtime::new().expect("a runtime");
            let server = runtime.block_on(Self::start());
            (runtime, server)
        })
    }

    /// A server with the default limits on a free port.
    pub async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    /// A server with these limits on a free port.
    pub async fn with_limits(limits: Limits) -> Self {
        let registry = Registry::new(limits, Arc::new(Unobserved));
        Self::with_registry(registry).await
    }

    /// A server with these limits and this clock, on a free port. It ends reservations by itself
    /// only if the clock runs as fast as real time.
    pub async fn with_clock<N: Into<Now>>(
        limits: Limits,
        clock: impl Fn() -> N + Send + Sync + 'static,
    ) -> Self {
        Self::with_registry(Registry::with_clock(limits, Arc::new(Unobserved), clock)).await
    }

    /// A server on this registry, on a free port.
    pub async fn with_registry(registry: Registry) -> Self {
        let registry = Arc::new(registry);
        let draining = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let service = Service::new(Arc::clone(&registry), draining.clone());
        let service = SpreadServiceServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let serve = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        let ending = end_reservations(Arc::clone(&registry));
        let task = tokio::spawn(async move {
            tokio::select! {
                served = serve => served.expect("the server runs"),
                () = ending => {}
            }
        });
        Self {
            registry,
            draining,
            caller: Caller::of(format!("http://127.0.0.1:{port}")),
            task,
        }
    }
}

impl Deref for Server {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
