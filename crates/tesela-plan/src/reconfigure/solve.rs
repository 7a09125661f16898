//! The whole way: check, relax, make whole, prove, put in order.

use std::collections::BTreeMap;

use tesela_model::layout::Instance;
use tesela_model::product::ProfileName;

use super::exact::{self, Found};
use super::exchange::{self, Choice, Losses};
use super::group::{Group, groups, is_busy, is_pinned, weight};
use super::prove::Bound;
use super::sift::{Off, sift};
use super::steps::{Job, Seat, order};
use super::table::{Table, homeless, wanted};
use super::{
    Answer, Blast, Blocked, Certificate, Executor, GpuChange, Proof, Reconfiguration, ReconfigureError,
    Request,
};
use crate::pack::{TooLarge, pack_product};

/// Finds the way to the target that disturbs least; among those the one with the fewest operations found.
///
/// A workload that is disturbed gets another instance of its profile, so the target must have at least as many
/// instances of each profile as are busy. Nothing pinned is touched. Spare GPUs are used only where workloads would
/// otherwise have to stop before their next instance exists. The answer does not depend on the order of the GPUs.
///
/// # Errors
/// When GPUs, target or numbers make no sense; a target that cannot be reached is an answer, not an error.
pub fn reconfigure(request: &Request<'_>) -> Result<Answer, ReconfigureError> {
    let product = request.product;
    let groups = groups(product, request.gpus)?;
    let wanted = wanted(product, request.target, request.gpus.len())?;
    let short = homeless(&groups, &wanted);
    if !short.is_empty() {
        return Ok(Answer::Blocked(short.into_iter().map(no_home).collect()));
    }
    let table = Table::new(product, &groups, request.target, &wanted)?;
    let mut start = Vec::with_capacity(groups.len());
    for (index, group) in groups.iter().enumerate() {
        let costs = table.costs(index).iter().enumerate();
        let Some((_, key)) = costs.filter_map(|(shape, cost)| cost.map(|cost| (cost, shape))).min() else {
            return Ok(Answer::Blocked(vec![stuck(request, group)]));
        };
        start.push(key);
    }
    match choose(&table, &start)? {
        Ok(chosen) => Ok(Answer::Change(Box::new(carry_out(request, &groups, &table, &chosen)?))),
        Err(Block::Off(off)) => Ok(Answer::Blocked(explain(request, &groups, &table, &wanted, &off)?)),
        Err(Block::NotFound) => Ok(Answer::Blocked(vec![not_found()])),
    }
}

struct Chosen {
    choice: Choice,
    bound: Bound,
    /// Least operations at the least weight, as far as proven.
    operations_bound: i128,
    /// Whether the search has ruled everything else out.
    searched: bool,
}

/// Why there is no choice.
enum Block {
    /// Rows cannot be met.
    Off(Off),
    /// Parts of GPUs would do; whole ones were not found, and there are too many to look at all.
    NotFound,
}

