//! The closing handshake (RFC 6455 sections 5.5.1 and 7).

use super::*;

#[test]
fn server_answers_the_close_of_a_client() {
    let mut endpoint = Endpoint::new(Role::Server);
    let seen = endpoint.take(&[frame(0x88, b"\x03\xe9bye"), frame(0x81, b"late")].concat());
    assert_eq!(seen, [Seen::Close(Some(1001), b"bye".to_vec())], "what follows is discarded");
    assert!(endpoint.buffer.is_empty() && !endpoint.connection.may_send());
    assert_eq!(endpoint.connection.state(), State::Closing);
    let answer = endpoint.connection.close(Some(CloseCode::GOING_AWAY), "", None).expect("the first one");
    assert_eq!(answer.as_bytes(), b"\x88\x02\x03\xe9");
    assert_eq!(endpoint.connection.state(), State::Closed);
    assert!(endpoint.connection.close(None, "", None).is_none(), "a second Close");
}

#[test]
fn client_closes_and_reads_until_the_answer() {
    let mut endpoint = Endpoint::new(Role::Client);
    let close = endpoint.connection.close(Some(CloseCode::NORMAL), "done", Some(KEY)).expect("the first one");
    assert_eq!(server(close.as_bytes()), [Seen::Close(Some(1000), b"done".to_vec())]);
    assert_eq!(endpoint.connection.state(), State::Closing);
    assert!(!endpoint.connection.may_send());
    let crossing = [raw(0x81, b"crossing", None), raw(0x88, b"\x03\xe8", None)].concat();
    assert_eq!(endpoint.take(&crossing), [text(b"crossing"), Seen::Close(Some(1000), Vec::new())]);
    assert_eq!(endpoint.connection.state(), State::Closed);
}

#[test]
fn close_without_a_code_ends_a_fragmented_message() {
    let mut endpoint = Endpoint::new(Role::Server);
    let seen = endpoint.take(&[frame(0x01, b"never "), frame(0x88, b""), frame(0x80, b"ends")].concat());
    assert_eq!(seen, [Seen::Close(None, Vec::new())]);
    assert!(endpoint.buffer.is_empty() && !endpoint.connection.has_begun());
    let answer = endpoint.connection.close(None, "", None).expect("the first one");
    assert_eq!(answer.as_bytes(), [0x88, 0]);
}

#[test]
fn closes_that_cross_need_no_further_answer() {
    let mut endpoint = Endpoint::new(Role::Server);
    assert!(endpoint.connection.close(Some(CloseCode::GOING_AWAY), "", None).is_some());
    assert_eq!(endpoint.take(&frame(0x88, b"")), [Seen::Close(None, Vec::new())]);
    assert_eq!(endpoint.connection.state(), State::Closed);
    assert!(endpoint.connection.close(None, "", None).is_none());
}
