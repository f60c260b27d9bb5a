//! A record as text.

use call_records::{Party, Record};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How records are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object in each line.
    Json,
    /// Comma-separated values (RFC 4180), the names first.
    Csv,
}

/// A record as it is written. Times are RFC 3339 in UTC with milliseconds; what is not known is null, or
/// empty in CSV.
#[derive(Serialize)]
struct Line<'a> {
    /// Unique among all records.
    id: Id,
    call_id: Cow<'a, str>,
    from: Cow<'a, str>,
    to: Cow<'a, str>,
    request_uri: Cow<'a, str>,
    user: Option<Cow<'a, str>>,
    asserted: Option<Cow<'a, str>>,
    trunk_in: Option<Cow<'a, str>>,
    trunk_out: Option<Cow<'a, str>>,
    source: String,
    transport: Cow<'a, str>,
    started: Option<String>,
    ringing: Option<String>,
    answered: Option<String>,
    ended: Option<String>,
    /// Seconds from the answer to the end.
    seconds: Option<f64>,
    status: u16,
    ended_by: &'static str,
    target: Option<Cow<'a, str>>,
    tried: u32,
    targets: Cow<'a, str>,
    codec: Option<Cow<'a, str>>,
    caller_tag: Cow<'a, str>,
    callee_tag: Option<Cow<'a, str>>,
    joined: u32,
    forwardings: u32,
}

/// What is unique to a record: the name of its call and the microsecond of its beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id(u128, u64);

impl Id {
    pub fn of(record: &Record) -> Id {
        Id(record.name.number(), record.started)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:x}", self.0, self.1)
    }
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Format {
    /// Appends a record with the end of its line.
    pub(crate) fn write(self, record: &Record, out: &mut Vec<u8>) {
        let line = Line::of(record);
        match self {
            Format::Json => {
                // Neither fails: memory is written, and the keys are texts.
                let _ = serde_json::to_writer(&mut *out, &line);
                out.push(b'\n');
            }
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(&mut *out);
                let _ = writer.serialize(line.into_text());
                let _ = writer.flush();
            }
        }
    }

    /// What a file of this format begins with.
    pub(crate) fn head(self) -> Vec<u8> {
        match self {
            Format::Json => Vec::new(),
            Format::Csv => format!("{}\n", NAMES.join(",")).into_bytes(),
        }
    }
}

/// The names of the values, in order.
const NAMES: [&str; 26] = [
    "id",
    "call_id",
    "from",
    "to",
    "request_uri",
    "user",
    "asserted",
    "trunk_in",
    "trunk_out",
    "source",
    "transport",
    "started",
    "ringing",
    "answered",
    "ended",
    "seconds",
    "status",
    "ended_by",
    "target",
    "tried",
    "targets",
    "codec",
    "caller_tag",
    "callee_tag",
    "joined",
    "forwardings",
];

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Line<'a> {
        let text = |bytes: &'a [u8]| String::from_utf8_lossy(bytes);
        let known = |bytes: &'a [u8]| Some(bytes).filter(|bytes| !bytes.is_empty()).map(text);
        let targets: Vec<Cow<'a, str>> = record.targets.iter().map(|target| text(target)).collect();
        let talked = record.answered.map(|answered| record.ended.saturating_sub(answered));
        let source = &record.source;
        Line {
            id: Id::of(record),
            call_id: text(&source.call_id),
            from: text(&source.from),
            to: text(&source.to),
            request_uri: text(&source.request_uri),
            user: known(&source.user),
            asserted: known(&source.asserted),
            trunk_in: known(&source.trunk),
            trunk_out: known(&record.callee.trunk),
            source: source.address.to_string(),
            transport: text(&source.transport),
            started: stamp(record.started),
            ringing: record.ringing.and_then(stamp),
            answered: record.answered.and_then(stamp),
            ended: stamp(record.ended),
            // Milliseconds: what is written of the times.
            seconds: talked.map(|micros| (micros / 1_000) as f64 / 1e3),
            status: record.status,
            ended_by: Party::name(record.ended_by),
            target: known(&record.callee.target),
            tried: record.tried,
            targets: targets.join(" ").into(),
            codec: known(&record.callee.codec),
            caller_tag: text(&source.caller_tag),
            callee_tag: known(&record.callee.tag),
            joined: record.joined,
            forwardings: record.forwardings,
        }
    }
}

impl Line<'_> {
    /// For spreadsheets: a value that one would take for a formula has an apostrophe before it.
    fn into_text(mut self) -> Self {
        let texts = [
            &mut self.call_id,
            &mut self.from,
            &mut self.to,
            &mut self.request_uri,
            &mut self.transport,
            &mut self.targets,
            &mut self.caller_tag,
        ];
        let known = [
            &mut self.user,
            &mut self.asserted,
            &mut self.trunk_in,
            &mut self.trunk_out,
            &mut self.target,
            &mut self.codec,
            &mut self.callee_tag,
        ];
        for text in texts.into_iter().chain(known.into_iter().flatten()) {
            if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
                text.to_mut().insert(0, '\'');
            }
        }
        self
    }
}

