//! Completions and manual pages, made from the commands themselves.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Console;
use crate::args::Cli;
use crate::error::Error;

/// `tenure completions`
pub(crate) fn completions(shell: Shell, console: &mut Console<'_>) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut script);
    Ok(console.out.write_all(&script)?)
}

/// `tenure man`: a page for the program, and one for each of its commands.
pub(crate) fn pages(folder: &Path, console: &mut Console<'_>) -> Result<(), Error> {
    let write = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command(), folder)?;
        fs::read_dir(folder).map(Iterator::count)
    };
    let count = write().map_err(|error| Error::writing(folder, error))?;
    Ok(writeln!(console.out, "{count} pages are in {}", folder.display())?)
}
