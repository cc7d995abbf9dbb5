//! Whatever decodes bytes from outside, with samples of what it takes and with what must hold of any input.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_config::{Override, Source};
use tenure_core::actor::{Actor as _, Peers, Role, Setup, snapshot};
use tenure_core::broker::Broker;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::codec;
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Expr, Value};
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{AnyActor, Fact};
use tenure_core::service_manager::ServiceManager;
use tenure_core::site_authority::{Plan, SiteAuthority};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::endorsement::SignedEndorsement;
use tenure_core::wire::invitation::SignedInvitation;
use tenure_core::wire::message::{Envelope, Header, Message, Sealed, Sequence};
use tenure_expr::Demand;
use tenure_node::api::Request;
use tenure_node::api::moment::Moment;
use tenure_node::journal::Reader;
use tenure_node::net::card::{Card, SignedCard};
use tenure_node::net::frame::{Frame, Hello};
use tenure_node::net::task::{Command, Errand, Task, TaskEnd, TaskRefusal};
use tenure_sim::workload::{Kind, Log};
use tenure_tests::root;

use crate::formats;

/// Whether an input was decoded; what is wrong if one was, and not as it must be.
pub(super) type Outcome = Result<bool, String>;

/// A decoder under test.
pub(super) struct Decoder {
    pub(super) name: &'static str,
    pub(super) samples: Vec<Vec<u8>>,
    pub(super) is_text: bool,
    /// How many times as many inputs as of the slowest it gets.
    pub(super) share: u64,
    pub(super) check: fn(&[u8]) -> Outcome,
}

/// What a decoded value comes to when it is encoded again: the same bytes.
fn canonical<T>(bytes: &[u8], decoded: Option<T>, encode: impl FnOnce(&T) -> Vec<u8>) -> Outcome {
    let Some(value) = decoded else { return Ok(false) };
    let again = encode(&value);
    if again == bytes { Ok(true) } else { Err(format!("it is encoded as {again:02x?}")) }
}

fn structure<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Outcome {
    canonical(bytes, codec::decode::<T>(bytes).ok(), codec::encode)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// What is parsed, written out and parsed again is the same.
fn stable<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&str) -> Option<T>,
    write: impl Fn(&T) -> String,
) -> Outcome {
    let Some(value) = text(bytes).and_then(&parse) else { return Ok(false) };
    let written = write(&value);
    match parse(&written) {
        Some(again) if again == value => Ok(true),
        again => Err(format!("{value:?} is written as `{written}`, which is {again:?}")),
    }
}

fn signer(seed: u8) -> Signer {
    Signer::from_seed(Scheme::Ed25519, [seed; 32])
}

fn envelopes() -> Vec<Envelope> {
    let parts = formats::parts();
    let (from, to) = (signer(3).id(), signer(1).id());
    let receipts = vec![parts.receipt.clone()];
    let messages = [
        Message::Ping,
        Message::Request(parts.request.clone()),
        Message::Withdraw(parts.request.clone()),
        Message::Granted { request: parts.request.id, tickets: vec![(0, parts.ticket.clone()); 2] },
        Message::Close { tickets: vec![parts.ticket.clone()] },
        Message::Reclaim { ticket: parts.ticket.clone() },
        Message::Closed { ticket: parts.ticket.hash(), refusal: None, receipts: receipts.clone() },
        Message::Credit { receipts },
        Message::Offered {
            request: parts.request.id,
            offers: formats::offers(&parts),
            until: Some(Time::from_secs(9)),
            refusal: None,
        },
    ];
    let header = |position| {
        let sequence = Sequence { position, index: 0 };
        Header { from, to, sequence, at: Time::from_secs(60) }
    };
    (0..).zip(messages).map(|(at, message)| Envelope { header: header(at), message }).collect()
}

fn sealed() -> Vec<Sealed> {
    let mut credentials = Credentials::new(signer(3));
    let mut sealed: Vec<_> =
        envelopes().iter().map(|envelope| envelope.seal(&mut credentials)).collect();
    sealed.push(formats::pong(&formats::parts()));
    sealed
}

fn card() -> SignedCard {
    let card = Card {
        actor: signer(1).id(),
        name: Name::literal("alpha"),
        role: Role::SiteAuthority,
        address: "192.0.2.1:7400".to_owned(),
        number: 7,
        until: Time::from_secs(90),
    };
    SignedCard::sign(card, &signer(1), formats::key_chain())
}

