//! Strangers that open connections to a site and bring nothing, or a byte now and then, beside the lives of a guest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tenure_core::actor::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::apart::Apart;
use super::common::of;
use super::{Load, Rate, put};

/// From how many addresses of this machine they come, and how many of each kind from one.
const ADDRESSES: u8 = 100;
const OF_EACH: usize = 10;

/// How a handshake begins, a byte of which comes at a time.
const RECORD: [u8; 9] = [22, 3, 1, 2, 0, 1, 0, 1, 0xfc];
const BYTE_EVERY: Duration = Duration::from_millis(250);

async fn connect(from: Ipv4Addr, site: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    socket.connect(site).await
}

/// Connects again and again, after pauses, and sends these bytes slowly.
async fn come_again(from: Ipv4Addr, site: SocketAddr, sends: &[u8], pause: Duration) {
    loop {
        sleep(pause).await;
        let Ok(mut stream) = connect(from, site).await else { continue };
        for byte in sends {
            let closed = timeout(BYTE_EVERY, stream.read_u8()).await.is_ok();
            if closed || stream.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        // Until the site gives it up.
        drop(stream.read_u8().await);
    }
}

/// Runs them on a thread of their own until what this answers is dropped.
fn strangers(site: SocketAddr, pause: Duration) -> oneshot::Sender<()> {
    let (over, ended) = oneshot::channel();
    let come = async move {
        for last in 0..ADDRESSES {
            let from = Ipv4Addr::new(127, 0, 1, last + 1);
            for _ in 0..OF_EACH {
                tokio::spawn(come_again(from, site, &[], pause));
                tokio::spawn(come_again(from, site, &RECORD, pause));
            }
        }
        drop(ended.await);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || runtime.block_on(come));
    over
}

/// Measures, and prints a line of JSON.
pub(super) async fn measure(folder: &Path, rate: u32, seconds: u32, pause: Duration) {
    let four = Apart::start(folder, 0).await;
    let (guest, load) = (of(&four.guest, Role::ServiceManager), Load::Paced(rate));
    let before = put(&guest, &load, seconds).await;
    let strangers = strangers(four.at_site.parse().unwrap(), pause);
    // Until all places are taken that there are for who has not shown who it is.
    sleep(pause + Duration::from_secs(1)).await;
    let meanwhile = put(&guest, &load, seconds).await;
    drop(strangers);
    let figures =
        |Rate { p50, p99, .. }: &Rate| format!("{{\"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}");
    println!(
        "{{\"strangers\": {}, \"pause_ms\": {}, \"paced_per_s\": {rate}, \"before\": {}, \"meanwhile\": {}, \"p99_ratio\": {:.1}}}",
        usize::from(ADDRESSES) * OF_EACH * 2,
        pause.as_millis(),
        figures(&before),
        figures(&meanwhile),
        meanwhile.p99 / before.p99,
    );
    four.stop().await;
}
