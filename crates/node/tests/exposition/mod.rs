//! Version 0.0.4 of the text format of Prometheus, read strictly.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>

use std::collections::{BTreeMap, BTreeSet};

/// A declared metric with the samples of it, by name and labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

/// What is wrong with a text, if anything is.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let (mut families, mut current) = (BTreeMap::<String, Family>::new(), None::<String>);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(comment) = line.strip_prefix("# ") {
            let [word, name, help] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                return Err(wrong("no help and no type"));
            };
            let next = lines.next().and_then(|next| next.strip_prefix("# TYPE "));
            let (of, kind) =
                next.and_then(|n| n.split_once(' ')).ok_or(wrong("no type follows"))?;
            if word != "HELP" || help.is_empty() || of != name || !is_name(name) {
                return Err(wrong("not the help of the type that follows"));
            }
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            if families.insert(name.to_owned(), family).is_some() {
                return Err(wrong("declared twice"));
            }
            current = Some(name.to_owned());
            continue;
        }
        let (name, labels, value) = sample(line).ok_or(wrong("no sample"))?;
        let of = current.as_ref().ok_or(wrong("not declared"))?;
        let family = families.get_mut(of).ok_or(wrong("not declared"))?;
        let suffix = name.strip_prefix(of.as_str()).ok_or(wrong("not of the type before it"))?;
        let fits = match family.kind.as_str() {
            "counter" => suffix.is_empty() && name.ends_with("_total") && value >= 0.0,
            "gauge" => suffix.is_empty() && !name.ends_with("_total"),
            "histogram" => matches!(suffix, "_bucket" | "_sum" | "_count"),
            _ => false,
        };
        if !fits {
            return Err(wrong("not a sample of its type"));
        }
        if family.samples.insert((name, labels), value).is_some() {
            return Err(wrong("told twice"));
        }
    }
    families.iter().filter(|(_, family)| family.kind == "histogram").try_for_each(
        |(name, family)| {
            check_buckets(name, family).ok_or(format!("the buckets of {name} do not fit"))
        },
    )
}

/// Each histogram has buckets that only grow, the last of them with all that were counted.
fn check_buckets(name: &str, family: &Family) -> Option<()> {
    let mut counted = BTreeSet::new();
    for ((sample, labels), count) in &family.samples {
        if *sample == format!("{name}_count") {
            family.samples.get(&(format!("{name}_sum"), labels.clone()))?;
            let buckets = family.samples.iter().filter(|((sample, with), _)| {
                let rest = with.iter().filter(|(key, _)| key != "le");
                *sample == format!("{name}_bucket") && rest.eq(labels)
            });
            let mut bounds = Vec::new();
            for ((_, with), value) in buckets {
                let bound = &with.iter().find(|(key, _)| key == "le")?.1;
                bounds.push((bound.parse::<f64>().ok()?, *value));
            }
            bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
            let grows = bounds.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1);
            (grows && bounds.last()? == &(f64::INFINITY, *count)).then_some(())?;
            counted.insert(labels);
        }
    }
    (!counted.is_empty() || family.samples.is_empty()).then_some(())
}

type Sample = (String, Vec<(String, String)>, f64);

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            is_name(key).then_some(())?;
            labels.push((key.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?;
    is_name(name).then_some(())?;
    Some((name.to_owned(), labels, value.parse().ok()?))
}

/// A value up to its closing quote, and what comes behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                _ => return None,
            },
            (_, plain) => value.push(plain),
        }
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.chars().all(plain)
}

#[test]
fn what_is_wrong_with_a_text_is_found() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 3\n";
    assert_eq!(check(good), Ok(()));
    for (bad, why) in [
        (good.replace("a_total c", "a c"), "not the help"),
        (good.replace("a_total A", "a A").replace("a_total c", "a c"), "not a sample"),
        (format!("{good}# EOF\n"), "no help"),
        (format!("{good}{good}"), "declared twice"),
        (format!("{good}b 1\n"), "not of the type"),
        (good.replace('3', "x"), "no sample"),
        (good.trim().to_owned(), "does not end"),
    ] {
        assert!(check(&bad).is_err_and(|found| found.contains(why)), "{bad}: {:?}", check(&bad));
    }
}
