//! Where `strowger tune` runs, and what it may do there.

use crate::parse::field;
use crate::snapshot::Snapshot;

/// Bits of capabilities (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// The namespace of processes, and that of a machine's first one (PROC_PID_INIT_INO of the kernel).
const PROCESSES: &str = "/proc/self/ns/pid";
const FIRST_PROCESSES: &str = "pid:[4026531836]";

/// Where `strowger tune` runs, and what it may do there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    container: Option<String>,
    user: Option<u32>,
    capabilities: u64,
    own_network: bool,
    mapped_users: bool,
}

impl Rights {
    /// Reads them from a snapshot.
    pub fn of(snapshot: &Snapshot) -> Rights {
        let status = snapshot.text("/proc/self/status").unwrap_or_default();
        let capabilities = field(status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
        let user = field(status, "Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
        // Kernel settings of the machine are invisible in a network namespace other than the first.
        let first = snapshot.seen("/proc/sys/net/core/netdev_max_backlog");
        let any = snapshot.text("/proc/sys/net/core/somaxconn").is_some();
        let absent = first.is_none_or(|seen| *seen.reading() == crate::Reading::Absent);
        let map = snapshot.word("/proc/self/uid_map").unwrap_or_default();
        let whole = map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"]);
        Rights {
            container: container(snapshot),
            user,
            capabilities: capabilities.unwrap_or(0),
            own_network: any && absent,
            mapped_users: !whole,
        }
    }

    /// The kind of container, if it is one.
    pub fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Whether the network namespace is another one than the machine's first.
    pub fn own_network(&self) -> bool {
        self.own_network
    }

    /// Whether the process may change network cards.
    pub fn net_admin(&self) -> bool {
        self.has(CAP_NET_ADMIN)
    }

    /// Why files below `/etc` would not set values at boot: nothing reads them there.
    pub fn no_boot(&self) -> Option<&'static str> {
        if self.container.is_some() {
            Some(
                "nothing reads /etc/sysctl.d in a container; give the values to its runtime to make them last",
            )
        } else if self.own_network {
            Some("nothing sets values of this network namespace at boot; set them where it is made")
        } else {
            None
        }
    }

    /// What is missing to change settings, in words; `None` if nothing is.
    pub fn missing(&self) -> Option<String> {
        let user = match self.user {
            Some(0) | None => None,
            Some(user) => Some(format!("this process runs as user {user}, not as root")),
        };
        let lacks = |bit, name| (!self.has(bit)).then_some(name);
        let capabilities: Vec<&str> =
            [lacks(CAP_NET_ADMIN, "CAP_NET_ADMIN"), lacks(CAP_SYS_ADMIN, "CAP_SYS_ADMIN")]
                .into_iter()
                .flatten()
                .collect();
        let capabilities =
            (!capabilities.is_empty()).then(|| format!("it lacks {}", capabilities.join(" and ")));
        match (user, capabilities) {
            (Some(user), Some(capabilities)) => Some(format!("{user}, and {capabilities}")),
            (Some(one), None) => Some(one),
            (None, Some(capabilities)) => Some(capabilities.replacen("it lacks", "this process lacks", 1)),
            (None, None) => None,
        }
    }

    /// Why a file that exists cannot be written, with the privilege or place that is missing.
    pub(crate) fn obstacle(&self) -> String {
        let missing = self.missing();
        match (&self.container, missing) {
            (Some(kind), Some(missing)) => {
                format!("this is a {kind} container and {missing}: make the change on the host")
            }
            (Some(kind), None) => {
                format!("it is read-only in this {kind} container: make the change on the host")
            }
            (None, Some(missing)) => format!("{missing}: run `strowger tune apply` as root"),
            (None, None) if self.own_network => {
                "this network namespace shows it read-only: make the change on the host".to_owned()
            }
            (None, None) if self.mapped_users => {
                "root of this user namespace may not write it: make the change on the host".to_owned()
            }
            (None, None) => "it is read-only here".to_owned(),
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.capabilities >> bit & 1 == 1
    }
}

/// The kind of container by the marks that runtimes leave.
fn container(snapshot: &Snapshot) -> Option<String> {
    // A virtual machine that was made from an image of Docker keeps its mark.
    if snapshot.word(PROCESSES) == Some(FIRST_PROCESSES) {
        return None;
    }
    if snapshot.text("/.dockerenv").is_some() {
        return Some("Docker".to_owned());
    }
    if let Some(text) = snapshot.text("/run/.containerenv") {
        let engine = text.lines().find_map(|line| line.strip_prefix("engine=")).unwrap_or("podman");
        let engine = engine.trim_matches('"').split('-').next().unwrap_or("podman");
        return Some(engine.to_owned());
    }
    if let Some(kind) = snapshot.word("/run/systemd/container").filter(|kind| !kind.is_empty()) {
        return Some(kind.to_owned());
    }
    let environment = snapshot.text("/proc/1/environ").unwrap_or_default();
    if environment.split('\0').any(|variable| variable.starts_with("KUBERNETES_SERVICE_HOST=")) {
        return Some("Kubernetes".to_owned());
    }
    let kind = environment.split('\0').find_map(|variable| variable.strip_prefix("container="));
    kind.filter(|kind| !kind.is_empty()).map(str::to_owned)
}
