//! `strowger ctl`: queries and controls a running server.

use crate::cli::{CtlArgs, CtlCommand, Output};
use crate::{fail, file};
use control::admin::NodeOrder;
use control::client::{Client, ClientError, Command, run as ask};
use control::config::{AdminAccess, Overrides};
use serving::absolute;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

/// The address of the admin API, and the access that the server's configuration file describes if one is
/// named.
fn address(args: &CtlArgs) -> Result<(String, AdminAccess), ExitCode> {
    let access = file::load(args.config(), &Overrides::default())?.config.admin;
    let named = args.config().map(|file| absolute(file).display().to_string()).unwrap_or_default();
    let address = match (&args.admin, access.listen) {
        (Some(written), _) => written.clone(),
        (None, Some(listen)) if listen.port() == 0 => {
            let mend = "name the one in the server's log with --admin ADDR:PORT";
            return Err(fail(&format!("{named}: listen in [admin] names no port; {mend}")));
        }
        (None, Some(listen)) => reachable(listen).to_string(),
        (None, None) => {
            let mend = "set `listen` in [admin], or name the address with --admin ADDR:PORT";
            return Err(fail(&format!("{named}: the admin API is off; {mend}")));
        }
    };
    Ok((address, access))
}

/// Where a server on this machine answers that listens at this address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(a) if a.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, a.port()).into(),
        SocketAddr::V6(a) if a.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, a.port()).into(),
        other => other,
    }
}

pub fn run(args: &CtlArgs) -> ExitCode {
    let (address, access) = match address(args) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let token_file = args.token_file.as_deref().or(access.token_file.as_deref());
    let token = match token_file.map(|file| (file, std::fs::read_to_string(file))) {
        None => None,
        Some((_, Ok(token))) => Some(token),
        Some((file, Err(error))) => {
            let file = absolute(file);
            return fail(&format!(
                "cannot read the token file {}: {error}; give the one of the server's [admin] token_file",
                file.display()
            ));
        }
    };
    let token = token.as_deref().and_then(|t| t.lines().next());
    let command = match &args.command {
        CtlCommand::Status => Command::Status,
        CtlCommand::Bindings { aor } => Command::Bindings { aor: aor.clone() },
        CtlCommand::Calls => Command::Calls,
        CtlCommand::Reload => Command::Reload,
        CtlCommand::Trunks => Command::Trunks,
        CtlCommand::Route { number } => Command::Route { number: number.clone() },
        CtlCommand::Connections { transport, peer, limit } => {
            Command::Connections { transport: transport.clone(), peer: peer.clone(), limit: *limit }
        }
        CtlCommand::Refused { source, about, limit } => {
            Command::Refused { source: source.clone(), about: about.clone(), limit: usize::from(*limit) }
        }
        CtlCommand::Certificates => Command::Certificates,
        CtlCommand::Drain { node: None, all } => Command::Drain { all: *all },
        CtlCommand::Drain { node: Some(node), .. } => order(node, NodeOrder::Drain),
        CtlCommand::Undrain { node } => order(node, NodeOrder::Serve),
        CtlCommand::Maintain { node } => order(node, NodeOrder::Maintenance),
        CtlCommand::AddNode { node } => Command::AddNode { node: node.clone() },
        CtlCommand::RemoveNode { node } => order(node, NodeOrder::Removed),
        CtlCommand::Audit => Command::Audit,
        CtlCommand::Nodes => Command::Nodes,
        CtlCommand::Algorithm { name } => Command::Algorithm { name: name.clone() },
    };
    let output = output(args.output);
    let result =
        Client::new(&address, token).and_then(|c| ask(&c, &command, output, &mut io::stdout().lock()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // `strowger ctl bindings | head` is no failure.
        Err(ClientError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn order(node: &str, order: NodeOrder) -> Command {
    Command::Order { node: node.to_owned(), order }
}

fn output(output: Output) -> control::client::Output {
    match output {
        Output::Table => control::client::Output::Table,
        Output::Json => control::client::Output::Json,
    }
}
