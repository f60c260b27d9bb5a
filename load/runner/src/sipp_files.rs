//! SIPp's options for files that are written while a run goes on, and others that start scripts carry.

use super::traces::seconds;
use clap::Args;
use load::engine::CallIds;
use std::path::PathBuf;
use std::time::Duration;

/// Options of SIPp's that are beside the point of a run.
#[derive(Args, Clone, Debug, Default)]
pub struct FileArgs {
    /// Write SIPp's statistics, a line each -fd, to SCENARIO_PID_.csv or -stf
    #[arg(long, help_heading = "What comes out", conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub trace_stat: bool,
    /// The file of -trace_stat
    #[arg(long, value_name = "FILE", help_heading = "What comes out",
          conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub stf: Option<PathBuf>,
    /// Time between two lines of -trace_stat: seconds, or 500ms, 2m [default: 60]
    #[arg(long, value_name = "TIME", help_heading = "What comes out")]
    pub fd: Option<String>,
    /// Write what the scenario logs (<log>) to SCENARIO_PID_logs.log or -log_file, in place of standard error
    #[arg(long, help_heading = "What comes out", conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub trace_logs: bool,
    /// The file of -trace_logs
    #[arg(long, value_name = "FILE", help_heading = "What comes out",
          conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub log_file: Option<PathBuf>,
    /// Write all messages, 1 GiB at most, to SCENARIO_PID_messages.log or -message_file. For low rates: it
    /// takes more time than the calls
    #[arg(long, help_heading = "What comes out", conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub trace_msg: bool,
    /// The file of -trace_msg
    #[arg(long, value_name = "FILE", help_heading = "What comes out",
          conflicts_with_all = ["users", "find_peak", "self_test", "backend"])]
    pub message_file: Option<PathBuf>,
    /// Time between two lines of the display (SIPp's -f): seconds, or 500ms, 2m [default: 1]
    #[arg(long, value_name = "TIME", help_heading = "What comes out", conflicts_with_all = ["quiet", "backend"])]
    pub display: Option<String>,
    /// The Call-ID of calls that begin here: %u the name of the call, with which it has to begin, %s the
    /// local address, %p the number of the process, %% a % [default: %u@%s]
    #[arg(long, value_name = "TEXT", help_heading = "What to do", allow_hyphen_values = true,
          conflicts_with_all = ["users", "self_test", "backend"])]
    pub cid_str: Option<String>,
    /// The field of the first injection file that has the Call-ID of calls that begin here, each line
    /// another; one worker has them all
    #[arg(long, value_name = "FIELD", help_heading = "What to do",
          conflicts_with_all = ["cid_str", "users", "self_test", "find_peak", "backend"])]
    pub cid_field: Option<usize>,
    /// Accepted: the limit of open files is raised as far as it may be, and no more
    #[arg(long, hide = true)]
    pub skip_rlimit: bool,
    /// Bytes of the kernel's buffers of each UDP socket [default: 4194304]
    #[arg(long, value_name = "BYTES", help_heading = "From where",
          value_parser = clap::value_parser!(u32).range(1..=1 << 30), conflicts_with_all = ["users", "backend"])]
    pub buff_size: Option<u32>,
}

impl FileArgs {
    pub fn has_statistics(&self) -> bool {
        self.trace_stat || self.stf.is_some()
    }

    pub fn has_messages(&self) -> bool {
        self.trace_msg || self.message_file.is_some()
    }

    /// Time between two lines of statistics.
    pub fn every(&self) -> Result<Duration, String> {
        match &self.fd {
            Some(time) if !self.has_statistics() => {
                Err(format!("-fd {time}: there are no statistics to be written; add -trace_stat"))
            }
            time => seconds(time.as_ref(), 60).map_err(|why| format!("-fd {why}")),
        }
    }

    /// The Call-IDs of calls that begin here.
    pub fn call_ids(&self) -> Result<CallIds, String> {
        match (self.cid_field, &self.cid_str) {
            (Some(field), _) => Ok(CallIds::Field(field)),
            (None, Some(text)) => FileArgs::ends(text).map(CallIds::Named),
            (None, None) => Ok(CallIds::default()),
        }
    }

    /// The texts of `-cid_str`.
    fn ends(text: &str) -> Result<Vec<Vec<u8>>, String> {
        let wrong = |what: &str| format!("-cid_str {text}: {what}");
        let rest = text.strip_prefix("%u").ok_or_else(|| {
            wrong("a call is found by its name, so begin with %u; put your own text behind it, such as %u-mine@%s")
        })?;
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        let mut chars = rest.chars();
        while let Some(c) = chars.next() {
            match (c, (c == '%').then(|| chars.next()).flatten()) {
                ('%', Some('s')) => parts.push(std::mem::take(&mut own)),
                ('%', Some('p')) => own.extend_from_slice(std::process::id().to_string().as_bytes()),
                ('%', Some('%')) => own.push(b'%'),
                ('%', Some('u')) => return Err(wrong("%u stands at the beginning, and once")),
                ('%', _) => return Err(wrong("%u, %s, %p and %% have a meaning")),
                (c, _) if c.is_ascii_alphanumeric() || "-.!*_+`'~()<>:\\\"/[]?{}@".contains(c) => {
                    own.push(c as u8);
                }
                (c, _) => {
                    return Err(wrong(&format!("`{c}' cannot stand in a Call-ID (RFC 3261 section 25.1)")));
                }
            }
        }
        parts.push(own);
        // Of these SIPp's three slashes part a text from the name of the call.
        match text.contains("///") {
            true => Err(wrong("/// parts a text from a Call-ID; write it in the scenario")),
            false => Ok(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_begin_with_the_name_of_the_call() {
        let of = |text: &str| {
            let args = FileArgs { cid_str: Some(text.to_owned()), ..FileArgs::default() };
            let CallIds::Named(parts) = args.call_ids()? else { return Err("a field".to_owned()) };
            Ok::<_, String>(
                parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>(),
            )
        };
        let pid = std::process::id();
        assert_eq!(of("%u@%s"), Ok(vec!["@".to_owned(), String::new()]));
        assert_eq!(of("%u-%p-x%%@%s.y"), Ok(vec![format!("-{pid}-x%@"), ".y".to_owned()]));
        assert_eq!(of("%u"), Ok(vec![String::new()]));
        for wrong in ["x-%u@%s", "", "%u%u", "%u%d", "%u%", "%u x", "%u///y", "%u\r\n"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(
            matches!(FileArgs::default().call_ids(), Ok(CallIds::Named(parts)) if parts.is_empty()),
            "the usual one"
        );
        let field = FileArgs { cid_field: Some(3), ..FileArgs::default() };
        assert!(matches!(field.call_ids(), Ok(CallIds::Field(3))));
    }

    #[test]
    fn a_period_without_statistics_is_refused() {
        let of = |fd: &str, trace_stat| {
            FileArgs { fd: Some(fd.to_owned()), trace_stat, ..FileArgs::default() }.every()
        };
        assert_eq!(of("5", true), Ok(Duration::from_secs(5)));
        assert!(of("5", false).is_err_and(|why| why.contains("-trace_stat")));
        assert!(of("x", true).is_err());
        assert_eq!(FileArgs::default().every(), Ok(Duration::from_secs(60)));
    }
}
