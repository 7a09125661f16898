//! Every layout is reached from every other.

use std::collections::BTreeMap;

use tesela_executor::wish::Wish;
use tesela_model::layout::{Geometry, Layout};
use tesela_model::product::ProductTable;
use tesela_plan::layouts::{all_profiles, layouts};

use crate::deaths::done;
use crate::world::World;

#[test]
fn the_32_that_fill_an_a100_are_reached_from_each_other() {
    let product = ProductTable::builtin().find("a100-40gb").unwrap();
    let all = layouts(product, &all_profiles(product)).unwrap();
    let mut full = BTreeMap::<Geometry, Layout>::new();
    for layout in all.layouts.into_iter().filter(|l| l.free_units(product) == 0) {
        full.entry(layout.geometry()).or_insert(layout);
    }
    assert_eq!(full.len(), 32);
    let wish = |g: &Geometry| Wish::Counts(g.counts().map(|(name, n)| (name.clone(), n)).collect());
    let world = World::new("gpus:\n  - {product: a100-40gb, mig: []}\n");
    let goals = full.keys().map(|geometry| (geometry, wish(geometry))).collect::<Vec<_>>();
    let mut ways = 0;
    for (from, first) in &goals {
        let start = world.copy();
        assert!(done(&start.apply(&[start.plan(0, first)])), "{from}");
        for (to, second) in goals.iter().filter(|(to, _)| to != from) {
            let way = start.copy();
            let plan = way.plan(0, second);
            let after = plan.keep.len() + plan.create.len();
            assert_eq!(u32::try_from(after).unwrap(), to.len());
            assert!(done(&way.apply(&[plan])), "{from} to {to}");
            let names = way.plan(0, second).keep.into_iter().map(|p| p.profile.parse().unwrap());
            assert_eq!(names.collect::<Geometry>(), **to);
            ways += 1;
        }
    }
    assert_eq!(ways, 32 * 31);
}

#[test]
fn what_the_driver_tells_gives_the_layouts_of_the_table() {
    for product in ProductTable::builtin().products().iter().filter(|p| p.has_placements()) {
        let world = World::new(&format!("gpus:\n  - {{product: {}, mig: []}}\n", product.id));
        let told =
            tesela_executor::catalogue::Catalogue::of(&world.state(0), ProductTable::builtin()).unwrap();
        let by_driver = layouts(&told.product, &all_profiles(&told.product)).unwrap();
        let by_table = layouts(product, &all_profiles(product)).unwrap();
        assert_eq!(by_driver.states, by_table.states, "{}", product.id);
        assert_eq!(by_driver.layouts.len(), by_table.layouts.len(), "{}", product.id);
    }
}
