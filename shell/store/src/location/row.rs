//! One binding as a row of the `location` table, and back.

use std::net::{IpAddr, SocketAddr};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, params};
use sip_registrar::{Change, Record};
use wire::{Flow, ListenerId, Transport};

use crate::clock::ClockPair;

/// The columns in the order of [`read`] and [`PUT`].
pub(crate) const COLUMNS: &str = "username, domain, contact, instance, reg_id, received, path, expires, q, \
    callid, cseq, last_modified, user_agent, socket, params";

/// Inserts a binding or replaces the one with its key.
pub(crate) const PUT: &str = "INSERT OR REPLACE INTO location (username, domain, contact, instance, reg_id,
    received, path, expires, q, callid, cseq, last_modified, user_agent, socket, params)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/// Removes a binding if it is there.
pub(crate) const DELETE: &str = "DELETE FROM location
    WHERE username = ?1 AND domain = ?2 AND contact = ?3 AND instance = ?4 AND reg_id = ?5";

/// The key of a binding, borrowed from a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) aor: &'a [u8],
    pub(crate) contact: &'a [u8],
    pub(crate) instance: &'a [u8],
    pub(crate) reg_id: u32,
}

/// The key that a change is about.
pub(crate) fn key_of(change: &Change) -> Key<'_> {
    match change {
        Change::Put(r) => Key { aor: &r.aor, contact: &r.contact, instance: &r.instance, reg_id: r.reg_id },
        Change::Delete { aor, contact, instance, reg_id } => Key { aor, contact, instance, reg_id: *reg_id },
    }
}

/// Text where it is text. What is not UTF-8 or holds a NUL is stored as a blob: SQLite keeps either,
/// but other tools choke on such text.
fn sql(bytes: &[u8]) -> ToSqlOutput<'_> {
    // Nearly all is ASCII, and without an early way out that is seen many bytes at a time.
    let ascii = bytes.iter().fold(true, |ascii, byte| ascii & (1..0x80).contains(byte));
    let text = ascii || (std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0));
    ToSqlOutput::Borrowed(if text { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) })
}

/// User name and domain of an address of record; one without `@` is all domain.
pub(crate) fn split_aor(aor: &[u8]) -> (&[u8], &[u8]) {
    match aor.iter().rposition(|byte| *byte == b'@') {
        Some(at) => (aor.get(..at).unwrap_or_default(), aor.get(at + 1..).unwrap_or_default()),
        None => (&[], aor),
    }
}

/// The address of record that [`split_aor`] took apart.
pub(crate) fn join_aor(user: &[u8], domain: &[u8]) -> Box<[u8]> {
    if user.is_empty() { domain.into() } else { [user, b"@", domain].concat().into() }
}

/// Writes the changes of one batch with [`PUT`] and [`DELETE`].
pub(crate) struct Rows<'a, 's> {
    put: &'s mut Statement<'a>,
    delete: &'s mut Statement<'a>,
    /// The binding whose values the parameters of `put` still have, and its domain. Handing a text to
    /// SQLite copies it, and most columns are alike in neighbouring rows.
    bound: Option<(&'s Record, &'s [u8])>,
    /// The names of the listeners.
    sockets: &'s [String],
    clock: ClockPair,
}

impl<'a, 's> Rows<'a, 's> {
    /// `put` and `delete` are statements that have not been used since they were prepared.
    pub(crate) fn new(
        put: &'s mut Statement<'a>,
        delete: &'s mut Statement<'a>,
        sockets: &'s [String],
        clock: ClockPair,
    ) -> Rows<'a, 's> {
        Rows { put, delete, bound: None, sockets, clock }
    }

    /// Writes one change.
    pub(crate) fn write(&mut self, change: &'s Change) -> rusqlite::Result<()> {
        match change {
            Change::Put(record) => {
                self.bind(record)?;
                self.put.raw_execute()?;
            }
            Change::Delete { aor, contact, instance, reg_id } => {
                let (user, domain) = split_aor(aor);
                self.delete.execute(params![sql(user), sql(domain), sql(contact), sql(instance), reg_id])?;
            }
        }
        Ok(())
    }

