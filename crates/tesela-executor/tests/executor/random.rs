//! Random nodes and wishes.

use tesela_executor::plan::GpuPlan;
use tesela_executor::wish::Wish;
use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::all_profiles;

use crate::world::{Dice, World, gpu};

/// Products of each kind of placement rule and of mode change.
pub(crate) const PRODUCTS: [&str; 4] = ["a100-40gb", "a30-24gb", "h100-sxm-80gb", "rtx-pro-6000-96gb"];

/// A random product.
pub(crate) fn product(dice: &mut Dice) -> &'static Product {
    ProductTable::builtin().find(PRODUCTS[dice.below(PRODUCTS.len())]).unwrap()
}

/// A random state of a product, as a machine file writes it and as names with starts: what fits, some of it busy.
pub(crate) fn state(product: &Product, dice: &mut Dice) -> (String, Vec<(ProfileName, u32)>) {
    let names = all_profiles(product);
    let mut placed = Vec::<(ProfileName, u32)>::new();
    for _ in 0..dice.below(12) {
        let name = &names[dice.below(names.len())];
        let places = &product.profile(name.as_str()).unwrap().placements;
        let start = places[dice.below(places.len())].start;
        let more = placed.iter().cloned().chain([(name.clone(), start)]);
        if Layout::new(product, more).is_ok() {
            placed.push((name.clone(), start));
        }
    }
    let mut used = |at: usize| (dice.below(3) == 0).then_some(1000 + u32::try_from(at).unwrap());
    let each = placed.iter().enumerate().map(|(at, (n, s))| (n.as_str(), *s, used(at))).collect::<Vec<_>>();
    (gpu(product.id.as_str(), &each), placed)
}

/// The wish for instances as a random state has them.
pub(crate) fn wish(placed: &[(ProfileName, u32)]) -> Wish {
    Wish::Counts(placed.iter().map(|(name, _)| (name.clone(), 1)).collect())
}

/// A node of one to three GPUs with a plan for each that can be carried out.
pub(crate) fn node(dice: &mut Dice) -> (World, Vec<GpuPlan>) {
    loop {
        let products = (0..=dice.below(3)).map(|_| product(dice)).collect::<Vec<_>>();
        let mut text = "gpus:\n".to_owned();
        for product in &products {
            match dice.below(5) {
                0 => text.push_str(&format!("  - product: {}\n", product.id)),
                _ => text.push_str(&state(product, dice).0),
            }
        }
        let world = World::new(&text);
        let plan = |(at, product): (usize, &&Product)| match dice.below(8) {
            0 => world.plan(at, &Wish::Off),
            _ => world.plan(at, &wish(&state(product, dice).1)),
        };
        let plans = products.iter().enumerate().map(plan).collect::<Vec<_>>();
        let works = |p: &GpuPlan| p.blocked.is_none() && p.calls > 0;
        if plans.iter().any(works) {
            return (world, plans);
        }
    }
}
