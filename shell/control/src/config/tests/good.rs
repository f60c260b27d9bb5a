//! Configurations that work.

use super::*;
use sip_auth::Algorithm;
use sip_node::{Challenge, Mode};
use sip_proxy::context::Reroute;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::Transport;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn no_file_at_all_is_enough() {
    let loaded = Config::load(None, &Overrides::default(), METHODS).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.warnings.is_empty());
    assert_eq!(loaded.file, None);
    let listen: Vec<String> = loaded.config.server.listen.iter().map(|l| l.to_string()).collect();
    assert_eq!(listen, ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060", "udp:[::]:5060", "tcp:[::]:5060"]);
    assert!(loaded.config.server.listen.iter().all(|l| l.optional == l.address.is_ipv6()));
}

#[test]
fn the_defaults_are_safe() {
    let config = good("");
    assert!(config.auth.enabled && config.auth.bind_from);
    assert_eq!(config.auth.challenge, Challenge::All);
    assert_eq!(config.auth.algorithms, [Algorithm::Md5]);
    assert_eq!(config.admin.listen, Some("127.0.0.1:8080".parse().unwrap()));
    assert!(!config.admin.allow_remote);
    assert!(config.trunks.is_empty() && config.routes.is_empty() && config.voicemail.is_none());
    assert_eq!(config.store.on_failure, OnStoreFailure::Refuse);
}

#[test]
fn every_section_arrives() {
    let config = good(FULL);
    assert_eq!(config.server.domains, ["example.com", "example.org"]);
    assert_eq!(config.server.aliases, ["sip1.example.com", "192.0.2.10", "[2001:db8::1]"]);
    assert_eq!(config.server.workers, 4);
    assert_eq!((config.server.steering, config.server.pin), (Steering::Kernel, Pin::Cpus(vec![0, 2])));
    assert_eq!(config.server.busy_poll, Duration::from_micros(50));
    assert!(config.server.udp_segmentation);
    assert_eq!(config.server.listen[0].advertise.as_ref().unwrap().to_string(), "sip.example.com:5062");
    assert_eq!(config.server.listen[1].advertise, None);
    assert_eq!(config.server.listen[1].transport, Transport::Tcp);
    assert_eq!(config.auth.algorithms, [Algorithm::Sha256, Algorithm::Md5]);
    assert_eq!(config.auth.nonce_lifetime, secs(120));
    assert_eq!(config.registrar.max_expires, secs(3600));
    assert_eq!(config.registrar.service_route, ["sip:edge.example.com;lr"]);
    assert_eq!((config.proxy.mode, config.proxy.fork), (Mode::Redirect, Fork::Serial));
    assert_eq!(config.proxy.timer_c, secs(240));
    assert_eq!(config.timers.t1, Duration::from_millis(100));
    assert_eq!(config.limits.message_bytes, 8192);
    assert_eq!(config.dns.servers[0], "192.0.2.53:53".parse().unwrap());
    assert_eq!(config.dns.servers[1], "[2001:db8::53]:5353".parse().unwrap());
    assert_eq!((config.log.level, config.log.format), (Level::Debug, LogFormat::Json));
    assert_eq!(config.store.on_failure, OnStoreFailure::Accept);
    let voicemail = config.voicemail.unwrap();
    assert_eq!(voicemail.on, [Reroute::BUSY, Reroute::NO_ANSWER]);
    assert_eq!(voicemail.no_answer_timeout, Duration::from_millis(1500));
    assert_eq!(voicemail.silent_after, Duration::from_millis(2500));
    assert_eq!(voicemail.target.user.as_deref(), Some("vm"));
    assert_eq!(voicemail.target.transport, Some(Transport::Tcp));
    let emergency = config.emergency.unwrap();
    assert_eq!(emergency.silent_after, Duration::from_millis(800));
    assert_eq!(emergency.targets[1].uri, "sip:psap.example.net");
    assert_eq!(
        (&emergency.numbers[..], emergency.strangers),
        (&["112", "+112", "15"].map(str::to_owned)[..], true)
    );
}

