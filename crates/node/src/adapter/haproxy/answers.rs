//! What `show stat` of haproxy prints, as far as it is used. The columns are those of haproxy 2.6.

use std::net::IpAddr;

/// A backend as a whole, or one of its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The server, or `BACKEND`.
    pub(crate) name: String,
    /// How it is, in a word or two.
    pub(crate) status: String,
    /// Where it serves, with its port; nothing of a backend as a whole.
    pub(crate) address: String,
    /// Sessions it has.
    pub(crate) sessions: u64,
    /// Requests that wait for it.
    pub(crate) queued: u64,
    /// Sessions it has had.
    pub(crate) total: u64,
    /// Requests that went wrong.
    pub(crate) errors: u64,
    /// The mean time to a response in milliseconds, if it speaks HTTP.
    pub(crate) response: Option<u64>,
}

/// The lines that `show stat BACKEND -1 -1` lists.
///
/// # Errors
/// The answer if it is no table, or else its first line that cannot be read.
pub(crate) fn lines(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let head = lines.next().unwrap_or_default();
    let wrong = |line: &str| {
        let line: String = line.chars().take(100).collect();
        format!("haproxy answers `show stat` by `{}`", line.escape_debug())
    };
    let columns = head.strip_prefix("# ").ok_or_else(|| wrong(head))?;
    let columns: Vec<&str> = columns.split(',').collect();
    lines.map(|line| read(&columns, &cells(line)).ok_or_else(|| wrong(line))).collect()
}

fn read(columns: &[&str], cells: &[String]) -> Option<Line> {
    let cell = |name: &str| {
        let at = columns.iter().position(|column| *column == name)?;
        cells.get(at).map(String::as_str)
    };
    // What does not apply is empty.
    let number = |name: &str| match cell(name)? {
        "" => Some(0),
        text => text.parse::<u64>().ok(),
    };
    let http = cell("mode")? == "http";
    let errors = match http {
        // Connections that failed are answered by 503.
        true => number("hrsp_5xx")?,
        false => number("econ")?.saturating_add(number("eresp")?),
    };
    Some(Line {
        name: cell("svname")?.to_owned(),
        status: cell("status")?.to_owned(),
        address: cell("addr").unwrap_or_default().to_owned(),
        sessions: number("scur")?,
        queued: number("qcur")?,
        total: number("stot")?,
        errors,
        response: if http { Some(number("rtime")?) } else { None },
    })
}

/// The cells of a line; those with commas are in quotes.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().into_iter().for_each(|cell| cell.push(c)),
        }
    }
    cells
}

impl Line {
    /// Where it serves, as far as that is an address and a port.
    pub(crate) fn serves_at(&self) -> Option<(IpAddr, u16)> {
        let (host, port) = self.address.rsplit_once(':')?;
        Some((host.trim_matches(['[', ']']).parse().ok()?, port.parse().ok()?))
    }

    /// Whether it serves at a port of a host.
    pub(crate) fn is_at(&self, host: &str, port: u16) -> bool {
        let host: Option<IpAddr> = host.parse().ok();
        host.is_some_and(|host| self.serves_at() == Some((host, port)))
    }

    /// Whether it is a backend as a whole.
    pub(crate) fn is_backend(&self) -> bool {
        self.name == "BACKEND"
    }

    /// Whether it is a server that takes new sessions.
    pub(crate) fn is_up(&self) -> bool {
        self.status == "no check" || self.status.starts_with("UP")
    }
}