    /// Gives `put` the values of a binding that are not there yet.
    fn bind(&mut self, r: &'s Record) -> rusqlite::Result<()> {
        // Should one of them fail, the next row starts afresh.
        let last = self.bound.take();
        let put = &mut *self.put;
        let (user, domain) = split_aor(&r.aor);
        // Of two bindings in a row, these are hardly ever alike.
        put.raw_bind_parameter(1, sql(user))?;
        put.raw_bind_parameter(3, sql(&r.contact))?;
        if last.is_none_or(|(_, last)| last != domain) {
            put.raw_bind_parameter(2, sql(domain))?;
        }
        let last = last.map(|(record, _)| record);
        let mut text = |index: usize, value: &[u8], of: fn(&Record) -> &[u8]| {
            if last.is_some_and(|last| of(last) == value) {
                return Ok(());
            }
            put.raw_bind_parameter(index, sql(value))
        };
        text(4, &r.instance, |r| &r.instance)?;
        text(7, &r.path, |r| &r.path)?;
        text(10, &r.call_id, |r| &r.call_id)?;
        text(13, &r.user_agent, |r| &r.user_agent)?;
        text(15, &r.params, |r| &r.params)?;
        put.raw_bind_parameter(5, r.reg_id)?;
        put.raw_bind_parameter(8, self.clock.to_wall_seconds(r.expires))?;
        put.raw_bind_parameter(11, r.cseq)?;
        if last.is_none_or(|last| last.flow != r.flow) {
            put.raw_bind_parameter(6, sql(&received_text(r.flow)))?;
            let socket = self.sockets.get(usize::from(r.flow.listener.0));
            put.raw_bind_parameter(14, socket.map_or("", String::as_str))?;
        }
        if last.is_none_or(|last| last.q != r.q) {
            put.raw_bind_parameter(9, f64::from(r.q) / 1000.0)?;
        }
        if last.is_none() {
            put.raw_bind_parameter(12, self.clock.wall_seconds())?;
        }
        self.bound = Some((r, domain));
        Ok(())
    }
}

/// What became of a row at loading.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// A binding that lives.
    Live(Record),
    /// Its time is over.
    Expired,
    /// It makes no sense, perhaps after editing by hand.
    Bad,
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>, sockets: &[String], clock: ClockPair) -> rusqlite::Result<Loaded> {
    let bytes =
        |index: usize| -> rusqlite::Result<&[u8]> { Ok(row.get_ref(index)?.as_bytes().unwrap_or_default()) };
    let number = |index: usize| -> rusqlite::Result<i64> { Ok(row.get_ref(index)?.as_i64().unwrap_or(-1)) };
    let (expires, written) = (number(7)?, number(11)?);
    let Some(expires) = clock.revive(written, expires) else { return Ok(Loaded::Expired) };
    let (user, domain, contact) = (bytes(0)?, bytes(1)?, bytes(2)?);
    let flow = flow_of(bytes(5)?, bytes(13)?, sockets);
    let (Some(flow), Ok(cseq), Ok(reg_id)) = (flow, u32::try_from(number(10)?), u32::try_from(number(4)?))
    else {
        return Ok(Loaded::Bad);
    };
    if contact.is_empty() || domain.is_empty() {
        return Ok(Loaded::Bad);
    }
    Ok(Loaded::Live(Record {
        aor: join_aor(user, domain),
        contact: contact.into(),
        params: bytes(14)?.into(),
        q: preference(row.get_ref(8)?),
        expires,
        call_id: bytes(9)?.into(),
        cseq,
        flow,
        path: bytes(6)?.into(),
        instance: bytes(3)?.into(),
        reg_id,
        user_agent: bytes(12)?.into(),
    }))
}

