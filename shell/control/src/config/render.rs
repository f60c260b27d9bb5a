//! The configuration as TOML again, with every default filled in, for `strowger check`.

use super::balance::Balance;
use super::types::*;
use std::fmt::Display;
use std::fmt::Write;
use std::time::Duration;

impl Config {
    /// The configuration in force as a file that would produce it again. It holds no secret: those
    /// are in files that it only names.
    pub fn render_effective(&self) -> String {
        let mut out = Writer(String::new());
        self.top(&mut out);
        self.sections(&mut out);
        self.admin_and_log(&mut out);
        for trunk in &self.trunks {
            trunk.render(&mut out);
        }
        for route in &self.routes {
            route.render(&mut out);
        }
        out.0
    }

    fn top(&self, out: &mut Writer) {
        out.texts("domains", &self.domains);
        out.texts("aliases", &self.aliases);
        out.texts("listen", &self.listen);
        out.raw("workers", self.workers);
        out.text("steering", self.steering.name());
        match &self.pin {
            Pin::Auto => out.text("pin", "auto"),
            Pin::Off => out.text("pin", "off"),
            Pin::Cpus(cpus) => out.raw("pin", format_args!("{cpus:?}")),
        }
        out.time("busy_poll", self.busy_poll);
        out.text("udp_segmentation", self.udp_segmentation.name());
        out.text("data_dir", self.data_dir.display());
        if self.listen.iter().any(|listener| listener.advertise.is_some()) {
            out.section("[advertise]");
            for listener in &self.listen {
                if let Some(advertised) = &listener.advertise {
                    out.text(&quoted(&listener.to_string()), advertised);
                }
            }
        }
    }

    fn sections(&self, out: &mut Writer) {
        let auth = &self.auth;
        out.section("[auth]");
        out.raw("enabled", auth.enabled);
        match &auth.challenge {
            Challenge::All => out.texts("challenge", &["*"]),
            Challenge::Only(methods) => out.texts("challenge", methods),
        }
        match &auth.realm {
            Some(realm) => out.text("realm", realm),
            None => out.comment("realm: the domain of the request"),
        }
        out.names("algorithms", auth.algorithms.iter().map(|a| a.name()));
        out.raw("require_qop", auth.require_qop);
        out.time("nonce_lifetime", auth.nonce_lifetime);
        out.raw("bind_from", auth.bind_from);
        out.raw("in_dialog", auth.in_dialog);
        out.texts("fronts", &auth.fronts);

        let registrar = &self.registrar;
        out.section("[registrar]");
        out.time("min_expires", registrar.min_expires);
        out.time("max_expires", registrar.max_expires);
        out.time("default_expires", registrar.default_expires);
        out.raw("max_bindings", registrar.max_bindings);
        out.texts("service_route", &registrar.service_route);

        let proxy = &self.proxy;
        out.section("[proxy]");
        out.text("mode", proxy.mode.name());
        out.text("fork", proxy.fork.name());
        out.raw("record_route", proxy.record_route);
        out.raw("recurse_redirects", proxy.recurse_redirects);
        out.raw("max_breadth", proxy.max_breadth);
        out.raw("max_forwards", proxy.max_forwards);
        out.time("timer_c", proxy.timer_c);
        out.raw("mtu", proxy.mtu);
        out.text("strangers", proxy.strangers.name());
        out.texts("stranger_methods", &proxy.stranger_methods);

        if let Some(voicemail) = &self.voicemail {
            out.section("[voicemail]");
            out.text("target", &voicemail.target.uri);
            out.names("on", voicemail.on.iter().map(|on| on.name()));
            out.time("no_answer_timeout", voicemail.no_answer_timeout);
            out.time("silent_after", voicemail.silent_after);
        }

        if let Some(emergency) = &self.emergency {
            out.section("[emergency]");
            out.names("targets", emergency.targets.iter().map(|target| &target.uri));
            out.texts("numbers", &emergency.numbers);
            out.raw("strangers", emergency.strangers);
            out.time("silent_after", emergency.silent_after);
        }

        out.section("[timers]");
        out.time("t1", self.timers.t1);
        out.time("t2", self.timers.t2);
        out.time("t4", self.timers.t4);
        match self.timers.trying {
            Trying::Learned => out.text("trying", "auto"),
            Trying::After(wait) => out.time("trying", wait),
        }

        let limits = &self.limits;
        out.section("[limits]");
        out.raw("message_bytes", limits.message_bytes);
        out.raw("headers", limits.headers);
        out.auto("transactions", limits.transactions);
        out.auto("calls", limits.calls);
        out.auto("memory_mib", limits.memory_mib);
        out.raw("connections", limits.connections);
        out.raw("connections_per_source", limits.connections_per_source);
        out.time("tcp_head_timeout", limits.tcp_head_timeout);
        out.time("tcp_idle_timeout", limits.tcp_idle_timeout);

        let overload = &self.overload;
        out.section("[overload]");
        out.raw("enabled", overload.enabled);
        out.time("delay", overload.delay);
        out.time("retry_after", overload.retry_after);
        out.raw("feedback", overload.feedback);
        out.raw("kernel", overload.kernel);
    }

