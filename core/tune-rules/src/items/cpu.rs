//! Processors and the clock.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{field, grouped};

pub(super) const GOVERNOR: Item = Item::new(
    "governor",
    "speed of idle processors",
    "A processor whose governor is `powersave` or `ondemand` runs slowly until it has been busy for a while. A SIP server
is busy in bursts of microseconds, so its messages meet slow processors. `performance` keeps them fast. It costs power.",
    "`performance` and `schedutil` are not changed.",
    governor,
);

pub(super) const IDLE_STATES: Item = Item::new(
    "idle_states",
    "deep sleep of idle processors",
    "An idle processor sleeps deeper the longer it is idle, and needs the state's latency to wake. A message that comes
then waits that long. The server's `busy_poll` avoids it while there is traffic.",
    "Idle states are reported and never changed: without them a machine needs much more power.",
    idle_states,
);

pub(super) const MITIGATIONS: Item = Item::new(
    "mitigations",
    "protection against faults of processors",
    "Protection against Spectre and its relatives makes system calls slower. This item reports which faults the processor
has without protection.",
    "Mitigations are never changed: what they protect is worth more than the time.",
    mitigations,
);

pub(super) const STEAL: Item = Item::new(
    "steal",
    "time that the hypervisor takes",
    "On a virtual machine, steal time is time in which a processor had work and the hypervisor ran another machine.
Messages wait meanwhile, and no setting inside the machine helps.",
    "Nothing can be changed from inside.",
    steal,
);

pub(super) const NUMA: Item = Item::new(
    "numa",
    "distance between card and processors",
    "On a machine with several NUMA nodes, a card belongs to one of them. Processors of another node reach its
packets over a slower path. Workers are best on the card's node, as long as it has enough processors.",
    "Workers are placed by `pin` in strowger.toml, not by this command.",
    numa,
);

pub(super) const CLOCK: Item = Item::new(
    "clock",
    "the source of the clock",
    "The server reads the clock for each batch of messages. With `tsc`, `kvm-clock` or another source that programs read
without the kernel this takes 20 ns. With `hpet` or `acpi_pm` it takes a microsecond and a system call.",
    "The source is reported and never changed: the kernel leaves `tsc` when it is unreliable.",
    clock,
);

const CPUS: &str = "/sys/devices/system/cpu";

fn governor(look: &mut Look<'_>) {
    let pattern = format!("{CPUS}/cpu*/cpufreq/scaling_governor");
    let slow: Vec<(&str, &str)> = look
        .snapshot()
        .matching(&pattern)
        .map(|(path, text)| (path, text.trim()))
        .filter(|(_, governor)| !matches!(*governor, "performance" | "schedutil"))
        .collect();
    let Some((_, name)) = slow.first() else { return };
    let mut finding = look
        .finding(Level::Advice, format!("{} processors have the governor {name}", slow.len()))
        .why("bursts of messages meet slow processors; `performance` costs power");
    for (path, _) in &slow {
        finding = finding.change(look.set_path(path, "performance"));
    }
    look.report(finding);
}

fn idle_states(look: &mut Look<'_>) {
    /// Microseconds to wake that a caller could notice as jitter.
    const LONG: u64 = 100;
    let pattern = format!("{CPUS}/cpu0/cpuidle/*/latency");
    let deep = look.snapshot().matching(&pattern).filter_map(|(path, text)| {
        let latency: u64 = text.trim().parse().ok()?;
        let other = |file: &str| look.snapshot().word(&path.replace("latency", file));
        let off = other("disable") == Some("1");
        (latency > LONG && !off).then(|| (latency, other("name").unwrap_or("unnamed").to_owned()))
    });
    if let Some((latency, name)) = deep.max() {
        let finding = look
            .finding(Level::Note, format!("an idle processor may need {latency} us to wake (state {name})"))
            .why("messages after a pause wait that long")
            .by_hand("set `busy_poll` in strowger.toml; or limit the states with `cpupower idle-set -D 100`");
        look.report(finding);
    }
}

fn mitigations(look: &mut Look<'_>) {
    let pattern = format!("{CPUS}/vulnerabilities/*");
    let open: Vec<&str> = look
        .snapshot()
        .matching(&pattern)
        .filter(|(_, text)| text.starts_with("Vulnerable"))
        .filter_map(|(path, _)| path.rsplit('/').next())
        .collect();
    if !open.is_empty() {
        let finding = look
            .finding(
                Level::Note,
                format!("the processor is vulnerable without protection: {}", open.join(", ")),
            )
            .why("no setting of `strowger tune` changes this; newer microcode or kernels may");
        look.report(finding);
    }
}

fn steal(look: &mut Look<'_>) {
    let Some(cpu) = look.file("/proc/stat").and_then(|text| field(text, "cpu")) else { return };
    let times: Vec<u64> = cpu.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
    let (Some(stolen), total) =
        (times.get(7).copied(), times.iter().take(8).copied().fold(0, u64::saturating_add))
    else {
        return;
    };
    let working = total.saturating_sub(times.get(3).copied().unwrap_or(0));
    if stolen.saturating_mul(50) > working && stolen > 1_000 {
        let share = stolen.saturating_mul(100) / working.max(1);
        let finding = look
            .finding(
                Level::Note,
                format!("the hypervisor took {share} % of the time in which there was work"),
            )
            .evidence(format!("steal {} ticks since boot (/proc/stat)", grouped(stolen)))
            .why("messages wait meanwhile; ask for processors of your own");
        look.report(finding);
    }
}

fn numa(look: &mut Look<'_>) {
    let nodes: Vec<(&str, &str)> = look
        .snapshot()
        .matching("/sys/devices/system/node/*/cpulist")
        .filter_map(|(path, text)| Some((path.split('/').nth(5)?.strip_prefix("node")?, text.trim())))
        .collect();
    if nodes.len() < 2 {
        return;
    }
    for card in super::cards::live_cards(look) {
        let Some(node) = look.snapshot().word(&format!("/sys/class/net/{card}/device/numa_node")) else {
            continue;
        };
        let Some((_, cpus)) = nodes.iter().find(|(name, _)| *name == node) else { continue };
        let finding = look
            .finding(
                Level::Note,
                format!("{card} belongs to NUMA node {node}, which has the processors {cpus}"),
            )
            .why("processors of other nodes reach its packets by way of a slower path")
            .by_hand(format!("let workers run there: `pin` in strowger.toml with processors out of {cpus}"));
        look.report(finding);
    }
}

fn clock(look: &mut Look<'_>) {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let Some(now) = look.file(&format!("{folder}/current_clocksource")).map(str::trim) else { return };
    if matches!(now, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit") {
        let available = look.file(&format!("{folder}/available_clocksource")).unwrap_or_default().trim();
        let finding = look
            .finding(Level::Problem, format!("the clock source is {now}: each reading is a system call"))
            .evidence(format!("available: {available}"))
            .why("the server reads the clock for each batch of messages")
            .by_hand("`journalctl -k -g clocksource` says why the kernel left a faster one");
        look.report(finding);
    }
}
