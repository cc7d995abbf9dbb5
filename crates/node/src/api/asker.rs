//! Who asks for a change, and under which key: a change is made once.

use std::hash::{BuildHasher as _, RandomState};

use tenure_core::actor::Actor as _;
use tenure_core::actor::order::{MAX_KEY, Order};
use tenure_core::model::codec::Hash;
use tenure_core::runtime::Command;

use super::server::{ApiResult, AppState, refused};
use super::{ApiError, Code, Request};
use crate::host::{Committed, Handle};
use crate::journal::{JournalError, Reader};

/// Who asks for a change, and what names it.
pub(super) struct Asker {
    uid: u32,
    key: String,
    who: String,
    digest: Hash,
    /// Whether the asker chose the key.
    chosen: bool,
}

impl Asker {
    /// User `uid` asks for this; under a key of its own unless one is chosen.
    pub(super) fn new(uid: u32, key: Option<String>, request: &Request) -> ApiResult<Self> {
        if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY) {
            let message = format!("an id has 1 to {MAX_KEY} bytes");
            return Err(ApiError::new(Code::Usage, message).help("leave it out, or choose another"));
        }
        let body = serde_json::to_vec(request).unwrap_or_default();
        let digest = Hash::of("tenure order v1", &[&body]);
        let chosen = key.is_some();
        // Two new states of a hasher have different seeds.
        let random = || RandomState::new().hash_one(&body);
        let key = key.unwrap_or_else(|| format!("auto-{:016x}{:016x}", random(), random()));
        Ok(Self { uid, key, who: format!("uid {uid}"), digest, chosen })
    }

    /// The user, by number.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether the asker chose the key.
    pub(super) fn has_key(&self) -> bool {
        self.chosen
    }

    fn order(&self, part: &str) -> Order {
        let Self { key, who, digest, .. } = self;
        Order { key: key.clone(), part: part.to_owned(), who: who.clone(), digest: *digest }
    }

    fn conflict(&self, cause: String) -> ApiError {
        ApiError::new(Code::Usage, cause.replace("key", "id"))
            .help("choose another --id, or ask for the same as before")
    }
}

impl AppState {
    /// Whether a change was asked for before under the same key, and made at least in part: whether it makes
    /// sense now is then no question.
    pub(super) async fn is_repeated(&self, handle: &Handle, by: &Asker) -> ApiResult<bool> {
        let (now, order) = (self.now(), by.order(""));
        let known = self.look(handle, move |actor| actor.orders().stands_for(now, &order)).await?;
        known.map_err(|cause| by.conflict(cause))
    }

    /// Has a command carried out once; answers the facts that came of it, now or before.
    pub(super) async fn order(
        &self,
        handle: &Handle,
        (by, part): (&Asker, &str),
        command: impl Into<Command>,
    ) -> ApiResult<Committed> {
        let (now, order) = (self.now(), by.order(part));
        let same = order.clone();
        let done = self.look(handle, move |actor| actor.done(now, &same)).await?;
        let Some(done) = done.map_err(|cause| by.conflict(cause))? else {
            return handle.order(command, order).await.map_err(|error| refused(&error));
        };
        let path = self.journal(&handle.info().name);
        let first = done.first;
        let failed = |error: &dyn std::fmt::Display| {
            ApiError::new(Code::Failed, format!("the journal of {}: {error}", handle.info().name))
        };
        // The disk takes its time, and others ask meanwhile.
        let read =
            tokio::task::spawn_blocking(move || Reader::open(&path)?.facts(first, done.facts));
        let facts: Result<_, JournalError> = read.await.map_err(|error| failed(&error))?;
        Ok(Committed { position: first, facts: facts.map_err(|error| failed(&error))? })
    }
}
