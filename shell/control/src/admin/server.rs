//! The thread, the socket and the connections of the admin API.

use super::events::HangUp;
use super::guard::Guard;
use super::model::Admin;
use super::routes;
use crate::config::AdminAccess;
use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Connections at one time; the next waits in the kernel's queue.
const CONNECTIONS: usize = 64;
/// How long a request head may take, and a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After this a connection is asked to end; scrapers open a new one.
const CONNECTION_LIFE: Duration = Duration::from_secs(120);
/// Then it has this long to take its last answer.
const CONNECTION_END: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example because there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest request head, octets.
const HEAD_BYTES: usize = 16 * 1024;
/// Longest bearer token, octets.
const TOKEN_BYTES: u64 = 4096;

/// The admin API's socket, open and not yet answered: callers wait in the kernel's queue. Whether the
/// address is free is known before anything else is made.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

impl Bound {
    /// Reads the token file and binds the address. `Ok(None)` when switched off.
    ///
    /// Fails when the address cannot be bound, when it is not loopback and
    /// [`AdminAccess::allow_remote`] is not set, or when the token file cannot be read.
    pub fn new(access: &AdminAccess) -> io::Result<Option<Bound>> {
        let Some(wanted) = access.listen else { return Ok(None) };
        if !wanted.ip().to_canonical().is_loopback() && !access.allow_remote {
            let what = format!("{wanted} is not a loopback address and admin.allow_remote is not set");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        let token = access.token_file.as_deref().map(read_token).transpose()?;
        let listener = TcpListener::bind(wanted)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Some(Bound { listener, address, guard: Guard::new(address, &access.hosts, token) }))
    }

    /// The tokens of this file may do what their rights say.
    #[must_use]
    pub fn with_tokens(self, path: PathBuf) -> Bound {
        Bound { guard: self.guard.with_tokens(path), ..self }
    }

    /// Starts to answer on a thread of its own. Fails when the system gives no thread.
    pub fn start(self, admin: Arc<dyn Admin>) -> io::Result<Server> {
        let Bound { listener, address, guard } = self;
        let router = routes::router(admin, Arc::new(guard));
        // Two helper threads: one answer that takes its time does not hold up the others.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(2)
            .thread_name("admin-help")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(accept(listener, router, stopped));
            // A helper that hangs must not hold up the end of the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(serve)?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }
}

/// The running admin API. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// [`Bound::new`] and [`Bound::start`] in one.
    pub fn start(access: &AdminAccess, admin: Arc<dyn Admin>) -> io::Result<Option<Server>> {
        Bound::new(access)?.map(|bound| bound.start(admin)).transpose()
    }

    /// The address bound, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once; a panic there has been reported already.
            let _ = thread.join();
        }
    }
}

/// The first line of the token file.
fn read_token(path: &Path) -> io::Result<String> {
    let (token, is_open) = read_secret(path)?;
    if is_open {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        log_events::admin::admin_token_open(&whole.display());
    }
    Ok(token)
}

/// The secret in the first line of a file, at least 16 characters, and whether other users can read the file.
///
/// # Errors
/// The file cannot be read, or the line is too short.
pub fn read_secret(path: &Path) -> io::Result<(String, bool)> {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    let mut text = String::new();
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let file = regular_file::open(path).map_err(named)?;
    let is_open = file.metadata().is_ok_and(|meta| meta.mode() & 0o007 != 0);
    file.take(TOKEN_BYTES).read_to_string(&mut text).map_err(named)?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < 16 {
        let what = format!("{}: at least 16 characters are needed", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok((token.to_owned(), is_open))
}

/// Accepts until told to stop.
async fn accept(listener: TcpListener, router: axum::Router, mut stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            log_events::admin::admin_not_started(&error);
            return;
        }
    };
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let next = async {
            let permit = permits.clone().acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            accepted = next => accepted,
        };
        match accepted {
            Some((permit, Ok((stream, _)))) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(permit);
                });
            }
            Some((_, Err(error))) => {
                tracing::debug!(%error, "admin API: accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None => return,
        }
    }
}

/// One connection, bounded in time whatever the peer does.
async fn serve(stream: TcpStream, router: axum::Router) {
    let _ = stream.set_nodelay(true);
    let hang_up = HangUp::default();
    let router = router.layer(Extension(hang_up.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => {}
        () = hang_up.asked() => {}
        () = tokio::time::sleep(CONNECTION_LIFE) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(CONNECTION_END, connection).await;
        }
    }
}
