//! SIP back ends whose capacity is modelled: what a load balancer can be measured with on a machine that
//! could never run as many real servers.
//!
//! Each listening address is a server. It answers calls (180 and 200, 200 to BYE and to anything else, 487 to
//! what is cancelled), and every request but ACK and CANCEL needs time on its processor, which is not a real
//! one: a [`Station`] says when it would be done, and the responses leave then. So ten of them take little
//! more of the machine than their messages do.
//!
//! Requests that find no room are refused with 503; nothing is remembered of them (RFC 3261 section 8.2.7).

mod processor;
mod report;
mod station;
#[cfg(test)]
mod tests;
mod transactions;

pub use processor::Processor;
pub use report::{BackendReport, Found, MOST_FOUND, NodeReport};
pub use station::{Kind, Model, Station};

use crate::metrics::Hist;
use crate::timers::{GIVE_UP, T1, T2, T4};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Index, Limits, Message, Method, Name, Parsed, Response, parse, reason_phrase};
use transactions::{State, Ticket, Transactions};
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Generator, Machine, Outbox, Time, Transport};

/// An INVITE without a response for so long gets a 100 (RFC 3261 section 17.2.1).
const TRYING_AFTER: Duration = Duration::from_millis(200);
/// What every response ends with that `Response::write` makes.
const END: &[u8] = b"Content-Length: 0\r\n\r\n";

/// What other threads tell back ends.
pub enum Notice {
    /// Say what has been done, by calling this once.
    Report(Box<dyn FnOnce(BackendReport) + Send>),
}

/// What a server works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    /// A request.
    New(Ticket),
    /// One that has come before: where its response goes.
    Again(Ticket),
}

/// One server.
struct Node {
    address: SocketAddr,
    /// Where it is reached over streams.
    streams: SocketAddr,
    station: Station<Job>,
    counts: NodeReport,
    /// Sums of times from arrival to end, seconds: of INVITEs, and of all others.
    sums: [f64; 2],
}

/// The machine of all back ends of a program.
pub struct Backend {
    nodes: Vec<Node>,
    start: Time,
    transactions: Transactions,
    late: Hist,
    garbage: u64,
    index: Option<Box<Index>>,
    /// For header lines under way.
    scratch: Vec<u8>,
}

impl Backend {
    /// Idle back ends at these addresses, in order. Listener `n`, and `n` plus their number, are of back end
    /// `n`: one for datagrams and one for streams, say.
    pub fn new(backends: &[(SocketAddr, Model)], seed: u64, start: Time) -> Backend {
        let node = |(nth, (address, model)): (usize, &(SocketAddr, Model))| Node {
            address: *address,
            streams: *address,
            station: Station::new(*model, seed, nth as u64),
            counts: NodeReport {
                address: address.to_string(),
                capacity: model.capacity,
                ..NodeReport::default()
            },
            sums: [0.0; 2],
        };
        Backend {
            nodes: backends.iter().enumerate().map(node).collect(),
            start,
            transactions: Transactions::new(seed, start),
            late: Hist::new(),
            garbage: 0,
            index: Some(Box::new(Index::new())),
            scratch: Vec::new(),
        }
    }

    /// The same back ends, reached over streams at these addresses.
    pub fn with_streams(mut self, addresses: impl Iterator<Item = SocketAddr>) -> Backend {
        self.nodes.iter_mut().zip(addresses).for_each(|(node, address)| node.streams = address);
        self
    }

    /// What has been done until now.
    pub fn report(&self, now: Time) -> BackendReport {
        let node = |node: &Node| {
            let counts = node.counts.clone();
            let others = (counts.byes + counts.others).max(1);
            NodeReport {
                invite_seconds: node.sums[0] / counts.invites.max(1) as f64,
                other_seconds: node.sums[1] / others as f64,
                busy_seconds: node.station.processor().busy(),
                ..counts
            }
        };
        let mut report = BackendReport {
            nodes: self.nodes.iter().map(node).collect(),
            seconds: self.seconds(now),
            dialogs: self.transactions.dialogs() as u64,
            forgotten: self.transactions.forgotten,
            garbage: self.garbage,
            ..BackendReport::default()
        };
        report.late(&self.late);
        report
    }

