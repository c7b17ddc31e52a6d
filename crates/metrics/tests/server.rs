//! The server and its clients, also bad ones.

#![allow(clippy::disallowed_methods)]

use softband_metrics::server::{CONNECTIONS_MAX, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn start(text: impl Fn() -> Option<String> + Send + 'static) -> SocketAddr {
    let server = Server::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = server.address().unwrap();
    server.start(Box::new(text)).unwrap();
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    answer(stream)
}

#[test]
fn each_request_has_its_answer() {
    let address = start(|| Some("up 1\n".into()));
    let found = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 5\r\n"), "{found}");
    assert!(found.ends_with("\r\n\r\nup 1\n"), "{found}");
    let head = ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics/../etc HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
        ("nonsense\r\n\r\n", "400 Bad Request"),
    ] {
        assert!(ask(address, request).starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}");
    }
    assert!(ask(address, "PUT /metrics HTTP/1.1\r\n\r\n").contains("\r\nAllow: GET, HEAD\r\n"));
}

#[test]
fn a_request_may_come_in_pieces_and_has_a_largest_size() {
    let address = start(|| Some("up 1\n".into()));
    let mut stream = connect(address);
    for byte in b"GET /metrics HTTP/1.0\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(answer(stream).ends_with("up 1\n"));
    let mut stream = connect(address);
    let _ = stream.write_all(format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 * 1024)).as_bytes());
    let refused = answer(stream);
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 400 "), "{refused}");
}

#[test]
fn silent_clients_leave_room_for_others() {
    let address = start(|| Some("up 1\n".into()));
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX - 1).map(|_| connect(address)).collect();
    let begin = Instant::now();
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n"));
    assert!(begin.elapsed() < Duration::from_secs(5));
    // Beyond the limit the server closes connections, and goes on once others have gone.
    let more: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX).map(|_| connect(address)).collect();
    drop((silent, more));
    let again = || ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n");
    assert!((0..100).any(|_| again() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
fn a_fabric_without_an_answer_is_unavailable() {
    let address = start(|| None);
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
}

#[test]
fn an_address_has_one_server() {
    let first = Server::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let second = Server::bind(first.address().unwrap());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
