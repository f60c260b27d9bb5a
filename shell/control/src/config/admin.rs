//! `[admin]`: the admin API.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::values::{admin_listener, host};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use toml::de::DeValue;

/// Where it listens, where the file does not say.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

section! {
    /// `[admin]`: the admin API.
    pub struct AdminAccess = "admin" {
        /// Where the admin API listens, or `"off"`.
        listen: Option<SocketAddr> = Some(USUAL), admin_address(), restart;
        /// Permit an address that other machines can reach.
        allow_remote: bool = false, flag(), restart;
        /// Further names that a Host header may carry. Others are refused, so that a web page cannot reach
        /// the API through a name of its own.
        hosts: Vec<String> = Vec::new(), list(text("host name or address", host)), restart;
        /// A file whose first line every request must present as a bearer token.
        token_file: Option<PathBuf> = None, path().optional(), restart;
    }
}

/// An address, or `"off"`.
fn admin_address() -> One<Option<SocketAddr>> {
    let parse = |value: &DeValue<'_>| string(value).and_then(admin_listener);
    One::new("`ADDRESS:PORT`, or `\"off\"`", parse, |address| match address {
        Some(address) => quoted(address),
        None => quoted("off"),
    })
}

impl Checks for AdminAccess {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        let mut option = None;
        if let Some(written) = &context.overrides.admin {
            option = Some("--admin");
            match admin_listener(written) {
                Ok(listen) => self.listen = listen,
                Err(fault) => return reader.option_error("--admin", fault),
            }
        }
        let Some(address) = self.listen.filter(|address| !address.ip().to_canonical().is_loopback()) else {
            return;
        };
        if self.allow_remote {
            let safe = if self.token_file.is_some() { "" } else { "set token_file, or anyone may drain it" };
            let message = format!("the admin API listens on {address}, which other machines may reach");
            let fault = Fault::new(message, safe);
            return match option {
                Some(option) => reader.option_warn(option, fault),
                None => reader.warn(&section.span_of("listen"), fault),
            };
        }
        let fault = Fault::new(
            format!("the admin API would listen on {address}, which other machines may reach"),
            "use a loopback address, or set allow_remote = true in [admin] of the configuration file (--config FILE)",
        );
        match option {
            Some(option) => reader.option_error(option, fault),
            None => reader.error(&section.span_of("listen"), fault),
        }
    }
}
