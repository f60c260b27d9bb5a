//! A database server for one run of a rival: private, empty but for the tables of Kamailio and the users, and
//! gone with the run.
//!
//! It runs without privileges, and only who has the password of this run can use it: its TCP port is open to
//! every user of the machine.

mod home;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use load::report::Fact;

use crate::archive::hash_of_file;
use crate::process::Process;
use crate::programs::find;
use crate::sip::{self, DOMAIN};
use crate::trust::secret;

use home::{Account, Home};

/// The name of the samples that are its own.
pub const SAMPLED: &str = "database";
/// The port at the address of the system.
const PORT: u16 = 3_306;
/// The name of the database, and of the one account, which may do everything in it and nothing elsewhere.
const NAME: &str = "lab";
/// How long may take: its tables of accounts, its start, the tables of users, and its end.
const INSTALL: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(30);
const FILL: Duration = Duration::from_secs(600);
const STOP: Duration = Duration::from_secs(5);
const BETWEEN_PROBES: Duration = Duration::from_millis(50);
/// Where Kamailio's packages have the statements that create its tables.
const SCHEMAS: [&str; 3] =
    ["/usr/share/kamailio/mysql", "/usr/local/share/kamailio/mysql", "/usr/share/kamailio/schema/mysql"];
const TABLES: [&str; 3] = ["standard", "auth_db", "usrloc"];
/// What it takes to be as fast as it can without losing more than a second at a power cut, which is also what
/// Strowger promises.
const OPTIONS: [&str; 4] = [
    "--no-defaults",
    "--skip-name-resolve",
    "--innodb-buffer-pool-size=512M",
    "--innodb-flush-log-at-trx-commit=0",
];

/// What a database needs to be started.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
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
    /// After its process: that must have ended.
    home: Home,
    secret: String,
    address: SocketAddr,
    /// What it is.
    pub described: Vec<Fact>,
}

impl Database {
    /// Starts `mariadbd` with its data in a folder of its own, and fills it.
    ///
    /// # Errors
    /// A sentence that says what is missing on this machine, or what the server said.
    pub fn start(wanted: Wanted<'_>) -> Result<Database, String> {
        let program = find("mariadbd").ok_or_else(|| missing("mariadbd", "mariadb-server"))?;
        let install =
            find("mariadb-install-db").ok_or_else(|| missing("mariadb-install-db", "mariadb-server"))?;
        let client = find("mariadb").ok_or_else(|| missing("mariadb", "mariadb-client"))?;
        let statements = statements(wanted.users)?;
        let failed = |why: String| format!("{}: {why}", program.display());
        let hash = hash_of_file(&program).map_err(|error| failed(error.to_string()))?;
        let described = vec![Fact::new("database", program.display()), Fact::new("database sha256", hash)];
        let (account, secret) = (Account::to_use()?, secret()?);
        let home = Home::make(account.as_ref())?;
        home.write("accounts.sql", &accounts(&secret), account.as_ref())?;
        let socket = home.socket();
        home.write(
            "client.cnf",
            &format!("[client]\nuser={NAME}\npassword={secret}\nsocket={}\n", socket.display()),
            None,
        )?;
        home.write("tables.sql", &statements, None)?;
        let mut command = Command::new(&install);
        // No name of this host is looked up.
        command.args(["--no-defaults", "--skip-test-db", "--force"]);
        command.arg(option("datadir", home.data().display()));
        lower(&mut command, account.as_ref());
        Process::finish(&mut command, INSTALL, || false)
            .map_err(|why| format!("{}: {why}", install.display()))?;
        let address = SocketAddr::new(wanted.ip, PORT);
        let mut command = server(&program, &home, address);
        lower(&mut command, account.as_ref());
        command.args(wanted.options);
        let process = Process::start(&mut command, wanted.cpus).map_err(|error| failed(error.to_string()))?;
        let mut database = Database { process, home, secret, address, described };
        database.until_ready(&client).map_err(failed)?;
        let fill = format!("source {}", database.home.file("tables.sql").display());
        database.ask(&client, &fill, FILL).map_err(|why| failed(format!("its tables: {why}")))?;
        Ok(database)
    }

    /// What stands for it in a configuration: `${NAME}` and the value.
    pub fn names(&self) -> [(&'static str, String); 3] {
        [
            // At "localhost" the client library uses the socket, which costs less than TCP.
            ("${database}", format!("mysql://{NAME}:{}@localhost/{NAME}", self.secret)),
            ("${database_address}", self.address.to_string()),
            ("${database_socket}", self.home.socket().display().to_string()),
        ]
    }

    /// Variables with which MariaDB's client library finds the socket.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        ["MYSQL_UNIX_PORT", "MARIADB_UNIX_PORT"].map(|name| (name, self.home.socket()))
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
        self.process.output()
    }

