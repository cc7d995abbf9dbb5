//! The control API: who asks nothing, reads nothing or comes in numbers does not keep others from it.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};
use serde_json::Value;
use tenure_config::Source;
use tenure_node::api::client::{Client, ClientError};
use tenure_node::api::{self, AppState, Limits, Request};
use tenure_node::config::parse;
use tenure_wait::{DEADLINE, done_in_time, eventually_async, in_time};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

const CONFIG: &str = "[site.a]\nunits = 1\n[broker.b]\n[service-manager.g]\n";

/// Runs a test on a deployment whose API has these limits.
fn with(limits: Limits, test: impl AsyncFnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    actix::System::new().block_on(async {
        let config =
            parse(Source { name: "live.toml", text: CONFIG }, &[]).expect("a configuration");
        let deployment = config.assemble(folder.path()).expect("a deployment");
        let clock = Arc::clone(&deployment.clock);
        let running = deployment.start().await.expect("it starts");
        let app = AppState::new(&running, config, folder.path().to_owned(), clock);
        let socket = folder.path().join("socket");
        let listener = Rc::new(UnixListener::bind(&socket).expect("a socket"));
        let served = actix::spawn(api::serve(listener, Rc::new(app), limits));
        in_time(2 * DEADLINE, "the end of the test", test(&socket)).await;
        served.abort();
        running.stop().await.expect("it stops");
    });
}

async fn connect(socket: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket).await.expect("a connection"))
}

/// Asks how the deployment is.
async fn status(connection: &mut BufReader<UnixStream>) -> Value {
    // Who is turned away can be so before it has asked.
    let _ = connection.get_mut().write_all(b"{\"do\":\"status\"}\n").await;
    answer(connection).await
}

async fn answer(connection: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    connection.read_line(&mut line).await.expect("an answer");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn who_asks_nothing_or_half_of_something_is_hung_up_on() {
    let limits = Limits { request: Duration::from_millis(100), ..Limits::default() };
    with(limits, async |socket| {
        for begun in ["", "{\"do\":", "{\"do\":\"status\"}\n"] {
            let mut connection = connect(socket).await;
            connection.get_mut().write_all(begun.as_bytes()).await.unwrap();
            let mut answers = String::new();
            connection.read_to_string(&mut answers).await.unwrap();
            assert_eq!(answers.lines().count(), begun.lines().filter(|l| l.ends_with('}')).count());
        }
    });
}

#[test]
fn connections_are_limited_and_one_more_gets_an_error() {
    let limits = Limits { connections: 2, ..Limits::default() };
    with(limits, async |socket| {
        let mut first = connect(socket).await;
        let mut second = connect(socket).await;
        for connection in [&mut first, &mut second] {
            assert!(status(connection).await["ok"].is_object());
        }
        let mut third = connect(socket).await;
        assert_eq!(status(&mut third).await["error"]["code"], "busy");
        drop(second);
        eventually_async(DEADLINE, "room for one more", async || {
            let answer = status(&mut connect(socket).await).await;
            let is_in = answer["ok"].is_object();
            assert!(is_in || answer["error"]["code"] == "busy", "{answer}");
            is_in
        })
        .await;
        assert!(status(&mut first).await["ok"].is_object());
    });
}

#[test]
fn there_are_only_so_many_watches() {
    let limits = Limits { watches: 0, ..Limits::default() };
    with(limits, async |socket| {
        let mut connection = connect(socket).await;
        connection.get_mut().write_all(b"{\"do\":\"watch\"}\n").await.unwrap();
        assert_eq!(answer(&mut connection).await["error"]["code"], "busy");
        assert!(status(&mut connection).await["ok"].is_object(), "it can go on to ask");
    });
}

#[test]
fn a_client_waits_for_nothing_without_a_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    // There is room for one that waits.
    let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    net::bind(&socket, &SocketAddrUnix::new(&path).expect("an address")).expect("a name");
    net::listen(&socket, 0).expect("a queue");
    let mut silent = Client::connect(&path).expect("a place in the queue");
    let brief = Some(Duration::from_millis(50));
    for request in [Request::Status, Request::Watch { lease: None }] {
        let error = silent.ask_within::<Value>(&request, brief).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
    }
    let (begins, has_begun) = std::sync::mpsc::channel();
    let second = std::thread::spawn(move || {
        begins.send(()).expect("who waits for it");
        Client::connect(&path).map(drop)
    });
    has_begun.recv().expect("its beginning");
    drop(net::accept(&socket).expect("the first"));
    done_in_time(DEADLINE, "a connection", || second.join().unwrap().expect("room by now"));
}

#[test]
fn who_does_not_read_answers_is_hung_up_on() {
    let limits = Limits { answer: Duration::from_millis(100), ..Limits::default() };
    with(limits, async |socket| {
        let mut connection = connect(socket).await;
        let ask = async {
            while connection.get_mut().write_all(b"{\"do\":\"metrics\"}\n").await.is_ok() {}
        };
        in_time(DEADLINE, "the end of the connection", ask).await;
        assert!(status(&mut connect(socket).await).await["ok"].is_object());
    });
}
