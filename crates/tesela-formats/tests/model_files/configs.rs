//! Configs: parameters as published, bytes that follow, what is kept of each sequence.

use std::path::Path;

use tesela_formats::model_files::{Choices, Config, ModelFiles, network, read_config};
use tesela_model::network::{Attention, CacheKind, DataType, LayerCache, Network, Span};
use tesela_model::origin::Origin;

pub(crate) fn config(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/examples/models/{name}.json"));
    read_config(name, &std::fs::read(path).unwrap()).unwrap()
}

fn model(name: &str, data_type: Option<DataType>) -> Network {
    let files = ModelFiles { configs: vec![config(name)], ..ModelFiles::default() };
    network(&files, &Choices { data_type, parameters: None }).unwrap()
}

fn bytes(network: &Network) -> u64 {
    network.weights.as_ref().unwrap().groups.iter().map(|group| group.bytes).sum()
}

fn heads(layers: u64, kv_heads: u64, width: u64, span: Span) -> LayerCache {
    LayerCache { layers, kind: CacheKind::Heads { kv_heads, key: width, value: width }, span }
}

/// Parameters as the models' pages, papers and indexes publish them: `total_size` of the index over the bytes of its
/// type, or the page's count of tensors.
#[test]
fn parameters_of_known_models() {
    for (name, parameters) in [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("gemma-2-9b", 9_241_705_984),
        // The language part of 27,432,406,640.
        ("gemma-3-27b", 27_009_346_304),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen3-235b-a22b-fp8", 235_093_634_560),
        // The file holds the tied output once more: 7,217,189,760.
        ("falcon-7b", 6_921_720_704),
        ("deepseek-v2-lite", 15_706_484_224),
        // Without the layer for multi-token prediction.
        ("deepseek-v3", 671_026_419_200),
        ("phi-3-mini", 3_821_079_552),
        ("gpt-oss-120b", 116_829_156_672),
        ("bert-base", 109_482_240),
        ("gpt2", 124_439_808),
    ] {
        assert_eq!(model(name, None).parameters, Some(parameters), "{name}");
    }
}

/// Bytes as `metadata.total_size` of the published index says them.
#[test]
fn bytes_of_known_models() {
    for (name, total) in [
        ("llama-3-8b", 16_060_522_496),
        ("llama-3-70b", 141_107_412_992),
        ("mistral-7b", 14_483_464_192),
        ("mixtral-8x7b", 93_405_585_408),
        ("qwen2.5-7b", 15_231_233_024),
        ("phi-3-mini", 7_642_159_104),
    ] {
        let network = model(name, None);
        assert_eq!(bytes(&network), total, "{name}");
        assert_eq!(network.weights.unwrap().origin, Origin::Estimated);
    }
    assert_eq!(bytes(&model("gemma-2-9b", Some(DataType::BF16))), 18_483_411_968);
}

#[test]
fn quantised_weights_count_their_scales() {
    // Llama-2-7B: 6,476,005,376 elements in the layers' matrices. Each 128 inputs of an output share an fp16 scale and
    // a 4-bit zero; each input has its group as int32; embedding, output and norms stay fp16.
    let matrices = 6_476_005_376u64;
    let inputs = 32 * (6 * 4096 + 11_008);
    let gptq =
        matrices / 2 + matrices / 128 * 2 + matrices / 128 / 2 + inputs * 4 + 2 * (262_144_000 + 266_240);
    assert_eq!(bytes(&model("llama-2-7b-gptq", None)), gptq);
    // DeepSeek-V3: fp8 with an fp32 scale for each tile of 128 × 128, so a byte and a bit for each matrix element.
    let v3 = model("deepseek-v3", None);
    let fp8 = v3.weights.as_ref().unwrap().groups.iter().filter(|g| g.data_type == Some(DataType::FP8));
    let fp8 = fp8.map(|group| group.elements).sum::<u64>();
    let scales = v3.weights.as_ref().unwrap().groups.iter().filter(|g| g.data_type == Some(DataType::FP32));
    let scales = scales.map(|group| group.elements).sum::<u64>();
    assert!(fp8 > 668_000_000_000 && fp8 < 671_026_419_200, "{fp8}");
    assert!((fp8 / 16_384..fp8 / 16_000).contains(&scales), "{scales}");
    // gpt-oss: experts alone are in blocks of 32 elements and 17 bytes.
    let oss = model("gpt-oss-120b", None);
    let groups = oss.weights.unwrap().groups;
    let experts = groups.iter().find(|g| g.part == "experts").unwrap();
    assert_eq!(experts.data_type, Some(DataType::MXFP4));
    assert_eq!(experts.elements, 36 * 128 * 3 * 2880 * 2880);
    assert!(groups.iter().filter(|g| g.part != "experts").all(|g| g.data_type == Some(DataType::BF16)));
}

