//! The ParvaGPU data as services to be sized. Used by the test `slo_parvagpu` and the benchmark `slo`.

#![expect(clippy::expect_used, reason = "helpers of tests and of a benchmark")]

use tesela_formats::slo_profiles::{read_profile, read_sets};
use tesela_model::product::{Product, ProductTable};
use tesela_plan::slo::{Measured, MostWanted, Service, best_options};

/// The models in the order of the columns of the set files, with their profiles.
const MODELS: [(&str, &str); 11] = [
    ("bert", include_str!("../../../../data/traces/parvagpu-a100/bert.csv")),
    ("densenet121", include_str!("../../../../data/traces/parvagpu-a100/densenet121.csv")),
    ("densenet169", include_str!("../../../../data/traces/parvagpu-a100/densenet169.csv")),
    ("densenet201", include_str!("../../../../data/traces/parvagpu-a100/densenet201.csv")),
    ("inceptionv3", include_str!("../../../../data/traces/parvagpu-a100/inceptionv3.csv")),
    ("mobilenetv2", include_str!("../../../../data/traces/parvagpu-a100/mobilenetv2.csv")),
    ("resnet101", include_str!("../../../../data/traces/parvagpu-a100/resnet101.csv")),
    ("resnet152", include_str!("../../../../data/traces/parvagpu-a100/resnet152.csv")),
    ("resnet50", include_str!("../../../../data/traces/parvagpu-a100/resnet50.csv")),
    ("vgg16", include_str!("../../../../data/traces/parvagpu-a100/vgg16.csv")),
    ("vgg19", include_str!("../../../../data/traces/parvagpu-a100/vgg19.csv")),
];
const LATENCIES: &str = include_str!("../../../../data/traces/parvagpu-a100/SLO_latency.csv");
const RATES: &str = include_str!("../../../../data/traces/parvagpu-a100/SLO_req_rate.csv");

/// The GPU of the profiles.
pub fn product() -> &'static Product {
    ProductTable::builtin().find("a100-80gb").expect("the built-in table has it")
}

pub fn profiles() -> Vec<Vec<Measured>> {
    let row = |r: tesela_formats::slo_profiles::ProfileRow| Measured {
        slices: r.slices,
        batch: r.batch,
        processes: r.processes,
        rate_milli: r.rate_milli,
        latency_us: r.latency_us,
    };
    let read = |(name, text): &(&str, &str)| {
        let rows = read_profile(name, text).expect("the profile is sound");
        rows.into_iter().map(row).collect()
    };
    MODELS.iter().map(read).collect()
}

/// Latency in microseconds and rate in thousandths of a request a second of each model, by set; `None` = not in it.
pub fn sets() -> Vec<Vec<Option<(u64, u64)>>> {
    let latencies = read_sets("SLO_latency.csv", LATENCIES, MODELS.len()).expect("the file is sound");
    let rates = read_sets("SLO_req_rate.csv", RATES, MODELS.len()).expect("the file is sound");
    let pair = |(latency, rate): (Vec<Option<u64>>, Vec<Option<u64>>)| {
        latency.into_iter().zip(rate).map(|(l, r)| l.zip(r)).collect()
    };
    latencies.into_iter().zip(rates).map(pair).collect()
}

/// Set S1 (index 0) to S6 (index 5), each rate times `scale`.
pub fn services(set: usize, processes: u32, scale: u64) -> Vec<Service> {
    let wanted = &sets()[set];
    let mut services = Vec::new();
    for (((name, _), measured), want) in MODELS.iter().zip(profiles()).zip(wanted) {
        let Some((latency_us, rate)) = *want else { continue };
        let options = best_options(product(), &measured, MostWanted { latency_us, processes });
        services.push(Service { name: (*name).to_owned(), rate_milli: rate * scale, options });
    }
    services
}
