//! What a file says of a workload.

use std::sync::Arc;

use tenure_config::Sources;
use tenure_core::model::time::Span;
use toml::Spanned;

use super::resolve::{Check, Checked};
use super::rows::rows;
use super::{ListedRequests, LogFile, RequestSource, Workload, file};
use crate::workload::{
    CoAllocation, DrawnRequests, Kind, ListedRequest, Wave, WorkloadError, by_broker,
};

impl Check<'_> {
    pub(super) fn workload(&self, given: file::Workload) -> Checked<Workload> {
        let kind = given.kind.as_ref().map(|kind| *kind.get_ref());
        if let (Some(settings), true) = (&given.co_allocation, kind != Some(Kind::CoAllocation)) {
            let message = "these settings are for a workload of another kind";
            return self.refuse(settings.span(), message, "set `kind = \"co-allocation\"`");
        }
        if let (Some(settings), true) = (&given.requests, kind != Some(Kind::Requests)) {
            let message = "these settings are for a workload of another kind";
            return self.refuse(settings.span(), message, "set `kind = \"requests\"`");
        }
        if kind == Some(Kind::Requests) {
            return self.requests(given);
        }
        match (given.file, kind) {
            (None, None | Some(Kind::Wave | Kind::CoAllocation)) => {
                let log_only = "the workload is generated; set `file` to read a log";
                if let Some(column) = &given.column {
                    return self.refuse(
                        column.span(),
                        "what is generated has no columns",
                        log_only,
                    );
                }
                if let Some(offset) = &given.offset {
                    return self.refuse(offset.span(), "what is generated has no offset", log_only);
                }
                match kind {
                    Some(Kind::CoAllocation) => {
                        let settings = self.settings(given.co_allocation, CoAllocation::check)?;
                        Ok(Workload::CoAllocation(settings))
                    }
                    _ => self.wave(given.wave).map(Workload::Wave),
                }
            }
            (None, Some(kind)) => {
                let span = given.kind.map_or(Sources::NOWHERE, |kind| kind.span());
                let help = "set `file` to its path, or give `--workload FILE`";
                self.refuse(span, format!("a workload of kind `{kind}` needs a file"), help)
            }
            (Some(file), kind) => {
                let bad =
                    |error: WorkloadError| self.sources.error(file.span(), error.to_string(), None);
                if let Some(generated @ (Kind::Wave | Kind::CoAllocation)) = kind {
                    let span = given.kind.map_or(Sources::NOWHERE, |kind| kind.span());
                    let message = format!(
                        "a workload of kind `{generated}` is generated, but the file `{file}` is given"
                    );
                    return self.refuse(
                        span,
                        message,
                        "leave out `kind`: it follows from the file",
                    );
                }
                let kind =
                    kind.map_or_else(|| Kind::of_file_name(file.get_ref()), Ok).map_err(bad)?;
                let column = self.column(given.column, kind)?;
                let offset =
                    given.offset.map_or(Ok(Span::ZERO), |o| self.not_negative("offset", &o))?;
                Ok(Workload::Log(LogFile { file: file.into_inner(), kind, column, offset }))
            }
        }
    }

    /// Requests of users, in a file or drawn.
    fn requests(&self, given: file::Workload) -> Checked<Workload> {
        let unused = given.column.as_ref().map(Spanned::span);
        if let Some(place) = unused.or_else(|| given.offset.as_ref().map(Spanned::span)) {
            let message = "requests have neither a column nor an offset";
            return self.refuse(place, message, "leave out `column` and `offset`");
        }
        match (&given.file, given.requests) {
            (Some(file), None) => self.listed_requests(file),
            (None, drawn) => {
                let drawn = self.settings(drawn, DrawnRequests::check)?;
                Ok(Workload::Requests(RequestSource::Drawn(drawn)))
            }
            (Some(_), Some(drawn)) => {
                let help = "leave out `file`, or the settings by which requests are drawn";
                self.refuse(drawn.span(), "the requests are drawn and in a file", help)
            }
        }
    }

    /// Settings by which requests are drawn.
    fn settings<T: Default>(
        &self,
        given: Option<Spanned<T>>,
        check: fn(&T) -> Result<(), (&'static str, &'static str)>,
    ) -> Checked<T> {
        let Some(given) = given else { return Ok(T::default()) };
        match check(given.get_ref()) {
            Ok(()) => Ok(given.into_inner()),
            Err((setting, expected)) => {
                let message = format!("`{setting}` {expected}");
                let help = "the others have the defaults of docs/SCENARIOS.md";
                self.refuse(given.span(), message, help)
            }
        }
    }

    /// Requests in a file.
    fn listed_requests(&self, file: &Spanned<String>) -> Checked<Workload> {
        let bad = |cause: String| {
            let message = format!("the requests of `{}`: {cause}", file.get_ref());
            let help = "its columns are at,broker,resource,units,duration and, if you like, group";
            self.sources.error(file.span(), message, Some(help.to_owned()))
        };
        let rows = rows::<ListedRequest>(&self.read(file)?).map_err(bad)?;
        let by_broker = by_broker(rows).map_err(bad)?;
        let listed = ListedRequests { by_broker, place: self.sources.place(file.span()) };
        Ok(Workload::Requests(RequestSource::Listed(Arc::new(listed))))
    }

    fn column(&self, column: Option<Spanned<file::Column>>, kind: Kind) -> Checked<Option<String>> {
        let Some(column) = column else { return Ok(None) };
        if kind != Kind::Csv {
            let message = WorkloadError::ColumnNotUsed { kind }.to_string();
            return self.refuse(column.span(), message, "leave out `column`");
        }
        Ok(Some(match column.into_inner() {
            file::Column::Name(name) => name,
            file::Column::Number(number) => number.to_string(),
        }))
    }

    fn wave(&self, wave: file::Wave) -> Checked<Wave> {
        let number = |value: &Option<Spanned<f64>>, default| {
            value.as_ref().map_or((default, Sources::NOWHERE), |v| (*v.get_ref(), v.span()))
        };
        let (base, base_span) = number(&wave.base, 0.5);
        let (amplitude, amplitude_span) = number(&wave.amplitude, 0.4);
        let (noise, noise_span) = number(&wave.noise, 0.05);
        let period = wave.period.as_ref().map_or(Span::DAY, |period| *period.get_ref());
        Wave::new(base, amplitude, period, noise).map_err(|error| {
            let setting =
                if let WorkloadError::BadWave { setting, .. } = error { setting } else { "" };
            let span = match setting {
                "base" => base_span,
                "amplitude" => amplitude_span,
                "noise" => noise_span,
                _ => wave.period.map_or(Sources::NOWHERE, |period| period.span()),
            };
            self.sources.error(span, error.to_string(), None)
        })
    }
}