/// Microseconds since 1970 as text. Nothing beyond the year 9999.
fn stamp(micros: u64) -> Option<String> {
    let millis = i128::from(micros / 1_000) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(millis).ok()?;
    let mut text = time.format(&Rfc3339).ok()?;
    // The same length for all, so that texts sort as times do.
    if !text.contains('.') {
        text.insert_str(19, ".000");
    } else {
        while text.len() < "2026-11-29T12:00:00.000Z".len() {
            text.insert(text.len() - 1, '0');
        }
    }
    Some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use call_records::{Answered, Began, CallName, Ended, Event, Ledger, Limits, NO_BRANCH, Tried, What};
    use std::time::Duration;

    /// A record of a call that was answered.
    pub fn record(number: u64) -> Record {
        let (setup, late) = (Duration::from_secs(9), Duration::from_secs(1));
        let limits = Limits { calls: 9, setup, session: None, late, repeated: late };
        let (mut ledger, mut done) = (Ledger::new(limits), Vec::new());
        let began = Began {
            call_id: b"a\"b,\xff",
            from: b"sip:ann@example.com",
            caller_tag: b"t1",
            to: b"sip:bob@example.com",
            request_uri: b"sip:bob@example.com",
            asserted: b"",
            user: b"ann@example.com",
            trunk: b"",
            source: ([192, 0, 2, 1], 5060).into(),
            transport: b"UDP",
            within: false,
        };
        let answered = Answered {
            status: 200,
            dialog: 1,
            branch: NO_BRANCH,
            callee_tag: b"t2",
            target: b"sip:bob@192.0.2.2",
            trunk: b"carrier",
            codec: b"m=audio 4000 RTP/AVP 0",
        };
        let begin = 1_796_000_000_000_000 + number;
        let events = [
            (0, What::Began(began)),
            (100, What::Tried(Tried { target: b"sip:bob@192.0.2.2", trunk: b"carrier", branch: 0 })),
            (200, What::Forwarded(486)),
            (1_000_000, What::Answered(answered)),
            (3_500_000, What::Ended(Ended { by: Party::Callee, dialog: 1, ago: 0 })),
        ];
        for (at, what) in events {
            let (name, at) = (CallName::new(number.into()), begin + at);
            ledger.apply(&Event { name, at, ahead: 0, what }, &mut done);
        }
        done.pop().expect("it is over")
    }

    #[test]
    fn record_is_one_json_object() {
        let mut out = Vec::new();
        Format::Json.write(&record(7), &mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["call_id"], "a\"b,\u{fffd}");
        assert_eq!(value["started"], "2026-11-30T00:53:20.000Z");
        assert_eq!(value["answered"], "2026-11-30T00:53:21.000Z");
        assert_eq!(
            (&value["ringing"], &value["trunk_in"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!((&value["trunk_out"], &value["ended_by"]), (&"carrier".into(), &"callee".into()));
        assert_eq!((&value["status"], &value["seconds"]), (&200.into(), &2.5.into()));
        assert_eq!(value["forwardings"], 1);
        assert!(text.ends_with("}\n") && text.lines().count() == 1);
        let object = value.as_object().expect("an object");
        assert!(NAMES.iter().all(|name| object.contains_key(*name)) && object.len() == NAMES.len());
    }

    #[test]
    fn record_is_one_row_of_values() {
        let mut out = Format::Csv.head();
        Format::Csv.write(&record(7), &mut out);
        let mut reader = csv::Reader::from_reader(&out[..]);
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("rows");
        assert_eq!((rows.len(), rows[0].len()), (1, NAMES.len()));
        let names = reader.headers().expect("names").clone();
        let of = |name: &str| rows[0].get(names.iter().position(|other| other == name).expect("a name"));
        assert_eq!(
            (of("call_id"), of("ringing"), of("status")),
            (Some("a\"b,\u{fffd}"), Some(""), Some("200"))
        );
    }

    #[test]
    fn value_that_looks_like_a_formula_is_a_text_in_csv() {
        let mut record = record(7);
        record.source.call_id = b"=HYPERLINK(\"http://x\")".to_vec();
        record.source.from = b"+49".to_vec();
        record.source.caller_tag = b"-1".to_vec();
        record.source.asserted = b"@x".to_vec();
        record.callee.tag = b"\tx".to_vec();
        record.callee.trunk = b"a=b".to_vec();
        let mut out = Format::Csv.head();
        Format::Csv.write(&record, &mut out);
        let mut reader = csv::Reader::from_reader(&out[..]);
        let names = reader.headers().expect("names").clone();
        let row = reader.records().next().expect("a row").expect("values");
        let of = |name: &str| row.get(names.iter().position(|other| other == name).expect("a name"));
        let values = ["call_id", "from", "caller_tag", "asserted", "callee_tag", "trunk_out"].map(of);
        let right = ["'=HYPERLINK(\"http://x\")", "'+49", "'-1", "'@x", "'\tx", "a=b"].map(Some);
        assert_eq!(values, right);
        // JSON has them as they are.
        let mut out = Vec::new();
        Format::Json.write(&record, &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!((&value["from"], &value["caller_tag"]), (&"+49".into(), &"-1".into()));
    }

    #[test]
    fn times_have_three_digits_and_sort() {
        let all =
            [0, 1_000, 10_000, 120_000, 123_999, 1_000_000].map(|micros| stamp(micros).expect("a time"));
        assert!(all.is_sorted() && all.iter().all(|text| text.len() == 24), "{all:?}");
        assert_eq!(stamp(u64::MAX), None);
    }
}
