//! `strowger token`: tokens of the admin API, in the data directory that a server may be running on.

use crate::cli::{DataDir, Output, TokenCommand};
use crate::owner::become_owner;
use crate::{fail, file};
use control::admin::{Rights, TOKENS_FILE, Token, read_tokens, write_tokens};
use control::config::Overrides;
use control::say;
use serving::absolute;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn run(command: &TokenCommand) -> ExitCode {
    let result = match command {
        TokenCommand::Add { name, rights, data } => add(name, rights, data),
        TokenCommand::List { data, output } => list(data, output.output),
        TokenCommand::Remove { name, data } => remove(name, data),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Said(text)) => fail(&text),
        Err(Failure::Config(code)) => code,
    }
}

/// Why a command ended early.
enum Failure {
    Said(String),
    /// The configuration file has errors, which are written out.
    Config(ExitCode),
}

/// The file of tokens.
fn tokens_file(data: &DataDir) -> Result<PathBuf, Failure> {
    let overrides = Overrides { data_dir: data.data_dir.clone(), ..Overrides::default() };
    let config = file::load(data.config(), &overrides).map_err(Failure::Config)?.config;
    let dir = absolute(&config.server.data_dir);
    if !dir.is_dir() {
        let why = "name the server's with --data-dir DIR or --config FILE";
        return Err(Failure::Said(format!("there is no data directory {}; {why}", dir.display())));
    }
    let mend = |error: std::io::Error| {
        format!("cannot become the owner of {}: {error}; run this as that user", dir.display())
    };
    become_owner(&dir).map_err(|error| Failure::Said(mend(error)))?;
    Ok(dir.join(TOKENS_FILE))
}

/// The tokens in this file.
fn known(path: &std::path::Path) -> Result<Vec<Token>, Failure> {
    read_tokens(path).map_err(|error| Failure::Said(format!("cannot read {}: {error}", path.display())))
}

fn write(path: &std::path::Path, tokens: &[Token]) -> Result<(), Failure> {
    write_tokens(path, tokens)
        .map_err(|error| Failure::Said(format!("cannot write {}: {error}", path.display())))
}

fn add(name: &str, rights: &str, data: &DataDir) -> Result<(), Failure> {
    let rights = Rights::parse(rights).map_err(|why| Failure::Said(format!("--rights: {why}")))?;
    let path = tokens_file(data)?;
    let mut tokens = known(&path)?;
    if tokens.iter().any(|token| token.name == name) {
        return Err(Failure::Said(format!("there is a token {name}; remove it first, or use another name")));
    }
    let made = Token::make(name, rights).map_err(|error| Failure::Said(format!("\"{name}\": {error}")))?;
    let (token, text) = made;
    tokens.push(token);
    write(&path, &tokens)?;
    say::out(format_args!("{text}\n"));
    say::err(format_args!("added {name} with {}; the token is not shown again", rights.names()));
    Ok(())
}

fn list(data: &DataDir, output: Output) -> Result<(), Failure> {
    let tokens = known(&tokens_file(data)?)?;
    match output {
        Output::Table => {
            for token in &tokens {
                say::out(format_args!("{:<24} {}\n", token.name, token.rights.names()));
            }
        }
        Output::Json => {
            let list: Vec<_> = tokens
                .iter()
                .map(|token| serde_json::json!({ "name": token.name, "rights": token.rights.names() }))
                .collect();
            say::out(format_args!("{:#}\n", serde_json::Value::from(list)));
        }
    }
    Ok(())
}

fn remove(name: &str, data: &DataDir) -> Result<(), Failure> {
    let path = tokens_file(data)?;
    let mut tokens = known(&path)?;
    let before = tokens.len();
    tokens.retain(|token| token.name != name);
    if tokens.len() == before {
        return Err(Failure::Said(format!("there is no token {name}")));
    }
    write(&path, &tokens)?;
    say::out(format_args!("removed {name}\n"));
    Ok(())
}
