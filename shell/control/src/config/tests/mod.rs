//! Tests of the configuration as a whole.

mod capacity;
mod classes;
mod findings;
mod good;
mod guides;
mod properties;
mod reference;

use super::*;

/// The method names the server would pass in.
const METHODS: &[&str] = &["INVITE", "REGISTER", "OPTIONS", "BYE"];

/// A file that says something in every section.
const FULL: &str = r#"
domains = ["Example.com", "example.org."]
aliases = ["sip1.example.com", "192.0.2.10", "2001:db8::1"]
listen = ["udp:192.0.2.10:5060", "tcp:[2001:db8::1]:5060"]
workers = 4
steering = "kernel"
pin = [0, 2]
busy_poll = "50us"
udp_segmentation = true
data_dir = "state"

[advertise]
"udp:192.0.2.10:5060" = "sip.example.com:5062"

[auth]
enabled = true
challenge = ["INVITE", "REGISTER"]
realm = "example"
algorithms = ["SHA-256", "MD5"]
require_qop = true
nonce_lifetime = "2m"
bind_from = false

[registrar]
min_expires = 30
max_expires = "1h"
default_expires = 600
max_bindings = 3
service_route = ["sip:edge.example.com;lr"]

[proxy]
mode = "redirect"
fork = "serial"
record_route = false
recurse_redirects = true
max_breadth = 10
max_forwards = 20
timer_c = "4m"
mtu = 1400
strangers = "refuse"
stranger_methods = ["INVITE", "BYE"]

[voicemail]
target = "sip:vm@192.0.2.5;transport=tcp"
on = ["busy", "no-answer"]
no_answer_timeout = "1500ms"
silent_after = "2500ms"

[forwarding]
limit = 3
ring_time = 25
do_not_disturb = "unavailable"
diversion = false
history_info = false

[emergency]
targets = ["sip:192.0.2.30", "sip:psap.example.net"]
numbers = ["112", "+112", "15"]
strangers = true
silent_after = "800ms"

[[trunk]]
name = "carrier"
targets = ["sip:192.0.2.20", "sip:[2001:db8::20]:5070;transport=tcp"]
sources = ["192.0.2.0/24", "2001:db8::20"]
prefixes = ["+44", "00"]
domains = ["carrier.example"]
strip = 1
prepend = "0"
may_transit = true
overload_control = true
retry_on = ["486", 500]
silent_after = "1500ms"
remove_headers = ["X-Internal", "P-*"]
set_headers = ["X-Caller: {user}@{domain}"]
add_headers = ["X-Site: north"]
country = "44"
national_prefix = ["0", "1"]
international_prefix = "011"
area = "20"
short_numbers = 5
number_format = "national"
identity = "pai"

[[route]]
domain = "old.example"
user = "info"
redirect = ["sip:info@example.com"]

[[route]]
prefix = "9"
targets = ["sip:gw.example.net:5080"]
silent_after = 3

[[domain]]
name = "example.com"
remove_headers = ["X-Carrier"]
set_headers = ["X-Trunk: \"{trunk}\""]
add_headers = "X-Number: {number}"
country = "1"
national_prefix = ["1", ""]
numbers = "+12125550199"

[[caller]]
user = "alice@Example.com"
numbers = ["+12125550100", "+121255501*"]

[[caller]]
user = "carol@example.org"
numbers = "+12125550300"

[timers]
t1 = "100ms"
t2 = 2
t4 = "3s"
trying = "150ms"

[limits]
message_bytes = 0x2000
headers = 64
transactions = 1_000
calls = 100
memory_mib = 512
connections = 50
connections_per_source = 5
tcp_head_timeout = "5s"
tcp_idle_timeout = "10m"

[dns]
servers = ["192.0.2.53", "[2001:db8::53]:5353"]
timeout = "800ms"
cache = 7

[admin]
listen = "[::1]:9000"
allow_remote = false
hosts = ["admin.example.com"]
token_file = "token"

[log]
level = "debug"
format = "json"

[store]
on_failure = "accept"
"#;

/// Reads a text without a command line.
fn read(text: &str) -> Result<Loaded, Vec<ConfigError>> {
    Config::parse("t.toml", text, &Overrides::default(), METHODS)
}

/// Reads a text that must be good.
fn good(text: &str) -> Config {
    match read(text) {
        Ok(loaded) => loaded.config,
        Err(errors) => panic!("{text}\n{}", lines(&errors)),
    }
}

/// Findings as `line:column message; mend`, one a line.
fn lines(findings: &[ConfigError]) -> String {
    findings.iter().map(|f| format!("{}\n", f.to_string().trim_start_matches("t.toml:"))).collect()
}

/// What is wrong with a text.
fn errors(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(errors) => lines(&errors),
    }
}

/// What is doubtful about a text that must be good.
fn warnings(text: &str) -> String {
    match read(text) {
        Ok(loaded) => lines(&loaded.warnings),
        Err(errors) => panic!("{text}\n{}", lines(&errors)),
    }
}