#[test]
fn trunks_and_routes_arrive() {
    let config = good(FULL);
    let trunk = &config.trunks[0];
    assert_eq!((trunk.name.as_str(), trunk.strip, trunk.prepend.as_str()), ("carrier", 1, "0"));
    assert_eq!(trunk.targets[1].ip(), Some("2001:db8::20".parse().unwrap()));
    assert_eq!(trunk.targets[1].port, Some(5070));
    assert!(trunk.may_transit && trunk.overload_control);
    assert_eq!((&trunk.retry_on[..], trunk.silent_after), (&[486, 500][..], Duration::from_millis(1500)));
    assert!(trunk.settings().numbers.is_some() && config.domain_settings()[0].numbers.is_some());
    assert!(good("[[domain]]\nname='example.com'").domain_settings()[0].numbers.is_none());
    let domains = config.domain_settings();
    let presented = |user: &[u8]| domains[0].callers.of(user).map(|numbers| numbers.presented(None).to_vec());
    assert_eq!(presented(b"alice"), Some(b"+12125550100".to_vec()));
    assert_eq!(presented(b"bob"), Some(b"+12125550199".to_vec()));
    assert_eq!(domains[1].name, b"example.org");
    assert_eq!(trunk.settings().headers.unwrap().identity(), Some(sip_node::call_rules::Identity::Asserted));
    assert_eq!(trunk.remove_headers, ["X-Internal", "P-*"]);
    assert!(trunk.settings().headers.is_some() && config.domain_settings()[0].headers.is_some());
    assert_eq!(config.domain_rules[0].set_headers, ["X-Trunk: \"{trunk}\""]);
    assert_eq!(config.routes[1].silent_after, Duration::from_secs(3));
    assert_eq!(config.routes[0].user.as_deref(), Some("info"));
    assert_eq!((config.routes[0].targets.len(), config.routes[0].redirect.len()), (0, 1));
    assert_eq!((config.routes[1].targets[0].port, config.routes[1].redirect.len()), (Some(5080), 0));
}

#[test]
fn silent_after_has_a_default_for_each_list() {
    let config = good(
        "[voicemail]\ntarget='sip:192.0.2.1'\n[emergency]\ntargets=['sip:192.0.2.2']\n\
         [[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.3']\n\
         [[route]]\nuser='b'\ntargets=['sip:192.0.2.4']",
    );
    let usual = Duration::from_secs(2);
    assert_eq!((config.trunks[0].silent_after, config.routes[0].silent_after), (usual, usual));
    assert_eq!(config.voicemail.unwrap().silent_after, usual);
    assert_eq!(config.emergency.unwrap().silent_after, Duration::from_secs(1));
    assert!(config.trunks[0].retry_on.is_empty());
}

#[test]
fn trunk_sources_default_to_the_targets() {
    let text = "[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.1','sip:[2001:db8::1]:5061']";
    let trunk = &good(text).trunks[0];
    assert!(!trunk.may_transit && !trunk.overload_control);
    let sources: Vec<String> = trunk.sources.iter().map(|s| s.to_string()).collect();
    assert_eq!(sources, ["192.0.2.1/32", "2001:db8::1/128"]);
    let types::Source::Block(first) = trunk.sources[0] else { panic!("{:?}", trunk.sources) };
    assert!(first.contains("192.0.2.1".parse().unwrap()));
    assert!(first.contains("::ffff:192.0.2.1".parse().unwrap()));
    assert!(!first.contains("192.0.2.2".parse().unwrap()));
    assert!(!first.contains("2001:db8::1".parse().unwrap()));
}

#[test]
fn blocks_of_addresses() {
    let block = |text: &str| values::cidr(text).unwrap();
    let inside = |net: &str, ip: &str| block(net).contains(ip.parse::<IpAddr>().unwrap());
    assert!(inside("10.0.0.0/8", "10.255.0.1") && !inside("10.0.0.0/8", "11.0.0.1"));
    assert!(inside("0.0.0.0/0", "203.0.113.9") && !inside("0.0.0.0/0", "::1"));
    assert!(inside("2001:db8::/32", "2001:db8:ffff::1") && !inside("2001:db8::/32", "2001:db9::1"));
    assert!(inside("::/0", "2001:db9::1"));
}

#[test]
fn one_value_may_stand_for_a_list() {
    let config = good("domains = 'example.com'\nlisten = 'udp:127.0.0.1:0'");
    assert_eq!(config.server.domains, ["example.com"]);
    assert_eq!(config.server.listen.len(), 1);
}

#[test]
fn one_advertised_address_serves_all_listeners() {
    let config = good("advertise = 'sip.example.com'");
    assert!(config.server.listen.iter().all(|l| l.advertise.as_ref().unwrap().host == "sip.example.com"));
}

#[test]
fn star_challenges_everything() {
    let config = good("[auth]\nchallenge = ['*']");
    assert_eq!(config.auth.challenge, Challenge::All);
    assert!(config.auth.challenge.covers(b"ANYTHING"));
    let some = good("[auth]\nchallenge = ['INVITE']").auth.challenge;
    assert!(some.covers(b"INVITE") && !some.covers(b"BYE") && !some.covers(b"invite"));
}

