//! Appending through the journal thread.

use std::sync::mpsc;

use tenure_core::runtime::journal::AppendError;
use tenure_node::journal::Head;
use tenure_wait::{DEADLINE, receive};

use crate::parts::{Place, facts, in_memory, recovered};

#[test]
fn appends_are_acknowledged_in_order_and_durable() {
    let place = Place::new();
    let writer = place.open().unwrap().into_writer().unwrap();
    let (done, answers) = mpsc::channel();
    for position in 0..5_000 {
        let done = done.clone();
        writer.append(position, facts(position..position + 1), move |result| {
            done.send((position, result)).unwrap();
        });
    }
    for position in 0..5_000 {
        assert_eq!(receive(DEADLINE, "an acknowledgement", &answers), (position, Ok(())));
    }
    assert_eq!(writer.head(), Head { len: 5_000, hash: in_memory(5_000).hash() });
    writer.close().unwrap();
    assert_eq!(recovered(&place.path()), facts(0..5_000));
}

#[test]
fn closing_and_dropping_write_what_is_queued() {
    for close in [true, false] {
        let place = Place::new();
        let writer = place.open().unwrap().into_writer().unwrap();
        for position in 0..100 {
            writer.append(position, facts(position..position + 1), |result| result.unwrap());
        }
        if close {
            writer.close().unwrap()
        } else {
            drop(writer)
        }
        assert_eq!(recovered(&place.path()), facts(0..100));
    }
}

#[test]
fn after_the_first_error_every_append_fails() {
    let place = Place::new();
    let writer = place.open().unwrap().into_writer().unwrap();
    let (done, answers) = mpsc::channel();
    for expected in [0, 1, 3, 2] {
        let done = done.clone();
        writer.append(expected, facts(expected..expected + 1), move |result| {
            done.send((expected, result)).unwrap();
        });
    }
    let fenced = Err(AppendError::Fenced { expected: 3, found: 2 });
    let answers: Vec<_> = answers.iter().take(4).collect();
    assert_eq!(answers, [(0, Ok(())), (1, Ok(())), (3, fenced.clone()), (2, fenced)]);
    writer.close().unwrap_err();
    assert_eq!(recovered(&place.path()), facts(0..2));
}
