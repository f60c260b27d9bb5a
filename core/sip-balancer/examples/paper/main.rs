//! The experiments of the paper in virtual time, printed as tables.
//!
//! `cargo run --release -p sip-balancer --example paper`

mod model;

use model::{CAPACITY, Setup, peak, run, shown};
use sip_balancer::Algorithm;

/// A server stalls about every 40 s for a second.
const STALLS: Option<(f64, f64)> = Some((40.0, 1.0));

fn main() {
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
    println!("{:<14}{:>10}{:>16}{:>12}{:>10}{:>8}", "", "peak", "INVITE at 270/s", "BYE", "calls", "cost");
    for (name, algorithm) in Algorithm::ALL {
        let setup = Setup { speeds: vec![1.0, 0.5], ..Setup::new(algorithm, 2, 0.45) };
        let outcome = run(&setup);
        let part = outcome.shares[0] as f64 / outcome.shares.iter().sum::<u64>() as f64;
        let (invite, bye) = (shown(outcome.invite), shown(outcome.bye));
        println!(
            "{name:<14}{:>10.0}{invite:>16}{bye:>12}{:>9.0}%{:>8.2}",
            peak(&setup),
            part * 100.0,
            outcome.cost
        );
    }
}

fn scaling() {
    println!("\nPeak throughput of TLWL by the number of servers, calls/s\n");
    for count in [1, 2, 4, 6, 8, 10] {
        println!("{count:>4}{:>8.0}", peak(&Setup::new(Algorithm::Tlwl, count, 0.5)));
    }
}

fn occupancies() {
    println!(
        "\nThe part of transactions that found more than so many at their server, 600 calls/s on 4 servers\n"
    );
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