/// Thousandths from a number that may have become an integer or be out of range.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000 before")]
fn preference(value: ValueRef<'_>) -> u16 {
    let q = match value {
        ValueRef::Real(q) => q,
        ValueRef::Integer(0) => 0.0,
        _ => 1.0,
    };
    (q * 1000.0).round().clamp(0.0, 1000.0) as u16
}

/// `sip:ADDRESS:PORT;transport=NAME`, as the `received` column of other servers has it.
fn received_text(flow: Flow) -> Vec<u8> {
    let mut text = b"sip:".to_vec();
    match flow.remote {
        // By hand: one for each row, and the usual machinery is slow at it.
        SocketAddr::V4(remote) => {
            for (octet, separator) in remote.ip().octets().into_iter().zip(*b"...:") {
                push_decimal(octet.into(), &mut text);
                text.push(separator);
            }
            push_decimal(remote.port(), &mut text);
        }
        SocketAddr::V6(remote) => text.extend_from_slice(remote.to_string().as_bytes()),
    }
    text.extend_from_slice(b";transport=");
    text.extend_from_slice(flow.transport.uri_name().as_bytes());
    text
}

fn push_decimal(number: u16, text: &mut Vec<u8>) {
    for divisor in [10_000, 1_000, 100, 10] {
        if number >= divisor {
            text.push(b'0' + (number / divisor % 10) as u8);
        }
    }
    text.push(b'0' + (number % 10) as u8);
}