    /// Transactions and dialogs remembered.
    pub fn remembered(&self) -> (usize, usize) {
        (self.transactions.len(), self.transactions.dialogs())
    }

    fn seconds(&self, now: Time) -> f64 {
        now.since(self.start).as_secs_f64()
    }

    /// Answers what a back end has done until `until`.
    fn finish(&mut self, now: Time, until: Time, at: usize, out: &mut Outbox) {
        let until = self.seconds(until);
        while let Some((done, job)) = self.nodes.get_mut(at).and_then(|node| node.station.pop(until)) {
            self.late.record(((self.seconds(now) - done).max(0.0) * 1e6) as u64);
            match job {
                Job::New(ticket) => self.done(now, done, ticket, out),
                Job::Again(ticket) => self.say_again(ticket, out),
            }
        }
    }

    /// A request has been worked on to its end.
    fn done(&mut self, now: Time, done: f64, ticket: Ticket, out: &mut Outbox) {
        let start = self.start;
        let Some(one) = self.transactions.get(ticket) else { return };
        let (at, dialog, invite, bye, found) = (one.node, one.dialog, one.invite, one.bye, one.found);
        let took = done - one.came.since(start).as_secs_f64();
        let reliable = one.flow.transport.is_reliable();
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.sums[usize::from(!invite)] += took.max(0.0);
        node.counts.count_found(found, took.max(0.0));
        match (invite, bye) {
            (true, _) => node.counts.invites += 1,
            (_, true) => node.counts.byes += 1,
            _ => node.counts.others += 1,
        }
        let contact = node.contact(one.flow.transport);
        if invite {
            if !one.inside {
                one.send(180, |out| contact.write(out), out);
            }
            one.answer(now, 200, &contact, out);
            self.transactions.wake(ticket, now + T1);
            self.transactions.dialog_up(dialog, ticket);
            return;
        }
        one.send(200, |out| contact.write(out), out);
        one.status = 200;
        if bye {
            self.settle(dialog);
            self.transactions.dialog_over(dialog);
        }
        self.transactions.over(ticket, (!reliable).then_some(now + GIVE_UP));
    }

    /// Who hangs up has heard the answer to his INVITE. It is not repeated any more, though its ACK has been
    /// lost or is still on its way.
    fn settle(&mut self, dialog: u128) {
        let Some(invite) = self.transactions.dialog(dialog) else { return };
        if let Some(State::Answered { since, .. }) = self.transactions.get(invite).map(|one| one.state) {
            self.transactions.over(invite, Some(since + GIVE_UP));
        }
    }

    fn request(&mut self, now: Time, came: Time, flow: Flow, message: &Message<'_>, out: &mut Outbox) {
        let at = usize::from(flow.listener.0) % self.nodes.len().max(1);
        self.finish(now, came, at, out);
        let key = self.transactions.names.transaction(at, message);
        let known = self.transactions.find(key);
        match (message.method(), known) {
            (Method::Ack, _) => self.acknowledged(now, at, known, message),
            (Method::Cancel, _) => self.cancel(now, came, (at, flow), known, message, out),
            (_, Some(ticket)) => self.repeated(came, at, ticket, out),
            (_, None) => self.begin(now, came, (at, flow), key, message, out),
        }
    }

