//! Starts the system under test, with an address and a folder of its own.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lab::experiment::{Beside, System, SystemKind, Transport, Workload};
use load::backend::NodeReport;
use load::report::Fact;

use crate::addresses::{Addresses, PORT};
use crate::archive::hash_of_file;
use crate::backends::{Backends, Stand};
use crate::certificates::Certificates;
use crate::database::{Database, Wanted};
use crate::generator::mailbox;
use crate::leftovers::MEMORY;
use crate::network::{Network, Side};
use crate::owner;
use crate::process::Process;
use crate::processors::Places;
use crate::programs::{found, located};
use crate::quota::Quota;
use crate::sip::{self, DOMAIN};

/// How long a system may take to end.
const STOP: Duration = Duration::from_secs(10);
/// How long Strowger may take to read its users.
const IMPORT: Duration = Duration::from_secs(1_800);
/// Between two probes of a system that starts.
const BETWEEN_PROBES: Duration = Duration::from_millis(50);
/// The port for TLS; WebSocket over TLS has the one after it.
const TLS_PORT: u16 = 5061;
const WSS_PORT: u16 = 5443;
const WS_PORT: u16 = 5080;
/// The configuration of a system that a command starts, in the folder of the run.
const CONFIG: &str = "config";
/// The list of back ends for Kamailio's dispatcher, there too.
const BACKEND_LIST: &str = "backends.list";
/// Sends callers of users who are away on to the mailbox of the generator.
const VOICEMAIL: &str = "[voicemail]\ntarget = \"sip:voicemail@${mailbox}\"\non = [\"busy\"]\n";
/// The admin interface of Strowger.
const ADMIN_PORT: u16 = 8080;

/// What a run needs in order to start a system.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The program that is this build.
    pub own: &'a Path,
    /// A folder that this run may fill.
    pub folder: &'a Path,
    /// Free addresses.
    pub addresses: &'a mut Addresses,
    /// What is between generator and system. A system is started on its side.
    pub network: &'a Network,
    /// The DNS server of the lab, if the system asks it.
    pub resolver: Option<SocketAddr>,
    /// Where the generator answers calls.
    pub generator: SocketAddr,
    /// How many users a system must know.
    pub users: u64,
    /// Certificates for this run, where the workload needs them.
    pub certificates: Option<&'a Certificates>,
    /// The processors of system and generator.
    pub places: &'a Places,
    /// What is random at back ends follows from this number.
    pub seed: u64,
    /// The folder of Strowger's data: filled in by [`start`].
    pub data: PathBuf,
    /// What stands for the database: filled in by [`start`].
    pub database: Vec<(&'static str, String)>,
    /// Where back ends are: filled in by [`start`].
    pub backends: Vec<SocketAddr>,
}

/// A running system.
#[derive(Debug)]
pub struct Running {
    /// Where calls go.
    pub target: SocketAddr,
    /// Its processes; nothing where there is no system.
    process: Option<Process>,
    /// Servers behind it.
    backends: Backends,
    /// Its database.
    database: Option<Database>,
    /// Its data, where they are in memory.
    data: Option<InMemory>,
    /// Its share of a processor, if it has not all of it. After its process: that must have ended.
    quota: Option<Quota>,
    /// It was killed and did not come back.
    gone: bool,
    /// It had ended by itself when it was to be killed.
    crashed: bool,
    /// How it was started.
    again: Option<(Command, Vec<u32>, System)>,
    /// What it is.
    pub described: Vec<Fact>,
}

impl Running {
    /// A system that is a script, and is started again by it.
    #[cfg(test)]
    pub fn of_tests(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let process = Process::start(&mut command, &[]).expect("sh starts");
        Running {
            target: SocketAddr::from(([127, 0, 0, 1], PORT)),
            process: Some(process),
            database: None,
            data: None,
            quota: None,
            backends: Backends::default(),
            gone: false,
            crashed: false,
            again: Some((command, Vec::new(), System { kind: SystemKind::Relay, ..System::default() })),
            described: Vec::new(),
        }
    }

    /// The process whose cost is measured.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// All processes of the system.
    pub fn pids(&self) -> Vec<u32> {
        self.process.as_ref().map_or_else(Vec::new, Process::pids)
    }