#[test]
fn a_default_expiry_follows_its_limits() {
    assert_eq!(good("[registrar]\nmax_expires = 600").registrar.default_expires, secs(600));
    assert_eq!(good("[registrar]\nmin_expires = 5000").registrar.default_expires, secs(5000));
}

#[test]
fn the_command_line_wins() {
    let over = Overrides {
        listen: vec!["udp:127.0.0.1:5070".into()],
        domains: vec!["LAB.example".into(), "lab.example".into()],
        data_dir: Some(PathBuf::from("/tmp/x")),
        workers: Some(2),
        steering: Some("ring".into()),
        admin: Some("127.0.0.1:0".into()),
        auth: Some(false),
        nodes: vec!["sip:192.0.2.9".into()],
        algorithm: Some("CJSQ".into()),
        tls_cert: Some("chain.pem".into()),
        tls_key: Some("key.pem".into()),
    };
    let loaded = Config::parse("t.toml", FULL, &over, METHODS).unwrap();
    let config = loaded.config;
    // The advertise table of the file names listeners that are gone; that is no error here.
    assert_eq!(config.server.listen.len(), 1);
    assert_eq!(config.server.listen[0].address, "127.0.0.1:5070".parse::<SocketAddr>().unwrap());
    assert_eq!(config.server.domains, ["lab.example"]);
    assert_eq!(config.server.data_dir, Path::new("/tmp/x"));
    assert_eq!(config.server.workers, 2);
    assert_eq!(config.server.steering, Steering::Ring);
    assert_eq!(config.admin.listen, Some("127.0.0.1:0".parse().unwrap()));
    assert!(!config.auth.enabled);
    assert_eq!(config.balance.nodes[0].to_string(), "sip:192.0.2.9:5060");
    assert_eq!(config.balance.algorithm, sip_balancer::Algorithm::Cjsq);
    assert_eq!(config.tls.certificates[0].chain, Path::new("chain.pem"));
    assert_eq!(loaded.warnings.len(), 1, "authentication off is worth a warning");
    let off = Overrides { admin: Some("off".into()), ..Overrides::default() };
    assert_eq!(Config::parse("t", "", &off, METHODS).unwrap().config.admin.listen, None);
}

