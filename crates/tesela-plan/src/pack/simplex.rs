//! An exact simplex for covering programs whose supplies are generalised upper bounds.
//!
//! The limit of each supply is a row of its own, and there may be thousands. As in Dantzig and Van Slyke's method
//! each supply keeps one *key* column in the basis, and only a working basis of as many columns as there are classes
//! of demand is inverted: a dozen, by integer-preserving elimination, so every number is an exact fraction over one
//! common denominator. Pivoting is by largest gain, and by Bland's rule while a pivot gains nothing, so it ends.

use super::TooLarge;
use super::program::Program;

/// An optimal vertex. Every number is a numerator over `den`, which is positive.
#[derive(Debug)]
pub(super) struct Vertex {
    pub(super) den: i128,
    /// Basic columns beside the keys, one for each row.
    pub(super) work: Vec<usize>,
    pub(super) work_x: Vec<i128>,
    /// The key column of each supply.
    pub(super) keys: Vec<usize>,
    pub(super) key_x: Vec<i128>,
    /// Dual prices of the rows, not negative.
    pub(super) prices: Vec<i128>,
    /// Inverse of the working basis.
    pub(super) inverse: Vec<Vec<i128>>,
}

/// Pivots without gain before Bland's rule takes over.
const PATIENCE: usize = 12;

/// Solves the program exactly.
///
/// # Errors
/// When a number leaves 128 bits.
pub(super) fn solve(program: &Program) -> Result<Vertex, TooLarge> {
    let mut work = program.start.clone();
    let mut keys = program.supplies.iter().map(|s| s.slack).collect::<Vec<_>>();
    let mut stalled = 0;
    loop {
        let mut vertex = vertex(program, &work, &keys)?;
        let Some(entering) = entering(program, &vertex, stalled > PATIENCE)? else {
            fill_key_values(program, &mut vertex)?;
            return Ok(vertex);
        };
        let (leaving, gains) = leaving(program, &vertex, entering, stalled > PATIENCE)?;
        stalled = if gains { 0 } else { stalled + 1 };
        match leaving {
            Leaving::Work(row) => work[row] = entering,
            Leaving::Key(supply) => {
                let beside = work.iter().position(|&c| program.columns[c].supply == Some(supply));
                match beside {
                    // Another basic column of the supply becomes its key, and the old key leaves from its place.
                    Some(row) => {
                        keys[supply] = work[row];
                        work[row] = entering;
                    }
                    None => keys[supply] = entering,
                }
            }
        }
    }
}

/// A column as the working basis sees it: less the key of its supply.
pub(super) fn reduced(program: &Program, keys: &[usize], column: usize) -> (Vec<i128>, i128) {
    let column = &program.columns[column];
    match column.supply {
        None => (column.holds.clone(), column.cost),
        Some(supply) => {
            let key = &program.columns[keys[supply]];
            let holds = column.holds.iter().zip(&key.holds).map(|(a, b)| a - b).collect();
            (holds, column.cost - key.cost)
        }
    }
}

fn vertex(program: &Program, work: &[usize], keys: &[usize]) -> Result<Vertex, TooLarge> {
    let rows = program.demand.len();
    let mut costs = Vec::with_capacity(rows);
    let mut matrix = vec![vec![0; rows]; rows];
    for (at, &column) in work.iter().enumerate() {
        let (holds, cost) = reduced(program, keys, column);
        costs.push(cost);
        for (row, value) in holds.into_iter().enumerate() {
            matrix[row][at] = value;
        }
    }
    let (inverse, den) = invert(matrix)?;
    let mut rest = program.demand.clone();
    for (supply, &key) in program.supplies.iter().zip(keys) {
        for (left, held) in rest.iter_mut().zip(&program.columns[key].holds) {
            if *held != 0 {
                *left = sub(*left, mul(supply.count, *held)?)?;
            }
        }
    }
    let mut work_x = Vec::with_capacity(rows);
    for row in &inverse {
        work_x.push(dot(row, &rest)?);
    }
    let mut prices = vec![0; rows];
    for (cost, row) in costs.iter().zip(&inverse) {
        for (price, value) in prices.iter_mut().zip(row) {
            *price = add(*price, mul(*cost, *value)?)?;
        }
    }
    Ok(Vertex { den, work: work.to_vec(), work_x, keys: keys.to_vec(), key_x: Vec::new(), prices, inverse })
}

fn fill_key_values(program: &Program, vertex: &mut Vertex) -> Result<(), TooLarge> {
    vertex.key_x = Vec::with_capacity(vertex.keys.len());
    for supply in 0..vertex.keys.len() {
        let value = key_value(program, vertex, supply)?;
        vertex.key_x.push(value);
    }
    Ok(())
}

fn key_value(program: &Program, vertex: &Vertex, supply: usize) -> Result<i128, TooLarge> {
    let mut value = mul(program.supplies[supply].count, vertex.den)?;
    for (&column, x) in vertex.work.iter().zip(&vertex.work_x) {
        if program.columns[column].supply == Some(supply) {
            value = sub(value, *x)?;
        }
    }
    Ok(value)
}

/// What one more of a column would cost beyond the prices, over the denominator; negative means it pays.
pub(super) fn reduced_cost(program: &Program, vertex: &Vertex, column: usize) -> Result<i128, TooLarge> {
    let worth = |c: usize| -> Result<i128, TooLarge> {
        let column = &program.columns[c];
        sub(mul(vertex.den, column.cost)?, dot(&vertex.prices, &column.holds)?)
    };
    match program.columns[column].supply {
        None => worth(column),
        Some(supply) => sub(worth(column)?, worth(vertex.keys[supply])?),
    }
}

