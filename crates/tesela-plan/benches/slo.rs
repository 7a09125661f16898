//! Sizing services to their promises: `cargo bench -p tesela-plan --bench slo`. With `-- --quick` the plain sets alone.
//!
//! Six sets of demanded rates and latencies with the profiles of 11 models on A100-80GB (ParvaGPU, SC 2024), and the
//! same with each rate times 2, 10 and 100. `bound` is what the certificate proves; `slices` the compute slices of the
//! instances; `authors` the GPUs of the plans that the data's authors published (at most five processes).

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a benchmark prints its table and may stop at a fault"
)]

#[path = "../tests/parva/mod.rs"]
mod parva;

use std::time::Instant;

use tesela_plan::slo::{SizeProof, size};

/// GPUs of the published plans for S1 to S6.
const AUTHORS: [u64; 6] = [2, 3, 5, 7, 13, 16];

#[expect(clippy::disallowed_methods, reason = "a benchmark takes time")]
fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    println!(
        "| processes | rates | set | GPUs | bound | proof | certificate's scale | slices | authors | ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let suites: &[(u32, u64)] = if quick {
        &[(5, 1), (3, 1), (1, 1)]
    } else {
        &[(5, 1), (3, 1), (1, 1), (5, 2), (5, 10), (5, 100), (3, 10), (1, 10), (3, 100), (1, 100)]
    };
    for &(processes, scale) in suites {
        for (set, published) in AUTHORS.iter().enumerate() {
            let services = parva::services(set, processes, scale);
            let start = Instant::now();
            let found = size(parva::product(), &services).expect("the sets can be served");
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let proof = match found.proof {
                SizeProof::Certificate => "certificate",
                SizeProof::Search => "search",
                SizeProof::None => "none",
            };
            let published =
                if (processes, scale) == (5, 1) { published.to_string() } else { "–".to_owned() };
            println!(
                "| {processes} | × {scale} | S{} | {} | {} | {proof} | {} | {} | {published} | {ms:.1} |",
                set + 1,
                found.gpus,
                found.lower_bound,
                found.certificate.scale,
                found.slices,
            );
        }
    }
}
