//! From a seed to a run: who is there, what they do, what goes wrong, and what is to come of it.

use crate::phone::{CallSpec, Final, Manner, Profile};
use crate::rng::Rng;
use crate::site::{SiteSpec, TrunkSpec, secure};
use crate::translation::{Kind, Translation};
use core::time::Duration;
use sip_auth::Algorithm;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Time, Transport};

/// How the network behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    /// Nothing is lost; messages are delayed, doubled and overtake each other.
    Quiet,
    /// Up to 30 % of datagrams are lost as well.
    Lossy,
    /// And servers crash, links break, clocks jump, name service and store fail.
    Stormy,
}

/// Where the bindings of users are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// All of them at the server.
    Here,
    /// Those of some users at other nodes, which answer in time, in any order, sometimes twice.
    Punctual,
    /// The same, but answers are late, repeated or missing, or report a failure.
    Late {
        /// Whether the server keeps the last answer.
        copies: bool,
    },
}

/// The network's numbers. Chances are per mille.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Net {
    pub loss: u64,
    pub duplicate: u64,
    pub low_ms: u64,
    pub high_ms: u64,
    /// Chance and size of a delay that lets later messages overtake.
    pub late: u64,
    pub late_ms: u64,
}

/// Something that goes wrong, or that an operator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Crash {
        site: usize,
        down: Duration,
    },
    /// The wall clock is set by that many seconds, on all machines.
    Clock(i64),
    /// Nothing gets from or to this address.
    Cut {
        ip: IpAddr,
        length: Duration,
    },
    /// All stream connections of a server break.
    Streams {
        site: usize,
    },
    Store {
        site: usize,
        length: Duration,
    },
    Names {
        length: Duration,
    },
    Drain {
        site: usize,
    },
    Reload {
        site: usize,
        revision: u8,
    },
    /// What translates a phone's address forgets everything.
    Rebind {
        phone: usize,
    },
}

/// A call or question of the script and the outcomes that are right in quiet weather.
#[derive(Clone, Debug)]
pub(crate) struct Planned<T> {
    pub at: Time,
    pub phone: usize,
    pub what: T,
    pub right: Vec<Final>,
}

/// Everything about a run that is decided before it starts.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub weather: Weather,
    pub location: Location,
    pub net: Net,
    pub sites: Vec<SiteSpec>,
    pub phones: Vec<Profile>,
    /// Users without a phone.
    pub users: Vec<(String, String)>,
    pub calls: Vec<Planned<CallSpec>>,
    pub asks: Vec<Planned<(&'static str, String)>>,
    pub attacks: Vec<Time>,
    pub faults: Vec<(Time, Fault)>,
}

/// Phones begin no refresh after this.
pub(crate) const RETIRE: Time = Time::from_secs(110);
/// No call lasts longer than 390 s; then come 64*T1 and timer C and a margin of silence.
pub(crate) const END: Time = Time::from_secs(390 + 32 + 185 + 37);

/// Room that is never used up.
pub(crate) const ROOM: (usize, usize) = (5_000, 1_000);

const PUBLIC: [u8; 3] = [198, 51, 100];

