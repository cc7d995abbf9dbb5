//! Problems for solvers that know neither quantities nor expressions.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::error::BadProblem;
use crate::model::Model;
use crate::problem::{Problem, Properties};

impl Problem {
    /// The same problem with plain numbers as amounts, and with the list of places that each part may go to
    /// instead of its conditions and software. Conditions of links stay.
    ///
    /// # Errors
    /// Those of [`solve`](crate::solve).
    pub fn plain(&self) -> Result<Self, BadProblem> {
        let model = Model::new(self)?;
        let mut plain = self.clone();
        plain.objective.clone_from(&model.objective);
        for place in &mut plain.place {
            numbers(&mut place.capacity);
            place.attributes = Properties::default();
        }
        for (index, part) in plain.part.iter_mut().enumerate() {
            numbers(&mut part.needs);
            part.condition = None;
            part.software.clear();
            let allowed = || (0..model.place_count()).filter(|&place| model.allows(index, place));
            let limited = model.rules[index].eligible.is_some();
            part.only = limited.then(|| allowed().map(|place| model.places.title(place)).collect());
        }
        plain.library.iter_mut().for_each(|library| numbers(&mut library.needs));
        for edge in &mut plain.edge {
            edge.capacity = number(edge.capacity);
            edge.latency = edge.latency.map(number);
        }
        for link in &mut plain.link {
            link.bandwidth = number(link.bandwidth);
            link.latency = link.latency.map(number);
        }
        Ok(plain)
    }
}

fn number(amount: Amount) -> Amount {
    Amount::number(amount.value())
}

fn numbers(amounts: &mut BTreeMap<String, Amount>) {
    amounts.values_mut().for_each(|amount| *amount = number(*amount));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, solve};

    #[test]
    fn a_plain_problem_has_the_answer_of_its_original() {
        let problem: Problem = toml::from_str(
            "[[place]]\nname = 'a'\ncount = 2\ncapacity = { memory = '1GiB' }\n\
             [[place]]\nname = 'b'\ncapacity = { memory = '4GiB' }\nattributes = { gpu = true }\n\
             installed = ['lib/tls/1.2/main/1']\n\
             [[part]]\nname = 'p'\nneeds = { memory = '512MiB' }\nwhere = 'gpu'\n\
             [[part]]\nname = 'q'\nneeds = { memory = '1GiB' }\nsoftware = ['lib/tls/*/main/*']\n\
             [[part]]\nname = 'r'\nneeds = { memory = '1GiB' }\nonly = ['a']\n\
             [[part]]\nname = 's'\n",
        )
        .unwrap();
        let plain = problem.plain().unwrap();
        let only: Vec<_> = plain.part.iter().map(|part| part.only.clone()).collect();
        let list = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(only, [list(&["b"]), list(&["b"]), list(&["a/1", "a/2"]), None]);
        assert_eq!(plain.place[1].capacity["memory"], Amount::number(4 << 30));
        let text = serde_json::to_string(&plain).unwrap();
        assert!(!text.contains("where") && !text.contains("GiB"), "{text}");
        let read: Problem = serde_json::from_str(&text).unwrap();
        let [one, other] =
            [&problem, &read].map(|problem| solve(problem, &Settings::default()).unwrap());
        assert_eq!((one.status, one.plan), (other.status, other.plan));
    }
}
