//! The kinds of workload, and how the name of a file determines them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::WorkloadError;

/// Where a signal comes from, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A log in Standard Workload Format; the signal is the processors allocated to running jobs.
    SwfInUse,
    /// The same, each job counted from the second it was submitted: the load as it was offered.
    SwfOffered,
    /// A time series in CSV; the signal is the mean of its samples.
    Csv,
    /// A generated daily [wave](super::Wave), which needs no file.
    Wave,
    /// Generated requests for [compute with bandwidth](super::CoAllocation), which need no file either.
    CoAllocation,
    /// [Requests](super::UserRequest) of users, in a file or generated.
    Requests,
}

impl Kind {
    /// Every kind, in the order in which errors list them.
    pub const ALL: [Self; 6] = [
        Self::SwfInUse,
        Self::SwfOffered,
        Self::Csv,
        Self::Wave,
        Self::CoAllocation,
        Self::Requests,
    ];

    /// The name in settings and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SwfInUse => "swf-in-use",
            Self::SwfOffered => "swf-offered",
            Self::Csv => "csv",
            Self::Wave => "wave",
            Self::CoAllocation => "co-allocation",
            Self::Requests => "requests",
        }
    }

    /// What the value of the signal is, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::SwfInUse => "processors allocated to running jobs",
            Self::SwfOffered => "processors of jobs, each counted from its submit time",
            Self::Csv => "mean of the samples in a step",
            Self::Wave => "generated daily wave",
            Self::CoAllocation => "generated requests for compute with bandwidth",
            Self::Requests => "requests of users",
        }
    }

    /// What such a log consists of: jobs or samples.
    pub const fn entries(self) -> &'static str {
        match self {
            Self::SwfInUse | Self::SwfOffered => "jobs",
            Self::CoAllocation | Self::Requests => "requests",
            Self::Csv | Self::Wave => "samples",
        }
    }

    /// The kind that follows from a name: `.swf` and `.swf.gz` are [`Kind::SwfInUse`], `.csv` and
    /// `.csv.gz` are [`Kind::Csv`], in any case.
    ///
    /// # Errors
    /// Any other ending; the error lists the known ones.
    pub fn of_file_name(file: &str) -> Result<Self, WorkloadError> {
        let lower = file.to_ascii_lowercase();
        let plain = lower.strip_suffix(".gz").unwrap_or(&lower);
        if plain.ends_with(".swf") {
            Ok(Self::SwfInUse)
        } else if plain.ends_with(".csv") {
            Ok(Self::Csv)
        } else {
            Err(WorkloadError::UnknownEnding { file: file.to_owned() })
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| WorkloadError::UnknownKind { kind: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn an_unknown_kind_is_an_error_that_lists_the_known_ones() {
        let error = "swf".parse::<Kind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown kind of workload `swf`; known: swf-in-use, swf-offered, csv, wave, \
             co-allocation, requests"
        );
    }

    #[test]
    fn the_kind_follows_the_name() {
        for (file, kind) in [
            ("a.swf", Kind::SwfInUse),
            ("dir.csv/A.SWF.GZ", Kind::SwfInUse),
            ("a.csv", Kind::Csv),
            ("a.swf.csv.gz", Kind::Csv),
        ] {
            assert_eq!(Kind::of_file_name(file), Ok(kind), "{file}");
        }
    }

    #[test]
    fn an_unknown_ending_is_an_error_that_lists_the_known_ones() {
        let error = Kind::of_file_name("a.txt.gz").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the name `a.txt.gz` does not show the kind of workload; known endings: .swf, .swf.gz, \
             .csv, .csv.gz; or set the kind: swf-in-use, swf-offered, csv"
        );
    }
}