    /// A request that has not been seen before.
    fn begin(
        &mut self,
        now: Time,
        came: Time,
        (at, flow): (usize, Flow),
        key: u128,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let (dialog, tag) = self.transactions.names.dialog(at, message);
        let (invite, bye) = (message.method() == Method::Invite, message.method() == Method::Bye);
        let inside = !message.to_tag().is_empty();
        let known = message.to_tag() == tag && self.transactions.dialog(dialog).is_some();
        if (inside && !known) || (bye && !inside) {
            return self.refuse(at, flow, message, (481, |counts| &mut counts.unknown), out);
        }
        let begins = invite && !inside;
        let copies = if begins { self.transactions.names.copies(dialog, message) } else { 0 };
        if begins && self.transactions.has_copy(copies) {
            return self.refuse(at, flow, message, (482, |counts| &mut counts.merged), out);
        }
        self.transactions.forget(now);
        let room = self.transactions.has_room(begins);
        let begun = || self.transactions.begin(key, dialog, at, back(flow, message), came);
        let Some(ticket) = room.then(begun).flatten() else {
            return self.refuse(at, flow, message, (503, |counts| &mut counts.full), out);
        };
        let seconds = self.seconds(came);
        let kind = if invite { Kind::Invite } else { Kind::Other };
        let Some(node) = self.nodes.get_mut(at) else { return };
        let found = u32::try_from(node.station.processor().len()).unwrap_or(u32::MAX);
        if node.station.offer(seconds, kind, Job::New(ticket)).is_err() {
            self.transactions.end(ticket);
            return self.refuse(at, flow, message, (503, |counts| &mut counts.refused), out);
        }
        node.counts.most = node.counts.most.max(node.station.processor().len() as u64);
        let Some(one) = self.transactions.get(ticket) else { return };
        (one.cseq, one.invite, one.bye, one.inside) = (message.cseq(), invite, bye, inside);
        one.found = found;
        headers(message, flow, &tag, &mut self.scratch, &mut one.text);
        if begins {
            self.transactions.set_copies(ticket, copies);
        }
        if invite {
            self.transactions.wake(ticket, now + TRYING_AFTER);
        }
        if bye {
            self.settle(dialog);
        }
    }