fn command() -> Command {
    let words = vec!["make".to_owned()];
    Command { unit: UnitId(3), epoch: Epoch(5), user: None, words, timeout: Span::MINUTE }
}

fn frames() -> Vec<Vec<u8>> {
    let (here, there) = (signer(1).id(), signer(2).id());
    let frames = [
        Frame::Hello(Hello::new(here, there)),
        Frame::Messages(sealed()),
        Frame::Started,
        Frame::Watermark(sealed().pop()),
        Frame::Watermark(None),
        Frame::Alive,
        Frame::Bye("it is over".to_owned()),
        Frame::Ticket(formats::parts().ticket),
        Frame::Card(card()),
        Frame::Where(here),
        Frame::Invitation(formats::invitation()),
        Frame::Endorsement(formats::endorsement()),
        Frame::Relay(vec![here]),
        Frame::Dialled(here, [9; 16]),
        Frame::Task(Box::new(Task { keys: formats::key_chain(), errand: Errand::Run(command()) })),
        Frame::TaskEnd(Box::new(TaskEnd::Refused(TaskRefusal::NoTenant(UnitId(3))))),
    ];
    frames.iter().map(|frame| frame.to_bytes()[4..].to_vec()).collect()
}

fn frame(bytes: &[u8]) -> Outcome {
    // What a later version has in its frames is not kept.
    let decoded = Frame::read(bytes).ok().filter(|frame| !matches!(frame, Frame::Unknown(_)));
    canonical(bytes, decoded, |frame| frame.to_bytes()[4..].to_vec())
}

/// A sealed message, and what is in it.
fn message(bytes: &[u8]) -> Outcome {
    if let Ok(sealed) = codec::decode::<Sealed>(bytes)
        && sealed.peek().is_ok()
    {
        envelope(sealed.bytes())?;
    }
    structure::<Sealed>(bytes)
}

/// What is signed of a message: its version, and the envelope.
fn envelope(bytes: &[u8]) -> Outcome {
    canonical(bytes, Envelope::read(bytes).ok(), |envelope| {
        envelope.seal(&mut Credentials::new(signer(3))).bytes().to_vec()
    })
}

/// A row of a journal: the kind of its fact, the version of that, and the body.
fn rows() -> Vec<Vec<u8>> {
    let row = |fact: &Fact| {
        let (kind, version) = fact.kind();
        let mut bytes = [kind.as_bytes(), &[0, version.to_le_bytes()[0]]].concat();
        fact.encode_into(&mut bytes);
        bytes
    };
    formats::samples().iter().map(row).collect()
}

fn row(bytes: &[u8]) -> Outcome {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(kind), Some([version, body @ ..])) = (parts.next().and_then(text), parts.next())
    else {
        return Ok(false);
    };
    canonical(body, Fact::decode(kind, u16::from(*version), body).ok(), |fact| {
        let mut again = Vec::new();
        fact.encode_into(&mut again);
        again
    })
}

fn evidence() -> Evidence {
    let ticket = formats::parts().ticket;
    let links = ticket.links().to_vec();
    Evidence { parents: vec![ticket], links, at: Time::from_secs(60).plus(Span::HOUR) }
}

/// Journals of a deployment that has run, with snapshots and an archive.
pub(super) const JOURNALS: &str = "TENURE_FUZZ_JOURNALS";

fn journals() -> Vec<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(JOURNALS).expect("journals"));
    let actors = ["alpha", "exchange", "guest"];
    actors.iter().map(|actor| folder.join(format!("{actor}.db"))).collect()
}

fn snapshots() -> Vec<Vec<u8>> {
    let journals = journals();
    let found = journals.iter().flat_map(|path| {
        Reader::open(path).and_then(|reader| reader.snapshots()).expect("snapshots")
    });
    found.map(|(_, snapshot)| snapshot.expect("a snapshot").body().to_vec()).collect()
}

