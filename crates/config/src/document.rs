//! The text of a file with its overrides and sweeps: one TOML table for each point.
//!
//! Every value keeps the place it came from. An override has no place in the file, so it gets a span
//! of its own beyond the end of the text, from which its option is found again.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Place, in_plain_words, suggestion};
use crate::{Override, Source};

/// The most points one sweep may have.
const MAX_POINTS: usize = 1000;

/// The tables whose keys are names of actors.
const ACTORS: [&str; 4] = ["site", "broker", "service-manager", "peer"];

type Bytes = Range<usize>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Where the text of one of several files begins in that of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FilePart {
    name: String,
    start: usize,
}

/// The texts of several files, which are one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    name: String,
    text: String,
    parts: Vec<FilePart>,
}

impl Files {
    /// Files with their names.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = Self { name: String::new(), text: String::new(), parts: Vec::new() };
        for (name, text) in files {
            let separator = if all.parts.is_empty() { "" } else { ", " };
            all.name = format!("{}{separator}{name}", all.name);
            if !all.text.is_empty() && !all.text.ends_with('\n') {
                all.text.push('\n');
            }
            all.parts.push(FilePart { name, start: all.text.len() });
            all.text.push_str(&text);
        }
        all
    }

    /// Their names.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the one with this name; of the first, if there is none.
    pub fn text(&self, name: &str) -> &str {
        let place = self.parts.iter().position(|part| part.name == name).unwrap_or_default();
        let start = |place: usize| self.parts.get(place).map_or(self.text.len(), |part| part.start);
        &self.text[start(place)..start(place + 1)]
    }
}

/// What spans refer to: the files and the overrides.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    source: Source<'a>,
    /// The files, if there are several.
    files: &'a [FilePart],
    overrides: &'a [Override],
}

impl<'a> Sources<'a> {
    /// The span of what is missing everywhere.
    pub const NOWHERE: Bytes = usize::MAX..usize::MAX;

    /// The name of the file.
    pub fn name(&self) -> &'a str {
        self.source.name
    }

    /// What all files say together.
    fn table(&self) -> Result<DeTable<'a>, ConfigError> {
        let text = self.source.text;
        if self.files.is_empty() {
            let table = DeTable::parse(text).map_err(|error| self.toml_error(&error))?;
            return Ok(table.into_inner());
        }
        let mut all = DeTable::new();
        let ends = self.files.iter().skip(1).map(|file| file.start).chain([text.len()]);
        for (file, end) in self.files.iter().zip(ends) {
            let one = DeTable::parse(&text[file.start..end]).map_err(|error| {
                let span = error.span().map_or(Self::NOWHERE, |at| shifted(&at, file.start));
                let (message, help) = in_plain_words(error.message());
                self.error(span, message, help)
            })?;
            let to = |span: &Bytes| shifted(span, file.start);
            let DeValue::Table(one) =
                moved(Spanned::new(one.span(), DeValue::Table(one.into_inner())), &to).into_inner()
            else {
                continue;
            };
            self.merge(&mut all, one, &mut Vec::new())?;
        }
        Ok(all)
    }

    /// Adds what another file says.
    fn merge(
        &self,
        all: &mut DeTable<'a>,
        one: DeTable<'a>,
        path: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        for (key, value) in one {
            path.push(key.get_ref().to_string());
            let at = value.span();
            let known = all.get_key_value(&**key.get_ref()).map(|(known, _)| known.span());
            match (all.get_mut(&**key.get_ref()).map(Spanned::get_mut), value.into_inner()) {
                (Some(DeValue::Table(known)), DeValue::Table(more)) => {
                    self.merge(known, more, path)?;
                }
                (Some(_), _) => {
                    let first = known.map(|span| self.place(span));
                    let first = first.map(|place| ConfigError::at("", &place, "", None));
                    let first = first.map(|error| error.to_string()).unwrap_or_default();
                    let first = first.trim_end_matches(": ").to_owned();
                    let message = format!("`{}` is set in two files", path.join("."));
                    return Err(self.error(key.span(), message, format!("{first} sets it too")));
                }
                (None, value) => drop(all.insert(key, Spanned::new(at, value))),
            }
            path.pop();
        }
        Ok(())
    }

    fn span_of_override(&self, index: usize) -> Bytes {
        let start = self.source.text.len() + 1 + index;
        start..start + 1
    }

    /// Where a span is.
    pub fn place(&self, span: Bytes) -> Place {
        let text = self.source.text;
        let file = self.files.iter().rfind(|file| file.start <= span.start);
        let (start, file) =
            file.map_or((0, None), |file| (file.start, Some(file.name.as_str().into())));
        let Some(before) = text.get(start..span.start) else {
            let index = span.start.checked_sub(text.len() + 1);
            let set = index.and_then(|index| self.overrides.get(index));
            return set.map_or(Place::Whole, |set| Place::Override(set.option.clone()));
        };
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let counted = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
        let line = counted(before.matches('\n').count());
        let column = counted(before[line_start..].chars().count());
        let span = span.start - start..span.end.saturating_sub(start);
        Place::File { file, line, column, span }
    }

    /// An error at a span.
    pub fn error(
        &self,
        span: Bytes,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> ConfigError {
        ConfigError::at(self.source.name, &self.place(span), message, help)
    }

    /// An error of the parser or of serde, in words that name no type of Rust.
    pub fn toml_error(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(Self::NOWHERE);
        let (message, help) = in_plain_words(error.message());
        self.error(span, message, help)
    }
}