#[test]
fn what_each_kind_of_attention_keeps() {
    let kept = |name: &str| {
        let shape = model(name, None).shape.unwrap();
        (shape.attention, shape.cache)
    };
    assert_eq!(kept("llama-2-7b"), (Attention::MultiHead, vec![heads(32, 32, 128, Span::Context)]));
    assert_eq!(kept("llama-3-8b"), (Attention::GroupedQuery, vec![heads(32, 8, 128, Span::Context)]));
    assert_eq!(kept("falcon-7b"), (Attention::MultiQuery, vec![heads(32, 1, 64, Span::Context)]));
    assert_eq!(kept("mistral-7b"), (Attention::GroupedQuery, vec![heads(32, 8, 128, Span::Window(4096))]));
    assert_eq!(kept("mixtral-8x7b").1, vec![heads(32, 8, 128, Span::Context)]);
    let gemma2 = vec![heads(21, 8, 256, Span::Context), heads(21, 8, 256, Span::Window(4096))];
    assert_eq!(kept("gemma-2-9b").1, gemma2);
    // Each sixth of 62 layers looks back all the way.
    let gemma3 = vec![heads(10, 16, 128, Span::Context), heads(52, 16, 128, Span::Window(1024))];
    assert_eq!(kept("gemma-3-27b").1, gemma3);
    assert_eq!(kept("qwen2.5-7b").1, vec![heads(28, 4, 128, Span::Context)]);
    let oss = vec![heads(18, 8, 64, Span::Context), heads(18, 8, 64, Span::Window(128))];
    assert_eq!(kept("gpt-oss-120b").1, oss);
    let latent = |layers| LayerCache { layers, kind: CacheKind::Latent { width: 576 }, span: Span::Context };
    assert_eq!(kept("deepseek-v2-lite"), (Attention::Latent, vec![latent(27)]));
    assert_eq!(kept("deepseek-v3"), (Attention::Latent, vec![latent(61)]));
    assert_eq!(kept("bert-base"), (Attention::None, vec![]));
}

#[test]
fn experts_are_all_resident_and_the_active_ones_are_told() {
    let experts = |name: &str| model(name, None).shape.unwrap().experts.map(|e| (e.count, e.active));
    assert_eq!(experts("mixtral-8x7b"), Some((8, Some(2))));
    assert_eq!(experts("deepseek-v3"), Some((256, Some(8))));
    assert_eq!(experts("llama-3-8b"), None);
}

#[test]
fn a_type_chosen_by_hand() {
    let elements = 8_030_261_248u64;
    assert_eq!(bytes(&model("llama-3-8b", Some(DataType::FP32))), 4 * elements);
    // 4 bits for the layers' matrices; embedding, output and norms stay bf16.
    let rest = 2 * 128_256 * 4096 + 65 * 4096;
    let int4 = model("llama-3-8b", Some(DataType::INT4));
    assert_eq!(bytes(&int4), (elements - rest) / 2 + rest * 2);
    assert!(int4.notes.iter().any(|note| note.contains("without scales")), "{:?}", int4.notes);
    let files = ModelFiles { configs: vec![config("llama-2-7b-gptq")], ..ModelFiles::default() };
    let refusal = network(&files, &Choices { data_type: Some(DataType::FP8), parameters: None }).unwrap_err();
    assert!(refusal.to_string().contains("gptq int4 in groups of 128"), "{refusal}");
}

#[test]
fn a_type_that_nobody_wrote_is_assumed() {
    let shape = model("bert-base", None).shape.unwrap();
    assert_eq!((shape.compute, shape.compute_origin), (DataType::FP32, Origin::Assumed));
    assert_eq!(bytes(&model("bert-base", None)), 4 * 109_482_240);
    let told = model("bert-base", None).notes;
    assert!(told.iter().any(|note| note.contains("--data-type fp16")), "{told:?}");
    let half = model("bert-base", Some(DataType::FP16));
    assert!(half.notes.is_empty(), "{:?}", half.notes);
    assert_eq!(half.shape.unwrap().compute_origin, Origin::Given);
}