#[test]
fn files_that_keys_name_are_checked() {
    let dir = std::env::temp_dir().join(format!("strowger-files-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("strowger.toml");
    let text = "[admin]\ntoken_file = 'token'\n[balance]\nnodes = ['sip:192.0.2.1']\nprevious_secret = 'before'\n\
         [tls]\nticket_keys = 'tickets'\n[websocket]\ntoken_secret = 'connecting'\n[records]\ntoken_file = 'token'";
    std::fs::write(&file, text).unwrap();
    let found = || {
        let loaded = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap();
        loaded.check_files().into_iter().map(|found| (found.line, found.message)).collect::<Vec<_>>()
    };
    let missing = found();
    assert_eq!(missing.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 5, 7, 9, 11], "{missing:?}");
    assert!(
        missing[0].1.starts_with("token_file cannot be used: ")
            && missing[0].1.contains("token: No such file")
    );
    std::fs::write(dir.join("token"), "short").unwrap();
    std::fs::write(dir.join("before"), [7; 31]).unwrap();
    assert!(
        found()[0].1.contains("at least 16 characters") && found()[1].1.ends_with("not 32 octets"),
        "{:?}",
        found()
    );
    std::fs::write(dir.join("token"), "0123456789abcdef").unwrap();
    std::fs::write(dir.join("before"), [7; 32]).unwrap();
    for poor in [[7; 48].to_vec(), b"sixteen bytes ..".repeat(3)] {
        std::fs::write(dir.join("tickets"), poor).unwrap();
        assert!(found()[0].1.contains("is no secret"), "{:?}", found());
    }
    std::fs::write(dir.join("tickets"), (0..32).collect::<Vec<u8>>()).unwrap();
    std::fs::write(dir.join("connecting"), "0123456789abcdef").unwrap();
    assert_eq!(found(), []);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn certificates_are_checked_as_a_start_would() {
    const NOW: i64 = 1_000_000_000;
    let dir = std::env::temp_dir().join(format!("strowger-chains-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["example.com".into()]).unwrap();
    let end = std::time::UNIX_EPOCH + Duration::from_secs(NOW as u64 + 12 * 86_400);
    params.not_after = end.into();
    std::fs::write(dir.join("chain.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let file = dir.join("strowger.toml");
    let text = "domains = ['example.com', 'other.example']\nlisten = ['tls:127.0.0.1:5061']\n[tls]\n\
                certificates = [{ chain = 'chain.pem', key = 'key.pem', domains = ['b.example'] }]";
    std::fs::write(&file, text).unwrap();
    let loaded = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap();
    let texts = |found: Vec<ConfigError>| {
        found.into_iter().map(|found| format!("{}: {}", found.line, found.message)).collect::<Vec<_>>()
    };
    let found = loaded.check_certificates(NOW);
    assert!(found.errors.len() == 1 && found.errors[0].message.contains("key.pem: No such file"));
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    let found = loaded.check_certificates(NOW);
    assert!(found.errors.is_empty());
    let chain = dir.join("chain.pem");
    assert_eq!(
        texts(found.warnings),
        [
            format!("4: the certificate in {} expires in 12 days", chain.display()),
            format!("4: {} is to be shown for b.example, which is not in it: example.com", chain.display()),
            "4: no certificate is for the served domain other.example".to_owned(),
        ]
    );
    let found = loaded.check_certificates(NOW + 14 * 86_400);
    assert!(found.warnings[0].message.ends_with("expired 2 days ago"), "{:?}", found.warnings);
    // Phones connect to the proxy in front of it.
    std::fs::write(&file, format!("{text}\n[auth]\nfronts = ['192.0.2.1']")).unwrap();
    let loaded = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap();
    let found = texts(loaded.check_certificates(NOW).warnings);
    assert!(found.len() == 2 && !found[1].contains("served domain"), "{found:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn roots_are_checked_as_a_start_would() {
    let dir = std::env::temp_dir().join(format!("strowger-roots-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (file, roots) = (dir.join("strowger.toml"), dir.join("roots.pem"));
    let trunk = "[[trunk]]\nname = 'a'\ntargets = ['sip:192.0.2.1']\nroots = 'roots.pem'\n";
    std::fs::write(&file, format!("[tls]\nroots = 'roots.pem'\n{trunk}")).unwrap();
    let check = || Config::load(Some(&file), &Overrides::default(), METHODS).unwrap().check_certificates(0);
    let errors = check().errors;
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 6], "{errors:?}");
    assert!(errors.iter().all(|error| error.message.contains("roots.pem: No such file")), "{errors:?}");
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = |is_ca| {
        let mut params = rcgen::CertificateParams::new(vec!["example.com".into()]).unwrap();
        params.is_ca = is_ca;
        params.self_signed(&key).unwrap().pem()
    };
    let authority = pem(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    std::fs::write(&roots, &authority).unwrap();
    let found = check();
    assert!(found.errors.is_empty() && found.warnings.is_empty(), "{found:?}");
    std::fs::write(&roots, authority + &pem(rcgen::IsCa::NoCa)).unwrap();
    let found = check();
    assert!(found.errors.is_empty() && found.warnings.len() == 2, "{found:?}");
    assert!(found.warnings.iter().all(|found| found.message.ends_with("which is no authority")), "{found:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn paths_are_meant_from_where_the_file_is() {
    let dir = std::env::temp_dir().join(format!("strowger-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("strowger.toml");
    std::fs::write(&file, "data_dir = 'd'\n[admin]\ntoken_file = '/abs/token'").unwrap();
    let loaded = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap();
    assert_eq!(loaded.config.server.data_dir, dir.join("d"));
    assert_eq!(loaded.config.admin.token_file.as_deref(), Some(Path::new("/abs/token")));
    assert_eq!(loaded.file.as_deref(), Some(file.as_path()));
    std::fs::write(&file, b"domains = ['\xff']").unwrap();
    let errors = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap_err();
    assert!(errors[0].message.starts_with("not UTF-8"), "{}", errors[0]);
    std::fs::remove_dir_all(&dir).unwrap();
    let errors = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap_err();
    assert!(errors[0].message.starts_with("cannot read"), "{}", errors[0]);
}

#[test]
fn fifo_is_no_configuration() {
    let dir = std::env::temp_dir().join(format!("strowger-fifo-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let fifo = dir.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let errors = Config::load(Some(&fifo), &Overrides::default(), METHODS).unwrap_err();
    assert!(errors[0].message.starts_with("cannot read: is a FIFO"), "{}", errors[0]);
    let text = format!(
        "[admin]\ntoken_file = '{0}'\n[balance]\nprevious_secret = '{0}'\n[tls]\nticket_keys = '{0}'\n\
         [websocket]\ntoken_secret = '{0}'\n[records]\ntoken_file = '{0}'\n",
        fifo.display()
    );
    let file = dir.join("strowger.toml");
    std::fs::write(&file, text).unwrap();
    let found = Config::load(Some(&file), &Overrides::default(), METHODS).unwrap().check_files();
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|found| found.message.contains("is a FIFO")), "{found:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_rendered_reads_back_the_same() {
    for text in ["", FULL] {
        let config = good(text);
        let rendered = config.render_effective();
        let mut again = good(&rendered);
        // The default listeners may be missing on a system; written ones may not.
        for (listener, before) in again.server.listen.iter_mut().zip(&config.server.listen) {
            listener.optional = before.optional;
        }
        assert_eq!(again, config, "{rendered}");
    }
}

#[test]
fn a_reload_changes_all_or_nothing() {
    let old = good(FULL);
    let live = FULL.replace("fork = \"serial\"", "fork = \"parallel\"").replace("debug", "warn");
    let report = plan_reload(&old, &read(&live).unwrap()).unwrap();
    assert_eq!(report.changed, ["proxy", "log"]);
    let same = plan_reload(&old, &read(FULL).unwrap()).unwrap();
    assert!(same.changed.is_empty());
    assert_eq!(same.warnings.len(), 1, "several algorithms are worth a warning");

    let refused = live.replace("workers = 4", "workers = 5").replace("cache = 7", "cache = 8");
    let errors = plan_reload(&old, &read(&refused).unwrap()).unwrap_err();
    let where_: Vec<(u32, &str)> = errors.iter().map(|e| (e.line, e.message.as_str())).collect();
    assert_eq!(where_.len(), 2);
    assert!(where_[0].0 == 5 && where_[0].1.starts_with("`workers` cannot change"), "{where_:?}");
    assert!(where_[1].1.starts_with("`dns` cannot change"), "{where_:?}");
}

#[test]
fn of_a_balancers_file_only_what_a_balancer_reads_is_shown() {
    let shown = |text: &str| {
        Config::parse("t.toml", text, &Overrides::default(), METHODS).unwrap().render_effective()
    };
    let own = shown("[balance]\nnodes = ['sip:192.0.2.1']");
    for (section, there) in
        [("auth", false), ("store", false), ("limits", true), ("log", true), ("balance", true)]
    {
        assert_eq!(own.contains(&format!("\n[{section}]\n")), there, "[{section}]\n{own}");
    }
    // Whoever writes for both sees both.
    assert!(shown("[balance]\n[auth]\n").contains("\n[registrar]\n") && shown("").contains("\n[auth]\n"));
}

#[test]
fn defaults_of_the_file_are_those_of_the_core() {
    let same = |ours: &dyn std::fmt::Debug, core: &dyn std::fmt::Debug| {
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    };
    same(&Proxy::default().settings(&Timers::default()), &sip_node::Proxy::default());
    same(&Trunk::default().settings(), &sip_node::Trunk::default());
    same(&Voicemail::default().settings(), &sip_node::Voicemail::default());
    same(&Forwarding::default().settings(), &sip_node::CallForwarding::default());
    same(&Emergency::default().settings(), &sip_node::Emergency::default());
    same(&Registrar::default().settings(), &sip_registrar::Config::default());
    let workers = sip_node::OverloadRules::default().workers;
    same(&Overload::default().settings(workers.into()), &sip_node::OverloadRules::default());
}

#[test]
fn phones_are_asked_for_keepalives_before_their_streams_end() {
    let timer = |text: &str| good(&format!("[limits]\ntcp_idle_timeout = {text}")).limits.flow_timer();
    for (idle, seconds) in
        [("'100ms'", 0), ("'10s'", 9), ("'10m'", 540), ("'930s'", 837), ("'934s'", 0), ("'7500s'", 0)]
    {
        assert_eq!(timer(idle), seconds, "{idle}");
    }
}

#[test]
fn urls_of_records_are_checked() {
    for url in
        ["https://records.example.com/v1/calls?key=1", "http://127.0.0.1:9000", "https://[2001:db8::1]/"]
    {
        assert!(good(&format!("[records]\nurl = '{url}'")).records.are_kept(), "{url}");
    }
    for url in [
        "ftp://example.com/",
        "https://",
        "https://user:password@example.com/",
        "https://a b/",
        "example.com",
    ] {
        let text = format!("[records]\nurl = '{url}'");
        let errors = Config::parse("t", &text, &Overrides::default(), METHODS).expect_err(url);
        assert!(errors[0].message.contains("is not a URL of HTTP"), "{url}: {errors:?}");
    }
    assert!(!good("[records]\nkeep = 3").records.are_kept());
}