    /// Refuses a request, counts it, and remembers nothing of it. One who stands still says nothing.
    fn refuse(
        &mut self,
        at: usize,
        flow: Flow,
        message: &Message<'_>,
        (status, count): (u16, fn(&mut NodeReport) -> &mut u64),
        out: &mut Outbox,
    ) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.station.is_stalled() {
            node.counts.lost += 1;
            return;
        }
        *count(&mut node.counts) += 1;
        self.respond(at, flow, message, status, out);
    }

    /// Answers with what follows from the request alone.
    fn respond(&self, at: usize, flow: Flow, message: &Message<'_>, status: u16, out: &mut Outbox) {
        let (_, tag) = self.transactions.names.dialog(at, message);
        let source = Some((flow.remote, true));
        out.send_with(back(flow, message), 0, |out| {
            Response { tag: &tag, source, ..Response::new(status) }.write(message, out);
        });
    }

    /// A request that came again. It may cost something before it is answered.
    fn repeated(&mut self, came: Time, at: usize, ticket: Ticket, out: &mut Outbox) {
        let seconds = self.seconds(came);
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.counts.repeated += 1;
        if node.station.model().repeat_cost > 0.0 {
            let taken = node.station.offer(seconds, Kind::Repeat, Job::Again(ticket));
            node.counts.lost += u64::from(taken.is_err());
        } else if !node.station.is_stalled() {
            self.say_again(ticket, out);
        }
    }

    /// Says what has been said to a request (RFC 3261 sections 17.2.1 and 17.2.2).
    fn say_again(&mut self, ticket: Ticket, out: &mut Outbox) {
        let Some(one) = self.transactions.get(ticket) else { return };
        match one.state {
            State::Working { trying: true } => one.send(100, |_| {}, out),
            State::Working { trying: false } => {}
            State::Answered { .. } => {
                out.send(one.flow, 0, &one.text);
            }
            State::Over if !one.invite => one.send(one.status, |_| {}, out),
            State::Over => {}
        }
    }

    /// An ACK: of a failure by its transaction, of a 2xx by its dialog.
    fn acknowledged(&mut self, now: Time, at: usize, known: Option<Ticket>, message: &Message<'_>) {
        let (dialog, tag) = self.transactions.names.dialog(at, message);
        let by_dialog = || (message.to_tag() == tag).then(|| self.transactions.dialog(dialog)).flatten();
        let Some(ticket) = known.or_else(by_dialog) else { return };
        // One of an INVITE before is late (RFC 3261 section 13.2.2.4).
        let Some(one) = self.transactions.get(ticket).filter(|one| one.cseq == message.cseq()) else {
            return;
        };
        let State::Answered { since, .. } = one.state else { return };
        let (failed, reliable) = (one.status >= 300, one.flow.transport.is_reliable());
        let until = if failed { now + T4 } else { since + GIVE_UP };
        self.transactions.over(ticket, (!failed || !reliable).then_some(until));
    }

    fn cancel(
        &mut self,
        now: Time,
        came: Time,
        (at, flow): (usize, Flow),
        known: Option<Ticket>,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let seconds = self.seconds(came);
        let Some(node) = self.nodes.get_mut(at) else { return };
        let Some(ticket) = known else {
            return self.refuse(at, flow, message, (481, |counts| &mut counts.unknown), out);
        };
        if node.station.is_stalled() {
            node.counts.lost += 1;
            return;
        }
        let withdrawn = node.station.withdraw(seconds, |other| *other == Job::New(ticket)).is_some();
        node.counts.cancelled += u64::from(withdrawn);
        self.respond(at, flow, message, 200, out);
        let Some(one) = self.transactions.get(ticket).filter(|_| withdrawn) else { return };
        let Some(node) = self.nodes.get(at) else { return };
        one.answer(now, 487, &node.contact(one.flow.transport), out);
        // Timer G is for transports that lose (RFC 3261 section 17.2.1).
        let again = if one.flow.transport.is_reliable() { GIVE_UP } else { T1 };
        self.transactions.wake(ticket, now + again);
    }

    /// A transaction's time has come.
    fn due(&mut self, now: Time, ticket: Ticket, out: &mut Outbox) {
        let Some(one) = self.transactions.get(ticket) else { return };
        let station = self.nodes.get(one.node).map(|node| &node.station);
        // When it may say something again, if it stands still.
        let stalled = station.and_then(Station::resumes).map(|at| self.start + after(at + 1e-6));
        if let Some(resumes) = stalled.filter(|_| !one.is_given_up(now) && one.state != State::Over) {
            return self.transactions.wake(ticket, resumes.max(now + Duration::from_millis(1)));
        }
        match one.state {
            State::Working { .. } => {
                one.send(100, |_| {}, out);
                one.state = State::Working { trying: true };
            }
            State::Answered { .. } if one.is_given_up(now) => {
                // Nobody acknowledges it: the dialog that it made, or was the last INVITE of, is over (RFC
                // 3261 section 13.3.1.4). A refusal in a dialog leaves that as it was.
                let dialog = one.dialog;
                self.transactions.end(ticket);
                if self.transactions.dialog(dialog) == Some(ticket) {
                    self.transactions.dialog_over(dialog);
                }
            }
            State::Answered { since, interval } => {
                out.send(one.flow, 0, &one.text);
                let interval = (interval * 2).min(T2);
                one.state = State::Answered { since, interval };
                self.transactions.wake(ticket, now + interval);
            }
            State::Over => self.transactions.end(ticket),
        }
    }

    fn message(&mut self, now: Time, came: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let mut index = self.index.take().unwrap_or_default();
        match parse(bytes, &mut index, &Limits::default()) {
            Parsed::Good(message) if message.is_request() => self.request(now, came, flow, &message, out),
            Parsed::Good(_) | Parsed::Bad(..) | Parsed::Garbage(_) => self.garbage += 1,
        }
        self.index = Some(index);
    }
}

impl Node {
    /// Where it is reached over this transport.
    fn contact(&self, transport: Transport) -> Contact {
        Contact(if transport == Transport::Udp { self.address } else { self.streams }, transport)
    }
}

impl transactions::Transaction {
    /// Whether its final response was repeated for long enough.
    fn is_given_up(&self, now: Time) -> bool {
        matches!(self.state, State::Answered { since, .. } if now.since(since) >= GIVE_UP)
    }

    /// Sends a response of no body.
    fn send(&self, status: u16, more: impl FnOnce(&mut Vec<u8>), out: &mut Outbox) {
        out.send_with(self.flow, 0, |out| {
            status_line(status, out);
            out.extend_from_slice(&self.text);
            more(out);
            out.extend_from_slice(END);
        });
    }

