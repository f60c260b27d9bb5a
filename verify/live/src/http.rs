//! The few lines of HTTP that the admin API's tests need.

use crate::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An HTTP response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header part, lower case.
    pub head: String,
    /// Body as text.
    pub body: String,
}

/// One HTTP request on a connection of its own, closed by the server after the answer.
pub fn http(admin: SocketAddr, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).unwrap();
    let text = String::from_utf8_lossy(&raw).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}
