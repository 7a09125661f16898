//! MIG placement rules of one product in the form that planning asks for again and again.
//!
//! Rules: the data file's `capacity_rules`. The checked truth is `tesela_model::layout`; the validator uses that
//! and not this.

use tesela_model::product::{Product, ProfileName};
use tesela_model::quantity::Mib;

use super::Cut;

/// A product's profiles with placements.
#[derive(Clone, Debug)]
pub(crate) struct MigRules<'a> {
    pub(crate) product: &'a Product,
    pub(crate) profiles: Vec<ProfileRule<'a>>,
    pub(crate) units: u32,
    caps: [Option<u32>; 5],
}

/// One profile.
#[derive(Clone, Debug)]
pub(crate) struct ProfileRule<'a> {
    pub(crate) name: &'a ProfileName,
    pub(crate) slices: u32,
    pub(crate) units: u32,
    /// Memory a process sees; where the table lacks it, its part of the whole, and then it is an estimate.
    pub(crate) memory: Option<Mib>,
    pub(crate) plain: bool,
    max: Option<u32>,
    engines: [Option<u32>; 5],
    starts: Vec<(u32, u64)>,
}

/// What a set of instances takes.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    mask: u64,
    slices: u32,
    engines: [u32; 5],
}

impl<'a> MigRules<'a> {
    /// `None` where the table knows no placement.
    pub(crate) fn of(product: &'a Product) -> Option<Self> {
        if !product.has_placements() {
            return None;
        }
        let units = product.units();
        let profiles = product
            .profiles
            .iter()
            .filter(|p| !p.placements.is_empty())
            .map(|p| ProfileRule {
                name: &p.name,
                slices: p.compute_slices,
                units: p.units(),
                memory: p.memory.or_else(|| {
                    let whole = product.memory?.0;
                    Some(Mib(whole * u64::from(p.units()) / u64::from(units.max(1))))
                }),
                plain: p.is_plain(),
                max: p.max_instances,
                engines: p.engines.values(),
                starts: p.placements.iter().map(|x| (x.start, x.mask())).collect(),
            })
            .collect();
        Some(Self { product, profiles, units, caps: product.engine_caps().values() })
    }

    /// The profile of this name.
    pub(crate) fn find(&self, name: &ProfileName) -> Option<usize> {
        let name = self.product.profile(name.as_str()).ok().map(|p| &p.name)?;
        self.profiles.iter().position(|p| p.name == name)
    }

    /// The smallest plain profile with at least this memory and this part of the compute, in thousandths: fewest memory
    /// units, then fewest compute slices. Where compute alone asks for the whole GPU there is none: nothing is gained
    /// by cutting it.
    pub(crate) fn smallest(&self, memory: Mib, compute: u16) -> Option<usize> {
        let all = self.product.compute_slices;
        let holds = |p: &ProfileRule<'_>| p.plain && p.memory.is_some_and(|m| m >= memory);
        let by_memory = (0..self.profiles.len())
            .filter(|&i| holds(&self.profiles[i]))
            .map(|i| self.profiles[i].slices)
            .min()?;
        let enough = |p: &ProfileRule<'_>| {
            holds(p)
                && u64::from(p.slices) * 1000 >= u64::from(compute) * u64::from(all)
                && (p.slices < all || by_memory == all)
        };
        (0..self.profiles.len())
            .filter(|&i| enough(&self.profiles[i]))
            .min_by_key(|&i| (self.profiles[i].units, self.profiles[i].slices))
    }

    /// Starts at which one more instance of `profile` fits beside `cuts`.
    pub(crate) fn fitting<'s>(&'s self, cuts: &[Cut], profile: usize) -> impl Iterator<Item = u32> + use<'s> {
        let taken = self.taken(cuts);
        let count = cuts.iter().filter(|c| c.profile == profile).count();
        self.starts_beside(taken, count, profile)
    }

    fn starts_beside(
        &self,
        taken: Taken,
        count: usize,
        profile: usize,
    ) -> impl Iterator<Item = u32> + use<'_> {
        let rule = &self.profiles[profile];
        let engines = (0..5).all(|e| match (rule.engines[e], self.caps[e]) {
            (Some(wants), Some(cap)) => taken.engines[e] + wants <= cap,
            _ => true,
        });
        let room = taken.slices + rule.slices <= self.product.compute_slices
            && rule.max.is_none_or(|max| count < max as usize)
            && engines;
        rule.starts.iter().filter(move |(_, mask)| room && taken.mask & mask == 0).map(|&(start, _)| start)
    }

    /// The start that leaves the most placements to later instances; ties go to the higher start, which keeps
    /// the low units, the only place of the large profiles, free.
    pub(crate) fn best_start(&self, cuts: &[Cut], profile: usize) -> Option<u32> {
        self.fitting(cuts, profile).max_by_key(|&start| {
            let mut after = cuts.to_vec();
            after.push(self.cut(profile, start));
            (self.flexibility(&after), start)
        })
    }

    /// Placements of plain profiles that still fit.
    fn flexibility(&self, cuts: &[Cut]) -> usize {
        let taken = self.taken(cuts);
        (0..self.profiles.len())
            .filter(|&p| self.profiles[p].plain)
            .map(|p| {
                let count = cuts.iter().filter(|c| c.profile == p).count();
                self.starts_beside(taken, count, p).count()
            })
            .sum()
    }

    /// An instance without users.
    pub(crate) fn cut(&self, profile: usize, start: u32) -> Cut {
        Cut {
            profile,
            start,
            size: self.profiles[profile].units,
            replicas: None,
            users: Vec::new(),
            unwell: false,
        }
    }

    fn taken(&self, cuts: &[Cut]) -> Taken {
        let mut taken = Taken::default();
        for cut in cuts {
            let rule = &self.profiles[cut.profile];
            taken.slices += rule.slices;
            taken.mask |= rule.starts.iter().find(|(s, _)| *s == cut.start).map_or(0, |(_, mask)| *mask);
            for (sum, engines) in taken.engines.iter_mut().zip(rule.engines) {
                *sum += engines.unwrap_or(0);
            }
        }
        taken
    }

    /// Drops instances nobody uses, then puts back those that still fit beside the rest.
    pub(crate) fn keep_unused(&self, before: &[Cut], cuts: &mut Vec<Cut>) {
        for cut in before.iter().filter(|c| c.users.is_empty()) {
            if self.fitting(cuts, cut.profile).any(|start| start == cut.start) {
                cuts.push(cut.clone());
            }
        }
        cuts.sort_by_key(|c| (c.start, c.profile));
    }
}
