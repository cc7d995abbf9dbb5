//! `tenure journal verify`: whether journals are whole, and whether they keep the laws.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value};

use tenure_core::actor::Actor as _;
use tenure_core::actor::snapshot::{self, RestoreError};
use tenure_core::model::identity::{PublicKey, Scheme, Signature};
use tenure_core::model::time::Span;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::hash_of_run;
use tenure_laws::{Participant, Participants, Violation, audit_journals};
use tenure_node::journal::{Head, JournalError, Owner, Reader, Snapshot, Unfit};

use super::VerifyArgs;
use super::listing::{self, Listing};
use super::paths;
use super::replay::replica;
use super::subject::tickets;
use crate::args::SummaryFormat;
use crate::error::Error;
use crate::moment;

/// A journal that is whole.
pub(super) struct Whole {
    pub(super) owner: Owner,
    head: Head,
    pub(super) facts: Vec<Entry>,
    /// How many segments of its archive hold facts.
    segments: usize,
    /// How many snapshots are what the facts give.
    snapshots: usize,
}

/// Checks the journals of `args`, prints what was found, and fails if anything is wrong.
pub(super) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let columns = &[
        "path",
        "role",
        "name",
        "facts",
        "first",
        "last",
        "segments",
        "snapshots",
        "hash",
        "verdict",
    ];
    let mut list = Listing::new("journals", columns);
    let (mut whole, mut failed) = (Vec::new(), None);
    for path in &paths::journals(&args.paths)? {
        match read(path) {
            Ok(journal) => {
                list.add(row(path, &journal));
                whole.push(journal);
            }
            Err(error) => {
                let at = |position| format!("damaged at fact {position}");
                let verdict = error.position().map_or_else(|| "unreadable".to_owned(), at);
                let path = path.display().to_string();
                let nothing = || Value::Null;
                list.add([
                    path.into(),
                    nothing(),
                    nothing(),
                    nothing(),
                    nothing(),
                    nothing(),
                    nothing(),
                    nothing(),
                    nothing(),
                    verdict.into(),
                ]);
                failed.get_or_insert(error);
            }
        }
    }
    whole.sort_by(|a, b| (&a.owner.name, a.owner.role).cmp(&(&b.owner.name, b.owner.role)));
    let audit = audit(&whole, args.margin);
    let mut about = Map::new();
    about.insert("version".to_owned(), 1.into());
    let hash = hash_of_run(whole.iter().map(|journal| journal.head.hash));
    about.insert("hash".to_owned(), hash.to_hex().into());
    about.insert(
        "laws".to_owned(),
        match &audit {
            Ok((laws, checks)) => format!("{laws} laws kept, in {checks} checks").into(),
            Err(violation) => violation.to_string().into(),
        },
    );
    let json = args.output == SummaryFormat::Json;
    if !json {
        about.remove("version");
    }
    listing::print(about, &[list], json, out)?;
    failed.map_or(Ok(()), |error| Err(Error::from(error)))?;
    audit.map(|_| ()).map_err(|violation| Error::Violated(Box::new(violation)))
}

/// Reads and checks a journal.
pub(super) fn read(path: &Path) -> Result<Whole, JournalError> {
    let reader = Reader::open(path)?;
    let kept = reader.snapshots()?;
    let mut facts = Vec::new();
    let (head, segments) = reader.verify(|entry| facts.push(entry))?;
    let owner = reader.owner().clone();
    let mut snapshots = 0;
    for (position, snapshot) in kept {
        let unfit = |cause| JournalError::Snapshot { path: path.to_owned(), position, cause };
        let snapshot = snapshot.map_err(unfit)?;
        snapshots += usize::from(compare(&owner, &snapshot, &facts).map_err(unfit)?);
    }
    Ok(Whole { owner, head, facts, segments: segments.len(), snapshots })
}

/// Whether a snapshot is what the facts before it give (S11), folded under the settings that it names. That
/// of another version of the program cannot be compared; no start uses it.
fn compare(owner: &Owner, snapshot: &Snapshot, facts: &[Entry]) -> Result<bool, Unfit> {
    let settings = match snapshot::about(snapshot.body()) {
        Ok((_, settings)) => settings,
        Err(RestoreError::Version(_)) => return Ok(false),
        Err(other) => return Err(other.into()),
    };
    let before = usize::try_from(snapshot.head().len).ok().and_then(|len| facts.get(..len));
    let mut silent = replica(owner, &settings);
    let mut folds = before.into_iter().flatten().map(|entry| silent.replay(entry));
    if before.is_none() || folds.any(|applied| applied.is_err()) {
        return Err(Unfit::Fold);
    }
    let state = snapshot::hash(&silent.snapshot());
    if state == snapshot.state() { Ok(true) } else { Err(Unfit::Fold) }
}

fn row(path: &Path, whole: &Whole) -> [Value; 10] {
    let Whole { owner, head, facts, segments, snapshots } = whole;
    let time = |entry: Option<&Entry>| entry.map(|entry| moment::show(entry.at)).into();
    [
        path.display().to_string().into(),
        owner.role.to_string().into(),
        owner.name.as_str().into(),
        head.len.into(),
        time(facts.first()),
        time(facts.last()),
        (*segments).into(),
        (*snapshots).into(),
        head.hash.to_hex().into(),
        "whole".into(),
    ]
}

/// Asks the laws; answers how many of them had something to look at, and how often they did.
fn audit(whole: &[Whole], margin: Option<Span>) -> Result<(usize, u64), Violation> {
    let participant = |Whole { owner, .. }: &Whole| {
        let Owner { name, role, id } = owner.clone();
        (id, Participant { name, role, honest: true })
    };
    let participants = Participants {
        members: whole.iter().map(participant).collect(),
        scheme: scheme(whole),
        margin: margin.unwrap_or_default(),
        clocks_hold: margin.is_some(),
    };
    let journals: BTreeMap<_, _> =
        whole.iter().map(|journal| (journal.owner.id, journal.facts.as_slice())).collect();
    let asked = audit_journals(&participants, &journals)?;
    let asked = asked.into_iter().filter(|(_, checks)| *checks > 0);
    Ok(asked.fold((0, 0), |(laws, all), (_, checks)| (laws + 1, all + checks)))
}

/// Whether the tickets are signed at all: some emulations do without.
fn scheme(whole: &[Whole]) -> Scheme {
    let facts = whole.iter().flat_map(|journal| &journal.facts);
    let first = facts.flat_map(|entry| tickets(&entry.fact)).next();
    let signature = first.and_then(|ticket| {
        let bytes = ticket.root().as_bytes();
        bytes.get(PublicKey::LENGTH..PublicKey::LENGTH + Signature::LENGTH)
    });
    match signature {
        Some(signature) if signature.iter().all(|byte| *byte == 0) => Scheme::None,
        Some(_) | None => Scheme::Ed25519,
    }
}
