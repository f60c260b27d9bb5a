//! Starting, killing and restarting the server under test.

use crate::{Link, PATIENCE, Req, Via};
use rustls::pki_types::CertificateDer;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A loopback address that no other test of this run uses. Each process has a block of 1,024 of its
/// own by its process id, so several runs can share a machine. They end below 127.145.0.0, where those of
/// verify/harness begin.
pub fn fresh_ip() -> Ipv4Addr {
    let [one] = fresh_ips();
    one
}

/// As [`fresh_ip`], several with consecutive addresses.
pub fn fresh_ips<const N: usize>() -> [Ipv4Addr; N] {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    loop {
        let n = NEXT.fetch_add(N as u32, Ordering::Relaxed);
        assert!(n < 1000, "a test file uses more than 1,000 addresses");
        let base = Ipv4Addr::new(127, 0, 0, 0).to_bits() + (256 + std::process::id() % 9_000) * 1024 + n;
        let block = std::array::from_fn(|i| Ipv4Addr::from_bits(base + i as u32));
        if block.iter().all(|ip| !matches!(ip.octets()[3], 0 | 255)) {
            return block;
        }
    }
}

/// The binary under test, built once per test process unless `STROWGER_BIN` names it.
pub fn binary() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(named) = std::env::var_os("STROWGER_BIN") {
            return PathBuf::from(named);
        }
        // This test is target/PROFILE/deps/NAME; the binary is target/PROFILE/strowger.
        let exe = std::env::current_exe().unwrap();
        let profile = exe.parent().and_then(Path::parent).unwrap().to_path_buf();
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--package", "strowger", "--bin", "strowger"]);
            if profile.file_name() == Some(OsStr::new("release")) {
                build.arg("--release");
            }
            let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
            assert!(status.success(), "the server does not build");
        }
        let path = profile.join("strowger");
        assert!(path.exists(), "no {}: build it with `cargo build`", path.display());
        path
    })
}

/// Run the binary with `args` to its end and return what it said.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(binary()).args(args).stdin(Stdio::null()).output().unwrap()
}

/// The binary without capabilities. Where those cannot be taken away there are none.
pub fn without_capabilities() -> Command {
    let mut bare = Command::new("setpriv");
    bare.arg("--bounding-set=-all");
    if bare.arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        let mut bare = Command::new("setpriv");
        bare.arg("--bounding-set=-all").arg(binary());
        bare
    } else {
        Command::new(binary())
    }
}

/// What a test wants its server to be. The default: challenges on, domain `example.com`, one worker,
/// no user.
#[derive(Clone, Debug)]
pub struct Setup {
    auth: bool,
    domains: Vec<String>,
    workers: usize,
    config: Option<String>,
    users: Vec<(String, String, String)>,
    limits: Vec<String>,
    env: Vec<(String, String)>,
    steering: Option<String>,
    capabilities: bool,
    tls: bool,
    secure: bool,
    listen: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            auth: true,
            domains: vec!["example.com".into()],
            workers: 1,
            config: None,
            users: Vec::new(),
            limits: Vec::new(),
            env: Vec::new(),
            steering: None,
            capabilities: true,
            tls: false,
            secure: false,
            listen: Vec::new(),
        }
    }
}

impl Setup {
    /// The default, see [`Setup`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A server that challenges nobody.
    pub fn open() -> Self {
        Self::new().auth(false)
    }

    /// `--auth on` or `--auth off`.
    pub fn auth(mut self, on: bool) -> Self {
        self.auth = on;
        self
    }

    /// One more domain beside `example.com`.
    pub fn domain(mut self, name: &str) -> Self {
        self.domains.push(name.into());
        self
    }

    /// Number of worker threads.
    pub fn workers(mut self, n: usize) -> Self {
        self.workers = n;
        self
    }

