//! A measurement in processes of its own: the program starts itself again, and its children end with it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _, stdin};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, fs};

use tokio::sync::mpsc;

/// This program once more. It is spoken with by lines, and ends when the lines do.
pub(crate) struct Again {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Again {
    /// Starts it.
    pub(crate) fn start(args: &[impl AsRef<OsStr>]) -> Self {
        let program = env::current_exe().expect("a program");
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let child = Command::new(program).args(args).stdin(stdin).stdout(stdout).spawn();
        let mut child = child.expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, lines }
    }

    /// The next line that it says.
    pub(crate) fn says(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it speaks");
        assert!(!line.is_empty(), "it has ended early");
        line.trim().to_owned()
    }

    /// What it says when it is asked.
    pub(crate) fn asked(&mut self, what: &str) -> String {
        let mut input = self.child.stdin.as_ref().expect("its input");
        writeln!(input, "{what}").expect("it listens");
        self.says()
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success(), "it ends well");
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the parent of this process says, line by line, until it is done with it.
pub(crate) fn of_parent() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The memory of this process that is in use, in bytes.
pub(crate) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes = line.trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number of kilobytes") * 1024
}
