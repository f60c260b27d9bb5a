//! What a server says of itself at its metrics endpoint (`--server-metrics`), before and after the measured
//! window. A thread of its own asks, so that neither the workers nor the display wait for the server.

use load::report::Fact;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;
use wire::Time;
use worker_runtime::monotonic_now;

/// How long the server may take to accept, and between two pieces of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer may take altogether.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of an answer at most.
const MOST: usize = 4 << 20;
/// Names of figures that are kept at most.
const NAMES: usize = 20_000;

/// Where a server's figures are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    authority: String,
    path: String,
    address: SocketAddr,
}

impl Endpoint {
    /// From `http://HOST:PORT/PATH`.
    pub fn parse(url: &str) -> Result<Endpoint, String> {
        let wrong =
            |why: &str| format!("--server-metrics {url}: {why}, such as http://192.0.2.1:8080/metrics");
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("the address begins with http://"))?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/metrics"),
        };
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("the address has no blanks"));
        }
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        let found = with_port.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
        let address = found.into_iter().next().ok_or_else(|| wrong("the host has no address"))?;
        Ok(Endpoint { authority: authority.to_owned(), path: path.to_owned(), address })
    }

    /// Asks for the figures.
    fn fetch(&self) -> Result<Figures, String> {
        let fail = |error: std::io::Error| match error.kind() {
            // What the system calls a resource that is temporarily unavailable is a server that says nothing.
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE).map_err(fail)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        // Of HTTP 1.0, whose answers come in one piece and end with the connection.
        let Endpoint { authority, path, .. } = self;
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(fail)?;
        let (mut text, mut room, until) = (Vec::new(), [0; 16_384], monotonic_now() + LONGEST);
        loop {
            match stream.read(&mut room).map_err(fail)? {
                0 => break,
                n => text.extend_from_slice(room.get(..n).unwrap_or_default()),
            }
            if text.len() > MOST || monotonic_now() > until {
                return Err(format!("its answer is longer than {MOST} bytes or takes too long"));
            }
        }
        let text = String::from_utf8_lossy(&text);
        let (head, body) = text.split_once("\r\n\r\n").ok_or("it does not speak HTTP")?;
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        if status != "200" {
            return Err(format!("it answered with {}", head.lines().next().unwrap_or_default()));
        }
        let figures = Figures::parse(body);
        if figures.0.is_empty() { Err("its answer has no figures".to_owned()) } else { Ok(figures) }
    }
}

/// Figures by name; those that differ in their labels only are added up.
#[derive(Clone, PartialEq, Debug, Default)]
struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Reads Prometheus' text format; lines that are none are left out.
    fn parse(text: &str) -> Figures {
        let mut all = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let (name, rest) = match line.find(['{', ' ', '\t']) {
                Some(at) => line.split_at(at),
                None => continue,
            };
            // A label's text may hold anything; the value follows the last brace.
            let value = rest.rsplit_once('}').map_or(rest, |(_, value)| value);
            let value = value.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            if all.len() < NAMES || all.contains_key(name) {
                *all.entry(name.to_owned()).or_insert(0.0) += value;
            }
        }
        Figures(all)
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

type Answer = (Time, Result<Figures, String>);

/// The questions and their answers.
pub struct Scrape {
    window: (Time, Time),
    ask: Sender<()>,
    answers: Receiver<Answer>,
    asked: usize,
    taken: Vec<Answer>,
}