/// What the class has and its config leaves out: Llama 4's shared expert, Gemma 3's context.
#[test]
fn what_a_config_takes_for_granted_is_counted() {
    let of = |text: &str| {
        let configs = vec![read_config("config.json", text.as_bytes()).unwrap()];
        network(&ModelFiles { configs, ..ModelFiles::default() }, &Choices::default()).unwrap()
    };
    let scout = of(
        r#"{"model_type": "llama4", "torch_dtype": "bfloat16", "text_config": {"model_type": "llama4_text",
        "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_hidden_layers": 48,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 16,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048, "tie_word_embeddings": false}}"#,
    );
    assert_eq!(scout.parameters, Some(107_769_861_120));
    let gemma = of(
        r#"{"model_type": "gemma3_text", "torch_dtype": "bfloat16", "hidden_size": 3840, "head_dim": 256,
        "intermediate_size": 15360, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8,
        "sliding_window": 1024}"#,
    );
    assert_eq!(gemma.shape.unwrap().max_context, Some(131_072));
}

#[test]
fn a_type_that_nobody_knows_is_told() {
    let text = r#"{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "vocab_size": 10, "intermediate_size": 64, "torch_dtype": "float7"}"#;
    let configs = vec![read_config("config.json", text.as_bytes()).unwrap()];
    let found = network(&ModelFiles { configs, ..ModelFiles::default() }, &Choices::default()).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("`float7`")), "{:?}", found.notes);
}

#[test]
fn parts_of_a_config_are_counted_and_the_rest_is_told() {
    let gemma = model("gemma-3-27b", None);
    assert!(gemma.notes.iter().any(|n| n.contains("text_config")), "{:?}", gemma.notes);
    // The class's defaults stand where Gemma's configs say nothing.
    let text = r#"{"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {"model_type": "gemma3_text",
        "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}}"#;
    let files =
        ModelFiles { configs: vec![read_config("c", text.as_bytes()).unwrap()], ..ModelFiles::default() };
    let small = network(&files, &Choices::default()).unwrap();
    // The language part of google/gemma-3-4b-it.
    assert_eq!(small.parameters, Some(3_880_263_168));
    assert!(small.notes.iter().any(|n| n.contains("num_attention_heads 8")), "{:?}", small.notes);
    let v3 = model("deepseek-v3", None).notes;
    assert!(v3.iter().any(|n| n.contains("multi-token prediction")), "{v3:?}");
}

#[test]
fn an_architecture_without_a_name_is_estimated_with_a_note() {
    let text = r#"{"architectures": ["NewForCausalLM"], "model_type": "new", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 128256, "torch_dtype": "bfloat16", "sliding_window": 4096}"#;
    let files =
        ModelFiles { configs: vec![read_config("c", text.as_bytes()).unwrap()], ..ModelFiles::default() };
    let found = network(&files, &Choices::default()).unwrap();
    assert_eq!(found.parameters, Some(8_030_261_248));
    assert!(
        found.notes.iter().any(|n| n.contains("NewForCausalLM is not known by name")),
        "{:?}",
        found.notes
    );
    // A window that may be meant for some layers only is not counted on.
    assert_eq!(found.shape.unwrap().cache, vec![heads(32, 8, 128, Span::Context)]);
}

#[test]
fn layers_with_a_state_keep_it_once() {
    // Qwen/Qwen3-Next-80B-A3B-Instruct: each fourth layer attends, the others keep a state.
    let text = r#"{"model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936,
        "torch_dtype": "bfloat16", "full_attention_interval": 4, "linear_num_value_heads": 32,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512}"#;
    let config = read_config("c", text.as_bytes()).unwrap();
    let files = ModelFiles { configs: vec![config], ..ModelFiles::default() };
    let found = network(&files, &Choices { data_type: None, parameters: Some(80_000_000_000) }).unwrap();
    let elements = 32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128);
    let state = LayerCache { layers: 36, kind: CacheKind::State { elements }, span: Span::Context };
    assert_eq!(found.shape.unwrap().cache, vec![heads(12, 2, 256, Span::Context), state]);
    assert_eq!(found.parameters, Some(80_000_000_000));
    let alone = network(&files, &Choices::default()).unwrap();
    assert!(
        alone.weights.is_none() && alone.notes.iter().any(|n| n.contains("--parameters")),
        "{:?}",
        alone.notes
    );
}

#[test]
fn an_encoder_with_a_decoder_keeps_both() {
    // google/flan-t5-xl.
    let text = r#"{"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": true,
        "d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32, "num_layers": 24, "num_decoder_layers": 24,
        "vocab_size": 32128}"#;
    let files =
        ModelFiles { configs: vec![read_config("c", text.as_bytes()).unwrap()], ..ModelFiles::default() };
    let found = network(&files, &Choices::default()).unwrap();
    assert_eq!(found.shape.unwrap().cache, vec![heads(48, 32, 64, Span::Context)]);
    assert!(found.weights.is_none());
}
