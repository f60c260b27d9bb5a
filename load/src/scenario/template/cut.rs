//! Cuts texts into pieces.

use super::super::context::{Context, Place};
use super::super::steps::Kind;
use super::{Lengths, NO_SKIP, Number, Piece, Random, Seeker, Template, Text};

/// Longest message template, in bytes: what a datagram holds.
const MOST_TEXT: usize = 65_000;

/// Makes one template.
pub(in super::super) struct Cutter<'c, 'a> {
    context: &'c mut Context<'a>,
    made: Template,
    /// Where the literal piece under way begins in the text.
    literal: usize,
    part: Part,
    lengths: usize,
    /// Pieces of the line under way that drop it where they are empty.
    droppers: Vec<usize>,
    /// How deep keywords are nested.
    depth: u8,
}

/// What is being cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first line and the headers.
    Head,
    Body,
    /// A text that is no message.
    Text,
}

/// Deepest nesting of keywords in parameters of keywords.
const DEEPEST: u8 = 4;

const TEXTS: [(&str, Text); 17] = [
    ("service", Text::Service),
    ("remote_host", Text::RemoteHost),
    ("remote_ip", Text::RemoteIp),
    ("transport", Text::Transport),
    ("local_ip", Text::LocalIp),
    ("server_ip", Text::LocalIp),
    ("local_ip_type", Text::LocalIpType),
    ("media_ip", Text::MediaIp),
    ("media_ip_type", Text::MediaIpType),
    ("call_id", Text::CallId),
    ("next_url", Text::NextUrl),
    ("peer_tag_param", Text::PeerTag),
    ("sipp_version", Text::Version),
    ("date", Text::Date),
    ("timestamp", Text::Timestamp),
    ("last_message", Text::LastMessage),
    ("last_Request_URI", Text::LastUri),
];

const NUMBERS: [(&str, Number); 12] = [
    ("remote_port", Number::RemotePort),
    ("local_port", Number::LocalPort),
    ("media_port", Number::MediaPort),
    ("auto_media_port", Number::AutoMediaPort),
    ("cseq", Number::CSeq),
    ("last_cseq_number", Number::LastCSeq),
    ("msg_index", Number::MessageIndex),
    ("pid", Number::Pid),
    ("users", Number::Users),
    ("userid", Number::UserId),
    ("clock_tick", Number::ClockTick),
    ("dynamic_id", Number::DynamicId),
];

/// The others that have no parameters.
const PLAIN: [&str; 4] = ["call_number", "branch", "len", "routes"];

/// Whether it is a keyword of the language that has no parameters.
fn is_plain(head: &str, base: &str) -> bool {
    let known = TEXTS.iter().any(|(name, _)| *name == head) || NUMBERS.iter().any(|(name, _)| *name == base);
    known || head.starts_with('$') || head.starts_with("last_") || PLAIN.contains(&base)
}

/// Whether a name is a keyword of the language, which comes before one of `-key`.
pub fn is_keyword(name: &str) -> bool {
    let field = name.strip_prefix("field").is_some_and(|number| number.parse::<u16>().is_ok());
    field || is_plain(name, name) || ["authentication", "fill", "file", "random"].contains(&name)
}

impl<'c, 'a> Cutter<'c, 'a> {
    fn new(context: &'c mut Context<'a>, line: u32, part: Part, depth: u8) -> Cutter<'c, 'a> {
        let made = Template { line, ..Template::default() };
        Cutter { context, made, literal: 0, part, lengths: 0, droppers: Vec::new(), depth }
    }

    /// A text of an action or parameter: keywords, escapes and line ends, nothing else.
    pub fn text(context: &'c mut Context<'a>, text: &str, place: Place) -> Template {
        Cutter::nested(context, text, place, 0)
    }

