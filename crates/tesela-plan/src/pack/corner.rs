//! Gomory's corner relaxation: the least that whole numbers cost beyond the fractional optimum.
//!
//! At the optimal vertex the basic columns must come out whole. Which amounts of the other columns make them whole
//! depends only on a finite group with at most as many elements as the determinant of the basis, so the cheapest such
//! amounts are a shortest path. The result is a lower bound for every integer solution, and where no basic column
//! falls below zero (always, once the demand is large) it is the optimum itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::TooLarge;
use super::program::Program;
use super::simplex::{Vertex, dot, mul, reduced, reduced_cost, sub};

/// Edges looked at before giving up.
const MOST_STEPS: usize = 1_500_000;

/// What the relaxation says.
pub(super) struct Corner {
    /// Least cost of whole numbers, in cost units.
    pub(super) bound: i128,
    /// Columns and how often each is used, when that cost is reached.
    pub(super) uses: Option<BTreeMap<usize, i128>>,
}

struct Edge {
    column: usize,
    cost: i128,
    shift: Vec<i128>,
}

/// Solves the relaxation, or `None` when the group is too large to search.
///
/// `objective` is the optimum of the fractional program over the vertex's denominator.
pub(super) fn corner(
    program: &Program,
    vertex: &Vertex,
    objective: i128,
) -> Result<Option<Corner>, TooLarge> {
    let target = vertex.work_x.iter().map(|x| x.rem_euclid(vertex.den)).collect::<Vec<_>>();
    let edges = edges(program, vertex)?;
    let Some((extra, path)) = shortest(&edges, &target, vertex.den)? else {
        return Ok(None);
    };
    let total = super::simplex::add(objective, extra)?;
    if total % vertex.den != 0 {
        return Ok(None);
    }
    let mut taken: BTreeMap<usize, i128> = BTreeMap::new();
    for edge in path {
        *taken.entry(edges[edge].column).or_insert(0) += 1;
    }
    Ok(Some(Corner { bound: total / vertex.den, uses: whole(program, vertex, &taken)? }))
}

/// The cheapest column for each step of the group.
fn edges(program: &Program, vertex: &Vertex) -> Result<Vec<Edge>, TooLarge> {
    let mut cheapest: BTreeMap<Vec<i128>, (i128, usize)> = BTreeMap::new();
    for column in 0..program.columns.len() {
        let (holds, _) = reduced(program, &vertex.keys, column);
        let mut shift = Vec::with_capacity(vertex.inverse.len());
        for row in &vertex.inverse {
            shift.push(dot(row, &holds)?.rem_euclid(vertex.den));
        }
        if shift.iter().all(|s| *s == 0) {
            continue;
        }
        let cost = reduced_cost(program, vertex, column)?;
        let known = cheapest.entry(shift).or_insert((cost, column));
        if cost < known.0 {
            *known = (cost, column);
        }
    }
    let mut edges = Vec::new();
    for (shift, (cost, column)) in cheapest {
        edges.push(Edge { column, cost, shift });
    }
    Ok(edges)
}

type Path = Vec<usize>;

/// What is known of an element of the group.
struct Reached {
    cost: i128,
    /// The element before it, and the edge from there.
    from: Option<(usize, usize)>,
    settled: bool,
}

/// Dijkstra from zero to `target`: least cost and the edges walked.
fn shortest(edges: &[Edge], target: &[i128], modulus: i128) -> Result<Option<(i128, Path)>, TooLarge> {
    let zero = vec![0; target.len()];
    let mut nodes = vec![zero.clone()];
    let mut known: BTreeMap<Vec<i128>, usize> = BTreeMap::from([(zero, 0)]);
    let mut reached = vec![Reached { cost: 0, from: None, settled: false }];
    let mut queue = BinaryHeap::from([Reverse((0i128, 0usize))]);
    let mut steps = 0;
    while let Some(Reverse((cost, node))) = queue.pop() {
        if std::mem::replace(&mut reached[node].settled, true) {
            continue;
        }
        if nodes[node] == target {
            let mut path = Vec::new();
            let mut at = node;
            while let Some((before, edge)) = reached[at].from {
                path.push(edge);
                at = before;
            }
            return Ok(Some((cost, path)));
        }
        for (index, edge) in edges.iter().enumerate() {
            steps += 1;
            if steps > MOST_STEPS / target.len().max(1) {
                return Ok(None);
            }
            let sum = |(a, b): (&i128, &i128)| (a + b) % modulus;
            let next = nodes[node].iter().zip(&edge.shift).map(sum).collect::<Vec<_>>();
            let total = super::simplex::add(cost, edge.cost)?;
            let id = *known.entry(next.clone()).or_insert_with(|| {
                nodes.push(next);
                reached.push(Reached { cost: i128::MAX, from: None, settled: false });
                nodes.len() - 1
            });
            if total < reached[id].cost {
                reached[id] = Reached { cost: total, from: Some((node, index)), settled: false };
                queue.push(Reverse((total, id)));
            }
        }
    }
    Ok(None)
}

/// The basic columns' whole numbers beside the columns taken; `None` when one is below zero.
fn whole(
    program: &Program,
    vertex: &Vertex,
    taken: &BTreeMap<usize, i128>,
) -> Result<Option<BTreeMap<usize, i128>>, TooLarge> {
    let mut uses = taken.clone();
    let mut drawn = program.supplies.iter().map(|s| s.count).collect::<Vec<_>>();
    let mut values = vertex.work_x.clone();
    for (&column, &amount) in taken {
        if let Some(supply) = program.columns[column].supply {
            drawn[supply] -= amount;
        }
        let (holds, _) = reduced(program, &vertex.keys, column);
        for (value, row) in values.iter_mut().zip(&vertex.inverse) {
            *value = sub(*value, mul(amount, dot(row, &holds)?)?)?;
        }
    }
    for (value, &column) in values.iter().zip(&vertex.work) {
        if value % vertex.den != 0 || *value < 0 {
            return Ok(None);
        }
        let amount = value / vertex.den;
        if let Some(supply) = program.columns[column].supply {
            drawn[supply] -= amount;
        }
        *uses.entry(column).or_insert(0) += amount;
    }
    for (&left, &key) in drawn.iter().zip(&vertex.keys) {
        if left < 0 {
            return Ok(None);
        }
        *uses.entry(key).or_insert(0) += left;
    }
    Ok(Some(uses))
}
