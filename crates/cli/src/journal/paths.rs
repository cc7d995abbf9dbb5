//! Which journals are meant: files, and folders with all that are in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where a live deployment keeps its journals, within its data folder.
const OF_A_DEPLOYMENT: &str = "journals";

/// The journals that `paths` name, those of a folder in the order of their names. The data folder of a live
/// deployment stands for the journals of its actors.
///
/// # Errors
/// A folder that holds none, or cannot be read.
pub(crate) fn journals(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            all.extend(in_folder(path)?);
        } else {
            all.push(path.clone());
        }
    }
    Ok(all)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let deeper = folder.join(OF_A_DEPLOYMENT);
    let mut found = files(folder, "journal")?;
    if found.is_empty() {
        found = files(folder, "db")?;
    }
    if found.is_empty() && deeper.is_dir() {
        found = files(&deeper, "db")?;
    }
    found.sort();
    if found.is_empty() { Err(Error::NoJournals(folder.to_owned())) } else { Ok(found) }
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::reading(folder, source, "check the path");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|found| found == extension) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}