    fn nested(context: &'c mut Context<'a>, text: &str, place: Place, depth: u8) -> Template {
        let mut cutter = Cutter::new(context, place.line, Part::Text, depth);
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                cutter.made.text.extend_from_slice(b"\r\n");
            }
            cutter.line(line, place);
            cutter.droppers.clear();
        }
        cutter.finish()
    }

    /// A message: white space around lines is dropped, lines end in CRLF, an empty line ends the head.
    /// `place` is where the text begins. `None` if it is empty.
    pub fn message(context: &'c mut Context<'a>, text: &str, place: Place) -> Option<(Template, Kind)> {
        let mut lines: Vec<(Place, &str)> = Vec::new();
        for (number, line) in text.split('\n').enumerate() {
            let lead = line.chars().take_while(|c| c.is_whitespace()).count() as u32;
            let column = if number == 0 { place.column + lead } else { lead + 1 };
            let at = Place { line: place.line + number as u32, column };
            if !(lines.is_empty() && line.trim().is_empty()) {
                lines.push((at, line.trim()));
            }
        }
        let all = lines.len();
        while lines.last().is_some_and(|(_, line)| line.is_empty()) {
            lines.pop();
        }
        let ended = lines.len() < all;
        let &(first, first_line) = lines.first()?;
        let kind = Cutter::kind(context, first, first_line);
        let mut cutter = Cutter::new(context, first.line, Part::Head, 0);
        if let Kind::Request(method) = &kind {
            cutter.made.method = method.clone();
        }
        let last = lines.len() - 1;
        for (number, (at, line)) in lines.into_iter().enumerate() {
            cutter.line(line, at);
            // The last line of a body ends as it does in the file.
            if number < last || cutter.part == Part::Head || ended {
                cutter.made.text.extend_from_slice(b"\r\n");
            }
            cutter.end_line();
            if line.is_empty() && cutter.part == Part::Head {
                cutter.flush();
                cutter.made.pieces.push(Piece::BodyStart);
                cutter.part = Part::Body;
            }
        }
        if cutter.part == Part::Head {
            cutter.made.text.extend_from_slice(b"\r\n");
        }
        Some((cutter.finish(), kind))
    }

    /// What the first line of a message says.
    fn kind(context: &mut Context<'_>, place: Place, line: &str) -> Kind {
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default();
        if first == "SIP/2.0" {
            let code = words.next().unwrap_or_default();
            let number = code.parse().ok().filter(|code| (100..700).contains(code));
            if number.is_none() && !code.starts_with('[') {
                let what = format!("`{code}' is no response code");
                context.complain(
                    place,
                    "<send>",
                    what,
                    "begin a response with SIP/2.0 and a code from 100 to 699",
                );
            }
            return Kind::Response(number.unwrap_or(0));
        }
        let token = |c: char| c.is_ascii_alphanumeric() || "-.!%*_+`'~".contains(c);
        if first.is_empty() || !first.chars().all(token) || !line.ends_with(" SIP/2.0") {
            let what = "the first line is neither METHOD URI SIP/2.0 nor SIP/2.0 CODE REASON";
            context.complain(
                place,
                "<send>",
                what,
                "write the method and SIP/2.0 out; keywords cannot make them",
            );
        }
        Kind::Request(first.into())
    }

    /// The pieces of one line, without its end.
    fn line(&mut self, line: &str, place: Place) {
        self.flush();
        let (literal, pieces) = (self.made.text.len(), self.made.pieces.len());
        let mut rest = line;
        let mut at_start = self.part != Part::Text;
        while let Some(open) = rest.find('[') {
            let (before, from) = rest.split_at(open);
            self.literal(before);
            let at = Place { column: place.column + columns(line, from), ..place };
            let Some(end) = closing(from) else {
                let mend = "write \\x5b for a bracket that begins no keyword";
                self.context.complain(at, "[", "a keyword does not end in this line", mend);
                return;
            };
            let keyword = from.get(1..end).unwrap_or_default();
            rest = from.get(end + 1..).unwrap_or_default();
            at_start &= before.is_empty();
            self.keyword(keyword, at, at_start);
            at_start = false;
        }
        self.literal(rest);
        let own = self.made.pieces.get(pieces..).unwrap_or_default();
        if self.part != Part::Text
            && self.made.text.len() == literal
            && !own.is_empty()
            && own.iter().all(Piece::may_be_empty)
        {
            self.dropper(Piece::DropIfEmpty { skip: NO_SKIP }, true);
        }
    }

    /// Adds literal text; `\xNN` is a byte.
    fn literal(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find("\\x") {
            let (before, escape) = rest.split_at(at);
            self.context.push_bytes(before, &mut self.made.text);
            match escape.get(2..4).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => {
                    self.made.text.push(byte);
                    rest = escape.get(4..).unwrap_or_default();
                }
                None => {
                    self.made.text.extend_from_slice(b"\\x");
                    rest = escape.get(2..).unwrap_or_default();
                }
            }
        }
        self.context.push_bytes(rest, &mut self.made.text);
    }

    /// Ends the literal piece under way.
    fn flush(&mut self) {
        if self.literal < self.made.text.len() {
            let piece = Piece::Literal { start: self.literal as u32, end: self.made.text.len() as u32 };
            self.made.pieces.push(piece);
            self.literal = self.made.text.len();
        }
    }

    fn piece(&mut self, piece: Piece) {
        self.flush();
        self.made.pieces.push(piece);
    }

    /// After the line end: tells the keywords that may drop the line where the next one begins.
    fn end_line(&mut self) {
        if self.droppers.is_empty() {
            return;
        }
        self.flush();
        let next = self.made.pieces.len() as u32;
        for dropper in core::mem::take(&mut self.droppers) {
            if let Some(skip) = self.made.pieces.get_mut(dropper).and_then(Piece::skip_place) {
                *skip = next;
            }
        }
    }

    fn finish(mut self) -> Template {
        self.flush();
        if self.made.text.len() > MOST_TEXT {
            let place = Place { line: self.made.line, column: 0 };
            let what = format!("the text is longer than {MOST_TEXT} bytes");
            self.context.complain(place, "<send>", what, "make it shorter");
        }
        self.made.reserve();
        self.made
    }

    /// One keyword: `raw` is what stands between the brackets.
    fn keyword(&mut self, raw: &str, place: Place, at_start: bool) {
        let (head, parameters) = raw.split_once(' ').unwrap_or((raw, ""));
        let parameters = Parameters { all: parameters, raw, place };
        let (base, add) = offset(head);
        if self.is_plain(head, base) {
            parameters.only(&[], self.context);
        }
        if let Some(name) = head.strip_prefix('$') {
            let slot = self.context.read(name, place, &shown(raw));
            return self.piece(Piece::Variable(slot));
        }
        if let Some((_, text)) = TEXTS.iter().find(|(name, _)| *name == head) {
            let before = self.made.text.get(self.literal..).unwrap_or_default();
            let of_uri = *text == Text::Transport && is_parameter(before);
            return self.piece(Piece::Text(if of_uri { Text::UriTransport } else { *text }));
        }
        if let Some((_, number)) = NUMBERS.iter().find(|(name, _)| *name == base) {
            return self.piece(Piece::Number(*number, add));
        }
        match base {
            "call_number" if add == 0 => self.piece(Piece::Call),
            "branch" => {
                self.made.text.extend_from_slice(b"z9hG4bK-");
                self.piece(Piece::Number(Number::Pid, 0));
                self.made.text.push(b'-');
                self.piece(Piece::Call);
                self.piece(Piece::BranchEnd(add));
            }
            "len" => self.length(add, &parameters),
            "routes" => self.dropper(Piece::Routes { skip: NO_SKIP }, at_start),
            "authentication" => self.authentication(&parameters),
            "fill" => self.fill(&parameters),
            "file" => self.file(&parameters),
            "random" => self.random(&parameters),
            _ => {
                if let Some(name) = head.strip_prefix("last_") {
                    self.header(name, parameters.place, at_start);
                } else if let Some(number) = head.strip_prefix("field").and_then(|n| n.parse().ok()) {
                    self.field(number, &parameters);
                } else if let Some((_, value)) =
                    self.context.around.keys.iter().find(|(name, _)| name == head)
                {
                    self.made.text.extend_from_slice(value.as_bytes());
                    self.context.keys.insert(head.to_owned());
                } else {
                    self.unknown(head, &parameters);
                }
            }
        }
    }

    /// Whether it is a keyword that has no parameters.
    fn is_plain(&self, head: &str, base: &str) -> bool {
        self.context.around.keys.iter().any(|(name, _)| name == head) || is_plain(head, base)
    }

    fn unknown(&mut self, head: &str, parameters: &Parameters<'_>) {
        let media = head.starts_with("rtpstream") || head.starts_with("crypto") || head.starts_with("ue");
        let (what, mend) = match head {
            "tdmmap" => ("TDM circuits are not modelled", "take it out".to_owned()),
            _ if media => ("media are not sent", "take it out, or write a fixed value".to_owned()),
            _ => {
                let key = head.chars().all(|c| c.is_alphanumeric() || c == '_') && !head.is_empty();
                let mend = "write \\x5b for a bracket that begins no keyword";
                let mend = if key { format!("give -key {head} VALUE, or {mend}") } else { mend.to_owned() };
                ("unknown keyword", mend)
            }
        };
        self.context.complain(parameters.place, &shown(parameters.raw), what, mend);
    }

    /// Adds a piece; if `drops`, the line goes where it is empty.
    fn dropper(&mut self, piece: Piece, drops: bool) {
        self.piece(piece);
        if drops {
            self.droppers.push(self.made.pieces.len() - 1);
        }
    }

    fn length(&mut self, add: i64, parameters: &Parameters<'_>) {
        self.lengths += 1;
        if self.part != Part::Head {
            let mend = "put it into Content-Length";
            self.context.complain(parameters.place, "[len]", "it stands outside of the headers", mend);
        } else if self.lengths > Lengths::MOST {
            self.context.complain(parameters.place, "[len]", "too many in one message", "use one");
        }
        self.piece(Piece::Len { add, digits: 0 });
    }

    fn header(&mut self, name: &str, place: Place, at_start: bool) {
        let name = name.strip_suffix(':').unwrap_or(name);
        let Some(which) = self.made.wanted.place(name.as_bytes(), Seeker::MOST) else {
            let what =
                format!("more than {} different headers of the last message in one text", Seeker::MOST);
            self.context.complain(place, &shown(name), what, "make it shorter");
            return;
        };
        self.dropper(Piece::Header { which, global: which, skip: NO_SKIP }, at_start);
    }

    fn field(&mut self, field: u16, parameters: &Parameters<'_>) {
        let element = shown(parameters.raw);
        parameters.only(&["file", "line"], self.context);
        let files = &self.context.around.injections.files;
        let name = parameters.get("file");
        let file = match name {
            None => (!files.is_empty()).then_some(0),
            Some(name) => self.context.around.injections.find(name),
        };
        let Some(file) = file else {
            match name {
                None => self.context.want_field(parameters.place, field),
                Some(name) => {
                    let what = format!("there is no file `{name}'");
                    self.context.complain(parameters.place, &element, what, "give the file with -inf");
                }
            }
            return;
        };
        if let Some((line, fields)) = files.get(file).and_then(|file| file.shortest())
            && usize::from(field) >= fields
        {
            let name = files.get(file).map_or("", |file| &file.name);
            let what = format!("{name}:{line} has only {fields} field(s), field0 to field{}", fields - 1);
            self.context.complain(
                parameters.place,
                &element,
                what,
                "add the field to every line of the file",
            );
        }
        let line = parameters.get("line").map(|text| Box::new(self.inner(text, parameters.place)));
        self.piece(Piece::Field { file: file as u16, field, line });
    }

    /// A parameter that may hold keywords.
    fn inner(&mut self, text: &str, place: Place) -> Template {
        if self.depth >= DEEPEST {
            self.context.complain(place, &shown(text), "keywords are nested too deeply", "use a variable");
            return Template::default();
        }
        Cutter::nested(self.context, text, place, self.depth + 1)
    }

    fn authentication(&mut self, parameters: &Parameters<'_>) {
        if self.part != Part::Head || self.made.method.is_empty() {
            let what = "it stands outside of the headers of a request";
            self.context.complain(parameters.place, "[authentication]", what, "move it");
        }
        if ["aka_K", "aka_OP", "aka_AMF"].iter().any(|name| parameters.get(name).is_some()) {
            let mend = "use username= and password= with a digest challenge";
            self.context.complain(parameters.place, "[authentication]", "AKA is not supported", mend);
        } else {
            parameters.only(&["username", "password"], self.context);
        }
        let user = parameters.get("username").map(|text| Box::new(self.inner(text, parameters.place)));
        let password = parameters.get("password").map(|text| Box::new(self.inner(text, parameters.place)));
        self.piece(Piece::Authentication { user, password });
    }

    fn fill(&mut self, parameters: &Parameters<'_>) {
        parameters.only(&["variable", "text"], self.context);
        let Some(variable) = parameters.get("variable") else {
            let mend = "write [fill variable=NAME]";
            self.context.complain(parameters.place, "[fill]", "it does not say how much", mend);
            return;
        };
        let slot = self.context.read(variable.trim_start_matches('$'), parameters.place, "[fill]");
        let mut text = Vec::new();
        self.context.push_bytes(parameters.get("text").unwrap_or("X"), &mut text);
        if text.is_empty() {
            self.context.complain(
                parameters.place,
                "[fill]",
                "text is empty",
                "write a text, or leave it out",
            );
        }
        self.piece(Piece::Fill { slot, text: text.into() });
    }

    fn random(&mut self, parameters: &Parameters<'_>) {
        parameters.only(&["length", "of"], self.context);
        match Random::new(parameters.get("length"), parameters.get("of")) {
            Ok(random) => self.piece(Piece::Random(random)),
            Err((what, mend)) => self.context.complain(parameters.place, "[random]", what, mend),
        }
    }

    fn file(&mut self, parameters: &Parameters<'_>) {
        parameters.only(&["name"], self.context);
        let Some(name) = parameters.get("name").filter(|name| !name.contains('[')) else {
            let mend = "write [file name=FILE], without keywords";
            self.context.complain(parameters.place, &shown(parameters.raw), "which file is not fixed", mend);
            return;
        };
        match (self.context.around.read_file)(name) {
            Ok(bytes) => self.made.text.extend_from_slice(&bytes),
            Err(error) => {
                let what = format!("{name} cannot be read: {error}");
                self.context.complain(
                    parameters.place,
                    &shown(parameters.raw),
                    what,
                    "give an existing file",
                );
            }
        }
    }
}

