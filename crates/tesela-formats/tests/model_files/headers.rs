//! Headers with the shapes of real models: bytes as published, to the byte.

use std::path::Path;

use tesela_formats::model_files::{
    Choices, GgufHeader, ModelFiles, SafetensorsHeader, network, read_gguf, read_index, read_safetensors,
};
use tesela_model::network::{Attention, CacheKind, DataType, LayerCache, Span, WeightGroup};
use tesela_model::origin::Origin;

use crate::build::{
    GgufTensor, LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B, Llama, MISTRAL_7B, MIXTRAL, Metadata, QWEN_7B, Tensor,
    gguf, safetensors,
};
use crate::configs::config;

fn header(tensors: &[Tensor]) -> SafetensorsHeader {
    let (bytes, length) = safetensors(tensors);
    read_safetensors("model.safetensors", &bytes[..], Some(length)).unwrap()
}

/// `metadata.total_size` of the published `model.safetensors.index.json`.
#[test]
fn safetensors_headers_to_the_byte() {
    for (name, model, total) in [
        ("llama-3-8b", LLAMA_3_8B, 16_060_522_496),
        ("llama-3-70b", LLAMA_3_70B, 141_107_412_992),
        ("mistral-7b", MISTRAL_7B, 14_483_464_192),
        ("mixtral-8x7b", MIXTRAL, 93_405_585_408),
        ("qwen2.5-7b", QWEN_7B, 15_231_233_024),
    ] {
        let tensors = model.tensors("BF16");
        let read = header(&tensors);
        assert_eq!((read.bytes(), read.tensors()), (total, tensors.len() as u64), "{name}");
        // Config and header agree, part by part.
        let files = ModelFiles { configs: vec![config(name)], headers: vec![read], ..ModelFiles::default() };
        let found = network(&files, &Choices::default()).unwrap();
        assert_eq!(found.parameters, Some(total / 2), "{name}");
        let weights = found.weights.unwrap();
        assert_eq!(weights.origin, Origin::Measured);
        assert_eq!(weights.groups.iter().map(|g| g.bytes).sum::<u64>(), total);
        let keys = weights.groups.iter().find(|g| g.part == "keys and values").unwrap();
        assert_eq!(keys.ways, model.keys / 128, "{name}");
    }
}

#[test]
fn a_gptq_header_is_what_its_config_says() {
    // The four tensors of each matrix, as AutoGPTQ writes them.
    let mut tensors = Vec::new();
    for (name, shape, kind) in LLAMA_2_7B.tensors("F16") {
        let Some(stem) = name.strip_suffix(".weight").filter(|stem| stem.ends_with("_proj")) else {
            tensors.push((name, shape, kind));
            continue;
        };
        let (outputs, inputs) = (shape[0], shape[1]);
        tensors.push((format!("{stem}.qweight"), vec![inputs / 8, outputs], "I32"));
        tensors.push((format!("{stem}.qzeros"), vec![inputs / 128, outputs / 8], "I32"));
        tensors.push((format!("{stem}.scales"), vec![inputs / 128, outputs], "F16"));
        tensors.push((format!("{stem}.g_idx"), vec![inputs], "I32"));
    }
    let total = header(&tensors).bytes();
    let files = ModelFiles { configs: vec![config("llama-2-7b-gptq")], ..ModelFiles::default() };
    let found = network(&files, &Choices::default()).unwrap();
    assert_eq!(found.weights.unwrap().groups.iter().map(|g| g.bytes).sum::<u64>(), total);
    // The header alone knows bytes and no parameters, since elements are packed.
    let alone = ModelFiles { headers: vec![header(&tensors)], ..ModelFiles::default() };
    let alone = network(&alone, &Choices::default()).unwrap();
    assert_eq!(alone.parameters, None);
    assert!(alone.notes.iter().any(|note| note.contains("no config.json")), "{:?}", alone.notes);
}

