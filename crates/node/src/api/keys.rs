//! The keys of actors: shown, rotated, revoked.

use serde::{Deserialize, Serialize};
use tenure_core::actor::keys::KeyCommand;
use tenure_core::actor::{Actor as _, Role};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::codec;
use tenure_core::model::identity::{ActorId, PublicKey};
use tenure_core::model::keys::{KeyBook, KeyChain, Standing};
use tenure_core::model::name::Name;
use tenure_core::runtime::{AnyActor, Command};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};
use super::{ApiError, Code};
use crate::config::keys;
use crate::host::Handle;

/// The keys of an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysView {
    /// Its name.
    pub actor: String,
    /// Its id: the hash of its first key.
    pub id: String,
    /// Its keys, the first first.
    pub keys: Vec<KeyView>,
    /// The peers that have yet to note its last statement.
    #[serde(default)]
    pub not_noted_by: Vec<String>,
    /// Its statements in hexadecimal digits, as `tenure ticket verify --keys` takes them.
    pub statements: String,
}

/// A key of an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// Its number, from 1.
    pub number: u32,
    /// The public key.
    pub key: String,
    /// `in-force`, `replaced` or `revoked`.
    pub state: String,
    /// When it was replaced or revoked.
    #[serde(default)]
    pub since: Option<String>,
    /// How many links and receipts that it has signed are honoured, if it is revoked.
    #[serde(default)]
    pub honoured: Option<usize>,
}

/// Bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl KeyView {
    fn of(number: u32, key: &PublicKey, chain: &KeyChain) -> Self {
        let (state, since, honoured) = match chain.standing(key) {
            Standing::InForce | Standing::Foreign => ("in-force", None, None),
            Standing::Rotated(at) => ("replaced", Some(time(at)), None),
            Standing::Revoked(at, honoured) => ("revoked", Some(time(at)), Some(honoured.len())),
        };
        Self { number, key: hex(key.as_bytes()), state: state.to_owned(), since, honoured }
    }
}

/// The keys of an actor: what it has stated, and the one that it signs with.
fn all_keys(actor: &AnyActor, id: ActorId) -> Vec<PublicKey> {
    let chain = actor.keys().chain(id).cloned().unwrap_or_default();
    let keys: Vec<PublicKey> = chain.keys().collect();
    if keys.is_empty() { vec![actor.key()] } else { keys }
}

fn view(actor: &AnyActor, (called, id): (&Name, ActorId), names: &Names) -> KeysView {
    let known: &KeyBook = actor.keys();
    let chain = known.chain(id).cloned().unwrap_or_default();
    let late =
        actor.peers().keys().filter(|&&peer| peer != id && known.noted_by(peer) < chain.count());
    KeysView {
        actor: called.to_string(),
        id: id.to_hex(),
        keys: (1..).zip(all_keys(actor, id)).map(|(n, key)| KeyView::of(n, &key, &chain)).collect(),
        not_noted_by: late.map(|&peer| name(names, peer)).collect(),
        statements: hex(&codec::encode(&chain)),
    }
}

impl KeysView {
    /// The keys of an actor that has one, and was never started.
    pub fn first(actor: &Name, key: &PublicKey) -> Self {
        let chain = KeyChain::default();
        Self {
            actor: actor.to_string(),
            id: ActorId::of(key).to_hex(),
            keys: vec![KeyView::of(1, key, &chain)],
            not_noted_by: Vec::new(),
            statements: hex(&codec::encode(&chain)),
        }
    }
}

impl AppState {
    /// The keys of one actor, or of all.
    pub(super) async fn keys(&self, actor: Option<&Name>) -> ApiResult<Vec<KeysView>> {
        let handles = match actor {
            Some(actor) => vec![self.any_actor(actor)?],
            None => self.all_actors().collect(),
        };
        let mut views = Vec::new();
        for handle in handles {
            let (called, names) = (handle.info().name.clone(), self.names());
            let id = handle.info().id;
            views.push(self.look(handle, move |actor| view(actor, (&called, id), &names)).await?);
        }
        Ok(views)
    }

    /// An actor signs with a new key from now on. The secret is stored first; one that was stored before a
    /// crash is used.
    pub(super) async fn rotate_key(&self, actor: &Name, by: &Asker) -> ApiResult<Vec<KeysView>> {
        let handle = self.any_actor(actor)?;
        if !self.is_repeated(handle, by).await? {
            let id = handle.info().id;
            let number = self.look(handle, move |actor| all_keys(actor, id).len() + 1).await?;
            let file = keys::later(&self.key_of(actor), number);
            let secret = keys::make_or_read(&file)
                .map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
            let command = of_role(handle, KeyCommand::Rotate(secret));
            self.order(handle, (by, ""), command).await?;
        }
        self.keys(Some(actor)).await
    }

    /// Nothing counts any more that an earlier key has signed, but what its actor knows of.
    pub(super) async fn revoke_key(
        &self,
        actor: &Name,
        number: u32,
        by: &Asker,
    ) -> ApiResult<Vec<KeysView>> {
        let handle = self.any_actor(actor)?;
        if !self.is_repeated(handle, by).await? {
            let place = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1);
            let id = handle.info().id;
            let all = self.look(handle, move |actor| all_keys(actor, id)).await?;
            let key = all.get(place).copied();
            let key = key.ok_or_else(|| {
                let help = format!("`tenure keys show {actor}` lists its keys");
                ApiError::new(Code::NoSuch, format!("{actor} has no key {number}")).help(help)
            })?;
            self.order(handle, (by, ""), of_role(handle, KeyCommand::Revoke(key))).await?;
        }
        self.keys(Some(actor)).await
    }
}

fn of_role(handle: &Handle, command: KeyCommand) -> Command {
    match handle.info().role {
        Role::ServiceManager => GuestCommand::Keys(command).into(),
        Role::Broker => BrokerCommand::Keys(command).into(),
        Role::SiteAuthority => SiteCommand::Keys(command).into(),
    }
}
