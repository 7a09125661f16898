//! A plan that settles: what a second plan would better, once this one was carried out, is done at once.
//!
//! Pods sit where they were put one after the other, so somebody may find a better seat when everybody else has one.
//! The same search over the fleet as it is after the plan finds such seats; they guide another placement over the
//! fleet as it is now. That goes on until it betters nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Effort, Outcome, Search, work};
use crate::assemble;
use crate::carried_out::carried_out;
use crate::decide::decide_all;
use crate::input::PlanInput;
use crate::place::{Guide, Recipe};

/// So often at most.
const ROUNDS: u32 = 4;
/// Beyond this much work for one placement, planning again takes too long.
const MOST_WORK: u64 = 50_000;

/// Betters an outcome until another plan over its result changes nothing.
pub(super) fn settle<'a>(search: &mut Search<'_, 'a>, best: &mut Outcome<'a>) {
    if work(search.input) > MOST_WORK {
        return;
    }
    for _ in 0..ROUNDS {
        let Some((moving, guide)) = next(search, best) else { return };
        // Who finds a seat now is not hopeless.
        search.hopeless.retain(|w| !guide.contains_key(w));
        search.recipe = Recipe { guide, ..best.recipe.clone() };
        let mut other = search.attempt(&moving, Effort::Quick);
        search.add_hopeless(&mut other);
        if !search.keep_better(best, other) {
            return;
        }
    }
}

/// Who moves, and where to, by another search over the result; `None` when that changes nothing.
fn next(search: &Search<'_, '_>, best: &Outcome<'_>) -> Option<(BTreeSet<usize>, Guide)> {
    let input = search.input;
    let (nodes, assignments) = assemble::seats(input, search.decisions, best);
    let (fleet, demand) = carried_out(input.fleet, input.demand, &nodes, &assignments);
    let after = PlanInput { fleet: &fleet, demand: &demand, ..*input };
    let decisions = decide_all(&demand, &input.settings);
    let second = Search::new(&after, &decisions).run();
    let pods = |outcome: &Outcome<'_>| -> u64 { outcome.unseated.iter().map(|u| u.count).sum() };
    if second.restarts == 0 && pods(&second) >= pods(best) {
        return None;
    }
    let moving = best.moving.union(&second.moving).copied().collect();
    let kept = search.world(&moving);
    let mut guide: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    // Nodes that are bought are new each time, and come after those that exist.
    for (n, (node, now)) in second.world.nodes.iter().zip(&kept.nodes).enumerate() {
        for (&w, &pods) in &node.pods {
            let here = now.pods.get(&w).copied().unwrap_or(0);
            if pods > here {
                guide.entry(w).or_default().push((n, pods - here));
            }
        }
    }
    Some((moving, Rc::new(guide)))
}