    /// All processes of its database.
    pub fn database_pids(&self) -> Vec<u32> {
        self.database.as_ref().map_or_else(Vec::new, Database::pids)
    }

    /// A back end, from 1.
    pub fn backend(&mut self, number: u32) -> Option<&mut Process> {
        self.backends.nth(number)
    }

    /// Whether it, or a server behind it, ended by itself.
    pub fn ended(&mut self) -> bool {
        let gone = self.gone;
        let own = self.process.iter_mut().filter(|_| !gone);
        let database = self.database.as_mut().is_some_and(Database::ended);
        self.crashed || database || own.chain(self.backends.processes()).any(|process| !process.is_running())
    }

    /// Kills it, as a fault says. Where it had ended by itself before, [`Running::ended`] goes on to say so.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.as_mut() {
            self.crashed |= !process.is_running();
            process.kill();
        }
    }

    /// Starts it once more, after a kill.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn restart(&mut self) -> Result<(), String> {
        let Some((command, cpus, system)) = self.again.as_mut() else { return Ok(()) };
        self.gone = true;
        let mut process =
            Process::start(command, cpus).map_err(|error| format!("cannot start again: {error}"))?;
        until_ready(&mut process, system, self.target)?;
        if let Some(quota) = &self.quota {
            quota.take(&process.pids())?;
        }
        self.process = Some(process);
        self.gone = false;
        Ok(())
    }

    /// Leaves it the share of a processor that it is to have. Before, it has all: callees register quickly.
    ///
    /// # Errors
    /// A sentence that names the control group.
    pub fn limit(&self) -> Result<(), String> {
        self.quota.as_ref().map_or(Ok(()), |quota| quota.take(&self.pids()))
    }

    /// Ends all of it.
    pub fn stop(mut self) -> Stopped {
        let mut output = String::new();
        for process in self.process.iter_mut().chain(self.backends.processes()) {
            process.stop(STOP);
            output.push_str(&process.output());
        }
        if let Some(database) = &mut self.database {
            output.push_str(&database.stop());
        }
        drop(self.data.take());
        let (backends, void) = self.backends.report();
        Stopped { output, backends, void }
    }
}

/// A system that was ended.
#[derive(Debug)]
pub struct Stopped {
    /// What it wrote, and the servers behind it.
    pub output: String,
    /// What servers of a modelled capacity behind it did.
    pub backends: Vec<NodeReport>,
    /// Why the run says nothing of it, because of the servers behind it.
    pub void: Vec<String>,
}

/// Starts a system and waits until it answers.
///
/// # Errors
/// A sentence that says which program did not start, and its last lines.
pub fn start(system: &System, workload: &Workload, ground: &mut Ground<'_>) -> Result<Running, String> {
    let ip = ground.addresses.fresh()?;
    let target = SocketAddr::new(ip, port_of(workload.transport));
    let backends = start_backends(system, workload, ground)?;
    let database = start_database(system, ip, ground)?;
    let data = place_data(system, ground)?;
    let made = match system.kind {
        SystemKind::Strowger => serve(system, workload, ip, ground)?,
        SystemKind::Balance => balance(system, workload, ip, ground)?,
        SystemKind::Kamailio => kamailio(system, workload, ip, ground)?,
        SystemKind::Command => of_command(system, ip, ground)?,
        SystemKind::Echo | SystemKind::FrontEnd => serve_associations(system, workload, target, ground),
        SystemKind::Relay => relay(workload, target, ground)?,
        SystemKind::Sink => sink(system, workload, target, ground)?,
        SystemKind::None => {
            let target = SocketAddr::new(ground.generator.ip(), ground.generator.port());
            let described = Vec::new();
            return Ok(Running {
                target,
                process: None,
                backends,
                database,
                data,
                quota: None,
                gone: false,
                crashed: false,
                again: None,
                described,
            });
        }
    };
    let (program, mut command) = made;
    command.envs(database.iter().flat_map(Database::environment));
    for pair in &system.environment {
        if let Some((name, value)) = pair.split_once('=') {
            command.env(name, filled(value, system, ip, ground));
        }
    }
    let cpus = ground.places.system.clone();
    let named = |error| format!("{}: {error}", program.display());
    let mut described = describe(&program, &command).map_err(named)?;
    described.extend(database.iter().flat_map(|database| database.described.clone()));
    let mut process = Process::start(&mut command, &cpus).map_err(|error| named(error.to_string()))?;
    until_ready(&mut process, system, target).map_err(named)?;
    let quota = (system.processor_share < 1.0).then(|| Quota::new(system.processor_share)).transpose()?;
    Ok(Running {
        target,
        process: Some(process),
        backends,
        database,
        data,
        quota,
        gone: false,
        crashed: false,
        again: Some((command, cpus, system.clone())),
        described,
    })
}

