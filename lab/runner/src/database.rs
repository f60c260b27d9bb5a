//! A database server for one run of a rival: private, empty but for the tables of Kamailio and the users, and
//! gone with the run.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use load::report::Fact;

use crate::archive::hash_of_file;
use crate::process::Process;
use crate::sip::{self, DOMAIN};

/// The name of the samples that are its own.
pub const SAMPLED: &str = "database";
/// The port at the address of the system.
const PORT: u16 = 3_306;
/// The name of the database. Every client may do everything.
const NAME: &str = "lab";
/// How long it may take until it answers, and until it has ended.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(5);
const BETWEEN_PROBES: Duration = Duration::from_millis(50);
/// A path of a socket has this many octets at most (unix(7)).
const LONGEST_SOCKET: usize = 100;
/// Where Kamailio's packages have the statements that create its tables.
const SCHEMAS: [&str; 3] =
    ["/usr/share/kamailio/mysql", "/usr/local/share/kamailio/mysql", "/usr/share/kamailio/schema/mysql"];
const TABLES: [&str; 3] = ["standard", "auth_db", "usrloc"];
/// What it takes to be as fast as it can without losing more than a second at a power cut, which is also what
/// Strowger promises. There is no dictionary of users: grants are not asked for.
const OPTIONS: [&str; 5] = [
    "--no-defaults",
    "--skip-grant-tables",
    "--skip-name-resolve",
    "--innodb-buffer-pool-size=512M",
    "--innodb-flush-log-at-trx-commit=0",
];

/// What a database needs to be started.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The folder of the run.
    pub folder: &'a Path,
    /// The address of the system.
    pub ip: IpAddr,
    /// Processors that it may use, those of the system; empty: all.
    pub cpus: &'a [u32],
    /// How many subscribers it has.
    pub users: u64,
    /// Further options of `mariadbd`.
    pub options: &'a [String],
}

/// A running database.
#[derive(Debug)]
pub struct Database {
    process: Process,
    socket: PathBuf,
    address: SocketAddr,
    /// What it is.
    pub described: Vec<Fact>,
}

impl Database {
    /// Starts `mariadbd` with its data in the folder of the run, and fills it.
    ///
    /// # Errors
    /// A sentence that says what is missing on this machine, or what the server said.
    pub fn start(wanted: Wanted<'_>) -> Result<Database, String> {
        let program = found("mariadbd").ok_or_else(|| missing("mariadbd", "mariadb-server"))?;
        let client = found("mariadb").ok_or_else(|| missing("mariadb", "mariadb-client"))?;
        let statements = statements(wanted.users)?;
        let data = wanted.folder.join("mariadb");
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let socket = socket_in(&data);
        let address = SocketAddr::new(wanted.ip, PORT);
        let mut command = Command::new(&program);
        command.args(OPTIONS).arg(option("datadir", data.display())).arg(option("socket", socket.display()));
        command.arg(option("bind-address", wanted.ip)).arg(option("port", PORT));
        // As root it refuses to run unless it is told.
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command.args(wanted.options);
        let failed = |why: String| format!("{}: {why}", program.display());
        let hash = hash_of_file(&program).map_err(|error| failed(error.to_string()))?;
        let described = vec![Fact::new("database", program.display()), Fact::new("database sha256", hash)];
        let process = Process::start(&mut command, wanted.cpus).map_err(|error| failed(error.to_string()))?;
        let mut database = Database { process, socket, address, described };
        database.until_ready(&client).map_err(failed)?;
        database.ask(&client, &statements).map_err(|why| failed(format!("its tables: {why}")))?;
        Ok(database)
    }