    /// Text of the configuration file. `{IP}` becomes the server's address, `{DIR}` its folder.
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.into());
        self
    }

    /// A subscriber of `example.com`.
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.into(), "example.com".into(), password.into()));
        self
    }

    /// A resource limit in `prlimit`'s words, for example `--nofile=64:64`.
    pub fn limit(mut self, option: &str) -> Self {
        self.limits.push(option.into());
        self
    }

    /// An environment variable of the server.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// How datagrams come to their workers: `auto`, `kernel` or `ring`.
    pub fn steering(mut self, grade: &str) -> Self {
        self.steering = Some(grade.into());
        self
    }

    /// With a TLS listener at port 5061 of its address. The configuration has its certificate.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With listeners of TLS at port 5061, WebSocket at 5080 and both at 5443, and a certificate of their
    /// own.
    pub fn secure(mut self) -> Self {
        self.secure = true;
        self
    }

    /// With one more listener: `tls:5070`.
    pub fn listen(mut self, transport_and_port: &str) -> Self {
        self.listen.push(transport_and_port.into());
        self
    }

    /// Without any of a superuser's capabilities, whoever runs the test.
    pub fn unprivileged(mut self) -> Self {
        self.capabilities = false;
        self
    }

    /// The `--steering` and number of workers to start with. `STROWGER_LIVE_STEERING` in the environment of
    /// the tests makes all servers, except those whose test says otherwise, run with two workers at least and
    /// that grade.
    fn grade(&self) -> (Option<String>, usize) {
        match (&self.steering, std::env::var("STROWGER_LIVE_STEERING")) {
            (None, Ok(forced)) if !forced.is_empty() => (Some(forced), self.workers.max(2)),
            (steering, _) => (steering.clone(), self.workers),
        }
    }

    /// Start it and wait until it says that it is ready.
    pub fn start(self) -> Server {
        Server::start(self)
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    ip: Ipv4Addr,
    dir: PathBuf,
    child: Option<Child>,
    log: Arc<Mutex<Vec<String>>>,
    certificate: Option<CertificateDer<'static>>,
}

impl Server {
    fn start(setup: Setup) -> Self {
        let ip = fresh_ip();
        let dir = std::env::temp_dir().join(format!("strowger-live-{}-{ip}", std::process::id()));
        std::fs::create_dir_all(dir.join("data")).unwrap();
        let certificate = setup.secure.then(|| write_certificate(&dir));
        let mut server = Self { setup, ip, dir, child: None, log: Arc::default(), certificate };
        server.import_users();
        server.write_config(server.setup.config.clone().as_deref());
        server.spawn();
        server
    }

