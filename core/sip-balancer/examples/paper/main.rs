//! The experiments of the paper in virtual time, printed as tables.
//!
//! `cargo run --release -p sip-balancer --example paper`, and with `-- long` those of its trials' own length
//! instead: a ramp, ten minutes, and then three that count, with calls of a minute (section V), where callers
//! repeat what is not answered. `-- long tlwl,hash 0.4,0.9 0.5 8` runs these algorithms, these loads, this
//! cost of a repeated request and this number of servers only; the last word may be seeds (`1,2,3`).

mod model;

use model::{CAPACITY, PATIENCE, Setup, peak, run, shown};
use sip_balancer::Algorithm;

/// A server stalls about every 40 s for a second.
const STALLS: Option<(f64, f64)> = Some((40.0, 1.0));

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "long") {
        return long(&arguments[1..]);
    }
    response_times("Mean response time of INVITE by load, 8 servers", None);
    response_times("The same where each server stalls about every 40 s for 1 s", STALLS);
    peaks();
    different();
    scaling();
    occupancies();
}

fn response_times(title: &str, stalls: Option<(f64, f64)>) {
    let loads = [0.1, 0.3, 0.5, 0.8, 0.9, 0.95];
    println!("\n{title}\n");
    let head: Vec<String> = loads.iter().map(|load| format!("{load:>10}")).collect();
    println!("{:<14}{}", "", head.concat());
    for (name, algorithm) in Algorithm::ALL {
        let one = |load: &f64| run(&Setup { stalls, ..Setup::new(algorithm, 8, *load) });
        let cells: Vec<String> =
            loads.iter().map(|load| format!("{:>10}", shown(one(load).invite))).collect();
        println!("{name:<14}{}", cells.concat());
    }
}

fn peaks() {
    println!("\nPeak throughput with such stalls, calls/s (8 servers of {CAPACITY}, ideal 2400):");
    println!(
        "the rate up to which, in steps of 4 %, at most 1 request in 10,000 takes over 1.5 s, of three runs each\n"
    );
    for (name, algorithm) in Algorithm::ALL {
        let good = |part: f64| {
            let setup = Setup { stalls: STALLS, limit: 1.5, ..Setup::new(algorithm, 8, part) };
            (1..=3).all(|seed| run(&Setup { seed, ..setup.clone() }).failed <= 1e-4)
        };
        let steps = (14..=25).map(|step| f64::from(step) * 0.04);
        let reached = steps.take_while(|part| good(*part)).last().unwrap_or(0.52);
        println!("{name:<14}{:>6.0}", reached * 8.0 * CAPACITY);
    }
}

fn different() {
    println!("\nA whole server and a half one: ideal 450 calls/s\n");
    println!("{:<14}{:>10}{:>16}{:>12}{:>10}", "", "peak", "INVITE at 270/s", "BYE", "calls");
    for (name, algorithm) in Algorithm::ALL {
        let setup = Setup { speeds: vec![1.0, 0.5], ..Setup::new(algorithm, 2, 0.45) };
        let outcome = run(&setup);
        let part = outcome.shares[0] as f64 / outcome.shares.iter().sum::<u64>() as f64;
        let (invite, bye) = (shown(outcome.invite), shown(outcome.bye));
        println!("{name:<14}{:>10.0}{invite:>16}{bye:>12}{:>9.0}%", peak(&setup), part * 100.0);
    }
}

fn scaling() {
    println!("\nPeak throughput of TLWL by the number of servers, calls/s\n");
    for count in [1, 2, 4, 6, 8, 10] {
        println!("{count:>4}{:>8.0}", peak(&Setup::new(Algorithm::Tlwl, count, 0.5)));
    }
}

fn occupancies() {
    println!("\nThe part of transactions that found more than N at their server, 600 calls/s on 4 servers\n");
    let above = [0, 1, 2, 4, 8, 16, 32];
    let head: Vec<String> = above.iter().map(|n| format!("{n:>10}")).collect();
    println!("{:<14}{}", "", head.concat());
    for algorithm in [Algorithm::FnvHash, Algorithm::RoundRobin, Algorithm::Tjsq, Algorithm::Tlwl] {
        let setup = Setup { stalls: STALLS, ..Setup::new(algorithm, 4, 0.5) };
        let found = run(&setup).occupancy;
        let all: u64 = found.iter().sum();
        let part = |n: &usize| found.iter().skip(n + 1).sum::<u64>() as f64 / all as f64;
        let cells: Vec<String> = above.iter().map(|n| format!("{:>10.5}", part(n))).collect();
        println!("{:<14}{}", algorithm.name(), cells.concat());
    }
}

/// The paper's own trials: the mean time of INVITEs whose 200 is received, within 32 s, which is the paper's
/// response time; the mean of all INVITEs and BYEs, with what is answered too late or waits at the end, as
/// long as it has waited; and how many requests of 10,000 nobody answers in 32 s, which alone the paper calls
/// failed.
fn long(arguments: &[String]) {
    let word = |nth: usize, otherwise: &str| arguments.get(nth).map_or(otherwise, |word| word).to_owned();
    let numbers = |words: String| words.split(',').filter_map(|n| n.parse().ok()).collect::<Vec<f64>>();
    let names = word(0, "tlwl,tjsq,round-robin,hash,fnv-hash");
    let loads = numbers(word(1, "0.083,0.4,0.6,0.65,0.7,0.75,0.8,0.85,0.88"));
    let cost = numbers(word(2, "0.5")).first().copied().unwrap_or(0.5);
    let servers = numbers(word(3, "8")).first().map_or(8, |n| n.clamp(1.0, 64.0) as usize);
    let seeds = numbers(word(4, "1"));
    println!(
        "\nRamp, 10 minutes, and 3 that count; calls of 60 s; servers stall; what is repeated costs {cost} of a BYE\n"
    );
    let heads = ["servers", "load", "calls/s", "seed", "received", "INVITE", "BYE", "failed/10k", "repeated"];
    println!("{:<14}{}", "", heads.map(|head| format!("{head:>11}")).concat());
    for name in names.split(',') {
        let Some(algorithm) = Algorithm::from_name(name) else { continue };
        for (load, seed) in loads.iter().flat_map(|load| seeds.iter().map(move |seed| (*load, *seed))) {
            let setup = Setup {
                stalls: STALLS,
                repeats: Some(cost),
                hold: (60.0, 30.0),
                limit: PATIENCE,
                ramp: true,
                warm: 600.0,
                seconds: 180.0,
                seed: seed as u64,
                ..Setup::new(algorithm, servers, load)
            };
            let outcome = run(&setup);
            let times = [outcome.received, outcome.invite, outcome.bye];
            let times = times.map(|time| format!("{:>11}", shown(time))).concat();
            let (rate, failed) = (setup.rate, outcome.failed * 1e4);
            println!(
                "{name:<14}{servers:>11}{load:>11}{rate:>11.0}{seed:>11}{times}{failed:>11.1}{:>11}",
                outcome.repeated
            );
        }
    }
}
