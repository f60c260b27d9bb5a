//! What is between generator and system: the loopback interface, or two network namespaces with a pair of
//! virtual cards between them.
//!
//! Namespaces have no names. A descriptor of this program and the processes inside keep them: when both are
//! gone, so are the cards.

mod counters;
mod link;
mod space;

use std::thread;

use lab::experiment::{Network as Wanted, Setup};
use rustix::io::Errno;

pub use counters::{Counters, Sent};
use link::Link;
use space::Space;

/// What those read who may not make namespaces.
const PRIVILEGE: &str = "[network] kind = \"namespaces\" needs root or CAP_SYS_ADMIN and CAP_NET_ADMIN: run it as root, \
     or put `unshare -Urn` before the command";

/// A side of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The generator, its answering side and the back ends.
    Generator,
    /// The system under test.
    System,
}

/// The network of a run.
#[derive(Debug)]
pub struct Network {
    /// Nothing for the loopback interface.
    apart: Option<Apart>,
}

#[derive(Debug)]
struct Apart {
    generator: Space,
    system: Space,
    link: Link,
    /// Whether queues drop packets before the cards count them.
    shaped: bool,
}

impl Network {
    /// The loopback interface.
    pub const fn loopback() -> Network {
        Network { apart: None }
    }

    /// The network that a setup asks for.
    ///
    /// # Errors
    /// What is not allowed or not there, and the mend.
    pub fn make(setup: &Setup) -> Result<Network, String> {
        if !setup.network.is_apart() {
            return Ok(Network::loopback());
        }
        let space = || Space::make().map_err(refused);
        let (generator, system) = (space()?, space()?);
        let link = Link::make(&generator, &system, &setup.network, loses(setup))?;
        Ok(Network { apart: Some(Apart { generator, system, link, shaped: setup.network.rate > 0.0 }) })
    }

    /// Whether generator and system have namespaces of their own.
    pub fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    /// Does something on this side: what it starts and which sockets it opens are there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or what the work itself says.
    pub fn within<T: Send>(
        &self,
        side: Side,
        work: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let Some(apart) = &self.apart else { return work() };
        let space = match side {
            Side::Generator => &apart.generator,
            Side::System => &apart.system,
        };
        space.within(work)
    }

    /// Has packets lost at random in each direction, percent; all of them: the link is cut.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lose(&self, percent: f64) -> Result<(), String> {
        let Some(apart) = &self.apart else {
            return Err("there is no network to lose packets in".to_owned());
        };
        apart.link.lose(&apart.generator, &apart.system, percent)
    }

    /// The counters of both sides, for samples. `datagrams`: calls go over UDP.
    ///
    /// # Errors
    /// If a file of the kernel cannot be opened.
    pub fn counters(&self, datagrams: bool) -> Result<Vec<Counters>, String> {
        let Some(apart) = &self.apart else { return Ok(Vec::new()) };
        let of = |space: &Space| Counters::open(space, datagrams, apart.shaped);
        Ok(vec![of(&apart.generator)?, of(&apart.system)?])
    }
}

/// Whether packets are to be lost at some time of a run.
fn loses(setup: &Setup) -> bool {
    setup.network.loss > 0.0 || setup.faults.iter().any(|fault| fault.kind.is_of_network())
}

/// Makes each network of an experiment once, so that a plan is refused and not its first run.
///
/// # Errors
/// What is not allowed or not there, and the mend.
pub fn check(setups: &[Setup]) -> Result<(), String> {
    let mut seen: Vec<(&Wanted, bool)> = Vec::new();
    for setup in setups.iter().filter(|setup| setup.network.is_apart()) {
        let asked = (&setup.network, loses(setup));
        if !seen.contains(&asked) {
            Network::make(setup)?;
            seen.push(asked);
        }
    }
    Ok(())
}

fn refused(error: std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == Errno::PERM.raw_os_error() => PRIVILEGE.to_owned(),
        _ => format!("a network namespace: {error}"),
    }
}

/// Does something on a thread of its own, whose namespace is of no concern to the others.
fn apart<T: Send>(work: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the thread in a namespace ended")))
    })
}
