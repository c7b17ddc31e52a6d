//! The HTTP server. It has threads of its own, and gets the text from a function, so no client can
//! hold up anything else. Sizes, times and numbers of connections have limits.

use crate::exposition::CONTENT_TYPE;
use crate::request::{BYTES_MAX, Request, parse};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time from the start of a connection to the end of its answer.
pub const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// Most connections at a time. The server closes others at once.
pub const CONNECTIONS_MAX: usize = 16;
/// Pause after the system has refused a connection, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the text of the metrics, or `None` if there is none at present.
pub type Source = Box<dyn FnMut() -> Option<String> + Send>;

/// A server that has its address, and answers nobody yet.
#[derive(Debug)]
pub struct Server(TcpListener);

impl Server {
    /// Takes an address. Clients wait until [`Self::start`].
    ///
    /// # Errors
    /// If the address is taken or not of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers clients from now on, until the process ends.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(self, source: Source) -> io::Result<()> {
        let source = Arc::new(Mutex::new(source));
        thread::Builder::new().name("metrics".into()).spawn(move || self.accept(&source)).map(drop)
    }

    fn accept(&self, source: &Arc<Mutex<Source>>) {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((stream, _)) = self.0.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            let place = Place::of(&open);
            if open.load(Ordering::Relaxed) > CONNECTIONS_MAX {
                continue; // closes the connection
            }
            let source = Arc::clone(source);
            let one = move || {
                let _ = serve(&stream, &source, Instant::now() + CONNECTION_MAX);
                drop(place);
            };
            // A failure closes this connection only.
            let _ = thread::Builder::new().name("metrics client".into()).spawn(one);
        }
    }
}

/// Counts a connection as open.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn of(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection up to `deadline`.
fn serve(stream: &TcpStream, source: &Mutex<Source>, deadline: Instant) -> io::Result<()> {
    let (status, body, is_head) = match read_request(stream, deadline)? {
        Request::Metrics { is_head } => {
            // One client at a time makes the engine count.
            let text = source.lock().unwrap_or_else(PoisonError::into_inner)();
            text.map_or(("503 Service Unavailable", "the fabric does not answer\n".into(), is_head), |text| ("200 OK", text, is_head))
        }
        Request::UnknownPath => ("404 Not Found", "the metrics are at /metrics\n".into(), false),
        Request::UnsupportedMethod => ("405 Method Not Allowed", "only GET and HEAD\n".into(), false),
        Request::Incomplete | Request::Malformed => ("400 Bad Request", "no request of HTTP 1\n".into(), false),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n", body.len());
    write_all(stream, head.as_bytes(), deadline)?;
    if !is_head {
        write_all(stream, body.as_bytes(), deadline)?;
    }
    stream.shutdown(std::net::Shutdown::Write)
}

fn read_request(mut stream: &TcpStream, deadline: Instant) -> io::Result<Request> {
    let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
    while bytes.len() <= BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let count = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..count]);
        match parse(&bytes) {
            Request::Incomplete if count > 0 => {}
            found => return Ok(found),
        }
    }
    Ok(Request::Malformed)
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Returns the time up to the deadline. Fails after it.
fn left(deadline: Instant) -> io::Result<Duration> {
    Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero()).ok_or_else(|| io::ErrorKind::TimedOut.into())
}