    /// What stands for it in a configuration: `${NAME}` and the value.
    pub fn names(&self) -> [(&'static str, String); 3] {
        [
            // At "localhost" the client library uses the socket, which costs less than TCP.
            ("${database}", format!("mysql://{NAME}:{NAME}@localhost/{NAME}")),
            ("${database_address}", self.address.to_string()),
            ("${database_socket}", self.socket.display().to_string()),
        ]
    }

    /// Variables with which MariaDB's client library finds the socket.
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [("MYSQL_UNIX_PORT", &self.socket), ("MARIADB_UNIX_PORT", &self.socket)]
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.process.pids()
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> bool {
        !self.process.is_running()
    }

    /// Ends it; what it wrote.
    pub fn stop(&mut self) -> String {
        self.process.stop(STOP);
        let _ = fs::remove_file(&self.socket);
        self.process.output()
    }

    fn until_ready(&mut self, client: &Path) -> Result<(), String> {
        let until = Instant::now() + START;
        while self.ask(client, "SELECT 1;").is_err() {
            if !self.process.is_running() {
                return Err(format!("it ended before it answered: {}", self.process.tail(5)));
            }
            if Instant::now() > until {
                return Err(format!("it did not answer within {START:?}: {}", self.process.tail(5)));
            }
            thread::sleep(BETWEEN_PROBES);
        }
        Ok(())
    }

    /// Has these statements carried out.
    fn ask(&self, client: &Path, statements: &str) -> Result<(), String> {
        let mut command = Command::new(client);
        command.args(["--no-defaults", "--batch"]).arg(option("socket", self.socket.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let named = |error: std::io::Error| format!("{}: {error}", client.display());
        let mut child = command.spawn().map_err(named)?;
        if let Some(mut input) = child.stdin.take() {
            // A client that could not connect has ended and reads nothing: its own words say why.
            let _ = input.write_all(statements.as_bytes());
        }
        let done = child.wait_with_output().map_err(named)?;
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        if done.status.success() { Ok(()) } else { Err(said) }
    }
}

fn option(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

/// The socket: beside the data, or in the folder for temporary files where that path would be too long.
fn socket_in(data: &Path) -> PathBuf {
    let beside = data.join("socket");
    if beside.as_os_str().len() <= LONGEST_SOCKET {
        return beside;
    }
    let hash = crate::archive::hash_of(data.as_os_str().as_encoded_bytes());
    let short = hash.get(..16).unwrap_or_default();
    std::env::temp_dir().join(format!("strowger-lab-{short}.socket"))
}

/// What creates the tables and fills in the subscribers.
fn statements(users: u64) -> Result<String, String> {
    let folder = SCHEMAS.iter().map(Path::new).find(|folder| folder.is_dir());
    let folder =
        folder.ok_or("Kamailio's tables for MySQL are not here: apt-get install kamailio-mysql-modules")?;
    let mut text = format!("CREATE DATABASE {NAME};\nUSE {NAME};\n");
    for table in TABLES {
        let path = folder.join(format!("{table}-create.sql"));
        let statements = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.push_str(&statements);
    }
    text.push_str(&subscribers(users));
    Ok(text)
}

/// One statement for all users: the engine SEQUENCE counts.
fn subscribers(users: u64) -> String {
    let Some(last) = users.checked_sub(1) else { return String::new() };
    let counted = |text: &str| {
        let (letters, first) = text.split_at(text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len()));
        format!("CONCAT('{letters}', {first} + seq)")
    };
    let (name, password) = (counted(&sip::user(0)), counted(&sip::password(0)));
    let ha1 = |name: &str| format!("MD5(CONCAT({name}, ':{DOMAIN}:', {password}))");
    let with_domain = ha1(&format!("{name}, '@{DOMAIN}'"));
    format!(
        "INSERT INTO subscriber (username, domain, password, ha1, ha1b)\n\
         SELECT {name}, '{DOMAIN}', {password}, {}, {with_domain} FROM seq_0_to_{last};\n",
        ha1(&name)
    )
}

fn missing(program: &str, package: &str) -> String {
    format!("there is no {program} on this machine: apt-get install {package}")
}

/// A program of the search path, or of where servers are that only root may start.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder: PathBuf| folder.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_have_the_names_of_the_generator() {
        let text = subscribers(3);
        assert!(
            text.contains("SELECT CONCAT('u', 1000000 + seq), 'lab.test', CONCAT('p', 1000000 + seq)"),
            "{text}"
        );
        assert!(text.contains("MD5(CONCAT(CONCAT('u', 1000000 + seq), ':lab.test:'"), "{text}");
        assert!(text.trim_end().ends_with("FROM seq_0_to_2;"), "{text}");
        assert_eq!(subscribers(0), "");
    }

    #[test]
    fn socket_of_a_long_path_is_elsewhere() {
        assert_eq!(socket_in(Path::new("/run/x")), Path::new("/run/x/socket"));
        let long = PathBuf::from("/").join("long".repeat(40));
        let socket = socket_in(&long);
        assert!(socket.as_os_str().len() <= LONGEST_SOCKET, "{socket:?}");
        assert_ne!(socket, socket_in(&long.join("other")));
    }
}
