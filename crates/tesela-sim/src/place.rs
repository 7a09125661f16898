//! Where an instance fits, where a driver puts it, and which id it gets.

use tesela_model::product::Placement;

use crate::board::{Board, BoardProfile, ComputeProfile};
use crate::fault::Defect;
use crate::state::{ComputeInstance, Gpu, GpuInstance};

/// A GPU's instances beside the rules of its board.
pub(crate) struct Space<'a> {
    board: &'a Board,
    taken: Vec<(&'a BoardProfile, Placement)>,
    defect: Option<Defect>,
}

impl<'a> Space<'a> {
    pub(crate) fn new(board: &'a Board, gpu: &Gpu, defect: Option<Defect>) -> Self {
        let placed = |i: &GpuInstance| {
            let profile = board.profile(i.profile)?;
            Some((profile, Placement { start: i.start, size: profile.units }))
        };
        Self { board, taken: gpu.instances.iter().filter_map(placed).collect(), defect }
    }

    /// Whether an instance fits: no unit twice, slices, engines that are known, and the most of its profile.
    pub(crate) fn fits(&self, profile: &BoardProfile, at: Placement) -> bool {
        let mask = at.mask();
        let overlap = self.taken.iter().any(|(_, p)| p.mask() & mask != 0);
        if overlap && self.defect != Some(Defect::OverlapAllowed) {
            return false;
        }
        let slices = self.taken.iter().map(|(p, _)| p.slices).sum::<u32>() + profile.slices;
        if slices > self.board.slices() && self.defect != Some(Defect::SlicesNotCounted) {
            return false;
        }
        let alike = self.taken.iter().filter(|(p, _)| p.id == profile.id).count();
        let limited = self.defect != Some(Defect::EnginesNotCounted);
        if limited && (usize::try_from(profile.max).is_ok_and(|max| alike >= max) || !self.engines(profile)) {
            return false;
        }
        true
    }

    fn engines(&self, profile: &BoardProfile) -> bool {
        let caps = self.board.product().engine_caps().values();
        let wanted = profile.binding.values();
        (0..caps.len()).all(|engine| {
            let taken = self.taken.iter().filter_map(|(p, _)| p.binding.values()[engine]).sum::<u32>();
            caps[engine].is_none_or(|cap| taken + wanted[engine].unwrap_or(0) <= cap)
        })
    }

    /// The same with one instance more.
    fn with(&self, profile: &'a BoardProfile, at: Placement) -> Self {
        let mut taken = self.taken.clone();
        taken.push((profile, at));
        Self { board: self.board, taken, defect: self.defect }
    }

    /// How many (profile, start) pairs still fit, each alone.
    fn openness(&self) -> usize {
        let open = |p: &BoardProfile| p.placements.iter().filter(|at| self.fits(p, **at)).count();
        self.board.profiles().iter().map(open).sum()
    }

    /// Where the driver puts an instance: where most (profile, start) pairs stay open, the lowest start among equals.
    /// This gives every choice that captures show (`assumptions`).
    pub(crate) fn choose(&self, profile: &'a BoardProfile) -> Option<Placement> {
        let open = profile.placements.iter().copied().filter(|at| self.fits(profile, *at));
        open.max_by_key(|at| (self.with(profile, *at).openness(), std::cmp::Reverse(at.start)))
    }

    /// How many more of a profile fit, put where the driver puts them.
    pub(crate) fn remaining(&self, profile: &'a BoardProfile) -> u32 {
        if self.defect == Some(Defect::CapacityByMaximum) {
            let alike = self.taken.iter().filter(|(p, _)| p.id == profile.id).count();
            return profile.max.saturating_sub(u32::try_from(alike).unwrap_or(u32::MAX));
        }
        // Placements of one profile have one size and never overlap in part, so the order does not matter.
        let mut count = 0;
        let mut space = Self { board: self.board, taken: self.taken.clone(), defect: self.defect };
        for at in &profile.placements {
            if space.fits(profile, *at) {
                space.taken.push((profile, *at));
                count += 1;
            }
        }
        count
    }
}

/// The id of a GPU instance: a number for each place. The whole GPU is 0, halves follow from 1, quarters from 3,
/// eighths from 7.
pub(crate) fn gpu_instance_id(board: &Board, at: Placement) -> u32 {
    let parts = board.units() / at.size.max(1);
    parts.saturating_sub(1) + at.start / at.size.max(1)
}

/// Whether a compute instance fits its GPU instance.
pub(crate) fn compute_fits(
    profile: &BoardProfile,
    there: &[ComputeInstance],
    new: &ComputeProfile,
    at: Placement,
) -> bool {
    let placed = |c: &ComputeInstance| {
        let size = profile.compute_profile(c.profile).map_or(1, |p| p.slices);
        Placement { start: c.start, size }
    };
    let alike = there.iter().filter(|c| c.profile == new.id).count();
    usize::try_from(new.max).is_ok_and(|max| alike < max)
        && there.iter().all(|c| placed(c).mask() & at.mask() == 0)
        && at.start + at.size <= profile.slices
}

