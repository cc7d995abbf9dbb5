//! Which states are one: the text of an actor without what does not influence it.
//!
//! Everything that the actor's `Debug` shows counts, but for the places of facts in the journal: they
//! number messages and calls and decide nothing. So a field that is new counts from the first day on,
//! and at worst makes the model larger. Where the places give an order, the order is kept.

/// What decides how an actor continues.
pub(crate) fn of(actor: &impl std::fmt::Debug) -> String {
    let mut text = format!("{actor:?}");
    // Configuration and counters; when a fact was caused, and its place, which only headers show; and
    // up to when ledgers drop the past, a day ago, where no term of a case lies.
    for field in ["base", "plan", "by_id", "count", "came_at", "since"] {
        text = edit(&text, &format!(" {field}: "), |_| String::new());
    }
    // And what was worked out of a sealed message and kept.
    for name in ["Cause ", "Sequence ", "OnceLock"] {
        text = edit(&text, name, |_| String::new());
    }
    text = edit(&text, "short_since: ", |value| if value == "None" { "-" } else { "+" }.to_owned());
    for queue in [" open: ", " short: "] {
        text = edit(&text, queue, in_order);
    }
    text
}

/// Replaces every value that stands behind `mark`.
fn edit(text: &str, mark: &str, with: impl Fn(&str) -> String) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(mark) {
        let (head, tail) = rest.split_at(place + mark.len());
        let (value, tail) = tail.split_at(length(tail));
        edited.push_str(head);
        edited.push_str(&with(value));
        rest = tail;
    }
    edited + rest
}

/// How long the value at the start of `text` is: up to a comma or bracket that is not inside it.
fn length(text: &str) -> usize {
    let mut depth = 0;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' if depth == 0 => return place,
            b'}' | b']' | b')' => {
                depth -= 1;
                if depth == 0 {
                    return place + 1;
                }
            }
            b',' if depth == 0 => return place,
            _ => {}
        }
    }
    text.len()
}

/// A queue by place, `{3: a, 7: b}`, without the places; anything else as it is.
fn in_order(value: &str) -> String {
    let Some(inside) = value.strip_prefix('{').and_then(|v| v.strip_suffix('}')) else {
        return value.to_owned();
    };
    let entries = inside.split(", ").filter_map(|entry| entry.split_once(": "));
    entries.map(|(_, what)| what).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_forgotten_and_their_order_is_kept() {
        let text =
            "{ x: 1, base: Base { a: [1, 2] }, open: {3: b, 7: a}, at: Cause { p: 4 }, y: (2) }";
        let edited = edit(text, " base: ", |_| String::new());
        let edited = edit(&edited, " open: ", in_order);
        let edited = edit(&edited, "Cause ", |_| String::new());
        assert_eq!(edited, "{ x: 1, base: , open: b, a, at: Cause , y: (2) }");
        assert_eq!(in_order("true"), "true");
    }
}