fn entering(program: &Program, vertex: &Vertex, bland: bool) -> Result<Option<usize>, TooLarge> {
    let mut base = Vec::with_capacity(vertex.keys.len());
    for &key in &vertex.keys {
        let column = &program.columns[key];
        base.push(sub(mul(vertex.den, column.cost)?, dot(&vertex.prices, &column.holds)?)?);
    }
    let mut best = None;
    let mut least = 0;
    for (index, column) in program.columns.iter().enumerate() {
        let mut gain = sub(mul(vertex.den, column.cost)?, dot(&vertex.prices, &column.holds)?)?;
        if let Some(supply) = column.supply {
            gain = sub(gain, base[supply])?;
        }
        if gain < least {
            best = Some(index);
            least = gain;
            if bland {
                break;
            }
        }
    }
    Ok(best)
}

enum Leaving {
    Work(usize),
    Key(usize),
}

/// The basic column that reaches zero first when `entering` grows, and whether it grows at all.
fn leaving(
    program: &Program,
    vertex: &Vertex,
    entering: usize,
    bland: bool,
) -> Result<(Leaving, bool), TooLarge> {
    let (holds, _) = reduced(program, &vertex.keys, entering);
    let mut fall = Vec::with_capacity(vertex.inverse.len());
    for row in &vertex.inverse {
        fall.push(dot(row, &holds)?);
    }
    let mut supplies = vertex.work.iter().filter_map(|&c| program.columns[c].supply).collect::<Vec<_>>();
    supplies.extend(program.columns[entering].supply);
    supplies.sort_unstable();
    supplies.dedup();
    let mut candidates = Vec::new();
    for (row, (&x, &y)) in vertex.work_x.iter().zip(&fall).enumerate() {
        candidates.push((x, y, vertex.work[row], Leaving::Work(row)));
    }
    for supply in supplies {
        let inside = program.columns[entering].supply == Some(supply);
        let mut y = if inside { vertex.den } else { 0 };
        for (&column, fall) in vertex.work.iter().zip(&fall) {
            if program.columns[column].supply == Some(supply) {
                y = sub(y, *fall)?;
            }
        }
        candidates.push((key_value(program, vertex, supply)?, y, vertex.keys[supply], Leaving::Key(supply)));
    }
    let mut best: Option<(i128, i128, usize, Leaving)> = None;
    for (x, y, column, leaving) in candidates {
        if y <= 0 {
            continue;
        }
        let better = match &best {
            None => true,
            Some((best_x, best_y, best_column, _)) => {
                let (this, that) = (mul(x, *best_y)?, mul(*best_x, y)?);
                let tie = if bland { column < *best_column } else { y > *best_y };
                this < that || (this == that && tie)
            }
        };
        if better {
            best = Some((x, y, column, leaving));
        }
    }
    // Costs are not negative and every column takes something, so no direction is without end.
    best.map(|(x, _, _, leaving)| (leaving, x > 0)).ok_or(TooLarge)
}

/// Inverse of an integer matrix as integers over one positive denominator (Bareiss, Gauss-Jordan form).
pub(crate) fn invert(mut matrix: Vec<Vec<i128>>) -> Result<(Vec<Vec<i128>>, i128), TooLarge> {
    let n = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.extend((0..n).map(|at| i128::from(at == index)));
    }
    let mut last = 1;
    for pivot in 0..n {
        // A basis is never singular; the error stands for "cannot happen" without a panic.
        let found = (pivot..n).find(|&r| matrix[r][pivot] != 0).ok_or(TooLarge)?;
        matrix.swap(pivot, found);
        let pivot_row = matrix[pivot].clone();
        let head = pivot_row[pivot];
        for (index, row) in matrix.iter_mut().enumerate() {
            if index == pivot {
                continue;
            }
            let factor = row[pivot];
            for (value, above) in row.iter_mut().zip(&pivot_row) {
                // Exact by Bareiss' theorem.
                *value = sub(mul(*value, head)?, mul(factor, *above)?)? / last;
            }
        }
        last = head;
    }
    let sign = if last < 0 { -1 } else { 1 };
    let mut den = last.abs();
    let mut inverse = matrix
        .into_iter()
        .map(|row| row[n..].iter().map(|v| v * sign).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    let common = inverse.iter().flatten().fold(den, |g, v| super::program::gcd(g, v.abs()));
    if common > 1 {
        den /= common;
        for value in inverse.iter_mut().flatten() {
            *value /= common;
        }
    }
    Ok((inverse, den.max(1)))
}

pub(crate) fn dot(a: &[i128], b: &[i128]) -> Result<i128, TooLarge> {
    let mut sum = 0;
    for (a, b) in a.iter().zip(b) {
        if *b != 0 {
            sum = add(sum, mul(*a, *b)?)?;
        }
    }
    Ok(sum)
}

pub(crate) fn mul(a: i128, b: i128) -> Result<i128, TooLarge> {
    a.checked_mul(b).ok_or(TooLarge)
}

pub(crate) fn add(a: i128, b: i128) -> Result<i128, TooLarge> {
    a.checked_add(b).ok_or(TooLarge)
}

pub(crate) fn sub(a: i128, b: i128) -> Result<i128, TooLarge> {
    a.checked_sub(b).ok_or(TooLarge)
}