/// Whether what follows this text is the transport in a URI (RFC 3261 section 19.1.1).
fn is_parameter(before: &[u8]) -> bool {
    const NAME: &[u8] = b";transport=";
    before.len().checked_sub(NAME.len()).is_some_and(|at| before[at..].eq_ignore_ascii_case(NAME))
}

/// What a keyword is called in messages to people.
fn shown(raw: &str) -> String {
    let short: String = raw.chars().take(40).collect();
    format!("[{short}]")
}

/// Characters of `line` before its suffix `from`.
fn columns(line: &str, from: &str) -> u32 {
    line.get(..line.len() - from.len()).map_or(0, |before| before.chars().count() as u32)
}

/// Where the bracket ends that `text` begins with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(at),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `cseq+1`: the name and what is added.
fn offset(head: &str) -> (&str, i64) {
    let Some(at) = head.rfind(['+', '-']) else { return (head, 0) };
    let (name, add) = head.split_at(at);
    match add.trim_start_matches('+').parse::<i32>() {
        Ok(add) => (name, i64::from(add)),
        Err(_) => (head, 0),
    }
}

/// The parameters of a keyword: `name=value name="value"`.
struct Parameters<'t> {
    all: &'t str,
    raw: &'t str,
    place: Place,
}

impl<'t> Parameters<'t> {
    fn iter(&self) -> impl Iterator<Item = (&'t str, &'t str)> + use<'t> {
        // Cut at ASCII characters, so the parts are text as the whole is.
        let text = |part| core::str::from_utf8(part).unwrap_or_default();
        parameters(self.all.as_bytes()).map(move |(name, value)| (text(name), text(value)))
    }

    fn get(&self, name: &str) -> Option<&'t str> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Complains about parameters that are not in the list.
    fn only(&self, known: &[&str], context: &mut Context<'_>) {
        for (name, _) in self.iter().filter(|(name, _)| !known.contains(name)) {
            let what = format!("unknown parameter `{name}'");
            let mend = match known {
                [] => "take it out, it has none".to_owned(),
                known => format!("it may have: {}", known.join(", ")),
            };
            context.complain(self.place, &shown(self.raw), what, mend);
        }
    }
}

