//! One binding as a row of the `location` table, and back.

use std::net::{IpAddr, SocketAddr};

use location::{ClockPair, Key, Put, listener_of, split_aor};
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, Statement, ToSql, params};
use sip_registrar::BindingView;
use wire::{Flow, Transport};

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

/// The columns of the table's key, in their order.
pub(crate) const KEY: &str = "username, domain, contact, instance, reg_id";

/// The key of a row, with whatever stands there.
pub(crate) type RowKey = (Part, Part, Part, Part, Part);

/// A value of a key. Other programs may have written text that is not UTF-8.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Text(Vec<u8>),
    Other(Value),
}

impl FromSql for Part {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Part> {
        match value {
            ValueRef::Text(bytes) => Ok(Part::Text(bytes.to_vec())),
            other => Value::column_result(other).map(Part::Other),
        }
    }
}

impl ToSql for Part {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Part::Text(bytes) => ValueRef::Text(bytes),
            Part::Other(value) => value.into(),
        }))
    }
}

/// Comes before the key of any row. The first four columns hold text or blobs, which come after all text; a
/// number would be made into a text for the comparison (type affinity), and come after some names.
pub(crate) fn first_key() -> RowKey {
    let first = || Part::Text(Vec::new());
    (first(), first(), first(), first(), Part::Other(Value::Integer(i64::MIN)))
}

/// The first columns of a row, which are [`KEY`].
pub(crate) fn read_key(row: &Row<'_>) -> rusqlite::Result<RowKey> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}

/// Text where it is text. What is not UTF-8 or holds a NUL is stored as a blob: SQLite keeps either,
/// but other tools choke on such text.
fn sql(bytes: &[u8]) -> ToSqlOutput<'_> {
    // Nearly all is ASCII, and without an early way out that is seen many bytes at a time.
    let ascii = bytes.iter().fold(true, |ascii, byte| ascii & (1..0x80).contains(byte));
    let text = ascii || (std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0));
    ToSqlOutput::Borrowed(if text { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) })
}

/// Writes rows with [`PUT`] and [`DELETE`].
pub(crate) struct Rows<'a, 's> {
    put: &'s mut Statement<'a>,
    delete: &'s mut Statement<'a>,
    /// What the parameters of `put` still have. Handing a text to SQLite copies it, and most columns are
    /// alike in neighbouring rows.
    bound: Option<Bound<'s>>,
}

/// A binding, its domain and the name of its listener.
#[derive(Clone, Copy)]
struct Bound<'s> {
    binding: Put<'s>,
    domain: &'s [u8],
    socket: &'s [u8],
}

impl<'a, 's> Rows<'a, 's> {
    /// `put` and `delete` are statements that have not been used since they were prepared.
    pub(crate) fn new(put: &'s mut Statement<'a>, delete: &'s mut Statement<'a>) -> Rows<'a, 's> {
        Rows { put, delete, bound: None }
    }

    /// Inserts or replaces a binding; `socket` is the name of its listener.
    pub(crate) fn put(&mut self, binding: Put<'s>, socket: &'s [u8]) -> rusqlite::Result<()> {
        self.bind(binding, socket)?;
        self.put.raw_execute().map(|_| ())
    }

    /// Removes the binding with this key if it is there.
    pub(crate) fn delete(&mut self, key: &Key<'_>) -> rusqlite::Result<()> {
        let (user, domain) = split_aor(key.aor);
        let (contact, instance) = (sql(key.contact), sql(key.instance));
        self.delete.execute(params![sql(user), sql(domain), contact, instance, key.reg_id]).map(|_| ())
    }