#[test]
fn shards_sum_up_and_an_index_stands_for_those_that_are_away() {
    let tensors = LLAMA_3_8B.tensors("BF16");
    let (front, back) = tensors.split_at(100);
    let read = |tensors: &[Tensor], name: &str| {
        let (bytes, length) = safetensors(tensors);
        read_safetensors(name, &bytes[..], Some(length)).unwrap()
    };
    let index = r#"{"metadata": {"total_size": 16060522496}, "weight_map": {"lm_head.weight": "b.safetensors",
        "model.embed_tokens.weight": "a.safetensors"}}"#;
    let index = read_index("model.safetensors.index.json", index.as_bytes()).unwrap();
    let (a, b) = (read(front, "dir/a.safetensors"), read(back, "dir/b.safetensors"));
    let of = |headers: Vec<SafetensorsHeader>| {
        let files = ModelFiles {
            configs: vec![config("llama-3-8b")],
            indexes: vec![index.clone()],
            headers,
            ..ModelFiles::default()
        };
        network(&files, &Choices::default()).unwrap()
    };
    let bytes = |groups: &[WeightGroup]| groups.iter().map(|g| g.bytes).sum::<u64>();
    let whole = of(vec![a.clone(), b]).weights.unwrap();
    assert_eq!(bytes(&whole.groups), 16_060_522_496);
    assert!(whole.formula.contains("headers"), "{}", whole.formula);
    let part = of(vec![a]);
    assert!(part.notes.iter().any(|n| n.contains("1 of its 2 shards")), "{:?}", part.notes);
    let part = part.weights.unwrap();
    assert_eq!(bytes(&part.groups), 16_060_522_496);
    assert!(part.formula.contains("total_size"), "{}", part.formula);
}

#[test]
fn floating_point_tensors_are_converted_on_request() {
    let files = ModelFiles {
        configs: vec![config("llama-3-8b")],
        headers: vec![header(&LLAMA_3_8B.tensors("F32"))],
        ..ModelFiles::default()
    };
    let bytes = |data_type| {
        let found = network(&files, &Choices { data_type, parameters: None }).unwrap().weights.unwrap();
        (found.groups.iter().map(|g| g.bytes).sum::<u64>(), found.origin)
    };
    assert_eq!(bytes(None), (2 * 16_060_522_496, Origin::Measured));
    assert_eq!(bytes(Some(DataType::BF16)), (16_060_522_496, Origin::Estimated));
    let narrow = bytes(Some(DataType::FP8)).0;
    assert!(narrow > 8_030_261_248 && narrow < 16_060_522_496, "{narrow}");
}

fn read(model: Llama, heads: u64, tensors: &[GgufTensor]) -> GgufHeader {
    let (bytes, length) = gguf(&model.gguf_metadata(heads), tensors);
    read_gguf("model.gguf", &bytes[..], Some(length)).unwrap()
}

/// Q4_0: all matrices but the output, which is Q6_K.
fn q4_0(name: &str, _layer: u64) -> u32 {
    if name == "output" { 14 } else { 2 }
}

/// Q5_K_M of 32 layers: Q6_K for the output and, in half of the layers, for values and the way down (`use_more_bits` in
/// llama.cpp's llama-quant.cpp).
fn q5_k_m(name: &str, layer: u64) -> u32 {
    let more = !(4..28).contains(&layer) || (layer - 4) % 3 == 2;
    if name == "output" || more && (name == "attn_v" || name == "ffn_down") { 14 } else { 13 }
}