/// A key and the value it is set to.
struct Setting<'a> {
    path: Vec<String>,
    span: Bytes,
    value: Value<'a>,
}

/// A swept key and its values.
struct Axis<'a> {
    path: Vec<String>,
    span: Bytes,
    values: Vec<Value<'a>>,
}

/// One point of a sweep, still as TOML.
#[derive(Debug)]
pub struct RawPoint<'a> {
    /// The swept keys with their values here, in the order of the sweep.
    pub swept: Vec<(String, String)>,
    table: DeTable<'a>,
}

impl<'a> RawPoint<'a> {
    /// The point as a file of its own: TOML with every override and swept value in its place.
    ///
    /// # Errors
    /// What cannot be written as TOML.
    pub fn text(&self, sources: &Sources<'_>) -> Result<String, ConfigError> {
        let table = Spanned::new(Sources::NOWHERE, self.table.clone());
        let table = toml::Table::deserialize(toml::de::Deserializer::from(table))
            .map_err(|error| sources.toml_error(&error))?;
        toml::to_string(&table)
            .map_err(|error| sources.error(Sources::NOWHERE, error.to_string(), None))
    }

    /// What the point says, as a file of this kind.
    ///
    /// # Errors
    /// The first key or value that such a file does not have.
    pub fn read<T: Deserialize<'a>>(self, sources: &Sources<'_>) -> Result<T, ConfigError> {
        let table = Spanned::new(Sources::NOWHERE, self.table);
        T::deserialize(toml::de::Deserializer::from(table))
            .map_err(|error| sources.toml_error(&error))
    }
}

/// What a text says that has neither overrides nor a sweep.
///
/// # Errors
/// What is no TOML, or no file of this kind, with its place.
pub fn read<T: serde::de::DeserializeOwned>(source: Source<'_>) -> Result<T, ConfigError> {
    let sources = Sources { source, files: &[], overrides: &[] };
    toml::from_str(source.text).map_err(|error| sources.toml_error(&error))
}

/// The file with all that overrides say, as TOML: that of its first point, if it has a sweep.
///
/// # Errors
/// As of [`points`].
pub fn text_of_first(source: Source<'_>, overrides: &[Override]) -> Result<String, ConfigError> {
    let (sources, points) = points(source, overrides)?;
    points.first().map_or_else(|| Ok(String::new()), |point| point.text(&sources))
}

/// The points of a file in the order of its sweep, the first swept key varying slowest; a file
/// without a sweep is a single one. A key that an override sets is not swept.
///
/// # Errors
/// What is no TOML, no key, or no sweep.
pub fn points<'a>(
    source: Source<'a>,
    overrides: &'a [Override],
) -> Result<(Sources<'a>, Vec<RawPoint<'a>>), ConfigError> {
    points_in(Sources { source, files: &[], overrides })
}

/// As [`points`], of several files: each key is in one of them.
///
/// # Errors
/// As of [`points`], and what two files set.
pub fn points_of<'a>(
    files: &'a Files,
    overrides: &'a [Override],
) -> Result<(Sources<'a>, Vec<RawPoint<'a>>), ConfigError> {
    let source = Source { name: &files.name, text: &files.text };
    let parts = if files.parts.len() > 1 { &files.parts[..] } else { &[] };
    points_in(Sources { source, files: parts, overrides })
}

