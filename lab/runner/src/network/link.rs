//! The pair of virtual cards, made with `ip` and `tc` of iproute2.

use std::process::{Command, Stdio};
use std::time::Duration;

use lab::experiment::Network as Wanted;

use super::space::Space;
use crate::addresses::{FAR, NEAR};
use crate::programs::found;

/// The name of the card on either side.
pub const CARD: &str = "lab0";
/// Both cards have this hardware address, and resolve none: so a lost packet is never one of ARP, and no
/// neighbour is given up while the link is cut.
const HARDWARE: &str = "02:00:00:00:00:01";
/// A frame of the largest packet.
const FRAME: u64 = 1_514;
/// Packets under way in a delay at most. The kernel holds them all.
const UNDER_WAY: &str = "1000000";

/// Cards that were made.
#[derive(Debug)]
pub struct Link {
    /// What is lost without a fault, percent.
    loss: f64,
}

impl Link {
    /// Makes the cards. `loses`: packets are to be lost at some time.
    ///
    /// # Errors
    /// What the kernel lacks, or a program that is not there.
    pub fn make(generator: &Space, system: &Space, wanted: &Wanted, loses: bool) -> Result<Link, String> {
        let other = system.path();
        generator.within(|| {
            run(
                "ip",
                &[
                    "link", "add", CARD, "address", HARDWARE, "type", "veth", "peer", "name", CARD,
                    "address", HARDWARE, "netns", &other,
                ],
            )
        })?;
        generator.within(|| up(FAR.block(), NEAR.block(), wanted))?;
        system.within(|| up(NEAR.block(), FAR.block(), wanted))?;
        let link = Link { loss: wanted.loss };
        if loses {
            for space in [generator, system] {
                space.within(|| {
                    run("tc", &["qdisc", "add", "dev", CARD, "clsact"]).map_err(lacking("sch_ingress"))
                })?;
            }
            link.lose(generator, system, 0.0)?;
        }
        Ok(link)
    }

    /// Has `percent` of the packets lost at their arrival, and what is always lost besides.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lose(&self, generator: &Space, system: &Space, percent: f64) -> Result<(), String> {
        let pass = (1.0 - percent / 100.0) * (1.0 - self.loss / 100.0);
        let program = dropping(pass);
        for space in [generator, system] {
            space.within(|| {
                let place = [
                    "filter", "replace", "dev", CARD, "ingress", "pref", "1", "handle", "1", "protocol",
                    "all",
                ];
                let what = ["bpf", "da", "bytecode", &program];
                run("tc", &[&place[..], &what[..]].concat()).map_err(lacking("cls_bpf"))
            })?;
        }
        Ok(())
    }
}

/// A classic BPF program (linux/filter.h) that passes this share of packets, and drops the others at random.
fn dropping(pass: f64) -> String {
    // SKF_AD_OFF + SKF_AD_RANDOM: 32 random bits. TC_ACT_OK is 0, TC_ACT_SHOT 2.
    let (random, ok, shot) = (0xffff_f038_u32, "6 0 0 0", "6 0 0 2");
    let limit = (pass.clamp(0.0, 1.0) * 4_294_967_296.0).round();
    match limit {
        all if all >= 4_294_967_296.0 => format!("1,{ok}"),
        none if none < 1.0 => format!("1,{shot}"),
        // Load it; jump over one instruction if it is below the limit.
        limit => format!("4,32 0 0 {random},53 0 1 {limit},{shot},{ok}"),
    }
}

/// Brings this side up, with all addresses of a block as its own.
fn up(own: String, other: String, wanted: &Wanted) -> Result<(), String> {
    // Otherwise the kernel sends packets of its own for some seconds.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{CARD}/disable_ipv6"), "1");
    run("ip", &["link", "set", "lo", "up"])?;
    run("ip", &["address", "add", &own, "dev", "lo"])?;
    // One datagram is one packet, as on a wire.
    run("ip", &["link", "set", CARD, "arp", "off", "gso_max_segs", "1", "up"])?;
    run("ip", &["route", "add", &other, "dev", CARD])?;
    shape(wanted)
}