/// The models of the table in docs/estimate.md.
fn known_ggufs() -> Vec<(&'static str, Llama, u64, Vec<GgufTensor>)> {
    let all = |kind: u32| move |_: &str, _: u64| kind;
    let mut llama_31_70b = LLAMA_3_70B.gguf_tensors(q4_0);
    llama_31_70b.push(("rope_freqs.weight".to_owned(), vec![64], 0));
    vec![
        ("Llama-2-7B Q4_0", LLAMA_2_7B, 32, LLAMA_2_7B.gguf_tensors(q4_0)),
        ("Llama-2-7B Q8_0", LLAMA_2_7B, 32, LLAMA_2_7B.gguf_tensors(all(8))),
        ("Mistral-7B Q5_K_M", MISTRAL_7B, 32, MISTRAL_7B.gguf_tensors(q5_k_m)),
        ("Llama-3.1-8B F16", LLAMA_3_8B, 32, LLAMA_3_8B.gguf_tensors(all(1))),
        ("Llama-3.1-70B Q4_0", LLAMA_3_70B, 64, llama_31_70b),
    ]
}

#[test]
fn gguf_headers_to_the_byte() {
    let bytes =
        known_ggufs().into_iter().map(|(_, model, heads, tensors)| read(model, heads, &tensors).bytes());
    // By hand: elements / 32 × 18 for q4_0, / 256 × 210 for q6_k, / 256 × 176 for q5_k, × 4 for norms.
    assert_eq!(
        bytes.collect::<Vec<_>>(),
        [3_825_065_984, 7_160_348_672, 5_130_674_176, 16_061_054_976, 39_961_870_336 + 256]
    );
}

/// The table in docs/estimate.md says what llama.cpp printed; what stands beside it is what the header of the same
/// shapes gives.
#[test]
fn the_table_in_the_docs_is_true() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/estimate.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for (name, model, heads, tensors) in known_ggufs() {
        let row = docs
            .lines()
            .find(|line| line.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("{name}"));
        let cells = row.split('|').map(str::trim).collect::<Vec<_>>();
        let bytes = read(model, heads, &tensors).bytes();
        let (unit, shift) = if cells[2].ends_with("MiB") { ("MiB", 20) } else { ("GiB", 30) };
        let hundredths = (u128::from(bytes) * 100 + (1 << (shift - 1))) >> shift;
        let text = format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100);
        assert_eq!(cells[4], text, "{row}");
        let error = if cells[2] == text { "0.0 %" } else { "not exact" };
        assert_eq!(cells[5], error, "{row}");
    }
}

#[test]
fn a_gguf_header_tells_what_a_request_adds() {
    let found = read(LLAMA_3_8B, 32, &LLAMA_3_8B.gguf_tensors(|_, _| 1));
    let shape = found.shape().unwrap();
    let kind = CacheKind::Heads { kv_heads: 8, key: 128, value: 128 };
    assert_eq!(shape.cache, [LayerCache { layers: 32, kind, span: Span::Context }]);
    assert_eq!((shape.attention, shape.vocabulary), (Attention::GroupedQuery, 128_256));
    assert_eq!((shape.max_context, shape.compute), (Some(8192), DataType::FP16));
    let files = ModelFiles { ggufs: vec![found], ..ModelFiles::default() };
    let found = network(&files, &Choices::default()).unwrap();
    assert_eq!(found.parameters, Some(8_030_261_248));
    let refusal =
        network(&files, &Choices { data_type: Some(DataType::BF16), parameters: None }).unwrap_err();
    assert!(refusal.to_string().contains("--kv-data-type"), "{refusal}");
}

fn shape_of(architecture: &str, more: &[(&str, Metadata)]) -> Option<tesela_model::network::Shape> {
    let mut metadata = vec![("general.architecture".to_owned(), Metadata::Text(architecture.to_owned()))];
    metadata.extend(more.iter().map(|(key, value)| (format!("{architecture}.{key}"), value.clone())));
    let (bytes, length) = gguf(&metadata, &[("token_embd.weight".to_owned(), vec![32, 8], 0)]);
    read_gguf("m.gguf", &bytes[..], Some(length)).unwrap().shape().cloned()
}