fn points_in<'a>(sources: Sources<'a>) -> Result<(Sources<'a>, Vec<RawPoint<'a>>), ConfigError> {
    let overrides = sources.overrides;
    let mut base = sources.table()?;
    let mut axes = Vec::new();
    if let Some(sweep) = base.remove("sweep") {
        collect(&[], sweep.span(), sweep, &mut axes, &sources)?;
    }
    axes.sort_by_key(|axis: &Axis<'_>| axis.span.start);
    let mut fixed = Vec::new();
    for (index, set) in overrides.iter().enumerate() {
        let setting = setting(set, &sources, sources.span_of_override(index))?;
        if setting.path[0] == "sweep" {
            resweep(setting, &mut axes, &sources)?;
        } else {
            fixed.push(setting);
        }
    }
    check_axes(&axes, &sources)?;
    axes.retain(|axis| !fixed.iter().any(|setting| axis.path.starts_with(&setting.path)));
    let points = choices(&axes, &sources)?
        .into_iter()
        .map(|choice| point(&base, &fixed, &axes, &choice, &sources))
        .collect::<Result<_, _>>()?;
    Ok((sources, points))
}

/// The sweep is put in first, so that what is set by an option always holds.
fn point<'a>(
    base: &DeTable<'a>,
    fixed: &[Setting<'a>],
    axes: &[Axis<'a>],
    choice: &[usize],
    sources: &Sources<'_>,
) -> Result<RawPoint<'a>, ConfigError> {
    let mut table = base.clone();
    let mut swept = Vec::new();
    for (axis, &index) in axes.iter().zip(choice) {
        let value = axis.values[index].clone();
        swept.push((axis.path.join("."), text_of(&value, sources)?));
        let setting = Setting { path: axis.path.clone(), span: axis.span.clone(), value };
        insert(&mut table, &setting, sources)?;
    }
    for setting in fixed {
        insert(&mut table, setting, sources)?;
    }
    Ok(RawPoint { swept, table })
}

/// An override as a setting, all of it at `span`.
///
/// A value that is no TOML is taken as text, unless it starts like a TOML value of several parts.
fn setting<'a>(
    set: &'a Override,
    sources: &Sources<'_>,
    span: Bytes,
) -> Result<Setting<'a>, ConfigError> {
    let path = path_of(&set.key).ok_or_else(|| {
        let message = format!("`{}` is not a key", set.key);
        let help = "write keys as in the file, with dots: `message.loss=0.1`".to_owned();
        sources.error(span.clone(), message, help)
    })?;
    let value = match DeValue::parse(&set.value) {
        Ok(value) => moved(value, &|_: &Bytes| span.clone()),
        Err(error) if set.value.starts_with(['[', '{', '"', '\'']) => {
            let help = "text inside an array or a table needs quotes, as in `[\"1h\", \"12h\"]`";
            return Err(sources.error(span, error.message(), help.to_owned()));
        }
        Err(_) => Spanned::new(span.clone(), DeValue::String(set.value.as_str().into())),
    };
    Ok(Setting { path, span, value })
}

fn shifted(span: &Bytes, by: usize) -> Bytes {
    span.start + by..span.end + by
}

/// The same value, all of it elsewhere.
fn moved<'a>(value: Value<'a>, to: &impl Fn(&Bytes) -> Bytes) -> Value<'a> {
    let span = to(&value.span());
    let value = match value.into_inner() {
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|value| moved(value, to)).collect())
        }
        DeValue::Table(table) => {
            let key = |key: Spanned<_>| Spanned::new(to(&key.span()), key.into_inner());
            let moved = table.into_iter().map(|(k, v)| (key(k), moved(v, to)));
            DeValue::Table(moved.collect())
        }
        value @ (DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)) => value,
    };
    Spanned::new(span, value)
}

/// The parts of a dotted key, by the rules of TOML.
fn path_of(key: &str) -> Option<Vec<String>> {
    let line = format!("{key} = 0");
    let mut table = DeTable::parse(&line).ok()?.into_inner();
    let mut path = Vec::new();
    loop {
        if table.len() != 1 {
            return None;
        }
        let (part, value) = table.into_iter().next()?;
        path.push(part.into_inner().into_owned());
        let DeValue::Table(inner) = value.into_inner() else { return Some(path) };
        table = inner;
    }
}