/// Names and values of `name=value name="value"`.
fn parameters(all: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = all.trim_ascii_start();
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (name, after) = around(rest, rest.iter().position(|&byte| byte == b'='));
        let (value, after) = parameter_value(after);
        rest = after.trim_ascii_start();
        Some((name.trim_ascii(), value))
    })
}

/// The value that `text` begins with, quoted or up to a space outside of brackets, and what follows.
fn parameter_value(text: &[u8]) -> (&[u8], &[u8]) {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        return around(quoted, memchr::memchr(b'"', quoted));
    }
    let mut depth = 0_i32;
    let end = text.iter().position(|&byte| {
        depth += i32::from(byte == b'[') - i32::from(byte == b']');
        byte == b' ' && depth <= 0
    });
    text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, b""))
}

/// What stands before and after the byte at `at`; all of it before if there is none.
fn around(text: &[u8], at: Option<usize>) -> (&[u8], &[u8]) {
    match at {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => (text, b""),
    }
}

/// User and password of an `[authentication ...]` that a field of an injection file holds.
pub(super) fn plain_credentials(text: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let text = text.trim_ascii_end();
    let inner = text.strip_prefix(b"[authentication").and_then(|t| t.strip_suffix(b"]")).unwrap_or_default();
    let (mut user, mut password) = (None, None);
    for (name, value) in parameters(inner) {
        match name {
            b"username" => user = user.or(Some(value)),
            b"password" => password = password.or(Some(value)),
            _ => {}
        }
    }
    (user, password)
}