    /// Gives `put` the values of a binding that are not there yet.
    fn bind(&mut self, b: Put<'s>, socket: &'s [u8]) -> rusqlite::Result<()> {
        // Should one of them fail, the next row starts afresh.
        let last = self.bound.take();
        let put = &mut *self.put;
        let (user, domain) = split_aor(b.key.aor);
        // Of two bindings in a row, these are hardly ever alike.
        put.raw_bind_parameter(1, sql(user))?;
        put.raw_bind_parameter(3, sql(b.key.contact))?;
        put.raw_bind_parameter(10, sql(b.call_id))?;
        let mut text = |index: usize, value: &[u8], of: fn(&Bound<'s>) -> &'s [u8]| {
            if last.as_ref().is_some_and(|last| of(last) == value) {
                return Ok(());
            }
            put.raw_bind_parameter(index, sql(value))
        };
        text(2, domain, |last| last.domain)?;
        text(4, b.key.instance, |last| last.binding.key.instance)?;
        text(7, b.path, |last| last.binding.path)?;
        text(13, b.user_agent, |last| last.binding.user_agent)?;
        text(14, socket, |last| last.socket)?;
        text(15, b.params, |last| last.binding.params)?;
        put.raw_bind_parameter(5, b.key.reg_id)?;
        put.raw_bind_parameter(8, b.expires)?;
        put.raw_bind_parameter(11, b.cseq)?;
        put.raw_bind_parameter(12, b.written)?;
        let last = last.map(|last| last.binding);
        if last.is_none_or(|last| (last.transport, last.remote) != (b.transport, b.remote)) {
            put.raw_bind_parameter(6, sql(&received_text(b.transport, b.remote)))?;
        }
        if last.is_none_or(|last| last.q != b.q) {
            put.raw_bind_parameter(9, f64::from(b.q) / 1000.0)?;
        }
        self.bound = Some(Bound { binding: b, domain, socket });
        Ok(())
    }
}

/// What became of a row at loading.
#[derive(Debug)]
pub(crate) enum Loaded<'r> {
    /// A binding of this address of record that lives.
    Live(&'r [u8], BindingView<'r>),
    /// The time of the binding with this key is over.
    Expired(Key<'r>),
    /// It makes no sense, perhaps after editing by hand.
    Bad,
}

/// Whether a row of [`COLUMNS`] was written later than `clock` says that it is.
pub(crate) fn is_ahead(row: &Row<'_>, clock: ClockPair) -> rusqlite::Result<bool> {
    // As SQLite compares them: texts come after all numbers.
    Ok(match row.get_ref(11)? {
        ValueRef::Null => false,
        ValueRef::Integer(written) => written > clock.wall_seconds(),
        ValueRef::Real(written) => written > clock.wall_seconds() as f64,
        ValueRef::Text(_) | ValueRef::Blob(_) => true,
    })
}

/// Reads a row of [`COLUMNS`]. `aor` is room for its address of record.
pub(crate) fn read<'r>(
    row: &'r Row<'_>,
    sockets: &[String],
    clock: ClockPair,
    aor: &'r mut Vec<u8>,
) -> rusqlite::Result<Loaded<'r>> {
    let bytes = |index: usize| -> rusqlite::Result<&'r [u8]> {
        Ok(row.get_ref(index)?.as_bytes().unwrap_or_default())
    };
    let number = |index: usize| -> rusqlite::Result<i64> { Ok(row.get_ref(index)?.as_i64().unwrap_or(-1)) };
    let (user, domain, contact, instance) = (bytes(0)?, bytes(1)?, bytes(2)?, bytes(3)?);
    aor.clear();
    aor.extend_from_slice(user);
    if !user.is_empty() {
        aor.push(b'@');
    }
    aor.extend_from_slice(domain);
    let reg_id = u32::try_from(number(4)?);
    let (expires, written) = (number(7)?, number(11)?);
    let Some(expires) = clock.revive(written, expires) else {
        return Ok(Loaded::Expired(Key { aor, contact, instance, reg_id: reg_id.unwrap_or(u32::MAX) }));
    };
    let flow = flow_of(bytes(5)?, bytes(13)?, sockets);
    let (Some(flow), Ok(cseq), Ok(reg_id)) = (flow, u32::try_from(number(10)?), reg_id) else {
        return Ok(Loaded::Bad);
    };
    if contact.is_empty() || domain.is_empty() {
        return Ok(Loaded::Bad);
    }
    Ok(Loaded::Live(
        aor,
        BindingView {
            contact,
            params: bytes(14)?,
            q: preference(row.get_ref(8)?),
            expires,
            call_id: bytes(9)?,
            cseq,
            flow,
            path: bytes(6)?,
            instance,
            reg_id,
            user_agent: bytes(12)?,
        },
    ))
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
fn received_text(transport: Transport, remote: SocketAddr) -> Vec<u8> {
    let mut text = b"sip:".to_vec();
    match remote {
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
    text.extend_from_slice(transport.uri_name().as_bytes());
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
/// it.
fn flow_of(received: &[u8], socket: &[u8], sockets: &[String]) -> Option<Flow> {
    let text = std::str::from_utf8(received).ok()?;
    let text = text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:"))?;
    // A parameter before it would belong to no address: what is found at the first semicolon, if anywhere.
    let (address, transport) = match text.split_once(';') {
        Some((address, rest)) => match rest.strip_prefix("transport=") {
            Some(name) => (address, Transport::from_name(name.as_bytes())?),
            None => return None,
        },
        None => (text, Transport::Udp),
    };
    let remote = match address.parse::<SocketAddr>() {
        Ok(remote) => remote,
        Err(_) => SocketAddr::new(address.parse::<IpAddr>().ok()?, transport.default_port()),
    };
    Some(Flow { transport, listener: listener_of(socket, transport, sockets), remote, conn: None })
}

#[cfg(test)]
mod tests {
    use location::key_of;
    use location::testing::{any_record, record};
    use proptest::prelude::*;
    use rusqlite::Connection;
    use sip_registrar::{Change, Record};
    use wire::{ListenerId, Time};

    use super::*;

    const CLOCK: ClockPair = ClockPair { monotonic: Time::from_secs(50), wall: 1_700_000_000_000_000 };

    fn sockets() -> Vec<String> {
        ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060", "tcp:[::]:5070"].map(str::to_owned).to_vec()
    }

    fn table() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema/0001.sql")).unwrap();
        connection
    }

    fn apply(connection: &Connection, change: &Change) {
        let mut put = connection.prepare(PUT).unwrap();
        let mut delete = connection.prepare(DELETE).unwrap();
        let names = sockets();
        write(&mut Rows::new(&mut put, &mut delete), change, &names);
    }

    fn write<'s>(rows: &mut Rows<'_, 's>, change: &'s Change, names: &'s [String]) {
        match change {
            Change::Put(record) => {
                let listener = usize::from(record.flow.listener.0);
                rows.put(Put::new(record, listener, CLOCK), names[listener].as_bytes()).unwrap();
            }
            Change::Delete { .. } => rows.delete(&key_of(change)).unwrap(),
        }
    }

    /// What became of a row.
    #[derive(Debug)]
    enum Row {
        Live(Record),
        Expired,
        Bad,
    }

    fn load(connection: &Connection, clock: ClockPair) -> Vec<Row> {
        let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM location")).unwrap();
        let of = |row: &rusqlite::Row<'_>| {
            let mut aor = Vec::new();
            Ok(match read(row, &sockets(), clock, &mut aor)? {
                Loaded::Live(aor, view) => Row::Live(view.to_record(aor)),
                Loaded::Expired(_) => Row::Expired,
                Loaded::Bad => Row::Bad,
            })
        };
        statement.query_map([], of).unwrap().map(Result::unwrap).collect()
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
        let mut rows = Rows::new(&mut put, &mut delete);
        changes.iter().for_each(|change| write(&mut rows, change, &names));
        let mut found: Vec<Record> = load(&connection, CLOCK)
            .into_iter()
            .map(|row| match row {
                Row::Live(record) => record,
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
            [Row::Live(left)] => assert_eq!(*left, other),
            rest => panic!("{rest:?}"),
        }
    }

    #[test]
    fn expired_and_senseless_rows_are_told_apart() {
        let connection = table();
        apply(&connection, &Change::Put(record("bob", "sip:bob@10.0.0.1", Time::from_secs(60))));
        let later = ClockPair { monotonic: Time::from_secs(1), wall: CLOCK.wall + 10_000_000 };
        assert!(matches!(load(&connection, later).as_slice(), [Row::Expired]));
        for damage in
            ["received = 'nowhere'", "cseq = -3", "cseq = 'x'", "reg_id = 4294967296", "contact = ''"]
        {
            let connection = table();
            apply(&connection, &Change::Put(record("bob", "sip:bob@10.0.0.1", Time::from_secs(60))));
            connection.execute(&format!("UPDATE location SET {damage}"), []).unwrap();
            assert!(matches!(load(&connection, CLOCK).as_slice(), [Row::Bad]), "{damage}");
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
                [Row::Live(back)] => prop_assert_eq!(back, &expected),
                rest => prop_assert!(false, "{:?}", rest),
            }
            let Record { aor, contact, instance, reg_id, .. } = record;
            apply(&connection, &Change::Delete { aor, contact, instance, reg_id });
            prop_assert!(load(&connection, CLOCK).is_empty());
        }
    }
}
