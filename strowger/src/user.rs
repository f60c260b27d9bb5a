//! `strowger user`: subscribers, in the file that a server may be running on.

use crate::cli::{DataDir, ForwardArgs, Output, Preferred, UserCommand};
use crate::owner::become_owner;
use crate::{fail, file, terminal};
use control::config::{Config, Overrides};
use control::say;
use load_runner::Switch;
use serving::absolute;
use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use store::{
    Added, Import, ImportOptions, ImportReport, Prefer, Progress, RULE_COLUMNS, Rules, StoreError,
    Subscribers, UserName, When, rule_texts,
};

pub fn run(command: &UserCommand) -> ExitCode {
    let result = match command {
        UserCommand::Add { name, password, data } => add(name, password.as_deref(), data),
        UserCommand::List { domain, data, output } => list(domain.as_deref(), data, output.output),
        UserCommand::Remove { name, data } => remove(name, data),
        UserCommand::Import { file, domain, skip_bad_lines, prefer, data } => {
            let options = ImportOptions {
                default_domain: domain.clone(),
                skip_bad_lines: *skip_bad_lines,
                prefer: prefer.map(|prefer| match prefer {
                    Preferred::Ha1 => Prefer::Ha1,
                    Preferred::Password => Prefer::Password,
                }),
            };
            import(file, &options, data)
        }
        UserCommand::Class { name, class, data } => class_of(name, class.as_deref(), data),
        UserCommand::Forward { name, wishes, data } => forward(name, wishes, data),
        UserCommand::Show { name, data, output } => show(name, data, output.output),
        UserCommand::Export { data } => export(data),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(Failure::Said(text)) => fail(&text),
        Err(Failure::Config(code)) => code,
    }
}

