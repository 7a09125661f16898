//! The exact optimum for few GPUs: every sum of shapes that GPUs can reach, one GPU after the other, as long as the
//! losses leave room for something better than what is known.

use std::collections::BTreeMap;

use super::exchange::{Choice, Losses};
use super::table::Table;
use crate::pack::TooLarge;
use crate::pack::simplex::add;

/// GPUs beyond which it is not tried.
const MOST_GPUS: i128 = 48;
/// Sums looked at before it gives up.
const MOST_LOOKS: usize = 1_500_000;

/// What the search says.
pub(super) enum Found {
    /// The best choice there is within the room.
    Best(Choice),
    /// There is none.
    Nothing,
    /// It gave up.
    TooMuch,
}

/// A sum of rows, and how it was reached: losses, the sum before, the shape.
type Layer = BTreeMap<Vec<i128>, (i128, Vec<i128>, usize)>;

/// Looks for the choice with the least losses, at most `room`; `None`: any losses.
pub(super) fn search(table: &Table, losses: &Losses, room: Option<i128>) -> Result<Found, TooLarge> {
    if table.counts.iter().sum::<i128>() > MOST_GPUS {
        return Ok(Found::TooMuch);
    }
    let gpus = table.counts.iter().enumerate();
    let gpus = gpus.flat_map(|(group, &count)| (0..count).map(move |_| group)).collect::<Vec<_>>();
    let wants = table.rows.iter().map(|row| row.want).collect::<Vec<_>>();
    let after = most_after(table, &gpus);
    let mut layers: Vec<Layer> = vec![BTreeMap::from([(vec![0; wants.len()], (0, Vec::new(), 0))])];
    let mut looks = 0;
    for (index, &group) in gpus.iter().enumerate() {
        let mut next = Layer::new();
        for (sum, (lost, ..)) in &layers[index] {
            for (shape, loss) in losses.of(group).iter().enumerate() {
                looks += 1;
                if looks > MOST_LOOKS {
                    return Ok(Found::TooMuch);
                }
                let Some(loss) = loss else { continue };
                let lost = add(*lost, *loss)?;
                if room.is_some_and(|room| lost > room) {
                    continue;
                }
                let reached = sum.iter().zip(&table.holds[shape]).map(|(a, b)| a + b).collect::<Vec<_>>();
                let possible =
                    |((sum, want), most): ((&i128, &i128), &i128)| sum <= want && sum + most >= *want;
                if !reached.iter().zip(&wants).zip(&after[index + 1]).all(possible) {
                    continue;
                }
                let known = next.entry(reached).or_insert((i128::MAX, Vec::new(), 0));
                if lost < known.0 {
                    *known = (lost, sum.clone(), shape);
                }
            }
        }
        layers.push(next);
    }
    Ok(trace(table, &gpus, &layers, wants))
}

/// The most that the GPUs from each on can add to each row.
fn most_after(table: &Table, gpus: &[usize]) -> Vec<Vec<i128>> {
    let rows = table.rows.len();
    let most = |group: usize, row: usize| {
        let shapes = table.costs(group).iter().zip(&table.holds).filter(|(cost, _)| cost.is_some());
        shapes.map(|(_, holds)| holds[row]).max().unwrap_or(0)
    };
    let mut after = vec![vec![0; rows]; gpus.len() + 1];
    for (index, &group) in gpus.iter().enumerate().rev() {
        after[index] = (0..rows).map(|row| after[index + 1][row] + most(group, row)).collect();
    }
    after
}

fn trace(table: &Table, gpus: &[usize], layers: &[Layer], wants: Vec<i128>) -> Found {
    let mut choice: Choice = vec![Vec::new(); table.groups()];
    if !layers.last().is_some_and(|layer| layer.contains_key(&wants)) {
        return Found::Nothing;
    }
    let mut sum = wants;
    for (index, &group) in gpus.iter().enumerate().rev() {
        let Some((_, before, shape)) = layers[index + 1].get(&sum) else { return Found::Nothing };
        match choice[group].binary_search_by_key(shape, |part| part.0) {
            Ok(at) => choice[group][at].1 += 1,
            Err(at) => choice[group].insert(at, (*shape, 1)),
        }
        sum = before.clone();
    }
    Found::Best(choice)
}