/// What a snapshot says of itself, and all of it as an actor of its role takes it.
fn restored(bytes: &[u8]) -> Outcome {
    let Ok((role, settings)) = snapshot::about(bytes) else { return Ok(false) };
    let (name, signer) = (Name::literal("any"), Signer::from_seed(Scheme::None, [0; 32]));
    let setup = Setup { name, signer, margin: settings.margin, peers: Peers::default() };
    let mut actor: AnyActor = match role {
        Role::ServiceManager => ServiceManager::new(setup, settings.leave_before).into(),
        Role::Broker => Broker::new(setup).into(),
        Role::SiteAuthority => SiteAuthority::new(setup, Plan::default()).into(),
    };
    // That of a site has settings which this one has not.
    drop(actor.restore(bytes));
    Ok(true)
}

/// The files of journals: which one it is, and its bytes.
fn files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for (number, path) in (0..).zip(journals()) {
        let segment = path.with_extension("db-archive").join("00000000.segment");
        for (kind, path) in [(0, path), (1, segment)] {
            let bytes = fs::read(path).expect("a file");
            files.push([&[number, kind][..], &bytes].concat());
        }
    }
    files
}

/// A journal one of whose files was changed, read as `tenure journal verify` does.
fn file(bytes: &[u8]) -> Outcome {
    let [number, kind, bytes @ ..] = bytes else { return Ok(false) };
    let journals = journals();
    let path = &journals[usize::from(*number) % journals.len()];
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let copy = place.path().join(path.file_name().unwrap_or_default());
    let (archive, archive_copy) =
        (path.with_extension("db-archive"), copy.with_extension("db-archive"));
    let copied = fs::create_dir(&archive_copy).and_then(|()| {
        for entry in fs::read_dir(&archive)? {
            let entry = entry?;
            fs::copy(entry.path(), archive_copy.join(entry.file_name()))?;
        }
        fs::copy(path, &copy)?;
        fs::write(
            if kind % 2 == 0 { copy.clone() } else { archive_copy.join("00000000.segment") },
            bytes,
        )
    });
    copied.map_err(|error| error.to_string())?;
    Ok(whole(&copy))
}

fn whole(path: &Path) -> bool {
    let Ok(reader) = Reader::open(path) else { return false };
    let snapshots = reader.snapshots().is_ok();
    reader.verify(|_| ()).is_ok() && snapshots
}

fn configurations(folders: &[&str]) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        files.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files.iter().map(|path| fs::read(path).expect("a file")).collect()
}

fn live_configurations() -> Vec<Vec<u8>> {
    let peer = "listen = \"127.0.0.1:7400\"\n[site.alpha]\nunits = 4\n[site.alpha.stack]\n[peer.exchange]\n\
                role = \"broker\"\naddress = \"127.0.0.1:7401\"\nid = ";
    let peer = format!("{peer}\"{}\"\n", signer(2).id().to_hex());
    let mut all = vec![fs::read(root().join("config/dev.toml")).expect("a file")];
    all.push(peer.into_bytes());
    all
}

const EXPRESSIONS: &[&str] = &[
    "cpus >= 8 and memory > 16GiB",
    "image in {\"debian\", \"arch\"} or not (zone = \"east\")",
    "gpus = 0 or memory / gpus >= 8GiB",
    "`guest-os` = \"gr\\u{f6}\u{df}e\" and features has \"sriov\"",
    "kernel >= v1.20 and speed * 2 - 1.5 < 2.4 and uptime != -1h30m",
];

const DEMANDS: &[&str] = &[
    "4 node",
    "2..4 node where 'cpus >= 8', 1 gpu",
    "(4 node where 'memory >= 16GiB', 1..2 gpu), 1 disk after 1h | 8 node",
    "1 node, optional 1 gpu",
];

const LINES: &[&str] = &[
    r#"{"do":"status"}"#,
    r#"{"do":"leases","manager":"guest","all":true,"limit":10}"#,
    r#"{"do":"extend","lease":"guest/1.0","duration":"1h"}"#,
    r#"{"do":"recall","ticket":"ab12","units":3,"from":null}"#,
    r#"{"do":"unit","site":"alpha","unit":"u3","act":{"quarantine":"old"}}"#,
    r#"{"do":"ask","slice":"main","demand":"2..4 node where 'cpus >= 8'","duration":"1h"}"#,
    r#"{"do":"close","lease":"guest/1","by":"2026-11-21T18:05:32Z"}"#,
];

const MOMENTS: &[&str] =
    &["now", "now+1h30m", "2026-11-21T18:05:32.409Z", "2026-11-23T09:00:00+01:00"];

