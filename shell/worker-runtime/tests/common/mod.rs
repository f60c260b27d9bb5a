//! A toy machine: messages are lines, most are echoed. And what the tests need around it.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod forge;
pub mod pieces;
pub mod secure;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{
    Arrival, ConnId, Delivery, Flow, Frame, FrameError, Identity, ListenerId, Machine, Outbox, Time,
    Transport,
};
use worker_runtime::{Counts, Listener, Runtime, RuntimeConfig, RuntimeHandle};

/// What a machine was told, on which worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    Message(String),
    Undeliverable(u64),
    CutOff(u64),
    Identified(ConnId, Vec<String>),
    /// A name of a peer, and who vouches for it.
    Vouched(String, String),
    Disconnected(ConnId),
    Notice(String),
    Timeout,
    Refused(String),
    Returned(SocketAddr, String),
}

/// Holds a worker whose machine gets the line `stand still`.
pub static GATE: Mutex<()> = Mutex::new(());

pub type Log = Arc<Mutex<Vec<(u16, Told)>>>;

/// Messages are lines. `>udp ADDRESS TOKEN TEXT`, `>tcp ...` and `>tls@NAME ...` send `TEXT`, which yields
/// if it begins with `new`, hurries if with `soon`, goes over an existing connection only if with `there`,
/// and if the one before it, parted by `|`, finds no connection if with `else`; `>>WORKER SEQUENCE TEXT`
/// sends on a connection; `keep` has its connection matter; `bye` asks for the connection's close; `boom`
/// panics; `stand still` waits for the [`GATE`]; `alarm MS` sets a timer; `quiet...` is not answered; a line
/// that begins with a digit belongs to that worker and is answered with the worker's number before it, unless
/// it has the word `quiet`; any other
/// line is answered by itself.
pub struct Lines {
    pub worker: u16,
    pub log: Log,
    pub alarm: Option<Time>,
}

impl Lines {
    fn tell(&self, what: Told) {
        self.log.lock().unwrap().push((self.worker, what));
    }

    fn send(&self, command: &str, out: &mut Outbox) {
        let mut words = command.splitn(4, ' ');
        let (transport, name) = words.next().map(|how| how.split_once('@').unwrap_or((how, ""))).unwrap();
        let transport = Transport::from_name(transport.as_bytes()).unwrap();
        let remote = words.next().unwrap().parse().unwrap();
        let token = words.next().unwrap().parse().unwrap();
        let listener = ListenerId(u16::from(transport != Transport::Udp));
        let text = format!("{}\n", words.next().unwrap_or_default());
        let (yields, hurries) = (text.starts_with("new"), text.starts_with("soon"));
        let (existing, instead) = (text.starts_with("there"), text.starts_with("else"));
        let delivery = Delivery { yields, hurries, existing, instead, ..Delivery::default() };
        let flow = Flow { transport, listener, remote, conn: None };
        out.deliver(flow, token, delivery, |buf| buf.extend_from_slice(text.as_bytes()));
        out.verifies(name.as_bytes());
    }
}

impl Machine for Lines {
    type Notice = String;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        if buffer == b"\r" {
            return Frame::Idle;
        }
        if buffer == b"\r\n\r\n" {
            return Frame::Ping { len: 4, pong: b"\r\n" };
        }
        match buffer[resume..].iter().position(|b| *b == b'\n').map(|at| at + resume) {
            _ if buffer[0] == b'!' => {
                Frame::Broken { len: buffer.len().min(5), error: FrameError::BadLength }
            }
            None if buffer.len() > 100_000 => Frame::Broken { len: 0, error: FrameError::HeadTooLong },
            None => Frame::Partial { resume: buffer.len() },
            Some(0) => Frame::Skip { len: 1 },
            Some(1) if buffer[0] == b'P' => Frame::Ping { len: 2, pong: b"\r\n" },
            Some(end) => Frame::Message { skip: 0, len: end + 1 },
        }
    }

    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        match message.first() {
            Some(b @ b'0'..=b'9') => Some(u16::from(b - b'0') % workers),
            _ => None,
        }
    }

    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let Arrival { now, flow, message, .. } = arrival;
        let line = String::from_utf8_lossy(message);
        let line = line.trim_end_matches('\n');
        let silent =
            line.starts_with("quiet") || line.get(1..).is_some_and(|line| line.starts_with(" quiet"));
        if silent || line.starts_with('>') {
            self.tell(Told::Message(line.to_owned()));
        }
        match line {
            "bye" => {
                out.send(flow, 0, b"farewell\n");
                out.close(flow.conn.unwrap());
            }
            "boom" => panic!("told to"),
            "stand still" => {
                self.tell(Told::Message(line.to_owned()));
                drop(GATE.lock());
            }
            "which listener" => {
                out.send(flow, 0, format!("{:?} {}\n", flow.transport, flow.listener.0).as_bytes());
            }
            _ if silent => {}
            _ if line.starts_with("alarm ") => {
                self.alarm = Some(now + Duration::from_millis(line[6..].parse().unwrap()))
            }
            _ if line.starts_with(">>") => {
                let mut words = line[2..].splitn(3, ' ').map(|w| w.parse().unwrap());
                let conn = ConnId::accepted(words.next().unwrap() as u16, words.next().unwrap());
                out.send(Flow { conn: Some(conn), ..flow }, words.next().unwrap(), b"across\n");
            }
            _ if line.starts_with('>') => line.split('|').for_each(|line| self.send(&line[1..], out)),
            "keep" => {
                out.send(flow, 0, b"kept\n");
                out.keeps(flow.conn.unwrap(), 3_600);
            }
            "use" => {
                out.send(flow, 0, b"used\n");
                out.uses(flow.conn.unwrap(), 3_600);
            }
            "free" => {
                out.send(flow, 0, b"freed\n");
                out.release(flow.conn.unwrap());
            }
            _ if line.starts_with(|c: char| c.is_ascii_digit()) => {
                out.send(flow, 0, format!("{}:{line}\n", self.worker).as_bytes());
            }
            _ => {
                out.send(flow, 1, message);
            }
        }
        None
    }

    fn refuse(&mut self, _: Time, flow: Flow, head: &[u8], _: FrameError, out: &mut Outbox) {
        self.tell(Told::Refused(String::from_utf8_lossy(head).into_owned()));
        out.send(flow, 0, b"refused\n");
    }

    fn identified(&mut self, _: Time, conn: ConnId, identity: &Arc<Identity>) {
        self.tell(Told::Identified(conn, identity.names().map(str::to_owned).collect()));
        for name in identity.names() {
            for authority in ["", "own.pem"] {
                if identity.proves(name.as_bytes(), authority.as_bytes()) {
                    self.tell(Told::Vouched(name.to_owned(), authority.to_owned()));
                }
            }
        }
    }

    fn disconnected(&mut self, _: Time, conn: ConnId, _: &mut Outbox) {
        self.tell(Told::Disconnected(conn));
    }

    fn undeliverable(&mut self, _: Time, token: u64, _: &mut Outbox) {
        self.tell(Told::Undeliverable(token));
    }

    fn cut_off(&mut self, _: Time, token: u64, _: &mut Outbox) {
        self.tell(Told::CutOff(token));
    }

    fn returned(&mut self, _: Time, to: SocketAddr, quoted: &[u8], _: &mut Outbox) {
        self.tell(Told::Returned(to, String::from_utf8_lossy(quoted).into_owned()));
    }

    fn notice(&mut self, now: Time, notice: String, out: &mut Outbox) {
        if let Some(command) = notice.strip_prefix("do ") {
            let flow = Flow::udp(ListenerId(0), "127.0.0.1:9".parse().unwrap());
            self.receive(Arrival::new(now, flow, command.as_bytes()), out);
            return;
        }
        self.tell(Told::Notice(notice));
    }

    fn timeout(&mut self, now: Time, _: &mut Outbox) {
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.tell(Told::Timeout);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.alarm
    }
}

