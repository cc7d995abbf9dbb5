//! A configuration changes in place, by a program, through a kill.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, written};

/// Each unit is a file with the image that it was set up with. A change waits as long as `open` is not there.
const IMAGES: &str = r#"#!/bin/sh
read -r input
unit=${input#*\"unit\":}
file=${unit%%,*}.image
image=${input#*\"image\":\"}
image=${image%%\"*}
case $input in
*'"step":"setup"'*) echo "$image" >"$file" ;;
*'"step":"modify"'*)
    case $image in bad) echo "no such image" >&2; exit 1 ;; esac
    echo "$image" >"$file.begun"
    [ -e open ] || exec sleep 3600
    echo "$image" >"$file" ;;
*'"step":"teardown"'*) rm -f "$file" "$file.begun" ;;
*) if [ -e "$file" ]; then
       printf '{"state":"up","properties":{"image":"%s"}}' "$(cat "$file")"
   else
       echo '{"state":"down"}'
   fi ;;
esac
"#;

/// The image that the guest knows its unit to have.
fn image(deployment: &Deployment) -> String {
    let lease = deployment.lease("1");
    lease["in_hand"][0]["properties"]["image"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_change_by_a_program_survives_a_kill_and_one_that_fails_leaves_all_as_it_was() {
    let data = tempfile::tempdir().expect("a folder");
    let program = data.path().join("images");
    fs::write(&program, IMAGES).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let sum = Command::new("sha256sum").arg(&program).output().expect("sha256sum");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let (sum, path) = (sum.split(' ').next().expect("a hash"), program.display());
    let driver = format!(
        "{{ name = \"exec\", setup = \"{path}\", teardown = \"{path}\", modify = \"{path}\", \
         probe = \"{path}\", allow = [\"{sum}\"] }}"
    );
    let config = format!(
        "[site.alpha]\nunits = 1\ndriver = {driver}\n[broker.exchange]\n[service-manager.guest]\n"
    );
    let mut deployment = Deployment::of(&config, data);
    deployment.json("lease request 1 --for 1h --property image=v1 --wait");
    assert_eq!(image(&deployment), "v1");
    let drivers = deployment.data.path().join("drivers/alpha");
    deployment.json("lease modify 1 image=v2");
    assert_eq!(written(&drivers.join("0.image.begun")), "v2");
    assert_eq!(deployment.end("-KILL"), None);
    fs::write(drivers.join("open"), "").expect("the way is free");
    deployment.restart_up();
    eventually(DEADLINE, "the changed image", || image(&deployment) == "v2");
    let lease = deployment.lease("1");
    assert_eq!((&lease["state"], &lease["in_hand"][0]["epoch"]), (&"active".into(), &1.into()));
    let failed = deployment.tenure("lease modify 1 image=bad --wait");
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(image(&deployment), "v2");
    assert_eq!(deployment.lease("1")["configuration"]["image"], "v2");
}
