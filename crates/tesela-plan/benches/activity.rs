//! Replicas from joint activity: `cargo bench -p tesela-plan --bench activity`. With `-- --quick` the first table alone.
//!
//! The experiment is `data/activity/azure-experiment.yaml`. Counts are chosen on the first 40 minutes of two traces and
//! judged on the last 20. The first table is the first thinning; then every other, then how many cells hold in all; then
//! the same with the other way to shift the tenants, which shows what the method gives away where no load drifts.

#![expect(
    clippy::print_stdout,
    unreachable_pub,
    reason = "a benchmark prints its table and may stop at a fault"
)]

#[path = "../tests/azure/mod.rs"]
mod azure;

use std::time::Instant;

use azure::Shift;

#[expect(clippy::disallowed_methods, reason = "a benchmark takes time")]
fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let experiment = azure::experiment();
    let shifts = [(Shift::Parts, "shifted within the parts"), (Shift::Hour, "shifted within the hour")];
    for (shift, name) in shifts {
        let mut all = Vec::new();
        for &thinning in experiment.thinnings.iter().take(if quick { 1 } else { usize::MAX }) {
            let start = Instant::now();
            let cells = azure::cells(&experiment, shift, thinning);
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let busy = azure::busy(&azure::tenants(&experiment, shift, thinning));
            let (table, tally) = (azure::table(&cells), azure::tally(&cells));
            println!("{name}, thinning {thinning}\n\n{table}\n{busy}\n{tally}; {ms:.0} ms\n");
            all.extend(cells);
        }
        println!("{name}, all thinnings: {}\n", azure::tally(&all));
    }
}