/// The database of a system that has one.
fn start_database(system: &System, ip: IpAddr, ground: &mut Ground<'_>) -> Result<Option<Database>, String> {
    if system.database == Beside::None {
        return Ok(None);
    }
    let database = Database::start(Wanted {
        ip,
        cpus: &ground.places.system,
        users: ground.users,
        options: &system.database_options,
    })?;
    ground.database = database.names().into();
    Ok(Some(database))
}

/// A folder in memory that goes with its run.
#[derive(Debug)]
struct InMemory(PathBuf);

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where the data of Strowger is: in the folder of the run, or in memory.
fn place_data(system: &System, ground: &mut Ground<'_>) -> Result<Option<InMemory>, String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    if !system.data_in_memory {
        ground.data = ground.folder.join("data");
        // What a run that was cut has left there is of no use.
        let _ = fs::remove_dir_all(&ground.data);
        fs::create_dir_all(&ground.data).map_err(|error| failed(&ground.data, error))?;
        return Ok(None);
    }
    // Everybody may write there: it is new, and for this user alone.
    let path = Path::new(MEMORY).join(owner::name("data")?);
    DirBuilder::new().mode(0o700).create(&path).map_err(|error| failed(&path, error))?;
    ground.data.clone_from(&path);
    Ok(Some(InMemory(path)))
}

/// The servers behind a system that has some.
fn start_backends(system: &System, workload: &Workload, ground: &mut Ground<'_>) -> Result<Backends, String> {
    if !system.has_backends() {
        return Ok(Backends::default());
    }
    let stand =
        Stand { own: ground.own, folder: ground.folder, cpus: &ground.places.generator, seed: ground.seed };
    let (network, addresses) = (ground.network, &mut *ground.addresses);
    let backends = network.within(Side::Generator, || Backends::start(workload, &stand, addresses))?;
    ground.backends = backends.places().to_vec();
    // The file of ${backend_list}.
    let lines: String = ground.backends.iter().map(|place| format!("1 sip:{place}\n")).collect();
    write_config(ground, BACKEND_LIST, &lines)?;
    Ok(backends)
}

/// The port of the system for a transport.
fn port_of(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::Tcp | Transport::Sctp => PORT,
        Transport::Tls => TLS_PORT,
        Transport::Ws => WS_PORT,
        Transport::Wss => WSS_PORT,
    }
}

fn until_ready(process: &mut Process, system: &System, target: SocketAddr) -> Result<(), String> {
    let is_ours = matches!(
        system.kind,
        SystemKind::Strowger | SystemKind::Balance | SystemKind::Relay | SystemKind::Sink
    );
    if is_ours || system.serves_associations() {
        return process.wait_until_ready(system.start_limit);
    }
    let until = Instant::now() + system.start_limit;
    let probed = SocketAddr::new(target.ip(), PORT);
    loop {
        if !process.is_running() {
            return Err(format!("it ended before it answered: {}", process.tail(5)));
        }
        if sip::answers(probed, target.ip()).unwrap_or(false) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!(
                "it answered no request within {:?}: {}",
                system.start_limit,
                process.tail(5)
            ));
        }
        thread::sleep(BETWEEN_PROBES);
    }
}

/// The listeners of Strowger for a workload. UDP is always there: callees register over it.
fn listeners(ip: IpAddr, transport: Transport) -> Vec<String> {
    let mut all = vec![format!("udp:{}", SocketAddr::new(ip, PORT))];
    if transport != Transport::Udp {
        let place = SocketAddr::new(ip, port_of(transport));
        all.push(format!("{}:{place}", transport.name()));
    }
    all
}