/// Delays and limits what leaves this side.
fn shape(wanted: &Wanted) -> Result<(), String> {
    let mut parent = ["root", ""];
    if wanted.delay > Duration::ZERO {
        let delay = format!("{}us", wanted.delay.as_micros());
        let words = [
            "qdisc", "add", "dev", CARD, "root", "handle", "1:", "netem", "delay", &delay, "limit", UNDER_WAY,
        ];
        run("tc", &words).map_err(lacking("sch_netem"))?;
        parent = ["parent", "1:1"];
    }
    if wanted.rate > 0.0 {
        let bits = wanted.rate * 1e6;
        // What passes at once: at least a packet, and that of a millisecond.
        let burst = ((bits / 8e3) as u64).max(FRAME + 100).to_string();
        let (rate, packets) = (format!("{}bit", bits.round().max(8.0)), wanted.queue.to_string());
        let place: Vec<&str> = parent.into_iter().filter(|word| !word.is_empty()).collect();
        let words = ["handle", "2:", "tbf", "rate", &rate, "burst", &burst, "limit", "1000000000"];
        run("tc", &[&["qdisc", "add", "dev", CARD], &place[..], &words[..]].concat())
            .map_err(lacking("sch_tbf"))?;
        run(
            "tc",
            &["qdisc", "add", "dev", CARD, "parent", "2:", "handle", "3:", "pfifo", "limit", &packets],
        )?;
    }
    Ok(())
}

/// Adds which part of the kernel it was.
fn lacking(module: &'static str) -> impl Fn(String) -> String {
    move |why| {
        format!("{why}; the kernel needs {module}: run it on one that has it, such as by verify/uml/run.sh")
    }
}

/// Runs a program of iproute2.
fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let done = Command::new(found(program)).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{program}: {error}: install iproute2"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

/// Packets that queues of this side dropped since they were made.
///
/// # Errors
/// If `tc` cannot be run, refuses, or does not tell: that is no count of zero.
pub fn dropped_by_queues() -> Result<f64, String> {
    let words = ["-s", "qdisc", "show", "dev", CARD];
    let done = Command::new(found("tc")).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("tc: {error}"))?;
    if !done.status.success() {
        return Err(format!("tc {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    dropped(&text).ok_or_else(|| format!("tc {}: no drops of a shaper: {}", words.join(" "), text.trim()))
}

/// The drops of the first queue: those of its children are in it. What clsact drops was sent.
fn dropped(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.contains("qdisc tbf"));
    let (_, rest) = lines.find_map(|line| line.split_once("(dropped "))?;
    rest.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_passes_and_drops_by_one_random_number() {
        assert_eq!(dropping(1.0), "1,6 0 0 0");
        assert_eq!(dropping(0.0), "1,6 0 0 2");
        assert_eq!(dropping(0.75), "4,32 0 0 4294963256,53 0 1 3221225472,6 0 0 2,6 0 0 0");
    }

    #[test]
    fn drops_of_the_shaper_are_read() {
        let text = "qdisc netem 1: root refcnt 2 limit 1000\n Sent 1 bytes 1 pkt (dropped 9, overlimits 0 requeues 0)\n\
                    qdisc tbf 2: parent 1:1 rate 1Mbit burst 2Kb\n Sent 20 bytes 1 pkt (dropped 80, overlimits 3 requeues 0)\n\
                    qdisc clsact ffff: parent ffff:fff1\n Sent 20 bytes 1 pkt (dropped 7, overlimits 0 requeues 0)\n";
        assert_eq!(dropped(text), Some(80.0));
        assert_eq!(dropped("qdisc noqueue 0: root refcnt 2\n"), None);
        assert_eq!(dropped("qdisc tbf 2: root\n Sent 20 bytes 1 pkt (dropped many, overlimits 3)\n"), None);
    }

    #[test]
    fn drops_that_cannot_be_read_are_no_zero() {
        // The card is not in this namespace.
        let refused = dropped_by_queues().expect_err("there is no such card");
        assert!(refused.starts_with("tc"), "{refused}");
    }
}