    /// Sends the final response of an INVITE, and keeps it to send it again.
    fn answer(&mut self, now: Time, status: u16, contact: &Contact, out: &mut Outbox) {
        let range = out.send_with(self.flow, 0, |out| {
            status_line(status, out);
            out.extend_from_slice(&self.text);
            match status < 300 {
                true => contact.write_with_body(out),
                false => {
                    contact.write(out);
                    out.extend_from_slice(END);
                }
            }
        });
        self.text.clear();
        self.text.extend_from_slice(&out.bytes()[range]);
        (self.status, self.state) = (status, State::Answered { since: now, interval: T1 });
    }
}

fn status_line(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SIP/2.0 ");
    sip_message::push_u64(status.into(), out);
    out.push(b' ');
    out.extend_from_slice(reason_phrase(status));
    out.extend_from_slice(b"\r\n");
}

/// Where a back end is reached, over this transport.
struct Contact(SocketAddr, Transport);

impl Contact {
    fn write(&self, out: &mut Vec<u8>) {
        let transport = if self.1 == Transport::Udp { "" } else { ";transport=tcp" };
        out.extend_from_slice(format!("Contact: <sip:{}{transport}>\r\n", self.0).as_bytes());
    }

    /// With an answer to an offer (RFC 3264), or the offer where the INVITE had none (RFC 3261 section
    /// 13.2.1): one stream that nobody listens to.
    fn write_with_body(&self, out: &mut Vec<u8>) {
        let ip = self.0.ip();
        let version = if ip.is_ipv4() { 4 } else { 6 };
        let body = format!(
            "v=0\r\no=backend 1 1 IN IP{version} {ip}\r\ns=-\r\nc=IN IP{version} {ip}\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n"
        );
        self.write(out);
        let head = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n", body.len());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
    }
}

/// Header lines that all responses to a request have: Via, From, To with our tag, Call-ID, CSeq, and the
/// route of the dialog (RFC 3261 sections 8.2.6.2 and 12.1.1).
fn headers(message: &Message<'_>, flow: Flow, tag: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut routes = Vec::new();
    for header in message.headers(Name::RecordRoute) {
        routes.extend_from_slice(b"Record-Route: ");
        routes.extend_from_slice(header.value);
        routes.extend_from_slice(b"\r\n");
    }
    scratch.clear();
    Response { tag, source: Some((flow.remote, true)), extra: &routes, ..Response::new(200) }
        .write(message, scratch);
    let begin = scratch.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let end = scratch.len() - END.len();
    out.clear();
    out.extend_from_slice(scratch.get(begin..end).unwrap_or_default());
}

fn after(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Where responses go (RFC 3261 section 18.2.2, RFC 3581 section 4).
fn back(flow: Flow, message: &Message<'_>) -> Flow {
    let via = message.via();
    if flow.transport.is_reliable() || via.rport.is_some() {
        return flow;
    }
    Flow { remote: SocketAddr::new(flow.remote.ip(), via.port_or_default()), ..flow }
}

impl Machine for Backend {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &Limits::default())
    }

    /// Whoever gets it: back ends are of one worker.
    fn owner(&self, _message: &[u8], _workers: u16) -> Option<u16> {
        None
    }

    /// The model counts from when it came.
    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        let Arrival { now, at, flow, message, .. } = arrival;
        self.message(now, at.map_or(now, |at| at.max(self.start)), flow, message, out);
        None
    }

    fn refuse(&mut self, _now: Time, _flow: Flow, _head: &[u8], _error: FrameError, _out: &mut Outbox) {
        self.garbage += 1;
    }

    fn disconnected(&mut self, _now: Time, _conn: ConnId, _out: &mut Outbox) {}

    fn undeliverable(&mut self, _now: Time, _token: u64, _out: &mut Outbox) {}

    fn notice(&mut self, now: Time, notice: Notice, _out: &mut Outbox) {
        match notice {
            Notice::Report(take) => take(self.report(now)),
        }
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        for at in 0..self.nodes.len() {
            self.finish(now, now, at, out);
        }
        while let Some(ticket) = self.transactions.due(now) {
            self.due(now, ticket, out);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let works = self.nodes.iter().filter_map(|node| node.station.next());
        // A microsecond later, so that it has come when the time of it has.
        let work = works.min_by(f64::total_cmp).map(|at| self.start + after(at + 1e-6));
        work.into_iter().chain(self.transactions.next()).min()
    }
}

impl Generator for Backend {}
