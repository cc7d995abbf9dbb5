//! TCP from one network namespace of this machine to another, and how much of it arrives.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tenure_node::driver::namespace;

/// How long a connection may take: longer than the kernel looks for a neighbour, which the next one asks for again.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long nothing may arrive, or be sent.
const SILENT: Duration = Duration::from_secs(10);

/// How long the connection is used before it is measured: by then it sends as fast as it can.
const BEFORE: Duration = Duration::from_millis(500);

/// An end of a transfer: an address in a network namespace.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// The namespace, by its name.
    pub(super) space: String,
    pub(super) address: IpAddr,
}

/// The rate in bits per second at which one end receives from the other, measured for so long. `most` limits what is
/// sent.
pub(super) fn received(
    [from, to]: [&End; 2],
    lasting: Duration,
    most: Option<f64>,
) -> io::Result<f64> {
    let listener = to.inside(|| TcpListener::bind((to.address, 0)))?;
    let address = listener.local_addr()?;
    let sender = from.inside(|| TcpStream::connect_timeout(&address, CONNECTING))?;
    let receiver = accepted(&listener, sender.local_addr()?)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, most, &over));
        let rate = receive(&receiver, lasting);
        over.store(true, Ordering::Relaxed);
        drop(receiver);
        let sent = sending.join().unwrap_or_else(|_| Err(io::Error::other("the sender failed")));
        let rate = rate?;
        sent.map(|()| rate)
    })
}

impl End {
    /// Does something in its namespace, on a thread of its own. What is opened there stays there.
    fn inside<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let space: File = namespace(&self.space)?;
        thread::scope(|scope| {
            let moved = || {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
                what()
            };
            let failed = |_| Err(io::Error::other("the thread failed"));
            scope.spawn(moved).join().unwrap_or_else(failed)
        })
    }
}

/// The connection from an address, which comes as soon as the other side's answer gets through.
fn accepted(listener: &TcpListener, from: SocketAddr) -> io::Result<TcpStream> {
    let most = Timespec::try_from(CONNECTING).map_err(io::Error::other)?;
    if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&most))? == 0 {
        return Err(in_time(io::Error::from(ErrorKind::WouldBlock)));
    }
    let (stream, peer) = listener.accept()?;
    if peer != from {
        return Err(io::Error::other(format!("{peer} has connected as well: measure again")));
    }
    Ok(stream)
}

/// Sends until it is over, after which the other side may be gone.
fn send(mut stream: TcpStream, most: Option<f64>, over: &AtomicBool) -> io::Result<()> {
    stream.set_write_timeout(Some(SILENT))?;
    let block = [0; 1 << 13];
    let of_block = most.map(|most| Duration::from_secs_f64(8.0 * block.len() as f64 / most));
    let mut due = Instant::now();
    while !over.load(Ordering::Relaxed) {
        match stream.write_all(&block) {
            Err(_) if over.load(Ordering::Relaxed) => {}
            written => written.map_err(in_time)?,
        }
        if let Some(of_block) = of_block {
            due += of_block;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

fn receive(mut stream: &TcpStream, lasting: Duration) -> io::Result<f64> {
    stream.set_read_timeout(Some(SILENT))?;
    // Larger than what a socket keeps: each time is that of all that has arrived.
    let mut buffer = vec![0; 1 << 23];
    let mut read = || match stream.read(&mut buffer).map_err(in_time)? {
        0 => Err(io::Error::from(ErrorKind::UnexpectedEof)),
        bytes => Ok(bytes),
    };
    let begun = Instant::now();
    while begun.elapsed() < BEFORE {
        read()?;
    }
    let (begun, mut bytes) = (Instant::now(), 0_usize);
    while begun.elapsed() < lasting {
        bytes += read()?;
    }
    Ok(8.0 * bytes as f64 / begun.elapsed().as_secs_f64())
}

/// What a socket says when its time is over is that it would have to wait.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    let why = format!("nothing came through for {} s", SILENT.as_secs());
    io::Error::new(ErrorKind::TimedOut, why)
}