/// Why a command ended early.
enum Failure {
    /// Whoever read the output has seen enough.
    Pipe,
    Said(String),
    /// The configuration file has errors, which are written out.
    Config(ExitCode),
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

/// The configuration that the options mean, by the rules of `serve`.
fn configuration(data: &DataDir) -> Result<Config, Failure> {
    let overrides = Overrides { data_dir: data.data_dir.clone(), ..Overrides::default() };
    Ok(file::load(data.config(), &overrides).map_err(Failure::Config)?.config)
}

/// Says of which of these domains users will be refused, if a configuration file names others alone.
fn say_unserved(domains: &[&str], config: &Config, data: &DataDir) {
    let Some(file) = data.config() else { return };
    // In lower case, both.
    let served: BTreeSet<&str> = config.server.domains.iter().map(String::as_str).collect();
    let unserved: Vec<&str> = domains.iter().copied().filter(|domain| !served.contains(domain)).collect();
    let [first, others @ ..] = unserved.as_slice() else { return };
    if config.server.domains.is_empty() {
        return;
    }
    let more = match others {
        [] => String::new(),
        [second] => format!(", nor is {second}"),
        [second, ..] => format!(", nor are {second} and others"),
    };
    say::err(format_args!(
        "note: {first} is none of the domains that {} names ({}){more}: users there cannot register or be called \
         until `domains` in that file names it and the server has read it again (strowger ctl reload); --domain of a \
         server takes the place of that list",
        absolute(file).display(),
        config.server.domains.join(", ")
    ));
}

/// Says which data directory is changed where only a file names it: a server may have been started with
/// that file and another directory.
fn say_where(data: &DataDir, dir: &Path) {
    if data.data_dir.is_none() && data.config().is_some() {
        let dir = absolute(dir);
        say::err(format_args!(
            "in the data directory {}; if the server has --data-dir, give the same here",
            dir.display()
        ));
    }
}

/// Goes on as the owner of the data directory, if this is root: files that root made would be closed to the
/// server.
fn as_owner(dir: &Path) -> Result<(), Failure> {
    become_owner(dir).map_err(|error| {
        let dir = absolute(dir);
        Failure::Said(format!("cannot become the owner of {}: {error}; run this as that user", dir.display()))
    })
}

/// The subscribers for commands that only look or remove: nothing is made for them.
fn existing(data: &DataDir) -> Result<Subscribers, Failure> {
    let dir = configuration(data)?.server.data_dir;
    let whole = absolute(&dir);
    let whole = whole.display();
    let mend = "name the server's with --data-dir DIR or --config FILE";
    if Subscribers::are_in(&dir) {
        as_owner(&dir)?;
        return Ok(Subscribers::open_existing(&dir)?);
    }
    let what = match dir.exists() {
        true => "nothing was ever stored in the data directory",
        false => "there is no data directory",
    };
    Err(Failure::Said(format!("{what} {whole}; {mend}")))
}

/// Refuses to make the default data directory: without --data-dir and --config the command is probably run in
/// a folder that is not the server's.
fn refuse_unnamed(config: &Config, data: &DataDir) -> Result<(), Failure> {
    if data.data_dir.is_some() || data.config().is_some() || config.server.data_dir.exists() {
        return Ok(());
    }
    Err(Failure::Said(format!(
        "there is no data directory {}, and no other is named; name the server's with --config FILE or --data-dir DIR \
         (--data-dir {} makes a new one here)",
        absolute(&config.server.data_dir).display(),
        config.server.data_dir.display()
    )))
}

/// The subscribers for commands that write. The data directory is made if it is named and not there, and that
/// is logged, since the name may be misspelt.
fn made(config: &Config, data: &DataDir) -> Result<Subscribers, Failure> {
    let dir = &config.server.data_dir;
    let fresh = !dir.exists();
    as_owner(dir)?;
    let subscribers = Subscribers::open(dir)?;
    if fresh {
        say::err(format_args!("made the data directory {}", absolute(dir).display()));
    }
    say_where(data, dir);
    Ok(subscribers)
}

fn add(name: &str, password: Option<&str>, data: &DataDir) -> Result<(), Failure> {
    let name = parse(name)?;
    let config = configuration(data)?;
    refuse_unnamed(&config, data)?;
    let typed = match password {
        Some(_) => None,
        None => Some(read_password()?),
    };
    let password = password.or(typed.as_deref()).unwrap_or("");
    let mut subscribers = made(&config, data)?;
    let added = subscribers.add(&name, password)?;
    let what = match added {
        Added::Created => "added",
        Added::Replaced => "password changed:",
    };
    say::out(format_args!("{what} {}@{}\n", name.user(), name.domain()));
    say_unserved(&[name.domain()], &config, data);
    Ok(())
}

fn read_password() -> Result<String, Failure> {
    let password = if io::stdin().is_terminal() {
        let differ = || Failure::Said("the two passwords differ; type the same one twice".into());
        terminal::new_password()?.ok_or_else(differ)?
    } else {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    if password.is_empty() {
        return Err(Failure::Said("no password; give --password or a line on standard input".into()));
    }
    Ok(password)
}

fn list(domain: Option<&str>, data: &DataDir, output: Output) -> Result<(), Failure> {
    let subscribers = existing(data)?;
    let mut out = io::stdout().lock();
    let mut result = Ok(());
    let mut first = true;
    if output == Output::Json {
        write!(out, "[")?;
    }
    subscribers.list(domain, |subscriber| {
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

fn remove(name: &str, data: &DataDir) -> Result<(), Failure> {
    let name = parse(name)?;
    if existing(data)?.remove(&name)? {
        say::out(format_args!("removed {}@{}\n", name.user(), name.domain()));
        return Ok(());
    }
    Err(Failure::Said(format!("there is no subscriber {}@{}", name.user(), name.domain())))
}

/// Shows the class of a subscriber, or gives it another one.
fn class_of(name: &str, class: Option<&str>, data: &DataDir) -> Result<(), Failure> {
    let name = parse(name)?;
    let config = configuration(data)?;
    let mut subscribers = existing(data)?;
    let Some(class) = class else {
        let class = subscribers.class(&name)?;
        say::out(format_args!("{}\n", class.as_deref().unwrap_or("none")));
        return Ok(());
    };
    let wanted = Some(class).filter(|class| *class != "none");
    if !subscribers.set_class(&name, wanted)? {
        return Err(Failure::Said(format!("there is no subscriber {}@{}", name.user(), name.domain())));
    }
    say::out(format_args!("class of {}@{}: {class}\n", name.user(), name.domain()));
    if wanted.is_some() && data.config().is_some() && !config.classes.iter().any(|known| known.name == class)
    {
        say::err(format_args!(
            "note: the configuration has no [[class]] \"{class}\": until it has, calls of this user do not leave"
        ));
    }
    Ok(())
}

fn forward(name: &str, wishes: &ForwardArgs, data: &DataDir) -> Result<(), Failure> {
    let name = parse(name)?;
    let mut subscribers = existing(data)?;
    let Some(before) = subscribers.rules(&name)? else { return Err(unknown(&name)) };
    let rules = changed(if wishes.clear { Rules::default() } else { before }, wishes)?;
    if !subscribers.set_rules(&name, rules.clone())? {
        return Err(unknown(&name));
    }
    write_rules(&name, &rules, Output::Table)
}

fn unknown(name: &UserName) -> Failure {
    Failure::Said(format!("there is no subscriber {}@{}", name.user(), name.domain()))
}

/// Rules with what is wished for.
fn changed(mut rules: Rules, wishes: &ForwardArgs) -> Result<Rules, Failure> {
    let option = |name: &str| format!("--{}", name.replace('_', "-"));
    let given = [&wishes.always, &wishes.busy, &wishes.no_answer, &wishes.unreachable];
    for (when, text) in When::ALL.into_iter().zip(given) {
        let Some(text) = text else { continue };
        let target = if text == "off" { "" } else { text };
        let wrong = |why| Failure::Said(format!("{} {text} {why}", option(when.name())));
        rules.set_target(when, target).map_err(wrong)?;
    }
    if !wishes.also.is_empty() {
        let numbers = wishes.also.iter().map(String::as_str).filter(|number| *number != "off");
        rules.set_also(numbers).map_err(|why| Failure::Said(format!("a number of --also {why}")))?;
    }
    if let Some(seconds) = wishes.ring_time {
        let wrong = |why| Failure::Said(format!("--ring-time {seconds} {why}"));
        rules.set_ring_time(seconds).map_err(wrong)?;
    }
    if let Some(switch) = wishes.do_not_disturb {
        rules.set_do_not_disturb(switch == Switch::On);
    }
    Ok(rules)
}

fn show(name: &str, data: &DataDir, output: Output) -> Result<(), Failure> {
    let name = parse(name)?;
    let rules = existing(data)?.rules(&name)?.ok_or_else(|| unknown(&name))?;
    write_rules(&name, &rules, output)
}

/// Writes what is set for a subscriber.
fn write_rules(name: &UserName, rules: &Rules, output: Output) -> Result<(), Failure> {
    let aor = format!("{}@{}", name.user(), name.domain());
    let mut out = io::stdout().lock();
    match output {
        Output::Table => {
            writeln!(out, "{aor}")?;
            for (column, text) in RULE_COLUMNS.iter().zip(rule_texts(rules)) {
                writeln!(out, "  {column:<20} {}", if text.is_empty() { "-" } else { &text })?;
            }
        }
        Output::Json => {
            let forwarding: serde_json::Map<String, serde_json::Value> =
                When::ALL.iter().map(|when| (when.name().to_owned(), rules.target(*when).into())).collect();
            let shown = serde_json::json!({
                "aor": aor,
                "forwarding": forwarding,
                "also_ring": rules.also().collect::<Vec<_>>(),
                "ring_time": rules.ring_time(),
                "do_not_disturb": rules.do_not_disturb(),
            });
            writeln!(out, "{shown:#}")?;
        }
    }
    Ok(())
}

fn import(file: &Path, options: &ImportOptions, data: &DataDir) -> Result<(), Failure> {
    // Errors in it are reported before the lines are read.
    let config = configuration(data)?;
    refuse_unnamed(&config, data)?;
    // Before anything is made: a misspelt name leaves no data directory behind.
    let input = regular_file::open(file).map_err(|error| {
        let mend = match error.kind() {
            io::ErrorKind::NotFound => "; name the CSV file to import",
            io::ErrorKind::PermissionDenied => "; give this user the right to read it",
            // Others say it themselves.
            _ => "",
        };
        Failure::Said(format!("cannot read {}: {error}{mend}", absolute(file).display()))
    })?;
    let live = io::stderr().is_terminal();
    let mut show = |p: Progress| {
        if live {
            let percent = 100 * p.bytes / p.total.max(1);
            let doing = if p.writing { "writing" } else { "checking" };
            // If the terminal is gone, the output is lost.
            let _ = write!(io::stderr(), "\r{doing} {percent:3} %  {} lines", p.lines);
        }
    };
    // A file with bad lines leaves none behind either.
    let checked = Import::check(input, file, options, &mut show)?;
    if live {
        say::err(format_args!(""));
    }
    if let Some(report) = checked.refused() {
        return report_import(report, file, options);
    }
    let mut subscribers = made(&config, data)?;
    let report = checked.write(&mut subscribers, &mut show)?;
    if live {
        say::err(format_args!(""));
    }
    report_import(&report, file, options)?;
    let domains: Vec<&str> = report.domains.iter().map(String::as_str).collect();
    say_unserved(&domains, &config, data);
    Ok(())
}

fn report_import(report: &ImportReport, file: &Path, options: &ImportOptions) -> Result<(), Failure> {
    for bad in &report.bad_lines {
        say::err(format_args!("{}:{}: {}", file.display(), bad.line, bad.problem));
    }
    let listed = report.bad_lines.len() as u64;
    if report.bad > listed {
        say::err(format_args!("and {} more bad lines", report.bad - listed));
    }
    for name in &report.disagreed {
        say::err(format_args!("{name}: the ha1 is not that of the password"));
    }
    if report.disagreeing > 0 {
        let counted = if options.prefer == Some(Prefer::Ha1) { "ha1" } else { "password" };
        say::err(format_args!(
            "{} lines had an ha1 that is not that of their password; the {counted} counted",
            report.disagreeing
        ));
    }
    if report.bad > 0 && !options.skip_bad_lines {
        let bad = report.bad;
        return Err(Failure::Said(format!(
            "nothing imported: {bad} of {} lines are bad; mend them, or use --skip-bad-lines",
            report.lines
        )));
    }
    say::out(format_args!("imported {} of {} lines\n", report.written, report.lines));
    Ok(())
}

fn export(data: &DataDir) -> Result<(), Failure> {
    let written = existing(data)?.export(io::stdout().lock())?;
    say::err(format_args!("exported {written} subscribers"));
    Ok(())
}