fn choose(table: &Table, start: &[usize]) -> Result<Result<Chosen, Block>, ReconfigureError> {
    if table.groups() == 0 {
        let off = table.rows.iter().enumerate().filter(|(_, r)| r.want > 0).map(|(at, r)| (at, r.want));
        let off = off.collect::<Off>();
        let bound = Bound { value: 0, scale: 1, prices: vec![0; table.rows.len()] };
        let chosen = Chosen { choice: Vec::new(), bound, operations_bound: 0, searched: true };
        return Ok(if off.is_empty() { Ok(chosen) } else { Err(Block::Off(off)) });
    }
    let sifted = sift(table, start)?;
    if let Some(off) = sifted.off {
        return Ok(Err(Block::Off(off)));
    }
    let cost = sifted.cost(table)?;
    let (factor, least) = (sifted.factor, sifted.together.rounded());
    let (choice, searched) = if cost == Some(least) {
        (sifted.choice, true)
    } else {
        // Better than what is known means: the losses stay below the cost less the bound.
        let Bound { value, scale, prices } = &sifted.together;
        let losses = Losses::new(table, *scale, prices, factor)?;
        let room = cost.map(|cost| (cost - 1) * scale - value);
        match exact::search(table, &losses, room)? {
            Found::Best(better) => (Some(better), true),
            Found::Nothing => (sifted.choice, true),
            Found::TooMuch => (sifted.choice, false),
        }
    };
    let Some(choice) = choice else {
        if !searched {
            return Ok(Err(Block::NotFound));
        }
        let near = exchange::residual(table, &exchange::all_at(table, start))?;
        let off = near.into_iter().enumerate().filter(|(_, r)| *r != 0);
        return Ok(Err(Block::Off(off.collect())));
    };
    let (disturbed, operations) = totals(table, &choice)?;
    let proven = if searched { operations } else { (least - disturbed * factor).clamp(0, operations) };
    Ok(Ok(Chosen { choice, bound: sifted.weight, operations_bound: proven, searched }))
}

fn totals(table: &Table, choice: &Choice) -> Result<(i128, i128), TooLarge> {
    let (mut weight, mut operations) = (0, 0);
    for (group, parts) in choice.iter().enumerate() {
        for &(shape, count) in parts {
            let cost = table.costs(group)[shape].ok_or(TooLarge)?;
            weight += cost.weight * count;
            operations += cost.operations * count;
        }
    }
    Ok((weight, operations))
}

/// What a GPU of the request holds now and in the end.
struct Plan<'a> {
    gpu: usize,
    group: &'a Group,
    last: Vec<Instance>,
}

impl Plan<'_> {
    fn differs(&self) -> bool {
        self.last.len() != self.group.instances.len()
            || self.group.instances.iter().any(|(i, _)| !self.last.contains(i))
    }

    fn change(&self) -> GpuChange {
        let whole = self.group.executor == Executor::GpuOperator && self.differs();
        let stays = |i: &Instance| !whole && self.last.contains(i);
        let now = || self.group.instances.iter();
        let was = |i: &Instance| !whole && now().any(|(held, _)| held == i);
        GpuChange {
            gpu: self.gpu,
            keep: now().filter(|(i, _)| stays(i)).map(|(i, _)| i.clone()).collect(),
            destroy: now().filter(|(i, _)| !stays(i)).map(|(i, _)| i.clone()).collect(),
            create: self.last.iter().filter(|i| !was(i)).cloned().collect(),
            disturbed: now()
                .filter(|(i, usage)| !stays(i) && is_busy(*usage))
                .map(|(i, _)| i.clone())
                .collect(),
        }
    }
}

/// Gives each GPU its layout: of equal ones those that change come first.
fn plans<'a>(groups: &'a [Group], table: &Table, choice: &Choice) -> Vec<Plan<'a>> {
    let mut plans = Vec::new();
    for (index, (group, parts)) in groups.iter().zip(choice).enumerate() {
        let mut members = group.members.iter();
        let mut parts = parts.clone();
        parts.sort_by_key(|&(shape, _)| (table.is_free(index, shape), shape));
        for (shape, count) in parts {
            let last = table.layout(group, shape);
            let count = usize::try_from(count).unwrap_or(0);
            plans.extend(members.by_ref().take(count).map(|&gpu| Plan { gpu, group, last: last.clone() }));
        }
    }
    plans
}

