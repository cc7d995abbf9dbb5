//! Peer watermarks, stored beside the facts: the latest signed message of each peer, which reveals that a
//! journal was restored from an older copy.

use rusqlite::{Connection, Transaction, params};
use tenure_core::actor::watermark::{PeerWatermark, Watermarks};
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::Sealed;

/// Reads all watermarks. One that cannot be read is skipped: each is signed, so it can be lost but not
/// forged.
pub(super) fn read(connection: &Connection) -> Result<Watermarks, rusqlite::Error> {
    let mut select = connection.prepare("SELECT peer, sealed FROM word")?;
    let mut rows = select.query([])?;
    let mut watermarks = Watermarks::default();
    while let Some(row) = rows.next()? {
        let peer = codec::decode::<ActorId>(row.get_ref(0)?.as_blob()?);
        let sealed = codec::decode::<Sealed>(row.get_ref(1)?.as_blob()?);
        if let (Ok(peer), Ok(sealed)) = (peer, sealed)
            && let Ok(envelope) = sealed.peek()
        {
            watermarks.record(peer, PeerWatermark::of(&envelope, &sealed));
        }
    }
    Ok(watermarks)
}

/// Replaces stored watermarks. Returns their size in bytes.
pub(super) fn write(
    transaction: &Transaction<'_>,
    watermarks: &[(ActorId, PeerWatermark)],
) -> Result<u64, rusqlite::Error> {
    let mut insert =
        transaction.prepare_cached("INSERT OR REPLACE INTO word (peer, sealed) VALUES (?1, ?2)")?;
    let mut bytes = 0;
    for (peer, word) in watermarks {
        let (peer, sealed) = (codec::encode(peer), codec::encode(&word.sealed));
        bytes += (peer.len() + sealed.len()) as u64;
        insert.execute(params![peer, sealed])?;
    }
    Ok(bytes)
}
