//! Requests within a dialog, from either end of it.

use crate::{Link, Msg, Req};

/// One end's side of a dialog.
pub struct Side {
    user: &'static str,
    call_id: String,
    local: String,
    remote: String,
    routes: Vec<String>,
    target: String,
    cseq: u32,
}

fn uri_of(contact: &str) -> String {
    contact.split_once('<').and_then(|(_, rest)| rest.split_once('>')).unwrap().0.to_owned()
}

impl Side {
    /// That of ann, who has sent this INVITE and got this 2xx answer.
    ///
    /// # Panics
    /// If the answer makes no dialog.
    pub fn of_caller(invite: &Req, answer: &Msg) -> Side {
        Side {
            user: "ann",
            call_id: invite.call_id.clone(),
            local: invite.from.clone(),
            remote: answer.header("To").unwrap().to_owned(),
            routes: answer.all("Record-Route").into_iter().rev().map(str::to_owned).collect(),
            target: uri_of(answer.header("Contact").unwrap()),
            cseq: 100,
        }
    }

    /// That of bob, who has answered this INVITE with this tag.
    ///
    /// # Panics
    /// If the INVITE makes no dialog.
    pub fn of_callee(invite: &Msg, tag: &str) -> Side {
        Side {
            user: "bob",
            call_id: invite.header("Call-ID").unwrap().to_owned(),
            local: format!("{};tag={tag}", invite.header("To").unwrap()),
            remote: invite.header("From").unwrap().to_owned(),
            routes: invite.all("Record-Route").into_iter().map(str::to_owned).collect(),
            target: uri_of(invite.header("Contact").unwrap()),
            cseq: 100,
        }
    }

    /// A request within the dialog, with the sequence number of the last one if it is an ACK.
    pub fn request(&mut self, method: &str, link: &Link) -> Req {
        self.cseq += u32::from(method != "ACK");
        let mut req = Req::new(method, &self.target, link);
        (req.call_id, req.cseq) = (self.call_id.clone(), self.cseq);
        (req.from, req.to) = (self.local.clone(), self.remote.clone());
        req.extra = self.routes.iter().map(|route| format!("Route: {route}")).collect();
        req.with(&format!("Contact: <{}>", link.contact(self.user)))
    }
}

/// A re-INVITE and its ACK reach the other end, and neither end is challenged.
///
/// # Panics
/// If one of them does not.
pub fn speaks(from: (&mut Link, &mut Side), to: (&mut Link, &'static str)) {
    let (link, side) = from;
    let (other, user) = to;
    let invite = side.request("INVITE", link);
    link.send(&invite.bytes());
    let received = other.request("INVITE");
    other.send(&received.reply(200, "", &[&format!("Contact: <{}>", other.contact(user))]));
    let answer = link.response(&invite);
    assert_eq!(answer.status(), Some(200), "{} to {user}: {}", side.user, answer.start);
    side.target = uri_of(answer.header("Contact").unwrap());
    link.send(&side.request("ACK", link).bytes());
    other.request("ACK");
}

/// A BYE reaches the other end, and its answer the sender.
///
/// # Panics
/// If one of them does not.
pub fn hangs_up(from: (&mut Link, &mut Side), other: &mut Link) {
    let (link, side) = from;
    let bye = side.request("BYE", link);
    link.send(&bye.bytes());
    let received = other.request("BYE");
    other.send(&received.reply(200, "", &[]));
    assert_eq!(link.response(&bye).status(), Some(200));
}