#[test]
fn other_architectures_of_gguf() {
    use Metadata::{Flag, Numbers, U32};
    // DeepSeek-V2-Lite as converted since llama.cpp keeps the compressed vector: one head of 512 + 64.
    let latent = shape_of(
        "deepseek2",
        &[
            ("block_count", U32(27)),
            ("embedding_length", U32(2048)),
            ("attention.head_count", U32(16)),
            ("attention.head_count_kv", U32(1)),
            ("attention.kv_lora_rank", U32(512)),
            ("attention.key_length_mla", U32(192)),
            ("rope.dimension_count", U32(64)),
            ("expert_count", U32(64)),
            ("expert_used_count", U32(6)),
        ],
    )
    .unwrap();
    assert_eq!(latent.cache[0].kind, CacheKind::Latent { width: 576 });
    assert_eq!(latent.experts.map(|e| (e.count, e.active)), Some((64, Some(6))));
    // Gemma 3 27B: each sixth layer looks back all the way.
    let gemma = shape_of(
        "gemma3",
        &[
            ("block_count", U32(62)),
            ("embedding_length", U32(5376)),
            ("attention.head_count", U32(32)),
            ("attention.head_count_kv", U32(16)),
            ("attention.key_length", U32(128)),
            ("attention.value_length", U32(128)),
            ("attention.sliding_window", U32(1024)),
        ],
    )
    .unwrap();
    let layers = gemma.cache.iter().map(|c| (c.layers, c.span)).collect::<Vec<_>>();
    assert_eq!(layers, [(52, Span::Window(1024)), (10, Span::Context)]);
    // bge and other BERTs keep nothing.
    let bert = shape_of(
        "bert",
        &[
            ("block_count", U32(12)),
            ("embedding_length", U32(768)),
            ("attention.head_count", U32(12)),
            ("attention.causal", Flag(false)),
        ],
    )
    .unwrap();
    assert!(!bert.decodes && bert.cache.is_empty() && bert.vocabulary == 0);
    // KV heads may differ from layer to layer; 0 stands for a layer with a state.
    let hybrid = shape_of(
        "granitehybrid",
        &[
            ("block_count", U32(4)),
            ("embedding_length", U32(1536)),
            ("attention.head_count", U32(12)),
            ("attention.head_count_kv", Numbers(vec![0, 0, 0, 4])),
            ("ssm.state_size", U32(128)),
            ("ssm.inner_size", U32(3072)),
            ("ssm.conv_kernel", U32(4)),
            ("ssm.group_count", U32(1)),
        ],
    )
    .unwrap();
    let elements = 3072 * 128 + 3 * (3072 + 2 * 128);
    assert_eq!(
        hybrid.cache[1],
        LayerCache { layers: 3, kind: CacheKind::State { elements }, span: Span::Context }
    );
    assert_eq!(shape_of("llama", &[("block_count", U32(4))]), None);
}

#[test]
fn parts_of_a_split_gguf_belong_together() {
    let part = |number: u32, of: u32| {
        let metadata = vec![
            ("split.no".to_owned(), Metadata::U32(number)),
            ("split.count".to_owned(), Metadata::U32(of)),
        ];
        let (bytes, length) = gguf(&metadata, &[(format!("blk.{number}.attn_q.weight"), vec![32, 8], 0)]);
        read_gguf(&format!("m-{number}.gguf"), &bytes[..], Some(length)).unwrap()
    };
    let of = |ggufs| network(&ModelFiles { ggufs, ..ModelFiles::default() }, &Choices::default());
    let both = of(vec![part(1, 2), part(0, 2)]).unwrap();
    assert_eq!(both.weights.unwrap().groups[0].bytes, 2 * 32 * 8 * 4);
    let told = of(vec![part(0, 2)]).unwrap_err().to_string();
    assert!(told.contains("one of 2 parts of a model, and 1 of them"), "{told}");
    let told = of(vec![part(0, 1), part(0, 1)]).unwrap_err().to_string();
    assert!(told.contains("different models"), "{told}");
}
