//! What a unit's program writes: the end of it is kept, in two files of bounded size.
//!
//! The program writes into a pipe, and a *logger*, a small shell script, moves it to the files. The logger
//! belongs neither to us nor to the unit: it continues when we are killed, so the program never loses its
//! reader; it carries a mark of its own, so it outlives the unit's processes until it has read their last
//! words. It ends when no one can write into the pipe any more.

use std::fs::File;
use std::io::{self, PipeWriter, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::child::{MARK, PATH, Reach, end, let_end, spawn};
use super::record::create_folder;

/// Reads until no one writes any more. A file is put aside when it is half full; as one `dd` adds at most the
/// other half, it is never more than full. `dd` counts reads and not bytes, so short lines make it return
/// early. If a file cannot be written, what comes is dropped: the program must not be held up by that.
/// The shell gives a background job no input unless redirected.
const SCRIPT: &str = r#"
log=$1 size=$2
keep() {
    while :; do
        counts=$(dd bs=4096 count=$((size / 8192)) 2>&1 >>"$log")
        case $counts in
        "0+0 records in"*) exit ;;
        *"records in"*) ;;
        *) cat >/dev/null; exit ;;
        esac
        [ "$(wc -c <"$log")" -lt $((size / 2)) ] || mv -f "$log" "$log.1"
    done
}
exec 3<&0
keep <&3 3<&- &
"#;

/// How long a logger may take to read what is left when its program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How many bytes of what a program writes are kept: 2 MiB by default.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct LogSize(u64);

impl LogSize {
    const LEAST: u64 = 32 << 10;
}

impl Default for LogSize {
    fn default() -> Self {
        Self(2 << 20)
    }
}

impl TryFrom<u64> for LogSize {
    type Error = String;

    fn try_from(bytes: u64) -> Result<Self, String> {
        match bytes {
            Self::LEAST..=0xffff_ffff => Ok(Self(bytes)),
            _ => Err(format!(
                "`log` is the number of bytes that are kept, from {} to {}, not {bytes}",
                Self::LEAST,
                u32::MAX
            )),
        }
    }
}

/// Keeps what one unit's program writes.
#[derive(Clone, Debug)]
pub(crate) struct Logger {
    /// Has the files `output` and, older, `output.1`.
    pub(crate) folder: PathBuf,
    pub(crate) size: LogSize,
}

impl Logger {
    /// Starts it for a unit with this mark, which has none.
    pub(crate) fn start(&self, mark: &str) -> io::Result<PipeWriter> {
        let mark = mark_of(mark);
        create_folder(&self.folder)?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "tenure-log"])
            .arg(self.folder.join("output"))
            .arg((self.size.0 / 2).to_string())
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", PATH)
            .env(MARK, &mark)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let started = spawn(&mut command, None)?.wait()?;
        if started.success() {
            Ok(writer)
        } else {
            Err(io::Error::other(format!("its logger cannot be started ({started})")))
        }
    }

    /// Lets the logger of the unit with this mark read what the unit's processes, which have ended, have
    /// left.
    pub(crate) fn let_end(mark: &str) -> io::Result<()> {
        let_end(&mark_of(mark), LAST_WORDS)
    }

    /// Ends the logger of the unit with this mark, when the unit's processes have ended.
    pub(crate) fn end(mark: &str) -> io::Result<()> {
        end(&mark_of(mark), None, Reach::All, Duration::ZERO)
    }
}

/// How much of what a program wrote last is quoted.
const QUOTED: u64 = 300;

/// The last lines that a unit's program wrote, on one line; none if it wrote nothing.
pub(crate) fn last_words(folder: &Path) -> Option<String> {
    let end = |name: &str| -> io::Result<Vec<u8>> {
        let mut file = File::open(folder.join(name))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(QUOTED)))?;
        let mut bytes = Vec::new();
        file.take(QUOTED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = ["output", "output.1"].into_iter().filter_map(|name| end(name).ok());
    let bytes = bytes.into_iter().find(|bytes| !bytes.is_empty())?;
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = words.join(" / ").replace(char::is_control, " ");
    Some(words).filter(|words| !words.is_empty())
}

/// The logger's mark: not the unit's, with which the unit's processes are found and ended.
fn mark_of(unit: &str) -> String {
    format!("{unit}:log")
}