const SWF: &str = "; Computer: a small one\n; MaxProcs: 64\n1 0 10 3600 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1\n\
                   2 60 0 60 64 -1 -1 64 60 -1 1 2 1 1 1 -1 -1 -1\n";
const CSV: &str = "time,demand\n0,1\n3600,2.5\n7200,0\n";

fn of(lines: &[&str]) -> Vec<Vec<u8>> {
    lines.iter().map(|line| line.as_bytes().to_vec()).collect()
}

fn log(bytes: &[u8], kind: Kind) -> Outcome {
    Ok(Log::parse("log", bytes, kind, None).is_ok())
}

fn live(bytes: &[u8]) -> Outcome {
    let parsed =
        text(bytes).map(|text| tenure_node::config::parse(Source { name: "live.toml", text }, &[]));
    Ok(parsed.is_some_and(|parsed| parsed.is_ok()))
}

fn scenario(bytes: &[u8]) -> Outcome {
    let parsed = text(bytes)
        .map(|text| tenure_sim::scenario::parse(Source { name: "scenario.toml", text }, &[]));
    Ok(parsed.is_some_and(|parsed| parsed.is_ok()))
}

fn line(bytes: &[u8]) -> Outcome {
    let parse = |text: &str| serde_json::from_str::<Request>(text).ok();
    stable(bytes, parse, |request| serde_json::to_string(request).unwrap_or_default())
}

/// All of them.
pub(super) fn all() -> Vec<Decoder> {
    let parts = formats::parts();
    let messages: Vec<_> = sealed().iter().map(codec::encode).collect();
    let signed = sealed().iter().map(|sealed| sealed.bytes().to_vec()).collect();
    let invitation = vec![codec::encode(&formats::invitation())];
    let endorsement = vec![codec::encode(&formats::endorsement())];
    let keys = vec![codec::encode(&formats::key_chain())];
    let hello = vec![codec::encode(&Hello::new(signer(1).id(), signer(2).id()))];
    let binary =
        |name, samples, share, check| Decoder { name, samples, is_text: false, share, check };
    let texts =
        |name, samples, share, check| Decoder { name, samples, is_text: true, share, check };
    vec![
        binary("frame", frames(), 20, frame),
        binary("hello", hello, 10, structure::<Hello>),
        binary("message", messages, 20, message),
        binary("envelope", signed, 20, envelope),
        binary("ticket", vec![codec::encode(&parts.ticket)], 20, structure::<Ticket>),
        binary("evidence", vec![codec::encode(&evidence())], 20, structure::<Evidence>),
        binary("receipt", vec![codec::encode(&parts.receipt)], 20, structure::<Receipt>),
        binary("card", vec![codec::encode(&card())], 20, structure::<SignedCard>),
        binary("invitation", invitation, 20, structure::<SignedInvitation>),
        binary("endorsement", endorsement, 20, structure::<SignedEndorsement>),
        binary("keys", keys, 20, structure::<KeyChain>),
        binary("row", rows(), 40, row),
        binary("snapshot", snapshots(), 4, restored),
        binary("journal", files(), 1, file),
        texts("live configuration", live_configurations(), 1, live),
        texts("scenario", configurations(&["config/emulations"]), 1, scenario),
        texts("override", of(&["message.loss=0.1", "seed = 7"]), 10, |bytes| {
            Ok(text(bytes).is_some_and(|text| text.parse::<Override>().is_ok()))
        }),
        texts("SWF", of(&[SWF]), 10, |bytes| log(bytes, Kind::SwfInUse)),
        texts("CSV", of(&[CSV]), 10, |bytes| log(bytes, Kind::Csv)),
        texts("expression", of(EXPRESSIONS), 20, |bytes| {
            stable(bytes, |text| Expr::parse(text).ok(), |expr| expr.as_str().to_owned())
        }),
        texts("value", of(&["16GiB", "-3", "true", "\"text\"", "{1, 2}"]), 10, |bytes| {
            stable(bytes, |text| Value::parse(text).ok(), ToString::to_string)
        }),
        texts("demand", of(DEMANDS), 20, |bytes| {
            stable(bytes, |text| Demand::parse(text).ok(), ToString::to_string)
        }),
        texts("moment", of(MOMENTS), 10, |bytes| {
            stable(bytes, |text| text.parse::<Moment>().ok(), ToString::to_string)
        }),
        texts("control API", of(LINES), 20, line),
    ]
}