impl Scenario {
    /// The scenario of a seed.
    pub fn new(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed);
        let weather = match rng.below(10) {
            0..=3 => Weather::Quiet,
            4..=6 => Weather::Lossy,
            _ => Weather::Stormy,
        };
        let net = net(&mut rng, weather);
        let direct = rng.chance(150);
        let mut sites = sites(&mut rng, !direct);
        if weather == Weather::Stormy && rng.chance(250) {
            // Hardly room for anything.
            sites.iter_mut().for_each(|s| s.room = (rng.between(2, 12) as usize, rng.between(1, 4) as usize));
        }
        let phones = phones(&mut rng, &sites, direct);
        let users = sites.iter().map(|s| ("off".to_string(), s.domain.clone())).collect();
        let mut scenario = Scenario {
            weather,
            location: Location::Here,
            net,
            sites,
            phones,
            users,
            calls: Vec::new(),
            asks: Vec::new(),
            attacks: Vec::new(),
            faults: Vec::new(),
        };
        scenario.plan_calls(&mut rng);
        if rng.chance(600) {
            let count = rng.between(5, 40);
            scenario.attacks = (0..count).map(|_| Time::from_millis(rng.between(8_000, 115_000))).collect();
        }
        scenario.plan_faults(&mut rng);
        // A generator of its own: what else a seed decides stays as it is.
        scenario.plan_translations(&mut Rng::new(seed.rotate_left(32)));
        scenario.location = location(&mut Rng::new(seed.rotate_left(40)), weather);
        scenario
    }

    /// How long mappings last, who keeps them open, and what forgets them.
    fn plan_translations(&mut self, rng: &mut Rng) {
        let kinds = [Kind::FullCone, Kind::AddressRestricted, Kind::PortRestricted, Kind::Symmetric];
        for (number, phone) in self.phones.iter_mut().enumerate() {
            let Some(translation) = &mut phone.translation else { continue };
            translation.kind = rng.pick(&kinds, Kind::Symmetric);
            translation.idle = Duration::from_secs(rng.between(20, 90));
            let share = rng.between(30, 80) as u32;
            phone.keepalive = rng.chance(650).then_some(translation.idle * share / 100);
            if rng.chance(200) {
                let at = Time::from_millis(rng.between(6_000, 100_000));
                self.faults.push((at, Fault::Rebind { phone: number }));
            }
        }
    }

    fn plan_calls(&mut self, rng: &mut Rng) {
        for number in 0..rng.between(3, 8) as usize {
            let phone = rng.index(self.phones.len() - 1);
            let Some(callee) = self.somebody(rng, phone) else { continue };
            let spec = CallSpec {
                number,
                callee,
                patience: rng.chance(250).then(|| rng.millis(300, 6_000)),
                talk: rng.between(200, 8_000),
                callee_hangs_up: rng.chance(500),
                reinvite: rng.chance(250),
                padding: if rng.chance(150) { 1_400 } else { 0 },
            };
            let right = self.outcomes(&spec);
            let at = Time::from_millis(rng.between(15_000, 75_000));
            self.calls.push(Planned { at, phone, what: spec, right });
        }
        for _ in 0..rng.between(1, 4) {
            let phone = rng.index(self.phones.len() - 1);
            let Some(callee) = self.somebody(rng, phone) else { continue };
            let method = rng.pick(&["OPTIONS", "MESSAGE"], "OPTIONS");
            let right = self.answers(&callee);
            let at = Time::from_millis(rng.between(15_000, 75_000));
            self.asks.push(Planned { at, phone, what: (method, callee), right });
        }
    }

    /// Somebody to call: another user's address-of-record.
    fn somebody(&self, rng: &mut Rng, phone: usize) -> Option<String> {
        let own = self.phones.get(phone)?.aor();
        let site = &self.sites[rng.index(self.sites.len())];
        match rng.below(20) {
            0 => Some(format!("off@{}", site.domain)),
            1 => Some(format!("nobody@{}", site.domain)),
            _ => {
                let others: Vec<String> = self.phones[..self.phones.len() - 1]
                    .iter()
                    .map(Profile::aor)
                    .filter(|a| *a != own)
                    .collect();
                others.get(rng.index(others.len())).cloned()
            }
        }
    }

    fn manners(&self, aor: &str) -> Vec<Manner> {
        self.phones.iter().filter(|p| p.registers && p.aor() == aor).map(|p| p.manner).collect()
    }

    /// Whether all phones of a user ring at once.
    pub fn rings_all(&self, aor: &str) -> bool {
        let mut qs = self.phones.iter().filter(|p| p.registers && p.aor() == aor).map(|p| p.q);
        let first = qs.next();
        qs.all(|q| Some(q) == first)
            && self.sites.iter().any(|s| s.parallel && aor.ends_with(&format!("@{}", s.domain)))
    }

    fn voicemail_of(&self, aor: &str) -> bool {
        self.sites.iter().any(|s| s.voicemail && aor.ends_with(&format!("@{}", s.domain)))
    }

    /// How a call may rightly end when nothing is lost.
    fn outcomes(&self, spec: &CallSpec) -> Vec<Final> {
        let manners = self.manners(&spec.callee);
        let has = |m: Manner| manners.contains(&m);
        let answers = manners.iter().any(|m| matches!(m, Manner::Answers(_)));
        let voicemail = self.voicemail_of(&spec.callee);
        if spec.callee.starts_with("nobody@") {
            return [404, 480].map(Final::Status).to_vec();
        }
        let mut right = Vec::new();
        if voicemail || answers {
            right.push(200);
        }
        if !voicemail {
            if manners.is_empty() {
                right.push(480);
            }
            if has(Manner::Declines) {
                right.push(603);
            } else if !answers {
                for (manner, statuses) in [
                    (Manner::Busy, &[486u16][..]),
                    (Manner::Away, &[480]),
                    (Manner::Rings, &[408, 487]),
                    // 500: the other address of its Contact was refused.
                    (Manner::Silent, &[408, 500]),
                ] {
                    if has(manner) {
                        right.extend_from_slice(statuses);
                    }
                }
            }
        }
        let crossing = (answers || has(Manner::Declines)) && has(Manner::Rings);
        if spec.patience.is_some() || crossing && !voicemail && !self.rings_all(&spec.callee) {
            // Who cancels may be too late, or too early for the phones to have said anything. And where
            // one phone's timer C makes the next one ring, callers and servers before may be tired.
            right.extend([487, 408]);
            right.extend(manners.iter().filter_map(|m| match m {
                Manner::Busy => Some(486),
                Manner::Away => Some(480),
                Manner::Declines => Some(603),
                _ => None,
            }));
        }
        right.into_iter().map(Final::Status).collect()
    }

    /// How a question may rightly end when nothing is lost.
    fn answers(&self, aor: &str) -> Vec<Final> {
        let manners = self.manners(aor);
        if aor.starts_with("nobody@") {
            return [404, 480].map(Final::Status).to_vec();
        }
        if manners.is_empty() {
            return vec![Final::Status(480)];
        }
        if manners.iter().all(|m| *m == Manner::Silent) {
            // RFC 4320: nobody says 408.
            return vec![Final::Timeout];
        }
        let mut right = vec![Final::Status(200)];
        if manners.contains(&Manner::Silent) {
            // One after the other, the silent one uses the time up (timer F).
            right.push(Final::Timeout);
        }
        right
    }

    fn plan_faults(&mut self, rng: &mut Rng) {
        let sites = self.sites.len();
        if rng.chance(300) {
            for _ in 0..rng.between(1, 3) {
                let at = Time::from_millis(rng.between(5_000, 100_000));
                let fault = Fault::Reload { site: rng.index(sites), revision: rng.below(8) as u8 };
                self.faults.push((at, fault));
            }
        }
        if rng.chance(300) {
            let at = Time::from_millis(rng.between(5_000, 100_000));
            self.faults.push((at, Fault::Clock(rng.pick(&[-3_600, -30, 30, 3_600], 3_600))));
        }
        if self.weather != Weather::Stormy {
            return;
        }
        for _ in 0..rng.between(1, 6) {
            let at = Time::from_millis(rng.between(3_000, 105_000));
            let site = rng.index(sites);
            let fault = match rng.below(10) {
                0..=2 => Fault::Crash { site, down: rng.millis(10, 8_000) },
                3 => Fault::Cut { ip: self.sites[site].address.ip(), length: rng.millis(100, 40_000) },
                4 => {
                    let phone = &self.phones[rng.index(self.phones.len())];
                    Fault::Cut { ip: phone.network.ip(), length: rng.millis(100, 40_000) }
                }
                5 => Fault::Streams { site },
                6 => Fault::Store { site, length: rng.millis(100, 10_000) },
                7 => Fault::Names { length: rng.millis(100, 20_000) },
                8 => Fault::Drain { site },
                _ => Fault::Clock(rng.pick(&[-3_600, -5, 5, 3_600], 5)),
            };
            self.faults.push((at, fault));
            if let Fault::Drain { site } = fault {
                // Who drains is about to be restarted.
                let later = at + rng.millis(500, 20_000);
                self.faults.push((later, Fault::Crash { site, down: rng.millis(10, 2_000) }));
            }
        }
    }
}