fn insert<'a>(
    table: &mut DeTable<'a>,
    setting: &Setting<'a>,
    sources: &Sources<'_>,
) -> Result<(), ConfigError> {
    let Setting { path, span, value } = setting;
    if let [role, name, _, ..] = &path[..]
        && ACTORS.contains(&role.as_str())
    {
        let known = table.get(role.as_str()).and_then(|actors| actors.get_ref().as_table());
        if !known.is_some_and(|actors| actors.contains_key(name.as_str())) {
            let known = known.into_iter().flat_map(|actors| actors.keys().map(|k| &**k.get_ref()));
            let message = format!("no {} `{name}`", role.replace('-', " "));
            return Err(sources.error(span.clone(), message, suggestion(name, known)));
        }
    }
    let mut table = table;
    for (depth, part) in path[..path.len() - 1].iter().enumerate() {
        let key = Spanned::new(span.clone(), part.clone().into());
        let empty = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        let DeValue::Table(inner) = table.entry(key).or_insert_with(empty).get_mut() else {
            let message = format!(
                "`{}` is no table, so `{}` cannot be set",
                path[..=depth].join("."),
                path.join(".")
            );
            return Err(sources.error(span.clone(), message, None));
        };
        table = inner;
    }
    let last = &path[path.len() - 1];
    // A map keeps the key it has, and with it the place of the old value.
    table.remove(last.as_str());
    table.insert(Spanned::new(span.clone(), last.clone().into()), value.clone());
    Ok(())
}

/// Adds the axes in `value`, which stands under `path` in the sweep.
fn collect<'a>(
    path: &[String],
    span: Bytes,
    value: Value<'a>,
    axes: &mut Vec<Axis<'a>>,
    sources: &Sources<'_>,
) -> Result<(), ConfigError> {
    let value = value.into_inner();
    if let DeValue::Table(table) = value {
        for (key, value) in table {
            let Some(parts) = path_of(key.get_ref()) else {
                return Err(sources.error(key.span(), format!("`{key}` is not a key"), None));
            };
            collect(&[path, &parts].concat(), key.span(), value, axes, sources)?;
        }
        return Ok(());
    }
    let key = path.join(".");
    if path.is_empty() {
        let help = "write `[sweep]`, and below it `term = [\"1h\", \"12h\"]`".to_owned();
        return Err(sources.error(span, "`sweep` is a table of keys and their values", help));
    }
    if let DeValue::Array(values) = value
        && !values.is_empty()
    {
        axes.push(Axis { path: path.to_owned(), span, values: values.into_iter().collect() });
        return Ok(());
    }
    let message = format!("the sweep of `{key}` needs an array of values");
    let help = format!("write `{key} = [..., ...]`, or set `{key}` outside the sweep");
    Err(sources.error(span, message, help))
}

/// Takes the axes of an override, in the place of those over the same keys.
fn resweep<'a>(
    setting: Setting<'a>,
    axes: &mut Vec<Axis<'a>>,
    sources: &Sources<'_>,
) -> Result<(), ConfigError> {
    let path = &setting.path[1..];
    if path.is_empty() {
        axes.clear();
    }
    let mut given = Vec::new();
    collect(path, setting.span, setting.value, &mut given, sources)?;
    for new in given {
        match axes.iter_mut().find(|axis| axis.path == new.path) {
            Some(old) => *old = new,
            None => axes.push(new),
        }
    }
    Ok(())
}

fn check_axes(axes: &[Axis<'_>], sources: &Sources<'_>) -> Result<(), ConfigError> {
    for (index, axis) in axes.iter().enumerate() {
        if axis.path[0] == "sweep" {
            return Err(sources.error(axis.span.clone(), "a sweep cannot be swept", None));
        }
        let within = |other: &Axis<'_>| {
            axis.path.starts_with(&other.path) || other.path.starts_with(&axis.path)
        };
        if axes[..index].iter().any(within) {
            let message = format!("`{}` is swept twice", axis.path.join("."));
            return Err(sources.error(axis.span.clone(), message, None));
        }
    }
    Ok(())
}

/// For each point, which value of each axis it takes.
fn choices(axes: &[Axis<'_>], sources: &Sources<'_>) -> Result<Vec<Vec<usize>>, ConfigError> {
    let points = axes.iter().fold(1_usize, |n, axis| n.saturating_mul(axis.values.len()));
    if points > MAX_POINTS {
        let span = axes.first().map_or(Sources::NOWHERE, |axis| axis.span.clone());
        let message = format!("the sweep has {points} points, more than {MAX_POINTS}");
        let help = "sweep fewer values, or fix a swept key with `--set`".to_owned();
        return Err(sources.error(span, message, help));
    }
    let mut choices = vec![Vec::new()];
    for axis in axes {
        choices = choices
            .iter()
            .flat_map(|choice| (0..axis.values.len()).map(|index| [&choice[..], &[index]].concat()))
            .collect();
    }
    Ok(choices)
}

/// A value the way it is shown: text without its quotes, all else as TOML.
fn text_of(value: &Value<'_>, sources: &Sources<'_>) -> Result<String, ConfigError> {
    let value = toml::Value::deserialize(toml::de::ValueDeserializer::from(value.clone()))
        .map_err(|error| sources.toml_error(&error))?;
    Ok(value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned))
}
