//! The assignment bound: blocks that must all be apart cannot share the place that suits each best.

/// A block cannot go to a place.
pub(super) const NEVER: u64 = u64::MAX / 4;

/// The least sum of costs at which each row has a column of its own; none if there is no assignment.
///
/// The shortest augmenting path method (Jonker and Volgenant 1987), with potentials. `costs` is row-major
/// with `columns` columns; costs are below [`NEVER`], or just that.
pub(super) fn least(costs: &[u64], columns: usize) -> Option<u64> {
    let rows = costs.len() / columns;
    if rows > columns {
        return None;
    }
    let mut potentials = Potentials { row: vec![0; rows], column: vec![0; columns] };
    // The row of each column.
    let mut owner: Vec<Option<usize>> = vec![None; columns];
    for row in 0..rows {
        augment(row, costs, columns, &mut potentials, &mut owner)?;
    }
    let mut sum = 0;
    for (column, owner) in owner.iter().enumerate() {
        if let Some(row) = owner {
            sum += costs[row * columns + column];
        }
    }
    Some(sum)
}

struct Potentials {
    row: Vec<i128>,
    column: Vec<i128>,
}

/// Gives a row a column, moving other rows along the cheapest way.
fn augment(
    start: usize,
    costs: &[u64],
    columns: usize,
    potentials: &mut Potentials,
    owner: &mut [Option<usize>],
) -> Option<()> {
    let mut least = vec![i128::MAX; columns];
    let mut before: Vec<Option<usize>> = vec![None; columns];
    let mut done = vec![false; columns];
    let (mut row, mut column) = (start, None);
    loop {
        for next in 0..columns {
            let cost = costs[row * columns + next];
            if done[next] || cost >= NEVER {
                continue;
            }
            let reduced = i128::from(cost) - potentials.row[row] - potentials.column[next];
            if reduced < least[next] {
                least[next] = reduced;
                before[next] = column;
            }
        }
        let open = (0..columns).filter(|next| !done[*next] && least[*next] < i128::MAX);
        let next = open.min_by_key(|next| least[*next])?;
        let delta = least[next];
        potentials.row[start] += delta;
        for other in 0..columns {
            if done[other] {
                if let Some(owner) = owner[other] {
                    potentials.row[owner] += delta;
                }
                potentials.column[other] -= delta;
            } else if least[other] < i128::MAX {
                least[other] -= delta;
            }
        }
        done[next] = true;
        column = Some(next);
        match owner[next] {
            Some(owner) => row = owner,
            None => break,
        }
    }
    let mut at = column;
    while let Some(this) = at {
        let previous = before[this];
        owner[this] = previous.map_or(Some(start), |previous| owner[previous]);
        at = previous;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying all.
    fn tried(costs: &[u64], columns: usize, row: usize, used: u32) -> Option<u64> {
        if row * columns == costs.len() {
            return Some(0);
        }
        let free = (0..columns).filter(|column| used >> column & 1 == 0);
        let sums =
            free.filter(|column| costs[row * columns + column] < NEVER).filter_map(|column| {
                Some(
                    costs[row * columns + column]
                        + tried(costs, columns, row + 1, used | 1 << column)?,
                )
            });
        sums.min()
    }

    proptest! {
        #[test]
        fn no_assignment_is_cheaper(
            columns in 1_usize..6,
            cells in proptest::collection::vec(prop_oneof![4 => 0_u64..20, 1 => Just(NEVER)], 30),
            rows in 0_usize..6,
        ) {
            let costs = &cells[..rows * columns];
            prop_assert_eq!(least(costs, columns), tried(costs, columns, 0, 0));
        }
    }
}