/// Without copies and without an answer a callee is not found. In quiet weather the server has copies.
fn location(rng: &mut Rng, weather: Weather) -> Location {
    match rng.below(10) {
        0..=5 => Location::Here,
        6..=7 => Location::Punctual,
        _ => Location::Late { copies: weather == Weather::Quiet || rng.chance(500) },
    }
}

fn net(rng: &mut Rng, weather: Weather) -> Net {
    let high_ms = rng.between(2, 60);
    let loss = match weather {
        Weather::Quiet => 0,
        Weather::Lossy => rng.between(10, 300),
        Weather::Stormy => rng.pick(&[0, 20, 100], 0),
    };
    Net {
        loss,
        duplicate: rng.pick(&[0, 0, 20, 150], 0),
        low_ms: 1,
        high_ms,
        late: rng.pick(&[0, 0, 30, 200], 0),
        late_ms: rng.between(20, if weather == Weather::Quiet { 150 } else { 900 }),
    }
}

fn sites(rng: &mut Rng, record_route: bool) -> Vec<SiteSpec> {
    let count = rng.between(1, 3) as usize;
    let address = |i: usize| SocketAddr::new(Ipv4Addr::new(192, 0, 2, 10 + i as u8).into(), 5060);
    let domain = |i: usize| format!("{}.test", ["a", "b", "c"][i]);
    // In a row: each knows its neighbours as trunks. Otherwise they find each other by name.
    let row = count > 1 && rng.chance(500);
    let algorithm = rng.pick(&[Algorithm::Md5, Algorithm::Md5, Algorithm::Sha256], Algorithm::Md5);
    (0..count)
        .map(|i| {
            let mut trunks = Vec::new();
            // One for each domain: a trunk puts its target's domain into the Request-URI.
            for other in (0..count).filter(|&other| row && other != i) {
                let neighbour = address(if other < i { i - 1 } else { i + 1 });
                trunks.push(TrunkSpec { neighbour, domain: domain(other) });
            }
            let mut secret = [0; 16];
            secret.iter_mut().for_each(|b| *b = rng.next() as u8);
            SiteSpec {
                address: address(i),
                domain: domain(i),
                workers: rng.between(1, 3) as u16,
                record_route,
                parallel: rng.chance(500),
                voicemail: rng.chance(400),
                trunks,
                algorithm,
                transit: true,
                commit_ms: rng.between(20, 900),
                secret,
                room: ROOM,
            }
        })
        .collect()
}