/// A configuration that trusts the certificate of the run, which callees and back ends have as well.
fn trusting(config: String, ground: &Ground<'_>) -> String {
    match ground.certificates {
        Some(certificates) if !config.contains("[tls]") => {
            format!("{config}\n[tls]\nroots = \"{}\"\n", certificates.chain().display())
        }
        _ => config,
    }
}

fn write_config(ground: &Ground<'_>, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = ground.folder.join(name);
    // The password of a database is of no concern to other users.
    let mode = if ground.database.is_empty() { 0o666 } else { 0o600 };
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn binary(system: &System, ground: &Ground<'_>) -> PathBuf {
    system.binary.as_deref().map_or_else(|| ground.own.to_owned(), located)
}

/// A command of Strowger with what all of its servers get: configuration, data folder, listeners, workers,
/// admin interface, certificates.
fn strowger(
    word: &str,
    system: &System,
    workload: &Workload,
    ip: IpAddr,
    ground: &Ground<'_>,
) -> Result<(PathBuf, Command), String> {
    let program = binary(system, ground);
    let voicemail = if workload.mailbox { VOICEMAIL } else { "" };
    let own = filled(&format!("{}\n{voicemail}", system.config), system, ip, ground);
    let config = write_config(ground, "strowger.toml", &trusting(own, ground))?;
    let mut command = Command::new(&program);
    command.arg(word).arg("--config").arg(config).arg("--data-dir").arg(&ground.data);
    for listener in listeners(ip, workload.transport) {
        command.args(["--listen", &listener]);
    }
    command.args(["--workers", &system.workers.to_string()]);
    // It must be on a loopback address. In a namespace nobody else has the usual one.
    let admin = if ground.network.is_apart() { IpAddr::from([127, 0, 0, 1]) } else { ip };
    command.args(["--admin", &SocketAddr::new(admin, ADMIN_PORT).to_string()]);
    if let Some(certificates) = ground.certificates {
        command.arg("--tls-cert").arg(certificates.chain()).arg("--tls-key").arg(certificates.key());
    }
    Ok((program, command))
}

/// `strowger serve`.
fn serve(
    system: &System,
    workload: &Workload,
    ip: IpAddr,
    ground: &Ground<'_>,
) -> Result<(PathBuf, Command), String> {
    let (program, mut command) = strowger("serve", system, workload, ip, ground)?;
    if workload.authenticate {
        import_users(&program, ground)?;
    }
    command.args(["--domain", DOMAIN, "--domain", &ip.to_string()]);
    command.args(["--auth", if workload.authenticate { "on" } else { "off" }]);
    Ok((program, command))
}

/// The users of a workload with digest: callers and callees.
fn import_users(program: &Path, ground: &Ground<'_>) -> Result<(), String> {
    let mut rows = "username,domain,password\n".to_owned();
    for number in 0..u32::try_from(ground.users).unwrap_or(u32::MAX) {
        rows.push_str(&format!("{},{DOMAIN},{}\n", sip::user(number), sip::password(number)));
    }
    let file = write_config(ground, "users.csv", &rows)?;
    let mut command = Command::new(program);
    command.args(["user", "import"]).arg(file).arg("--data-dir").arg(&ground.data);
    let done = Process::finish(&mut command, IMPORT, || false);
    done.map(drop).map_err(|why| format!("{} user import: {why}", program.display()))
}

/// `strowger balance` in front of back ends.
fn balance(
    system: &System,
    workload: &Workload,
    ip: IpAddr,
    ground: &Ground<'_>,
) -> Result<(PathBuf, Command), String> {
    let (program, mut command) = strowger("balance", system, workload, ip, ground)?;
    for place in &ground.backends {
        command.args(["--node", &format!("sip:{place}")]);
    }
    Ok((program, command))
}

/// Kamailio with a configuration of the experiment.
fn kamailio(
    system: &System,
    workload: &Workload,
    ip: IpAddr,
    ground: &Ground<'_>,
) -> Result<(PathBuf, Command), String> {
    let program = system.binary.as_deref().map_or_else(|| found("kamailio"), located);
    let config = write_config(ground, "kamailio.cfg", &filled(&system.config, system, ip, ground))?;
    let mut command = Command::new(&program);
    command.arg("-f").arg(config).args(["-DD", "-E", "-m", "2048", "-M", "16", "-x", "tlsf", "-X", "fm"]);
    command.arg("-Y").arg(ground.folder).arg("-P").arg(ground.folder.join("pid"));
    command.args(["-l", &format!("udp:{}", SocketAddr::new(ip, PORT))]);
    if workload.transport != Transport::Udp {
        let place = SocketAddr::new(ip, port_of(workload.transport));
        command.args(["-l", &format!("{}:{place}", workload.transport.name())]);
    }
    Ok((program, command))
}

/// The bare relay of this build between the two sides of the generator.
fn relay(workload: &Workload, target: SocketAddr, ground: &Ground<'_>) -> Result<(PathBuf, Command), String> {
    if workload.transport != Transport::Udp || workload.workers > 1 {
        return Err(
            "the bare relay is between one worker's two UDP sockets: transport = \"udp\", workers = 1"
                .to_owned(),
        );
    }
    let caller = SocketAddr::new(ground.generator.ip(), PORT + 1);
    let mut command = Command::new(ground.own);
    command.args(["lab", "serve", "relay"]);
    command.args([target, caller, ground.generator].map(|place| place.to_string()));
    Ok((ground.own.to_owned(), command))
}

/// The echo server or the front end of this build.
fn serve_associations(
    system: &System,
    workload: &Workload,
    target: SocketAddr,
    ground: &Ground<'_>,
) -> (PathBuf, Command) {
    let program = binary(system, ground);
    let mut command = Command::new(&program);
    command.args(["lab", "serve", system.kind.name(), &target.to_string()]);
    command.args(["--sockets", system.sockets.name()]);
    // Those of the capture come before.
    command.args(["--most", &workload.associations.saturating_add(1_000).to_string()]);
    (program, command)
}

/// The receiver of this build that answers nothing.
fn sink(
    system: &System,
    workload: &Workload,
    target: SocketAddr,
    ground: &Ground<'_>,
) -> Result<(PathBuf, Command), String> {
    if workload.transport != Transport::Udp {
        return Err("a sink reads datagrams: transport = \"udp\"".to_owned());
    }
    let mut command = Command::new(ground.own);
    command.args(["lab", "serve", "sink", &target.to_string()]);
    if let Some(octets) = system.receive_buffer {
        command.args(["--receive-buffer", &octets.to_string()]);
    }
    Ok((ground.own.to_owned(), command))
}

/// A server that a command starts.
fn of_command(system: &System, ip: IpAddr, ground: &Ground<'_>) -> Result<(PathBuf, Command), String> {
    let [program, arguments @ ..] = system.command.as_slice() else {
        return Err("the system has no command: write command = [\"PROGRAM\", \"ARGUMENT\"]".to_owned());
    };
    if !system.config.is_empty() {
        write_config(ground, CONFIG, &filled(&system.config, system, ip, ground))?;
    }
    let program = filled(program, system, ip, ground);
    let program = located(Path::new(&program));
    let mut command = Command::new(&program);
    command.args(arguments.iter().map(|argument| filled(argument, system, ip, ground)));
    Ok((program, command))
}

/// A template with the names of this run: its addresses, its folder, the number of workers.
fn filled(template: &str, system: &System, ip: IpAddr, ground: &Ground<'_>) -> String {
    let names = [
        ("${ip}", ip.to_string()),
        ("${port}", PORT.to_string()),
        ("${tls_port}", TLS_PORT.to_string()),
        ("${workers}", system.workers.to_string()),
        ("${folder}", ground.folder.display().to_string()),
        ("${config}", ground.folder.join(CONFIG).display().to_string()),
        ("${domain}", DOMAIN.to_owned()),
        ("${generator}", ground.generator.to_string()),
        ("${mailbox}", mailbox(ground.generator).to_string()),
        ("${users}", ground.users.to_string()),
        ("${resolver}", ground.resolver.map(|place| place.to_string()).unwrap_or_default()),
        ("${backends}", ground.backends.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        ("${backend_list}", ground.folder.join(BACKEND_LIST).display().to_string()),
        (
            "${certificate}",
            ground.certificates.map(|own| own.chain().display().to_string()).unwrap_or_default(),
        ),
        ("${key}", ground.certificates.map(|own| own.key().display().to_string()).unwrap_or_default()),
    ];
    let all = names.iter().chain(&ground.database);
    all.fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// What a program is. Without its hash nobody can tell later whether it is the same one.
fn describe(program: &Path, command: &Command) -> Result<Vec<Fact>, String> {
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let hash = hash_of_file(program)
        .map_err(|error| format!("{error}: the program must be readable, for its hash"))?;
    Ok(vec![
        Fact::new("program", program.display()),
        Fact::new("sha256", hash),
        Fact::new("arguments", words.join(" ")),
    ])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn system_that_ended_before_its_kill_has_ended() {
        // What a kill and a restart do to a system that runs, and to one that had crashed.
        for (script, crashed) in [("exec sleep 60", false), ("exit 1", true)] {
            let mut system = Running::of_tests(script);
            let until = Instant::now() + Duration::from_secs(20);
            while crashed && system.process().is_some_and(Process::is_running) && Instant::now() < until {
                thread::sleep(BETWEEN_PROBES);
            }
            system.kill();
            system.process = Running::of_tests("exec sleep 60").process;
            assert_eq!(system.ended(), crashed, "{script}");
        }
    }

    /// A Kamailio that has its locations in a database.
    const LOCATIONS: &str = "debug=-1\nlog_stderror=yes\nchildren=1\n\
        loadmodule \"pv.so\"\nloadmodule \"sl.so\"\nloadmodule \"db_mysql.so\"\nloadmodule \"usrloc.so\"\n\
        modparam(\"usrloc\", \"db_mode\", 1)\nmodparam(\"usrloc\", \"db_url\", \"${database}\")\n\
        request_route {\n sl_send_reply(\"200\", \"OK\");\n}\n";

    #[test]
    fn kamailio_uses_its_database_with_the_password_of_the_run() {
        let modules = Path::new("/usr/share/kamailio/mysql");
        if crate::programs::find("kamailio").is_none()
            || crate::programs::find("mariadbd").is_none()
            || !modules.is_dir()
        {
            eprintln!("Kamailio with a database: NOT CHECKED, it or mariadbd is not here");
            return;
        }
        for (config, starts) in [
            (LOCATIONS.to_owned(), true),
            (LOCATIONS.replace("${database}", "mysql://lab:lab@localhost/lab"), false),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut addresses = Addresses::new(std::process::id().wrapping_add(7));
            let mut ground = Ground {
                own: Path::new("strowger"),
                folder: folder.path(),
                addresses: &mut addresses,
                network: &Network::loopback(),
                resolver: None,
                generator: SocketAddr::from(([127, 0, 0, 1], PORT)),
                users: 2,
                certificates: None,
                places: &Places::default(),
                seed: 1,
                data: PathBuf::new(),
                database: Vec::new(),
                backends: Vec::new(),
            };
            let system = System {
                kind: SystemKind::Kamailio,
                database: Beside::MariaDb,
                config,
                start_limit: Duration::from_secs(60),
                ..System::default()
            };
            let started = start(&system, &Workload::default(), &mut ground);
            assert_eq!(started.is_ok(), starts, "{:?}", started.as_ref().err());
            // Its configuration has the password, so nobody else may read it.
            let mode =
                fs::metadata(folder.path().join("kamailio.cfg")).expect("written").permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
    }

    #[test]
    fn program_of_the_search_path_has_a_path_and_a_hash() {
        let program = located(Path::new("sh"));
        assert!(program.is_absolute(), "{program:?}");
        let facts = describe(&program, &Command::new(&program)).expect("it can be read");
        assert!(facts.iter().any(|fact| fact.name == "sha256" && fact.value.len() == 64), "{facts:?}");
        let with_folder = Path::new("bin/sh");
        assert_eq!(located(with_folder), with_folder);
    }

    #[test]
    fn program_that_cannot_be_read_is_an_error() {
        let program = located(Path::new("no-such-program-anywhere"));
        let error = describe(&program, &Command::new(&program)).expect_err("there is none");
        assert!(error.contains("for its hash"), "{error}");
    }
}