    fn admin_and_log(&self, out: &mut Writer) {
        out.section("[dns]");
        out.texts("servers", &self.dns.servers);
        out.time("timeout", self.dns.timeout);
        out.raw("cache", self.dns.cache);

        out.section("[admin]");
        match self.admin.listen {
            Some(address) => out.text("listen", address),
            None => out.text("listen", "off"),
        }
        out.raw("allow_remote", self.admin.allow_remote);
        out.texts("hosts", &self.admin.hosts);
        if let Some(file) = &self.admin.token_file {
            out.text("token_file", file.display());
        }

        out.section("[log]");
        out.text("level", self.log.level.name());
        out.text("format", self.log.format.name());

        out.section("[store]");
        out.text("on_failure", self.store.on_failure.name());

        self.balance.render(out);
    }
}

impl Balance {
    fn render(&self, out: &mut Writer) {
        out.section("[balance]");
        out.texts("nodes", &self.nodes);
        out.text("algorithm", self.algorithm.name());
        out.raw("record_route", self.record_route);
        out.raw("own_source", self.own_source);
        out.text("register", self.register.name());
        out.text("path", self.path.name());
        out.text("failed_dialogs", self.failed_dialogs.name());
        out.time("session_timeout", self.session_timeout);
        out.time("ring_timeout", self.ring_timeout);
        out.time("probe_interval", self.probe_interval);
        out.time("probe_timeout", self.probe_timeout);
        let codes: Vec<String> = self.probe_codes.iter().map(u16::to_string).collect();
        out.raw("probe_codes", format_args!("[{}]", codes.join(", ")));
        out.time("silent_after", self.silent_after);
        out.time("slow_start", self.slow_start);
        out.raw("outlier_share", self.outlier_share);
        out.raw("overload_control", self.overload_control);
        out.time("outlier_rest", self.outlier_rest);
        out.raw("down_after", self.down_after);
        out.raw("up_after", self.up_after);
        out.time("retry_after", self.retry_after);
        out.time("stop_delay", self.stop_delay);
        if let Some(file) = &self.previous_secret {
            out.text("previous_secret", file.display());
        }
    }
}

impl Trunk {
    fn render(&self, out: &mut Writer) {
        out.section("[[trunk]]");
        out.text("name", &self.name);
        out.names("targets", self.targets.iter().map(|target| &target.uri));
        out.texts("sources", &self.sources);
        out.texts("prefixes", &self.prefixes);
        out.texts("domains", &self.domains);
        out.raw("strip", self.strip);
        if !self.prepend.is_empty() {
            out.text("prepend", &self.prepend);
        }
        out.raw("may_transit", self.may_transit);
        out.raw("overload_control", self.overload_control);
        out.texts("retry_on", &self.retry_on);
        out.time("silent_after", self.silent_after);
    }
}

impl Route {
    fn render(&self, out: &mut Writer) {
        out.section("[[route]]");
        for (key, value) in [("domain", &self.domain), ("prefix", &self.prefix), ("user", &self.user)] {
            if let Some(value) = value {
                out.text(key, value);
            }
        }
        match &self.action {
            RouteAction::Forward(targets) => {
                out.names("targets", targets.iter().map(|t| &t.uri));
                out.time("silent_after", self.silent_after);
            }
            RouteAction::Redirect(contacts) => out.names("redirect", contacts.iter().map(|t| &t.uri)),
        }
    }
}

/// A text as a TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Appends lines of TOML.
struct Writer(String);

impl Writer {
    fn line(&mut self, key: &str, value: &str) {
        self.0.extend([key, " = ", value, "\n"]);
    }

    fn section(&mut self, header: &str) {
        self.0.extend(["\n", header, "\n"]);
    }

    fn comment(&mut self, text: &str) {
        self.0.extend(["# ", text, "\n"]);
    }

    fn raw(&mut self, key: &str, value: impl Display) {
        self.line(key, &value.to_string());
    }

    fn text(&mut self, key: &str, value: impl Display) {
        self.line(key, &quoted(&value.to_string()));
    }

    fn texts(&mut self, key: &str, values: &[impl Display]) {
        self.names(key, values.iter());
    }

    fn names(&mut self, key: &str, values: impl Iterator<Item = impl Display>) {
        let all: Vec<String> = values.map(|value| quoted(&value.to_string())).collect();
        self.line(key, &format!("[{}]", all.join(", ")));
    }

    /// A value, or that the program finds it.
    fn auto(&mut self, key: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.raw(key, value),
            None => self.text(key, "auto"),
        }
    }

    fn time(&mut self, key: &str, value: Duration) {
        match value.subsec_micros() {
            0 => self.raw(key, value.as_secs()),
            micros if micros % 1_000 == 0 => self.text(key, format_args!("{}ms", value.as_millis())),
            _ => self.text(key, format_args!("{}us", value.as_micros())),
        }
    }
}
