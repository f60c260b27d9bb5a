//! What the machine is, for the archive: figures of another one are not comparable.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use lab::costs::EMULATED;
use load::report::Fact;

use crate::emulated::is_inside;

/// What `strowger tune` reports of the machine, as JSON. `own`: the program.
///
/// # Errors
/// A sentence that says why there is none.
pub fn tune(own: &Path) -> Result<Vec<u8>, String> {
    let done = Command::new(own).args(["tune", "--output", "json"]).stdin(Stdio::null()).output();
    let done = done.map_err(|error| error.to_string())?;
    // Exit status 1: something matters.
    match done.status.code() {
        Some(0 | 1) if !done.stdout.is_empty() => Ok(done.stdout),
        _ => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
    }
}

/// Processor, kernel, mitigations and what else changes what a call costs.
pub fn facts() -> Vec<Fact> {
    let line = |path: &str| {
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let mut facts = Vec::new();
    if is_inside() {
        facts.push(Fact::new(EMULATED, "its clock counts instructions"));
    }
    let mut add = |name: &str, value: Option<String>| facts.extend(value.map(|value| Fact::new(name, value)));
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'))?.1;
        Some(value.trim().to_owned())
    };
    add("processor", field("model name"));
    add("microcode", field("microcode"));
    add("processors", std::thread::available_parallelism().ok().map(|count| count.to_string()));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    add(
        "memory",
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).map(|text| text.trim().to_owned()),
    );
    add("kernel", line("/proc/sys/kernel/osrelease"));
    add("kernel build", line("/proc/sys/kernel/version"));
    add("kernel command line", line("/proc/cmdline"));
    add("clock source", line("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("governor", line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    add("transparent huge pages", line("/sys/kernel/mm/transparent_hugepage/enabled"));
    for name in ["rmem_max", "rmem_default", "wmem_max", "netdev_max_backlog", "somaxconn"] {
        add(&format!("net.core.{name}"), line(&format!("/proc/sys/net/core/{name}")));
    }
    let folder = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten();
    let mut mitigations: Vec<String> = folder
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let text = text.trim();
            (text != "Not affected").then(|| format!("{}: {text}", entry.file_name().to_string_lossy()))
        })
        .collect();
    mitigations.sort();
    add("mitigations", Some(mitigations.join("; ")).filter(|text| !text.is_empty()));
    facts
}
