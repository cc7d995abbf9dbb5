//! The Debian package, on copies of this machine's files.

use std::path::Path;
use std::process::Command;

use tenure_tests::{root, tenure};

use crate::deployment::stderr;

/// Packs the built command as this version.
fn pack(version: &str, folder: &Path) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=10s", "300s", "scripts/package", version])
        .arg(folder)
        .current_dir(root())
        .env("TENURE", tenure())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    said.lines().last().expect("a path").to_owned()
}

/// The commands of docs/howto/two-owners.md too, on two machines.
#[test]
#[ignore = "needs root, `ip`, `unshare` and cargo-deb"]
fn the_debian_package_is_installed_upgraded_over_live_leases_and_purged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (pack("0.1.0-1", folder.path()), pack("0.1.0-2", folder.path()));
    let output = Command::new("timeout")
        .args(["--kill-after=10s", "540s", "scripts/try-package", &old, &new])
        .current_dir(root())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    assert!(said.trim_end().ends_with("the guide is true"), "{said}");
}
