//! `strowger user`: subscribers, in the file that a server may be running on.

use crate::cli::{Output, UserCommand};
use crate::fail;
use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use store::{Added, ImportOptions, ImportReport, Progress, StoreError, Subscribers, UserName};

pub fn run(command: &UserCommand) -> ExitCode {
    let result = match command {
        UserCommand::Add { name, password, data } => add(name, password.as_deref(), &data.data_dir),
        UserCommand::List { domain, data, output } => list(domain.as_deref(), &data.data_dir, output.output),
        UserCommand::Remove { name, data } => remove(name, &data.data_dir),
        UserCommand::Import { file, domain, skip_bad_lines, data } => {
            let options = ImportOptions { default_domain: domain.clone(), skip_bad_lines: *skip_bad_lines };
            import(file, &options, &data.data_dir)
        }
        UserCommand::Export { data } => export(&data.data_dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(Failure::Said(text)) => fail(&text),
    }
}

/// Why a command ended early.
enum Failure {
    /// Whoever read the output has seen enough.
    Pipe,
    Said(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Said(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::Said(error.to_string()),
        }
    }
}

fn parse(name: &str) -> Result<UserName, Failure> {
    UserName::parse(name).map_err(|why| Failure::Said(format!("\"{name}\": {why}; write it as user@domain")))
}

fn add(name: &str, password: Option<&str>, dir: &Path) -> Result<(), Failure> {
    let name = parse(name)?;
    let typed = match password {
        Some(_) => None,
        None => Some(read_password()?),
    };
    let password = password.or(typed.as_deref()).unwrap_or("");
    let added = Subscribers::open(dir)?.add(&name, password)?;
    let what = match added {
        Added::Created => "added",
        Added::Replaced => "password changed:",
    };
    println!("{what} {}@{}", name.user(), name.domain());
    Ok(())
}

fn read_password() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        eprint!("password: ");
        io::stderr().flush()?;
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Said("no password; give --password or a line on standard input".into()));
    }
    Ok(password.to_owned())
}

fn list(domain: Option<&str>, dir: &Path, output: Output) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut result = Ok(());
    let mut first = true;
    if output == Output::Json {
        write!(out, "[")?;
    }
    Subscribers::open_existing(dir)?.list(domain, |subscriber| {
        let name = format!("{}@{}", subscriber.username, subscriber.domain);
        result = match output {
            Output::Table => writeln!(out, "{name}"),
            Output::Json => {
                let comma = if first { "" } else { "," };
                write!(out, "{comma}\n  {}", serde_json::json!({ "aor": name }))
            }
        };
        first = false;
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result?;
    if output == Output::Json {
        writeln!(out, "\n]")?;
    }
    Ok(())
}

fn remove(name: &str, dir: &Path) -> Result<(), Failure> {
    let name = parse(name)?;
    if Subscribers::open_existing(dir)?.remove(&name)? {
        println!("removed {}@{}", name.user(), name.domain());
        return Ok(());
    }
    Err(Failure::Said(format!("there is no subscriber {}@{}", name.user(), name.domain())))
}

fn import(file: &Path, options: &ImportOptions, dir: &Path) -> Result<(), Failure> {
    let live = io::stderr().is_terminal();
    let mut show = |p: Progress| {
        if live {
            let percent = 100 * p.bytes / p.total.max(1);
            let doing = if p.writing { "writing" } else { "checking" };
            eprint!("\r{doing} {percent:3} %  {} lines", p.lines);
        }
    };
    let report = Subscribers::open(dir)?.import(file, options, &mut show)?;
    if live {
        eprintln!();
    }
    report_import(&report, file, options)
}

fn report_import(report: &ImportReport, file: &Path, options: &ImportOptions) -> Result<(), Failure> {
    for bad in &report.bad_lines {
        eprintln!("{}:{}: {}", file.display(), bad.line, bad.problem);
    }
    let listed = report.bad_lines.len() as u64;
    if report.bad > listed {
        eprintln!("and {} more bad lines", report.bad - listed);
    }
    if report.disagreeing > 0 {
        eprintln!(
            "{} lines had an ha1 that is not that of their password; the password counted",
            report.disagreeing
        );
    }
    if report.bad > 0 && !options.skip_bad_lines {
        let bad = report.bad;
        return Err(Failure::Said(format!(
            "nothing imported: {bad} of {} lines are bad; mend them, or use --skip-bad-lines",
            report.lines
        )));
    }
    println!("imported {} of {} lines", report.written, report.lines);
    Ok(())
}

fn export(dir: &Path) -> Result<(), Failure> {
    let written = Subscribers::open_existing(dir)?.export(io::stdout().lock())?;
    eprintln!("exported {written} subscribers");
    Ok(())
}
