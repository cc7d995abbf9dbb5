//! Checks that the programs configured for drivers exist.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access};
use tenure_config::{ConfigError, PluginSpec};

/// The settings that name programs, of each driver that runs any. `exec` reads its programs and runs a copy.
const NAMED: [(&str, &[&str], Access); 3] = [
    ("exec", &["setup", "teardown", "join", "leave", "probe"], Access::READ_OK),
    ("process", &["command"], Access::EXEC_OK),
    ("start", &["command"], Access::EXEC_OK),
];

/// The first program of a driver that is not there or cannot be run, at its place in `file`.
pub(super) fn check(file: &str, driver: &PluginSpec, whose: &str) -> Result<(), ConfigError> {
    let of_driver = NAMED.iter().filter(|(name, ..)| *name == driver.name);
    for (key, needed) in
        of_driver.flat_map(|(_, keys, needed)| keys.iter().map(move |k| (k, needed)))
    {
        let program = match driver.settings.get(*key) {
            Some(toml::Value::Array(command)) => command.first().and_then(toml::Value::as_str),
            Some(value) => value.as_str(),
            None => None,
        };
        let cause = program.and_then(|program| cannot_run(Path::new(program), *needed));
        if let (Some(program), Some(cause)) = (program, cause) {
            let message = format!("{whose}: the program `{program}` cannot be run: {cause}");
            let help = "name a program of this machine that this user may run".to_owned();
            return Err(ConfigError::at(file, driver.place_of(key), message, help));
        }
    }
    Ok(())
}

fn cannot_run(program: &Path, needed: Access) -> Option<String> {
    match fs::metadata(program) {
        Err(error) => Some(error.to_string()),
        Ok(kind) if !kind.is_file() => Some("it is no file".to_owned()),
        Ok(_) => access(program, needed).err().map(|error| std::io::Error::from(error).to_string()),
    }
}