fn carry_out(
    request: &Request<'_>,
    groups: &[Group],
    table: &Table,
    chosen: &Chosen,
) -> Result<Reconfiguration, ReconfigureError> {
    let mut plans = plans(groups, table, &chosen.choice);
    plans.sort_by_key(|plan| &request.gpus[plan.gpu].name);
    let changes = plans.iter().map(Plan::change).collect::<Vec<_>>();
    let (jobs, seats) = jobs(&plans, &changes);
    // How many spare GPUs would keep everybody running, and the order with those that there are.
    let mut schedule = order(request.product, jobs.clone(), seats.clone(), u64::MAX);
    let spares_wanted = schedule.spares;
    if spares_wanted > request.spares {
        schedule = order(request.product, jobs, seats, request.spares);
    }
    let (weight, operations) = totals(table, &chosen.choice)?;
    let small = |value: i128| u64::try_from(value).map_err(|_| TooLarge);
    let disturbed_weight = small(weight)?.checked_mul(table.unit).ok_or(TooLarge)?;
    let lower_bound = small(chosen.bound.rounded())?.checked_mul(table.unit).ok_or(TooLarge)?;
    let proof = if lower_bound == disturbed_weight {
        Proof::Certificate
    } else if chosen.searched {
        Proof::Search
    } else {
        Proof::None
    };
    let gpu_operator = blast(&plans, |_| true)?;
    Ok(Reconfiguration {
        steps: schedule.steps,
        disturbed_weight,
        lower_bound,
        proven_optimal: lower_bound == disturbed_weight,
        proof,
        certificate: certificate(table, &chosen.bound)?,
        operations: small(operations)?,
        operations_bound: small(chosen.operations_bound)?,
        spares: schedule.spares,
        spares_wanted,
        stopped: schedule.stopped,
        destroy_all_weight: gpu_operator.weight,
        native: blast(&plans, |(plan, instance)| !plan.last.contains(instance))?,
        gpu_operator,
        gpus: changes,
    })
}

/// What is disturbed on GPUs that differ in the end, where `hits` says so.
fn blast(plans: &[Plan<'_>], hits: impl Fn((&Plan<'_>, &Instance)) -> bool) -> Result<Blast, TooLarge> {
    let mut blast = Blast { instances: 0, weight: 0, pinned: 0 };
    for plan in plans.iter().filter(|plan| plan.differs()) {
        let busy = plan.group.instances.iter().filter(|(_, usage)| is_busy(*usage));
        for (_, usage) in busy.filter(|(instance, _)| hits((plan, instance))) {
            blast.instances += 1;
            blast.weight = blast.weight.checked_add(weight(*usage)).ok_or(TooLarge)?;
            blast.pinned += u64::from(is_pinned(*usage));
        }
    }
    Ok(blast)
}

fn certificate(table: &Table, bound: &Bound) -> Result<Certificate, TooLarge> {
    let unit = i128::from(table.unit);
    let mut prices = BTreeMap::new();
    for (row, price) in table.rows.iter().zip(&bound.prices) {
        prices.insert(row.name.clone(), price.checked_mul(unit).ok_or(TooLarge)?);
    }
    let scale = u128::try_from(bound.scale).map_err(|_| TooLarge)?;
    Ok(Certificate { scale, prices, weight_unit: table.unit })
}