/// The phones, and voicemail as the last of them.
fn phones(rng: &mut Rng, sites: &[SiteSpec], direct: bool) -> Vec<Profile> {
    let mut phones = Vec::new();
    for site in sites {
        for user in ["alice", "bob", "carol"].iter().take(rng.between(2, 3) as usize) {
            let count = [1, 1, 1, 2, 3][rng.index(5)];
            for _ in 0..count {
                let number = 10 + phones.len() as u8;
                phones.push(phone(rng, site, user, number, direct));
            }
        }
    }
    let [a, b, c] = PUBLIC;
    let address = SocketAddr::new(Ipv4Addr::new(a, b, c, 200).into(), 5060);
    phones.push(Profile {
        user: "vm".into(),
        domain: "voicemail.test".into(),
        password: String::new(),
        algorithm: Algorithm::Md5,
        transport: Transport::Udp,
        network: address,
        claimed: address,
        rport: true,
        translation: None,
        keepalive: None,
        home: sites[0].address,
        manner: Manner::Answers(50),
        registers: false,
        expires: 0,
        q: 1000,
        eager: false,
        leaves: false,
    });
    phones
}

fn phone(rng: &mut Rng, site: &SiteSpec, user: &str, number: u8, direct: bool) -> Profile {
    let [a, b, c] = PUBLIC;
    let public: IpAddr = Ipv4Addr::new(a, b, c, number).into();
    let stream = if number.is_multiple_of(2) { Transport::Tcp } else { Transport::Tls };
    let transport = if !direct && rng.chance(250) { stream } else { Transport::Udp };
    let home = if transport == Transport::Tls { secure(site.address) } else { site.address };
    let natted = !direct && rng.chance(250);
    // The rest is drawn by `plan_translations`.
    let idle = END.since(Time::ZERO);
    let translation =
        (natted && transport == Transport::Udp).then_some(Translation { kind: Kind::Symmetric, idle });
    let claimed = match natted {
        true => SocketAddr::new(Ipv4Addr::new(192, 168, 1, number).into(), 5060),
        false => SocketAddr::new(public, 5060),
    };
    let network = if natted { SocketAddr::new(public, 40_000 + u16::from(number)) } else { claimed };
    let manner = match rng.below(12) {
        0..=6 => Manner::Answers(rng.between(0, 4_000)),
        7 => Manner::Busy,
        8 => Manner::Declines,
        9 => Manner::Away,
        10 => Manner::Rings,
        _ => Manner::Silent,
    };
    Profile {
        user: user.into(),
        domain: site.domain.clone(),
        password: format!("secret of {user}"),
        algorithm: site.algorithm,
        transport,
        network,
        claimed,
        rport: if natted { !number.is_multiple_of(5) } else { rng.chance(500) },
        translation,
        keepalive: None,
        home,
        manner,
        registers: true,
        expires: rng.pick(&[30, 60, 75, 90, 120], 60),
        q: rng.pick(&[1000, 1000, 500], 1000) as u32,
        eager: rng.chance(500),
        leaves: rng.chance(300),
    }
}

impl Scenario {
    /// Other weather than the seed's own.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
        if weather == Weather::Quiet {
            if let Location::Late { copies } = &mut self.location {
                *copies = true;
            }
            (self.net.loss, self.net.late_ms) = (0, self.net.late_ms.min(150));
            self.sites.iter_mut().for_each(|s| s.room = ROOM);
            self.faults
                .retain(|(_, f)| matches!(f, Fault::Reload { .. } | Fault::Clock(_) | Fault::Rebind { .. }));
        }
    }
}