    fn until_ready(&mut self, client: &Path) -> Result<(), String> {
        let until = Instant::now() + START;
        while self.ask(client, "SELECT 1", START).is_err() {
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

    /// Has a statement carried out.
    fn ask(&self, client: &Path, statement: &str, limit: Duration) -> Result<String, String> {
        let mut command = Command::new(client);
        // This option must be the first.
        command.arg(option("defaults-file", self.home.file("client.cnf").display()));
        command.args(["--batch", "-e", statement]);
        Process::finish(&mut command, limit, || false)
    }
}

/// The command of the server.
fn server(program: &Path, home: &Home, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(OPTIONS).arg(option("datadir", home.data().display()));
    command.arg(option("socket", home.socket().display()));
    command.arg(option("bind-address", address.ip())).arg(option("port", address.port()));
    command.arg(option("init-file", home.file("accounts.sql").display()));
    // Statements read and write files of this folder alone.
    command.arg(option("secure-file-priv", home.files().display()));
    command
}

/// Has a program run as an account.
fn lower(command: &mut Command, account: Option<&Account>) {
    match account {
        Some(Account::Named { uid, gid }) => {
            // Without the groups of root as well.
            command.gid(*gid).uid(*uid);
        }
        // Root of a user namespace is nobody outside of it; MariaDB refuses to run as root unless it is told.
        Some(Account::RootOfNamespace) => {
            command.arg("--user=root");
        }
        None => {}
    }
}

/// What gives the one account its password, and removes accounts without a name. A statement is a line.
fn accounts(secret: &str) -> String {
    format!(
        "DELETE FROM mysql.global_priv WHERE User = '';\nFLUSH PRIVILEGES;\n\
         CREATE USER '{NAME}'@'%' IDENTIFIED BY '{secret}';\n\
         GRANT ALL PRIVILEGES ON `{NAME}`.* TO '{NAME}'@'%';\n"
    )
}

fn option(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::Addresses;

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

    /// A database for two users; nothing where MariaDB or Kamailio's tables are not installed. `nth`: tests
    /// side by side have addresses of their own.
    fn database(nth: u32) -> Option<(Database, PathBuf)> {
        let client = find("mariadb").filter(|_| find("mariadbd").is_some() && statements(0).is_ok());
        let Some(client) = client else {
            eprintln!("the database of a run: NOT CHECKED, mariadbd or Kamailio's tables are not here");
            return None;
        };
        let ip = Addresses::new(std::process::id().wrapping_add(nth)).fresh().expect("an address");
        let started = Database::start(Wanted { ip, cpus: &[], users: 2, options: &[] });
        Some((started.unwrap_or_else(|why| panic!("{why}")), client))
    }

    #[test]
    fn database_takes_nobody_without_its_password() {
        let Some((mut database, client)) = database(1) else { return };
        let ask = |statement: &str| database.ask(&client, statement, START);
        let users = ask("SELECT COUNT(*) FROM lab.subscriber").expect("with the password");
        assert!(users.contains('2'), "{users}");
        // Over TCP, as any program of this machine may try.
        let tcp = |user: &str, password: &str, statement: &str| {
            let mut command = Command::new(&client);
            command.args(["--no-defaults", "--protocol=TCP", "--batch", "-e", statement]);
            command.args([option("host", database.address.ip()), option("port", database.address.port())]);
            command.args([option("user", user), option("password", password)]);
            Process::finish(&mut command, START, || false)
        };
        for (user, password) in [("root", ""), ("lab", ""), ("lab", "lab"), ("", ""), ("mysql", "")] {
            let refused = tcp(user, password, "SELECT 1").expect_err("nobody gets in without the password");
            assert!(refused.contains("denied"), "{user}: {refused}");
        }
        let secret = database.secret.clone();
        tcp(NAME, &secret, "SELECT 1").expect("with the password");
        // It may do nothing outside of its database, nor read files of the machine.
        assert!(tcp(NAME, &secret, "SELECT * FROM mysql.global_priv").is_err());
        let read = tcp(NAME, &secret, "SELECT LOAD_FILE('/etc/passwd') IS NULL").expect("carried out");
        assert!(read.contains('1'), "{read}");
        let place = ask("SELECT @@secure_file_priv").expect("carried out");
        assert!(place.contains(&*database.home.files().to_string_lossy()), "{place}");
        let folder = database.home.file("");
        drop(database.stop());
        drop(database);
        assert!(!folder.exists(), "its files are gone: {}", folder.display());
    }

    #[test]
    fn database_runs_without_privileges() {
        let Some((database, _)) = database(2) else { return };
        let Some(Account::Named { uid, .. }) = Account::to_use().expect("known") else { return };
        let status = fs::read_to_string(format!("/proc/{}/status", database.pids()[0])).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("it has a user");
        assert!(uid != 0 && line.split_whitespace().all(|id| id == uid.to_string()), "{line}");
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    }

    #[test]
    fn accounts_are_a_statement_a_line() {
        let text = accounts("0123");
        assert!(text.lines().all(|line| line.ends_with(';')), "{text}");
        assert!(text.contains("IDENTIFIED BY '0123'") && !text.contains("ON *.*"), "{text}");
    }
}
