//! The group that may use the control API, beside owner and root.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist};
use tokio::net::unix::UCred;
use tokio::task::spawn_blocking;

use super::server::AppState;

impl AppState {
    /// Whether someone else is of the group that may ask: by the group of the process, or by the system's list of
    /// groups.
    pub(super) async fn admits(&self, user: UCred) -> bool {
        let Some(group) = self.group() else { return false };
        if user.gid() == group.as_raw() {
            return true;
        }
        // The list may come from elsewhere, and take its time.
        let member = spawn_blocking(move || is_member(Uid::from_raw(user.uid()), group));
        member.await.unwrap_or_default()
    }
}

fn is_member(user: Uid, group: Gid) -> bool {
    let Ok(Some(user)) = User::from_uid(user) else { return false };
    let Ok(name) = CString::new(user.name) else { return false };
    getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_known_by_the_list_of_groups() {
        let Ok(Some(root)) = User::from_uid(Uid::from_raw(0)) else { return };
        assert!(is_member(root.uid, root.gid));
        assert!(!is_member(root.uid, Gid::from_raw(4_000_000_000)));
        assert!(!is_member(Uid::from_raw(4_000_000_000), root.gid));
    }
}