    fn import_users(&self) {
        if self.setup.users.is_empty() {
            return;
        }
        let mut csv = String::from("username,domain,password\n");
        for (user, domain, password) in &self.setup.users {
            csv.push_str(&format!("{user},{domain},{password}\n"));
        }
        let file = self.dir.join("users.csv");
        std::fs::write(&file, csv).unwrap();
        let out = run([
            OsStr::new("user"),
            "import".as_ref(),
            file.as_ref(),
            "--data-dir".as_ref(),
            self.data().as_ref(),
        ]);
        assert!(out.status.success(), "user import failed: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Replace the configuration file (a reload is the test's business).
    pub fn write_config(&self, text: Option<&str>) {
        if let Some(text) = text {
            let text =
                text.replace("{IP}", &self.ip.to_string()).replace("{DIR}", &self.dir.to_string_lossy());
            std::fs::write(self.config_file(), text).unwrap();
        }
    }

    fn spawn(&mut self) {
        let mut command = if self.setup.limits.is_empty() && self.setup.capabilities {
            Command::new(binary())
        } else if self.setup.limits.is_empty() {
            without_capabilities()
        } else {
            // A write beyond the file size limit must fail like a full disk, not kill by a signal.
            let mut limited = Command::new("sh");
            limited.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", "prlimit"]);
            limited.args(&self.setup.limits).arg(binary());
            limited
        };
        command.arg("serve");
        if self.setup.config.is_some() {
            command.arg("--config").arg(self.config_file());
        }
        for transport in ["udp", "tcp"] {
            command.args(["--listen", &format!("{transport}:{}", self.sip())]);
        }
        if self.setup.tls {
            command.args(["--listen", &format!("tls:{}:5061", self.ip)]);
        }
        if self.setup.secure {
            for via in Via::FLOWS {
                let transport = via.name().to_lowercase();
                command.args(["--listen", &format!("{transport}:{}", self.place(via))]);
            }
            command.arg("--tls-cert").arg(self.dir.join("chain.pem"));
            command.arg("--tls-key").arg(self.dir.join("key.pem"));
        }
        for (transport, port) in self.setup.listen.iter().filter_map(|place| place.split_once(':')) {
            command.args(["--listen", &format!("{transport}:{}:{port}", self.ip)]);
        }
        for domain in &self.setup.domains {
            command.args(["--domain", domain]);
        }
        command.arg("--data-dir").arg(self.data());
        let (steering, workers) = self.setup.grade();
        command.args(["--workers", &workers.to_string()]);
        command.args(steering.iter().flat_map(|grade| ["--steering", grade]));
        command.args(["--admin", &self.admin().to_string()]);
        command.args(["--auth", if self.setup.auth { "on" } else { "off" }]);
        command.envs(self.setup.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        self.log.lock().unwrap().clear();
        let log = Arc::clone(&self.log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                log.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        self.child = Some(child);
        self.await_ready();
    }

    fn await_ready(&mut self) {
        let end = Instant::now() + 3 * PATIENCE;
        while !self.log_has("ready") {
            if let Ok(Some(status)) = self.child.as_mut().unwrap().try_wait() {
                panic!("the server ended with {status} before it was ready:\n{}", self.log_text());
            }
            assert!(Instant::now() < end, "the server never said that it is ready:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where it takes SIP over UDP and TCP.
    pub fn sip(&self) -> SocketAddr {
        (self.ip, 5060).into()
    }

    /// Where it takes SIP over this transport.
    pub fn place(&self, via: Via) -> SocketAddr {
        let port = match via {
            Via::Udp | Via::Tcp => 5060,
            Via::Tls => 5061,
            Via::Ws => 5080,
            Via::Wss => 5443,
        };
        (self.ip, port).into()
    }

    /// Where its admin API listens.
    pub fn admin(&self) -> SocketAddr {
        (self.ip, 8080).into()
    }

    /// Its own address.
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.dir.join("strowger.toml")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Has any line of its standard error this text?
    pub fn log_has(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// All of its standard error so far.
    pub fn log_text(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// kill -9, as a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Start it again on the same addresses and data.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Send a signal by its name, for example `TERM`.
    pub fn signal(&self, name: &str) {
        crate::signal(self.pid(), name);
    }

    /// Has the process ended, and how?
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    /// A figure of its `/metrics`, written as there.
    pub fn metric(&self, name: &str) -> u64 {
        let page = crate::http(self.admin(), "GET", "/metrics").body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{page}"))
    }

    /// `strowger ctl ARGS --admin ... `: its output.
    pub fn ctl(&self, args: &[&str]) -> Output {
        let admin = self.admin().to_string();
        run([&["ctl"], args, &["--admin", &admin]].concat())
    }

    /// A phone or attacker of its own address, connected to this server.
    pub fn link(&self, via: Via) -> Link {
        match &self.certificate {
            Some(certificate) if Via::FLOWS.contains(&via) => Link::secure(via, self.place(via), certificate),
            _ => Link::open(via, self.sip()),
        }
    }

    /// The same of a server with [`Setup::secure`], before it asks for WebSocket.
    pub fn bare_link(&self, via: Via) -> Link {
        self.bare_link_to(via, self.place(via).port())
    }

    /// The same to another port.
    pub fn bare_link_to(&self, via: Via, port: u16) -> Link {
        Link::bare(via, (self.ip, port).into(), self.certificate.as_ref().unwrap())
    }

    /// The server must answer an OPTIONS of a newcomer, whatever happened before. Sent again every
    /// second as a phone would, since a flood before it may have filled the socket.
    pub fn assert_alive(&self, after: &str) {
        let mut link = self.link(Via::Udp);
        let ping = Req::new("OPTIONS", "sip:example.com", &link);
        let answered = (0..PATIENCE.as_secs()).any(|_| {
            link.send(&ping.bytes());
            link.response_within(&ping, Duration::from_secs(1)).is_some()
        });
        assert!(answered, "no answer to OPTIONS after {after}");
    }
}

/// Writes a certificate for `example.com` that signs itself, and its key.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["example.com".to_owned()]).unwrap();
    let signed = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("chain.pem"), signed.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    signed.der().clone()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("---- the server on {} said:\n{}\n----", self.ip, self.log_text());
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