/// A running server of toy machines, ended when dropped.
pub struct Server {
    pub runtime: Option<Runtime<String>>,
    pub handle: RuntimeHandle<String>,
    pub log: Log,
}

/// A configuration with one UDP and one TCP listener on a free port of `ip`.
pub fn config(ip: &str) -> RuntimeConfig {
    let address = SocketAddr::new(ip.parse().unwrap(), 0);
    let listeners =
        [Transport::Udp, Transport::Tcp].map(|transport| Listener { transport, address }).to_vec();
    let mut config = RuntimeConfig { listeners, udp_buffer: 1 << 20, ..RuntimeConfig::default() };
    config.streams.half_closed = Duration::from_millis(100);
    config
}

impl Server {
    pub fn start(workers: u16) -> Server {
        Server::with(config("127.0.0.1"), workers)
    }

    pub fn with(config: RuntimeConfig, workers: u16) -> Server {
        let log = Log::default();
        let machine = |worker| Lines { worker, log: Arc::clone(&log), alarm: None };
        let runtime = Runtime::start(config, (0..workers).map(machine).collect()).unwrap();
        Server { handle: runtime.handle(), runtime: Some(runtime), log }
    }

    pub fn udp(&self) -> SocketAddr {
        self.handle.listeners()[0].address
    }

    pub fn tcp(&self) -> SocketAddr {
        self.handle.listeners()[1].address
    }

    pub fn counts(&self) -> Counts {
        self.handle.counts()
    }

    pub fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.tcp()).unwrap())
    }

    /// Lets a worker's machine act on a line as if it had come in a datagram.
    pub fn act(&self, worker: u16, line: &str) {
        self.handle.post(worker, format!("do {line}")).unwrap();
    }

    pub fn told(&self) -> Vec<(u16, Told)> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until a machine was told something.
    pub fn wait_told(&self, what: &str, wanted: impl Fn(&(u16, Told)) -> bool) -> (u16, Told) {
        wait(what, || self.told().into_iter().find(|told| wanted(told)))
    }

    pub fn wait_count(&self, what: &str, wanted: impl Fn(&Counts) -> bool) -> Counts {
        wait(what, || Some(self.counts()).filter(|counts| wanted(counts)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            self.handle.shutdown();
            let _ = runtime.join();
        }
    }
}

/// Generous: only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
#[allow(clippy::disallowed_methods, reason = "waiting for other threads, for a condition and not for a time")]
pub fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A stream that gives up only when the test has failed.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub fn client() -> UdpSocket {
    client_on("127.0.0.1")
}

pub fn client_on(ip: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// One datagram, as text.
pub fn hear(socket: &UdpSocket) -> String {
    let mut buffer = [0; 65_535];
    let n = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

/// Exactly as many bytes as `text` has, as text.
pub fn hear_exactly(stream: &mut TcpStream, len: usize) -> String {
    let mut buffer = vec![0; len];
    stream.read_exact(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer).into_owned()
}

/// All until the end of the stream or its reset.
pub fn hear_all(stream: &mut TcpStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Says a line and hears the answer.
pub fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    while !answer.ends_with('\n') {
        answer.push_str(&hear_exactly(stream, 1));
    }
    answer
}
