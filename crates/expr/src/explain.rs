//! Why an expression does not hold.

use std::fmt;

use crate::error::{EvalError, escape, nearest};
use crate::eval;
use crate::tree::{Kind, Node};
use crate::types;
use crate::value::{Attributes, Value};

/// Why an expression does not hold for some attributes: no reasons if it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation(Vec<Reason>);

/// One reason why an expression does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An attribute that the expression names is not stated.
    NotStated(String),
    /// A comparison does not come out as the expression wants it.
    Unmet {
        /// What was wanted: a comparison, or one behind `not`.
        condition: String,
        /// The attributes in it, in the order of their names, with their values.
        values: Vec<(String, Value)>,
    },
    /// The expression has no value.
    Error(EvalError),
}

impl Explanation {
    /// Whether the expression holds.
    pub fn holds(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons, in the order of the expression. Of alternatives that all fail, each has its own.
    pub fn reasons(&self) -> &[Reason] {
        &self.0
    }

    /// The reasons in words. An attribute that is not among those `known` is unknown, and the nearest of
    /// them, if one is near, is what was probably meant.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use tenure_expr::{Expr, Value};
    ///
    /// let attributes = BTreeMap::from([("memory", Value::parse("8GiB")?)]);
    /// let explain = |source| Expr::parse(source).unwrap().explain(&attributes).in_words(["memory", "cpus"]);
    /// assert_eq!(explain("memory >= 16GiB"), "memory >= 16GiB: memory is 8GiB");
    /// assert_eq!(explain("memroy >= 16GiB"), "unknown attribute `memroy`; did you mean `memory`?");
    /// assert_eq!(explain("cpus >= 4"), "`cpus` is not stated");
    /// # Ok::<(), tenure_expr::ParseError>(())
    /// ```
    pub fn in_words<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> String {
        let known: Vec<&str> = known.into_iter().collect();
        let in_words = |reason: &Reason| match reason {
            Reason::NotStated(name) if !known.contains(&name.as_str()) => {
                let near = nearest(name, known.iter().copied())
                    .map(|near| format!("; did you mean `{}`?", escape(near)));
                format!("unknown attribute `{}`{}", escape(name), near.unwrap_or_default())
            }
            Reason::NotStated(_) | Reason::Unmet { .. } | Reason::Error(_) => reason.to_string(),
        };
        self.0.iter().map(in_words).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStated(name) => write!(f, "`{}` is not stated", escape(name)),
            Self::Unmet { condition, values } => {
                f.write_str(condition)?;
                for (place, (name, value)) in values.iter().enumerate() {
                    let before = if place == 0 { ":" } else { "," };
                    write!(f, "{before} {} is {value}", escape(name))?;
                }
                Ok(())
            }
            Self::Error(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Explanation {
    /// The reasons with semicolons between them; nothing if the expression holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, reason) in self.0.iter().enumerate() {
            write!(f, "{}{reason}", if place == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Why `node`, whose text is `source`, does not hold.
pub(crate) fn explain(node: &Node, source: &str, attributes: &dyn Attributes) -> Explanation {
    let mut reasons = Vec::new();
    node.visit_attributes(&mut |name, _| {
        let missing = Reason::NotStated(name.to_owned());
        if attributes.value(name).is_none() && !reasons.contains(&missing) {
            reasons.push(missing);
        }
    });
    if !reasons.is_empty() {
        return Explanation(reasons);
    }
    let mut search = Search { source, attributes, reasons };
    let holds = types::infer(node, &|name| attributes.value(name).map(Value::type_of))
        .and_then(|_| eval::condition(node, attributes));
    match holds {
        Ok(true) => {}
        Ok(false) => search.blame(node, true),
        Err(error) => search.reasons.push(Reason::Error(error)),
    }
    Explanation(search.reasons)
}

struct Search<'a> {
    source: &'a str,
    attributes: &'a dyn Attributes,
    reasons: Vec<Reason>,
}

impl Search<'_> {
    /// Adds the reasons why `node` is not as `wanted`, which it is not.
    fn blame(&mut self, node: &Node, wanted: bool) {
        match &node.kind {
            Kind::Not(operand) => self.blame(operand, !wanted),
            Kind::All(nodes) | Kind::Any(nodes) => {
                for part in nodes {
                    // A part without a value stands behind one that decides, and was passed over.
                    let value = eval::condition(part, self.attributes);
                    if value.is_ok_and(|value| value != wanted) {
                        self.blame(part, wanted);
                    }
                }
            }
            Kind::Literal(_) | Kind::Attribute(_) | Kind::Negative(_) | Kind::Binary(..) => {
                self.unmet(node, wanted);
            }
        }
    }

    fn unmet(&mut self, node: &Node, wanted: bool) {
        let text = &self.source[node.span.clone()];
        let condition = if wanted { text.to_owned() } else { format!("not {text}") };
        let mut values = Vec::new();
        node.visit_attributes(&mut |name, _| {
            if let Some(value) = self.attributes.value(name) {
                values.push((name.to_owned(), value.clone()));
            }
        });
        values.sort();
        values.dedup();
        self.reasons.push(Reason::Unmet { condition, values });
    }
}
