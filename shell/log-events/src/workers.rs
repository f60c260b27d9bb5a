//! Worker threads, their sockets and the kernel.

use std::fmt::Display;

events! {
    info listening(transport: &dyn Display, address: &dyn Display, workers: usize)
        "listening"
        "";
    info segmentation_refused(peer: &dyn Display, error: &dyn Display)
        "the kernel cannot cut datagrams to this peer; each is sent alone"
        "";
    info segmentation_given_up()
        "the kernel cannot cut datagrams to many peers; every datagram is sent alone from now on"
        "";
    warn sieve_refused(worker: u16, error: &dyn Display)
        "the kernel drops nothing for this worker in this overload: a socket accepts no filter (net.core.optmem_max may be too small, or the socket's filter is locked)"
        "Raise `net.core.optmem_max`, or set `kernel = false` in `[overload]`.";
    info datagram_buffers(address: &dyn Display, receive_kb: usize, send_kb: usize, wanted_kb: usize)
        "datagram socket buffers"
        "";
    warn receive_buffers_small(wanted_kb: usize, got_kb: usize)
        "the system gives no larger receive buffers (net.core.rmem_max), so datagrams are lost when the process stops for a moment"
        "Raise `net.core.rmem_max` (`sysctl`) to at least `wanted_kb`, then restart.";
    warn sctp_buffers_shared(address: &dyn Display)
        "the associations of a worker share one buffer in the kernel, so slow peers delay others"
        "Set `net.sctp.rcvbuf_policy` and `net.sctp.sndbuf_policy` to 1 (`sysctl`), then restart; or set `sockets = \"one-to-one\"` in `[sctp]`.";
    warn connections_refused(refused: u64, why: &str)
        "stream connections refused"
        "Raise `connections` or `connections_per_source` in `[limits]` if these are your phones; else find who connects.";
    warn tls_connect_failed(remote: &dyn Display, name: &str, error: &dyn Display, failed: u64)
        "TLS connection to a server failed; what was to go over it goes elsewhere or fails"
        "If the certificate is at fault: the server's must be of `name`, valid, and of an authority in `roots` of `[tls]`. If the server wants one of yours: name it.";
    warn descriptors_short(wanted: usize, room: usize)
        "fewer stream connections than configured: raise `ulimit -n` (LimitNOFILE=)"
        "Raise `LimitNOFILE=` of the service, or lower `connections` in `[limits]`.";
    warn descriptor_limit_fixed(error: &dyn Display)
        "cannot raise the limit of open descriptors"
        "Raise `LimitNOFILE=` of the service.";
    warn worker_not_pinned(worker: usize, cpu: usize, error: &dyn Display)
        "cannot bind the worker to this CPU; it runs on any"
        "Correct `pin`, or the CPUs that the service may use (`CPUAffinity=`).";
    warn worker_not_first(worker: usize, error: &dyn Display)
        "the worker cannot get priority over other programs; it needs CAP_SYS_NICE"
        "Give the service CAP_SYS_NICE, or leave `run_first` out.";
    error worker_panicked(worker: u16, message: &str)
        "worker ended by a panic; what it owned is lost"
        "Report it, with the lines before. The program ends, and the service manager starts it again.";
    error ending_without_worker()
        "a worker failed: ending, so that the service manager can restart"
        "See the line of the panic before it.";
    error bug_found(; file: &str, line: u32, what: &str, times: &str)
        "a bug of strowger: {file}:{line} {what}, {times}; please report"
        "Report the line and the version. The server goes on; what it did at that place may be wrong.";
    info steering(grade: &str)
        "steering"
        "";
    info steering_unneeded()
        "all listeners are streams: the kernel has no datagrams to steer"
        "";
    warn steering_refused(error: &dyn Display; mend: &str)
        "the kernel does not steer datagrams: those for another worker make a hop, which costs a copy and often a wake-up. {mend}; or accept it: steering = \"ring\" in the configuration file, --steering ring of `serve`"
        "Do what the line says, or set `steering = \"ring\"`.";
    info sieve_unavailable(error: &dyn Display; mend: &str)
        "the kernel drops no datagrams in an overload: the server reads each one and its repetitions, which leaves less time for calls. {mend}; or accept it: overload.kernel = false"
        "";
}
