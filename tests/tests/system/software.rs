//! What tests share in which adapters meet real software.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tenure_tests::root;

use crate::deployment::Deployment;

/// The program of a site whose units have names and addresses, and are nothing else.
const SITE: &str = r#"#!/bin/sh
read -r input
of() { echo "$input" | sed "s/.*\"$1\":\"*\([a-z0-9]*\).*/\1/"; }
unit=$(of unit)
properties="\"properties\":{\"host.name\":\"e$unit\",\"host.privipaddr\":\"127.0.1.2$unit\"}"
case $(of step) in
setup) touch "FOLDER/unit-$unit" ;;
teardown) rm -f "FOLDER/unit-$unit" ;;
*) if test -e "FOLDER/unit-$unit"; then echo "{\"state\":\"up\",$properties}"; else echo '{"state":"down"}'; fi ;;
esac
"#;

/// A deployment whose site is as it is said.
pub(crate) fn deployed(site: &str) -> Deployment {
    let config = fs::read_to_string(root().join("config/services.toml")).expect("a file");
    let config = config.replace("name = \"slo\"", "name = \"slo\", ask-every = \"1s\"");
    let config = config.replace("units = 4", site);
    Deployment::of(&config, tempfile::tempdir().expect("a folder"))
}

/// What makes a site one of four units with names and addresses: `e0` and `127.0.1.20` first.
pub(crate) fn named_units(folder: &Path) -> String {
    let text = SITE.replace("FOLDER", &folder.display().to_string());
    let site = program(folder, "site", &text);
    let sum = Command::new("sha256sum").arg(&site).output().expect("sha256sum").stdout;
    let sum = String::from_utf8(sum).expect("text");
    let hash = sum.split(' ').next().expect("a hash");
    format!(
        "units = 4\ndriver = {{ name = 'exec', setup = '{site}', teardown = '{site}', \
         probe = '{site}', allow = ['{hash}'] }}"
    )
}

/// The same of a site that lets units in use be taken over as they are.
pub(crate) fn adoptable_units(folder: &Path) -> String {
    named_units(folder).replace("name = 'exec',", "name = 'exec', adopt = true,")
}

/// Writes a program, and answers its path.
///
/// Another process does it: a file that this one has open to write may be open for a moment in what another test
/// starts, too, and cannot be run as long as it is.
pub(crate) fn program(folder: &Path, name: &str, text: &str) -> String {
    let (plain, path) = (folder.join(format!("{name}.text")), folder.join(name));
    fs::write(&plain, text).expect("a file");
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).arg(&plain).arg(&path).status();
    assert!(installed.is_ok_and(|status| status.success()), "{} is not installed", path.display());
    path.display().to_string()
}

/// Adds or changes the service `batch`; `FOLDER` in its definition is this folder.
pub(crate) fn define(deployment: &Deployment, folder: &Path, definition: &str) {
    let file = folder.join("service.toml");
    let text = definition.replace("FOLDER", &folder.display().to_string());
    fs::write(&file, text).expect("a file");
    deployment.json(&format!("service add guest/batch {}", file.display()));
}

pub(crate) fn show(deployment: &Deployment) -> Value {
    deployment.json("service show batch")
}
