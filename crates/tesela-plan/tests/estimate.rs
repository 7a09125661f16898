//! Estimates: what cannot be split lies on each GPU, windows bound, unknown parts stay unknown, and the place found is
//! the smallest with the largest load.

use proptest::prelude::*;
use tesela_model::network::{
    Attention, CacheKind, DataType, LayerCache, Network, Shape, Span, WeightGroup, Weights,
};
use tesela_model::origin::Origin;
use tesela_model::product::ProductTable;
use tesela_model::quantity::Mib;
use tesela_plan::estimate::{EstimateError, Question, estimate, fits};

fn network(bytes: u64, cache: Vec<LayerCache>) -> Network {
    let group = |part: &str, bytes, ways| WeightGroup {
        part: part.to_owned(),
        data_type: Some(DataType::BF16),
        elements: bytes / 2,
        bytes,
        ways,
    };
    Network {
        architecture: Some("test".to_owned()),
        parameters: Some(bytes / 2),
        weights: Some(Weights {
            groups: vec![group("attention", bytes, WeightGroup::ANY), group("norms", 1000, 1)],
            origin: Origin::Measured,
            formula: "sum".to_owned(),
            source: "a test".to_owned(),
        }),
        shape: Some(Shape {
            hidden: 4096,
            heads: Some(32),
            attention: Attention::GroupedQuery,
            cache,
            residual: 12_288,
            inner: 43_008,
            vocabulary: 128_256,
            max_context: Some(8192),
            decodes: true,
            compute: DataType::BF16,
            compute_origin: Origin::Measured,
            experts: None,
        }),
        notes: Vec::new(),
    }
}

fn heads(layers: u64, kv_heads: u64, span: Span) -> LayerCache {
    LayerCache { layers, kind: CacheKind::Heads { kv_heads, key: 128, value: 128 }, span }
}

fn question(network: &Network) -> Question<'_> {
    Question {
        network,
        context: None,
        concurrency: 1,
        tensor_parallel: None,
        kv_data_type: None,
        batch_tokens: None,
        context_overhead: Mib(500),
    }
}

#[test]
fn what_cannot_be_split_lies_on_each_gpu() {
    let latent = LayerCache { layers: 27, kind: CacheKind::Latent { width: 576 }, span: Span::Context };
    let state = LayerCache { layers: 2, kind: CacheKind::State { elements: 1001 }, span: Span::Context };
    let model = network(1_000_000, vec![heads(32, 8, Span::Context), latent, state]);
    let on = |gpus| {
        let asked = Question { tensor_parallel: Some(gpus), context: Some(10), ..question(&model) };
        let found = estimate(&asked).unwrap();
        (
            found.weights.bytes.unwrap(),
            found.kv_bytes_per_token.unwrap(),
            found.kv_bytes_per_sequence.unwrap(),
        )
    };
    let all = |heads: u64, state: u64| {
        let token = 32 * heads * 2 * 128 * 2 + 27 * 576 * 2;
        (token, 10 * token + 2 * state * 2)
    };
    let (token, sequence) = all(8, 1001);
    assert_eq!(on(1), (1_001_000, token, sequence));
    // Three heads on the fullest of three GPUs; one on each of sixteen, held twice.
    let (token, sequence) = all(3, 334);
    assert_eq!(on(3), (333_334 + 1000, token, sequence));
    let (token, sequence) = all(1, 63);
    assert_eq!(on(16), (62_500 + 1000, token, sequence));
}

#[test]
fn unknown_parts_stay_unknown() {
    let mut model = network(14_000_000_000, Vec::new());
    model.shape = None;
    let found = estimate(&question(&model)).unwrap();
    assert_eq!((found.kv_cache.bytes, found.activations.bytes, found.context), (None, None, None));
    assert!(!found.is_complete() && found.gpu_memory().is_none());
    assert_eq!(found.known_bytes(), Some(14_000_001_000 + (500 << 20)));
    let places = fits(&question(&model), ProductTable::builtin().products()).unwrap();
    let h100 = places.iter().find(|fit| fit.product.as_str() == "h100-sxm-80gb").unwrap();
    assert_eq!((h100.profile.as_ref().unwrap().as_str(), h100.concurrency), ("1g.20gb", None));
    assert!(h100.reason.contains("parts that are known"), "{}", h100.reason);
    model.weights = None;
    let places = fits(&question(&model), ProductTable::builtin().products()).unwrap();
    assert!(places.iter().all(|fit| fit.gpus == 0 && fit.reason.contains("weights are not known")));
}