/// Where the driver puts a compute instance: by the same rule.
pub(crate) fn choose_compute(
    profile: &BoardProfile,
    there: &[ComputeInstance],
    new: &ComputeProfile,
) -> Option<Placement> {
    let openness = |at: Placement| {
        let taken = there.iter().map(|c| {
            let size = profile.compute_profile(c.profile).map_or(1, |p| p.slices);
            Placement { start: c.start, size }.mask()
        });
        let taken = taken.fold(at.mask(), |all, one| all | one);
        let open = profile.compute.iter().flat_map(|p| &p.placements);
        open.filter(|p| p.mask() & taken == 0).count()
    };
    let open = new.placements.iter().copied().filter(|at| compute_fits(profile, there, new, *at));
    open.max_by_key(|at| (openness(*at), std::cmp::Reverse(at.start)))
}

/// How many more of a compute profile fit a GPU instance.
pub(crate) fn compute_remaining(
    profile: &BoardProfile,
    there: &[ComputeInstance],
    new: &ComputeProfile,
) -> u32 {
    let open = new.placements.iter().filter(|at| compute_fits(profile, there, new, **at)).count();
    let alike = there.iter().filter(|c| c.profile == new.id).count();
    let left = new.max.saturating_sub(u32::try_from(alike).unwrap_or(u32::MAX));
    u32::try_from(open).unwrap_or(u32::MAX).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::product::ProductId;

    fn board(id: &str) -> &'static Board {
        Board::of(&ProductId::parse(id).unwrap()).unwrap()
    }

    /// Ids and starts of instances made one after another where the driver likes.
    fn made(product: &str, ids: &[u32]) -> Vec<Option<(u32, u32)>> {
        let board = board(product);
        let mut space = Space { board, taken: Vec::new(), defect: None };
        let mut made = Vec::new();
        for id in ids {
            let profile = board.profile(*id).unwrap();
            let at = space.choose(profile);
            made.push(at.map(|at| (gpu_instance_id(board, at), at.start)));
            if let Some(at) = at {
                space = space.with(profile, at);
            }
        }
        made
    }

    #[test]
    fn the_driver_chooses_as_captures_show() {
        // MIG User Guide, "Instance Geometry", examples 1 to 3, A100-SXM4-40GB.
        assert_eq!(made("a100-40gb", &[19, 14, 5]), [Some((13, 6)), Some((5, 4)), Some((1, 0))]);
        assert_eq!(made("a100-40gb", &[19, 19, 14, 9]), [Some((13, 6)), Some((11, 4)), Some((3, 0)), None]);
        assert_eq!(
            made("a100-40gb", &[9, 19, 14, 19]),
            [Some((2, 4)), Some((7, 0)), Some((4, 2)), Some((8, 1))]
        );
        let ids = made("a100-40gb", &[14, 19, 19, 19, 19, 19]).into_iter().flatten();
        assert_eq!(ids.map(|(id, _)| id).collect::<Vec<_>>(), [5, 13, 7, 8, 9, 10]);
        // `nvidia-smi mig -cgi 19,…` on H100 80GB and GH200, `14,14,14,20` on A100 80GB: public reports.
        let ids = made("h100-sxm-80gb", &[19; 7]).into_iter().flatten();
        assert_eq!(ids.map(|(id, _)| id).collect::<Vec<_>>(), [13, 11, 12, 7, 8, 9, 10]);
        let ids = made("a100-80gb", &[14, 14, 14, 20]).into_iter().flatten();
        assert_eq!(ids.map(|(id, _)| id).collect::<Vec<_>>(), [5, 3, 4, 13]);
        assert_eq!(made("a100-80gb", &[9, 14]), [Some((2, 4)), Some((3, 0))]);
        assert_eq!(made("a100-40gb", &[9, 9]), [Some((2, 4)), Some((1, 0))]);
        assert_eq!(made("a100-40gb", &[19, 9]), [Some((13, 6)), Some((1, 0))]);
    }

    #[test]
    fn ids_are_numbers_of_places() {
        for product in ["a30-24gb", "a100-40gb", "rtx-pro-6000-96gb"] {
            let board = board(product);
            let mut places = std::collections::BTreeMap::new();
            for at in board.profiles().iter().flat_map(|p| &p.placements) {
                let before = places.insert(gpu_instance_id(board, *at), *at);
                assert!(before.is_none_or(|before| before == *at), "{product}: {before:?} and {at:?}");
            }
        }
        let rtx = board("rtx-pro-6000-96gb");
        assert_eq!(gpu_instance_id(rtx, Placement { start: 9, size: 3 }), 6);
    }

    #[test]
    fn compute_instances_of_all_sizes_fit_a_whole_gpu() {
        // MIG User Guide: 1c, 2c and 3c of a 7g.40gb together.
        let profile = board("a100-40gb").profile(0).unwrap();
        let mut there = Vec::new();
        for id in [0, 1, 2] {
            let new = profile.compute_profile(id).unwrap();
            let at = choose_compute(profile, &there, new).unwrap();
            let uuid = tesela_model::driver::MigUuid::new("");
            there.push(ComputeInstance { id, profile: id, start: at.start, uuid });
        }
        assert_eq!(there.iter().map(|c| c.start).collect::<Vec<_>>(), [6, 4, 0]);
    }
}
