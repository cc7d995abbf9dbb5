//! A link between two processes, which can be cut: whoever dials is brought on, byte by byte, as long as it holds.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Open,
    /// What is sent on it does not arrive, in this direction or in the other, and nobody is told.
    Silent {
        forth: bool,
        back: bool,
    },
    /// Connections are broken, and none comes about.
    Cut,
}

/// How often a pump that has nothing to pass on looks whether the link was cut.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A link, seen from one of its ends.
#[derive(Clone)]
pub(super) struct Link(Arc<(Mutex<Way>, Condvar)>);

impl Link {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(Way::Open), Condvar::new())))
    }

    pub(super) fn set(&self, way: Way) {
        *self.0.0.lock().expect("no panic") = way;
        self.0.1.notify_all();
    }

    fn is_cut(&self) -> bool {
        *self.0.0.lock().expect("no panic") == Way::Cut
    }

    /// Waits until bytes may pass in a direction; whether they ever may.
    fn passes(&self, forth: bool) -> bool {
        let held = |way: &mut Way| match *way {
            Way::Open | Way::Cut => false,
            Way::Silent { forth: there, back } => {
                if forth {
                    there
                } else {
                    back
                }
            }
        };
        let way = self.0.0.lock().expect("no panic");
        let way = self.0.1.wait_while(way, held).expect("no panic");
        *way != Way::Cut
    }

    /// Where `to` is dialled over this link. It is there until the test ends.
    pub(super) fn to(&self, to: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (link, to) = (self.clone(), to.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !link.is_cut()
                    && let Ok(other) = TcpStream::connect(&to)
                {
                    link.join(&stream, &other);
                }
            }
        });
        address
    }

    fn join(&self, one: &TcpStream, other: &TcpStream) {
        for (from, to, forth) in [(one, other, true), (other, one, false)] {
            let clones = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
            let Ok((mut from, mut to)) = clones else { continue };
            let link = self.clone();
            thread::spawn(move || {
                link.pump((&mut from, &mut to), forth);
                drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
            });
        }
    }

    fn pump(&self, (from, to): (&mut TcpStream, &mut TcpStream), forth: bool) {
        let mut bytes = [0; 1 << 14];
        if from.set_read_timeout(Some(LOOK_EVERY)).is_err() || to.set_nodelay(true).is_err() {
            return;
        }
        while !self.is_cut() {
            match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) if self.passes(forth) && to.write_all(&bytes[..count]).is_ok() => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}
