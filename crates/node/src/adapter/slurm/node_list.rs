//! Lists of nodes, as Slurm prints them: `c[1-2,07-12],d3`.

/// Whether a list names a node.
pub(crate) fn names(list: &str, node: &str) -> bool {
    let mut inside = false;
    let mut parts = list.split(|c| {
        inside = (inside || c == '[') && c != ']';
        c == ',' && !inside
    });
    parts.any(|part| is(part, node))
}

/// Whether a part without commas, except in brackets, names a node.
fn is(part: &str, node: &str) -> bool {
    let Some((before, rest)) = part.split_once('[') else { return part == node };
    let (Some((ranges, after)), Some(node)) = (rest.split_once(']'), node.strip_prefix(before))
    else {
        return false;
    };
    let end = node.find(|c: char| !c.is_ascii_digit()).unwrap_or(node.len());
    let (number, node) = node.split_at(end);
    ranges.split(',').any(|range| is_within(range, number)) && is(after, node)
}

/// Whether a range has a number. One that begins with zeros has numbers of its width only.
fn is_within(range: &str, number: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    if (padded(first) || padded(number)) && first.len() != number.len() {
        return false;
    }
    let value = |text: &str| text.parse::<u64>().ok();
    let (Some(first), Some(last), Some(number)) = (value(first), value(last), value(number)) else {
        return false;
    };
    (first..=last).contains(&number)
}