#[test]
fn an_encoder_reads_all_at_once_and_keeps_nothing() {
    let mut model = network(437_928_960, Vec::new());
    let shape = model.shape.as_mut().unwrap();
    (shape.decodes, shape.vocabulary, shape.max_context) = (false, 0, Some(512));
    let found = estimate(&Question { concurrency: 64, ..question(&model) }).unwrap();
    assert_eq!(
        (found.kv_cache.bytes, found.kv_bytes_per_token, found.kv_data_type),
        (Some(0), Some(0), None)
    );
    assert_eq!(found.activations.bytes, Some(64 * 512 * (12_288 + 43_008) * 2));
}

#[test]
fn numbers_that_cannot_be() {
    let model = network(1000, vec![heads(32, 8, Span::Context)]);
    let with = |change: fn(&mut Question<'_>)| {
        let mut asked = question(&model);
        change(&mut asked);
        estimate(&asked).unwrap_err()
    };
    assert_eq!(with(|q| q.concurrency = 0), EstimateError::Zero("the concurrency"));
    assert_eq!(with(|q| q.context = Some(0)), EstimateError::Zero("the context"));
    assert_eq!(with(|q| q.context = Some(u64::MAX)), EstimateError::TooLarge);
    assert_eq!(with(|q| q.concurrency = 1 << 60), EstimateError::TooLarge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The place found holds what is asked; no smaller plain profile does; one sequence more does not fit.
    #[test]
    fn the_place_is_the_smallest_and_the_load_the_largest(
        gib in 1u64..300, layers in 1u64..100, kv_heads in 1u64..64, window in prop::option::of(1u64..20_000),
        context in 1u64..200_000, concurrency in 1u64..20, gpus in prop::option::of(1u64..9),
    ) {
        let span = window.map_or(Span::Context, Span::Window);
        let model = network(gib << 30, vec![heads(layers, kv_heads, span)]);
        let asked = Question { context: Some(context), concurrency, tensor_parallel: gpus, ..question(&model) };
        for fit in fits(&asked, ProductTable::builtin().products()).unwrap() {
            let product = ProductTable::builtin().get(&fit.product).unwrap();
            let needed = |concurrency, gpus| {
                let asked = Question { concurrency, tensor_parallel: Some(gpus), ..asked };
                estimate(&asked).unwrap().known_bytes().unwrap()
            };
            if fit.gpus == 0 {
                let most = gpus.unwrap_or(8);
                prop_assert!(product.memory.is_none_or(|memory| needed(concurrency, most) > memory.0 << 20));
                continue;
            }
            let room = fit.memory.unwrap().value.0 << 20;
            let carried = fit.concurrency.unwrap();
            prop_assert!(carried >= concurrency && needed(carried, fit.gpus) <= room);
            prop_assert!(needed(carried + 1, fit.gpus) > room);
            prop_assert_eq!(fit.needed, Some(needed(concurrency, fit.gpus)));
            if fit.gpus > 1 {
                prop_assert!(fit.profile.is_none());
            }
            let smaller = product.profiles.iter().filter(|p| p.is_plain() && !p.placements.is_empty());
            for profile in smaller.filter(|_| fit.gpus == 1 && gpus.unwrap_or(1) == 1) {
                let less = fit.profile.as_ref().is_none_or(|found| {
                    let found = product.profile(found.as_str()).unwrap();
                    (profile.units(), profile.compute_slices) < (found.units(), found.compute_slices)
                });
                if let Some(memory) = profile.memory.filter(|_| less) {
                    prop_assert!(needed(concurrency, 1) > memory.0 << 20, "{} would do", profile.name);
                }
            }
        }
    }
}