/// A flow from the `received` and `socket` columns. The connection is gone with the process that had
/// it. A socket that is not configured any more becomes the first of the same transport.
fn flow_of(received: &[u8], socket: &[u8], sockets: &[String]) -> Option<Flow> {
    let text = std::str::from_utf8(received).ok()?;
    let text = text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:"))?;
    let (address, transport) = match text.split_once(";transport=") {
        Some((address, name)) => (address, Transport::from_name(name.as_bytes())?),
        None => (text, Transport::Udp),
    };
    let remote = match address.parse::<SocketAddr>() {
        Ok(remote) => remote,
        Err(_) => SocketAddr::new(address.parse::<IpAddr>().ok()?, transport.default_port()),
    };
    let of_transport = |name: &String| name.split(':').next() == Some(transport.uri_name());
    let listener = sockets
        .iter()
        .position(|name| name.as_bytes() == socket)
        .or_else(|| sockets.iter().position(of_transport))
        .and_then(|index| u16::try_from(index).ok())
        .unwrap_or(0);
    Some(Flow { transport, listener: ListenerId(listener), remote, conn: None })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;
    use wire::{ConnId, Time};

    use super::*;

    const CLOCK: ClockPair = ClockPair { monotonic: Time::from_secs(50), wall: 1_700_000_000_000_000 };

    fn sockets() -> Vec<String> {
        ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060", "tcp:[::]:5070"].map(str::to_owned).to_vec()
    }

    fn table() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../schema/0001.sql")).unwrap();
        connection
    }

    fn apply(connection: &Connection, change: &Change) {
        let mut put = connection.prepare(PUT).unwrap();
        let mut delete = connection.prepare(DELETE).unwrap();
        Rows::new(&mut put, &mut delete, &sockets(), CLOCK).write(change).unwrap();
    }

    fn load(connection: &Connection, clock: ClockPair) -> Vec<Loaded> {
        let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM location")).unwrap();
        let rows = statement.query_map([], |row| read(row, &sockets(), clock)).unwrap();
        rows.map(|row| row.unwrap()).collect()
    }

    /// A binding of `user@example.com`, for tests all over the crate.
    pub(crate) fn record(user: &str, contact: &str, expires: Time) -> Record {
        Record {
            aor: format!("{user}@example.com").into_bytes().into(),
            contact: contact.as_bytes().into(),
            params: b";methods=\"INVITE\""[..].into(),
            q: 700,
            expires,
            call_id: b"call@host"[..].into(),
            cseq: 7,
            flow: Flow {
                transport: Transport::Tcp,
                listener: ListenerId(1),
                remote: "192.0.2.7:40000".parse().unwrap(),
                conn: None,
            },
            path: b"<sip:edge;lr>"[..].into(),
            instance: Box::default(),
            reg_id: 0,
            user_agent: b"Phone/1"[..].into(),
        }
    }

    #[test]
    fn operators_find_what_they_know() {
        let connection = table();
        apply(&connection, &Change::Put(record("bob", "sip:bob@10.0.0.1", Time::from_secs(650))));
        let row: String = connection
            .query_row(
                "SELECT username || '|' || domain || '|' || contact || '|' || received || '|' || socket || '|' ||
                 q || '|' || datetime(expires, 'unixepoch') FROM location WHERE username = 'bob'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(
            row,
            "bob|example.com|sip:bob@10.0.0.1|sip:192.0.2.7:40000;transport=tcp|tcp:0.0.0.0:5060|0.7|2023-11-14 22:23:20"
        );
    }

    /// What a row shares with the one before is not bound again: no value may stay behind.
    #[test]
    fn rows_of_one_batch_keep_their_own_values() {
        let first = record("bob", "sip:bob@10.0.0.1", Time::from_secs(650));
        let mut records = vec![first.clone()];
        let mut add = |change: &dyn Fn(&mut Record)| {
            let mut other = first.clone();
            other.aor = format!("u{}@example.com", records.len()).into_bytes().into();
            change(&mut other);
            records.extend([other, first.clone()]);
        };
        add(&|r| r.aor = b"u@example.net"[..].into());
        add(&|r| r.contact = b"sip:x"[..].into());
        add(&|r| r.params = b""[..].into());
        add(&|r| r.q = 1000);
        add(&|r| r.expires = Time::from_secs(700));
        add(&|r| r.call_id = b"c"[..].into());
        add(&|r| r.cseq = 8);
        add(&|r| r.flow.remote = "192.0.2.255:5".parse().unwrap());
        add(&|r| r.flow.remote = "[2001:db8::1]:65535".parse().unwrap());
        add(&|r| r.flow = Flow::udp(ListenerId(0), "10.100.0.1:10000".parse().unwrap()));
        add(&|r| r.flow.listener = ListenerId(2));
        add(&|r| r.path = b""[..].into());
        add(&|r| r.user_agent = b"a\xff"[..].into());
        let key = |r: &mut Record| (r.instance, r.reg_id) = (b"<urn:x>"[..].into(), 3);
        add(&key);
        let connection = table();
        let names = sockets();
        let (mut put, mut delete) = (connection.prepare(PUT).unwrap(), connection.prepare(DELETE).unwrap());
        let changes: Vec<Change> = records.iter().cloned().map(Change::Put).collect();
        let mut rows = Rows::new(&mut put, &mut delete, &names, CLOCK);
        changes.iter().for_each(|change| rows.write(change).unwrap());
        let mut found: Vec<Record> = load(&connection, CLOCK)
            .into_iter()
            .map(|row| match row {
                Loaded::Live(record) => record,
                other => panic!("{other:?}"),
            })
            .collect();
        let order = |a: &Record, b: &Record| (&a.aor, &a.contact).cmp(&(&b.aor, &b.contact));
        records.sort_by(order);
        records.dedup();
        found.sort_by(order);
        assert_eq!(found, records);
    }

    #[test]
    fn delete_removes_the_key_and_only_it() {
        let connection = table();
        let record = record("bob", "sip:bob@10.0.0.1", Time::from_secs(650));
        let mut other = record.clone();
        other.reg_id = 2;
        apply(&connection, &Change::Put(record.clone()));
        apply(&connection, &Change::Put(other.clone()));
        let (aor, contact, instance) = (record.aor, record.contact, record.instance);
        apply(&connection, &Change::Delete { aor, contact, instance, reg_id: 0 });
        match load(&connection, CLOCK).as_slice() {
            [Loaded::Live(left)] => assert_eq!(*left, other),
            rest => panic!("{rest:?}"),
        }
    }

    #[test]
    fn expired_and_senseless_rows_are_told_apart() {
        let connection = table();
        apply(&connection, &Change::Put(record("bob", "sip:bob@10.0.0.1", Time::from_secs(60))));
        let later = ClockPair { monotonic: Time::from_secs(1), wall: CLOCK.wall + 10_000_000 };
        assert!(matches!(load(&connection, later).as_slice(), [Loaded::Expired]));
        for damage in
            ["received = 'nowhere'", "cseq = -3", "cseq = 'x'", "reg_id = 4294967296", "contact = ''"]
        {
            let connection = table();
            apply(&connection, &Change::Put(record("bob", "sip:bob@10.0.0.1", Time::from_secs(60))));
            connection.execute(&format!("UPDATE location SET {damage}"), []).unwrap();
            assert!(matches!(load(&connection, CLOCK).as_slice(), [Loaded::Bad]), "{damage}");
        }
    }

    #[test]
    fn a_listener_that_is_gone_is_replaced_by_one_of_its_transport() {
        let flow = |received: &str, socket: &str| flow_of(received.as_bytes(), socket.as_bytes(), &sockets());
        assert_eq!(
            flow("sip:[2001:db8::1]:9;transport=tcp", "tcp:[::]:5070").unwrap().listener,
            ListenerId(2)
        );
        assert_eq!(flow("sip:192.0.2.1:9;transport=tcp", "tcp:gone:1").unwrap().listener, ListenerId(1));
        let plain = flow("sip:192.0.2.1", "").unwrap();
        assert_eq!(
            (plain.transport, plain.remote.port(), plain.listener),
            (Transport::Udp, 5060, ListenerId(0))
        );
        assert!(flow("192.0.2.1:5", "").is_none() && flow("sip:host:5;transport=udp", "").is_none());
    }

    fn bytes(length: usize) -> impl Strategy<Value = Box<[u8]>> {
        proptest::collection::vec(any::<u8>(), 0..length).prop_map(Vec::into_boxed_slice)
    }

    prop_compose! {
        fn any_record()(
            user in "[a-z';@\u{e9}]{1,8}", contact in bytes(20), params in bytes(9), q in 0u16..=1000,
            expires in 60u64..1_000_000, call_id in bytes(9), cseq in any::<u32>(), port in 1u16..,
            v6 in any::<[u8; 16]>(), path in bytes(20), instance in bytes(9), reg_id in any::<u32>(),
            user_agent in bytes(9), conn in any::<u64>(),
        ) -> Record {
            let contact = [b"sip:", &contact[..]].concat().into();
            let remote = SocketAddr::new(IpAddr::from(v6), port);
            let conn = Some(ConnId::from_u64(conn));
            let flow = Flow { transport: Transport::Tcp, listener: ListenerId(2), remote, conn };
            let aor = format!("{user}@example.com").into_bytes().into();
            Record { aor, contact, params, q, expires: Time::from_secs(expires), call_id, cseq, flow, path, instance, reg_id, user_agent }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any binding comes back as it was, but for its connection; writing twice changes nothing;
        /// deleting its key removes it, whatever bytes it is made of.
        #[test]
        fn rows_keep_bindings(record in any_record()) {
            let connection = table();
            apply(&connection, &Change::Put(record.clone()));
            apply(&connection, &Change::Put(record.clone()));
            let mut expected = record.clone();
            expected.flow.conn = None;
            match load(&connection, CLOCK).as_slice() {
                [Loaded::Live(back)] => prop_assert_eq!(back, &expected),
                rest => prop_assert!(false, "{:?}", rest),
            }
            let Record { aor, contact, instance, reg_id, .. } = record;
            apply(&connection, &Change::Delete { aor, contact, instance, reg_id });
            prop_assert!(load(&connection, CLOCK).is_empty());
        }
    }
}