impl Scrape {
    /// Of this window.
    pub fn new(endpoint: Endpoint, window: (Time, Time)) -> Option<Scrape> {
        let (ask, questions) = mpsc::channel::<()>();
        let (tell, answers) = mpsc::channel();
        let work = move || {
            while questions.recv().is_ok() {
                let figures = endpoint.fetch();
                if tell.send((monotonic_now(), figures)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("scrape".to_owned()).spawn(work).ok()?;
        Some(Scrape { window, ask, answers, asked: 0, taken: Vec::new() })
    }

    /// The window ends now, if it has not.
    pub fn close(&mut self, now: Time) {
        if now > self.window.0 {
            self.window.1 = self.window.1.min(now);
        }
    }

    /// To be called often: asks when the window begins and when it ends.
    pub fn look(&mut self, now: Time) {
        let due = [self.window.0, self.window.1].get(self.asked).is_some_and(|&at| now >= at);
        if due {
            self.question();
        }
    }

    fn question(&mut self) {
        self.asked += 1;
        let _ = self.ask.send(());
    }

    /// The run is over: takes what has not been taken, and waits for it, but not for ever.
    pub fn finish(&mut self) {
        while self.asked < 2 {
            self.question();
        }
        while self.taken.len() < self.asked {
            let Ok(answer) = self.answers.recv_timeout(LONGEST + 2 * PATIENCE) else { return };
            self.taken.push(answer);
        }
    }

    /// Both answers; or why there is none.
    fn both(&self) -> Result<(&Figures, &Figures, f64), String> {
        let [(from, before), (until, after)] = self.taken.as_slice() else {
            return Err("it does not answer".to_owned());
        };
        let (before, after) = (before.as_ref().map_err(Clone::clone)?, after.as_ref().map_err(Clone::clone)?);
        Ok((before, after, until.since(*from).as_secs_f64().max(1e-3)))
    }

    /// The server's processor time between both answers, per cent of one core.
    pub fn cpu_percent(&self) -> Option<f64> {
        let (before, after, seconds) = self.both().ok()?;
        let used = after.get(CPU)? - before.get(CPU)?;
        (used >= 0.0).then_some(used / seconds * 100.0)
    }

    /// Its memory at the end, bytes.
    pub fn memory(&self) -> Option<f64> {
        self.both().ok()?.1.get(MEMORY)
    }

    /// What the report says.
    pub fn facts(&self) -> Vec<Fact> {
        let (before, after, seconds) = match self.both() {
            Ok(both) => both,
            Err(why) => return vec![Fact::new("its metrics", format!("no figures: {why}"))],
        };
        let mut facts = Vec::new();
        let pair = |name: &str| Some((before.get(name)?, after.get(name)?));
        if let Some((from, until)) = pair(CPU) {
            let used = until - from;
            let share = used / seconds * 100.0;
            facts.push(Fact::new(
                "processor time by its metrics, measured window",
                format!("{used:.2} s, {share:.1} % of one core"),
            ));
        }
        if let Some((from, until)) = pair(MEMORY) {
            let mib = |bytes: f64| bytes / f64::from(1 << 20);
            let text = format!("{:.1} MiB before, {:.1} MiB after", mib(from), mib(until));
            facts.push(Fact::new("memory by its metrics (RSS)", text));
        }
        for (name, what) in GAUGES {
            if let Some((from, until)) = pair(name) {
                facts.push(Fact::new(what, format!("{from} before, {until} after")));
            }
        }
        for (name, what) in COUNTERS {
            if let Some((from, until)) = pair(name) {
                facts.push(Fact::new(what, until - from));
            }
        }
        if facts.is_empty() {
            let why = format!("none of {} figures is one that this program knows", after.0.len());
            facts.push(Fact::new("its metrics", why));
        }
        facts
    }
}

const CPU: &str = "process_cpu_seconds_total";
const MEMORY: &str = "process_resident_memory_bytes";
/// What goes up and down, and what the report calls it.
const GAUGES: [(&str, &str); 5] = [
    ("process_open_fds", "open file descriptors"),
    ("strowger_connections", "connections"),
    ("strowger_transactions", "transactions"),
    ("strowger_calls", "calls"),
    ("strowger_bindings", "bindings"),
];
/// What only grows.
const COUNTERS: [(&str, &str); 4] = [
    ("strowger_udp_kernel_drops_total", "packets lost by its sockets, by its metrics"),
    ("strowger_udp_send_drops_total", "packets it could not send"),
    ("strowger_requests_refused_total", "requests refused"),
    ("strowger_requests_absorbed_total", "retransmissions received"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    #[test]
    fn an_address_is_a_url() {
        let good = Endpoint::parse("http://127.0.0.1:9100/x").expect("a url");
        assert_eq!((good.path.as_str(), good.address.port()), ("/x", 9100));
        assert_eq!(
            Endpoint::parse("http://[::1]").map(|e| (e.path, e.address.port())),
            Ok(("/metrics".into(), 80))
        );
        for wrong in
            ["127.0.0.1:9100", "https://127.0.0.1/", "http://", "http://127.0.0.1:x/", "http://127.0.0.1/a b"]
        {
            assert!(Endpoint::parse(wrong).is_err_and(|why| why.contains("such as")), "{wrong}");
        }
    }

    #[test]
    fn figures_are_added_up_over_labels() {
        let text =
            "# HELP a b\n# TYPE a counter\na{x=\"} 9\"} 1\na{x=\"z\"} 2 1700000000\nb 3.5e1\nc NaN\nd\nsolo";
        let all = Figures::parse(text);
        assert_eq!(
            (all.get("a"), all.get("b"), all.get("c"), all.get("d")),
            (Some(3.0), Some(35.0), None, None)
        );
    }

    /// Answers one question for each text.
    fn server(answers: Vec<String>) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("its address");
        let serve = move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let read = BufReader::new(stream.try_clone().expect("a second handle"));
                // The head of the question.
                read.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
                let _ = stream.write_all(answer.as_bytes());
            }
        };
        thread::Builder::new().spawn(serve).expect("a thread");
        Endpoint::parse(&format!("http://{address}/metrics")).expect("a url")
    }

    fn window() -> (Time, Time) {
        (Time::from_secs(1), Time::FAR)
    }

    #[test]
    fn what_was_used_is_the_difference_of_two_answers() {
        let answer = |cpu: f64, memory: u64| {
            format!(
                "HTTP/1.0 200 OK\r\n\r\nprocess_cpu_seconds_total {cpu}\nprocess_resident_memory_bytes {memory}\n"
            )
        };
        let endpoint = server(vec![answer(1.0, 1 << 20), answer(3.5, 3 << 20)]);
        let mut scrape = Scrape::new(endpoint, window()).expect("a thread");
        scrape.look(Time::ZERO);
        assert_eq!(scrape.asked, 0, "the window has not begun");
        scrape.look(Time::from_secs(1));
        scrape.look(Time::from_secs(2));
        assert_eq!(scrape.asked, 1);
        scrape.finish();
        let text: Vec<String> = scrape.facts().iter().map(|f| format!("{}: {}", f.name, f.value)).collect();
        assert!(text[0].contains("2.50 s") && text[1].contains("1.0 MiB before, 3.0 MiB after"), "{text:?}");
        assert!(scrape.cpu_percent().is_some_and(|percent| percent > 0.0));
        assert_eq!(scrape.memory(), Some(f64::from(3 << 20)));
    }

    #[test]
    fn a_server_that_does_not_answer_gives_a_line_and_no_figures() {
        let no = ["HTTP/1.1 404 Not Found\r\n\r\n", "SIP/2.0 200 OK", "HTTP/1.1 200 OK\r\n\r\n"];
        for (answer, why) in no.into_iter().zip(["404 Not Found", "HTTP", "no figures"]) {
            let mut scrape = Scrape::new(server(vec![answer.to_owned(); 2]), window()).expect("a thread");
            scrape.finish();
            let facts = scrape.facts();
            assert!(facts[0].value.contains(why) && facts.len() == 1, "{facts:?}");
            assert_eq!((scrape.cpu_percent(), scrape.memory()), (None, None));
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        drop(listener);
        let mut scrape = Scrape::new(Endpoint::parse(&url).expect("a url"), window()).expect("a thread");
        scrape.finish();
        assert!(scrape.facts()[0].value.starts_with("no figures: "), "{:?}", scrape.facts());
    }
}
