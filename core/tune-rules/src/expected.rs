//! The load that a server is to carry.

/// The load that a server is to carry, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    connections: u64,
    calls: u64,
    ports: Vec<u16>,
    workers: u64,
    kernel_steering: bool,
    sctp: bool,
}

impl Default for Expected {
    fn default() -> Expected {
        Expected {
            connections: 10_000,
            calls: 1_000,
            ports: vec![5060, 5061],
            workers: 0,
            kernel_steering: true,
            sctp: false,
        }
    }
}

impl Expected {
    /// Messages that a proxy receives for one call: INVITE, 180, 200, ACK, BYE, 200, and one more.
    pub const MESSAGES_PER_CALL: u64 = 7;
    /// Bytes that the kernel counts for a waiting datagram, as the server does for its receive buffers.
    pub const BYTES_PER_MESSAGE: u64 = 1_152;

    /// The largest number of connections or calls a second: more than one machine can carry.
    pub const MOST: u64 = 1 << 30;

    /// Stream connections at one time, at most [`Expected::MOST`].
    #[must_use]
    pub fn with_connections(mut self, connections: u64) -> Expected {
        self.connections = connections.min(Self::MOST);
        self
    }

    /// New calls a second, at most [`Expected::MOST`].
    #[must_use]
    pub fn with_calls(mut self, calls: u64) -> Expected {
        self.calls = calls.min(Self::MOST);
        self
    }

    /// The ports that the server listens on.
    #[must_use]
    pub fn with_ports(mut self, ports: Vec<u16>) -> Expected {
        self.ports = ports;
        self.ports.sort_unstable();
        self.ports.dedup();
        self
    }

    /// Worker threads; 0: one for each processor.
    #[must_use]
    pub fn with_workers(mut self, workers: u64) -> Expected {
        self.workers = workers;
        self
    }

    /// Whether the server's eBPF program chooses the worker of a datagram.
    #[must_use]
    pub fn with_kernel_steering(mut self, on: bool) -> Expected {
        self.kernel_steering = on;
        self
    }

    /// Whether the server listens on SCTP.
    #[must_use]
    pub fn with_sctp(mut self, on: bool) -> Expected {
        self.sctp = on;
        self
    }

    /// Stream connections at one time.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// New calls a second.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The ports that the server listens on, in order.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Worker threads on a machine with this number of processors.
    pub fn workers(&self, processors: u64) -> u64 {
        if self.workers == 0 { processors } else { self.workers }
    }

    /// Whether the server's eBPF program chooses the worker of a datagram.
    pub fn kernel_steering(&self) -> bool {
        self.kernel_steering
    }

    /// Whether the server listens on SCTP.
    pub fn sctp(&self) -> bool {
        self.sctp
    }

    /// Bytes of receive buffer that the server asks for on one socket: half a second of messages, from 4 to
    /// 64 MiB.
    pub fn receive_buffer(&self) -> u64 {
        let messages = self.calls.saturating_mul(Self::MESSAGES_PER_CALL) / 2;
        messages.saturating_mul(Self::BYTES_PER_MESSAGE).clamp(4 << 20, 64 << 20)
    }
}