/// The GPUs that change, and the idle instances that stay.
fn jobs(plans: &[Plan<'_>], changes: &[GpuChange]) -> (Vec<Job>, Vec<Seat>) {
    let mut jobs = Vec::new();
    let mut seats = Vec::new();
    for (plan, change) in plans.iter().zip(changes) {
        let usage = |instance: &Instance| {
            let held = plan.group.instances.iter().find(|(i, _)| i == instance);
            held.and_then(|(_, usage)| is_busy(*usage).then(|| weight(*usage)))
        };
        let idle = change.keep.iter().filter(|i| usage(i).is_none());
        seats.extend(idle.map(|i| Seat::Gpu(plan.gpu, i.clone())));
        if change.changes() {
            jobs.push(Job {
                gpu: plan.gpu,
                live: plan.group.instances.iter().map(|(i, _)| i.clone()).collect(),
                going: change.destroy.iter().map(|i| (i.clone(), usage(i))).collect(),
                coming: change.create.clone(),
                whole: plan.group.executor == Executor::GpuOperator,
            });
        }
    }
    (jobs, seats)
}

fn no_home((profile, busy, want): (ProfileName, u64, u64)) -> Blocked {
    let reason = format!(
        "{busy} of {profile} are busy and the target has {want}: {} would have no instance of its profile in the end; \
         raise the target, or let that work end first",
        busy - want
    );
    Blocked { missing: busy - want, profile: Some(profile), reason, gpus: Vec::new() }
}

fn not_found() -> Blocked {
    let reason = "no layouts of these GPUs were found that sum to exactly this target; that there are none is not \
                  proven: ask for one instance more or fewer of a small profile";
    Blocked { profile: None, missing: 0, reason: reason.to_owned(), gpus: Vec::new() }
}

fn names(request: &Request<'_>, group: &Group) -> Vec<String> {
    group.members.iter().map(|&gpu| request.gpus[gpu].name.clone()).collect()
}

fn stuck(request: &Request<'_>, group: &Group) -> Blocked {
    let held = group.instances.iter().map(|(i, _)| i.to_string()).collect::<Vec<_>>().join(" + ");
    let reason = match group.executor {
        Executor::GpuOperator => format!(
            "MIG Manager destroys every instance of a GPU that it changes; {held} holds pinned work, so it must stay as \
             it is, and the target does not allow that"
        ),
        Executor::Native => format!("no layout of the target keeps what is pinned in {held}"),
    };
    Blocked { profile: None, missing: 0, reason, gpus: names(request, group) }
}

/// Which profiles are short, and whether pinned instances or the number of GPUs are to blame.
fn explain(
    request: &Request<'_>,
    groups: &[Group],
    table: &Table,
    wanted: &BTreeMap<ProfileName, u64>,
    off: &Off,
) -> Result<Vec<Blocked>, ReconfigureError> {
    let demand = wanted.iter().map(|(name, n)| (name.clone(), *n)).collect::<Vec<_>>();
    let least = pack_product(request.product, &demand).map(|packing| packing.lower_bound).unwrap_or(0);
    let gpus = request.gpus.len() as u64;
    let mut blocked = Vec::new();
    for &(row, by) in off {
        let name = table.rows[row].name.as_str();
        let missing = u64::try_from(by.abs()).map_err(|_| TooLarge)?;
        let in_the_way = in_the_way(request, groups, table, row);
        let cause = if least > gpus {
            format!("the target needs at least {least} GPUs of {}, there are {gpus}", request.product.id)
        } else if in_the_way.is_empty() {
            "no layouts of these GPUs sum to exactly this target".to_owned()
        } else {
            let whole = request.gpus.iter().any(|gpu| {
                gpu.executor == Executor::GpuOperator && in_the_way.binary_search(&gpu.name).is_ok()
            });
            let end = if whole { "; MIG Manager changes a GPU only as a whole" } else { "" };
            format!(
                "instances that must not be disturbed leave no room for it on {} GPUs{end}",
                in_the_way.len()
            )
        };
        let how = if by > 0 { "short" } else { "too many" };
        blocked.push(Blocked {
            profile: wanted.keys().find(|p| p.as_str() == name).cloned(),
            missing: if by > 0 { missing } else { 0 },
            reason: format!("{missing} of {name} {how}: {cause}"),
            gpus: if least > gpus { Vec::new() } else { in_the_way },
        });
    }
    Ok(blocked)
}

/// GPUs that could hold more of a row were nothing pinned on them.
fn in_the_way(request: &Request<'_>, groups: &[Group], table: &Table, row: usize) -> Vec<String> {
    let most = table.holds.iter().map(|holds| holds[row]).max().unwrap_or(0);
    let mut found = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let pinned = group.instances.iter().any(|(_, usage)| is_pinned(*usage));
        let costs = table.costs(index).iter().zip(&table.holds);
        let here = costs.filter(|(cost, _)| cost.is_some()).map(|(_, holds)| holds[row]).max().unwrap_or(0);
        if pinned && here < most {
            found.extend(names(request, group));
        }
    }
    found.sort();
    found
}
