//! `strowger ctl`: ask or tell a running server.

use crate::cli::{CtlArgs, CtlCommand, Output};
use crate::{absolute, fail};
use control::admin::NodeOrder;
use control::client::{Client, ClientError, Command, run as ask};
use std::io;
use std::process::ExitCode;

pub fn run(args: &CtlArgs) -> ExitCode {
    let token = match args.token_file.as_deref().map(|file| (file, std::fs::read_to_string(file))) {
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
        Client::new(&args.admin, token).and_then(|c| ask(&c, &command, output, &mut io::stdout().lock()));
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
