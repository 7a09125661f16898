//! `estimate` as people and scripts meet it: known answers, files of each kind, folders, refusals.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Run, folder, run, run_in, run_with};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A model of `docs/examples/models`, with these words behind it.
fn model(name: &str, words: &[&str]) -> Value {
    let file = format!("docs/examples/models/{name}.json");
    run_in(&root(), &[&["estimate", &file, "--format", "json"], words].concat()).json()
}

/// Bytes of keys and values for one token, from the models' published sizes: layers × KV heads × (key + value) × bytes.
#[test]
fn kv_bytes_per_token_of_known_models() {
    for (name, words, bytes) in [
        ("llama-2-7b", &[][..], 32 * 32 * 2 * 128 * 2),
        ("llama-3-8b", &[], 131_072),
        ("llama-3-70b", &[], 80 * 8 * 2 * 128 * 2),
        ("mistral-7b", &[], 131_072),
        ("mixtral-8x7b", &[], 131_072),
        ("gemma-2-9b", &["--data-type", "bf16"], 42 * 8 * 2 * 256 * 2),
        ("gemma-3-27b", &[], 62 * 16 * 2 * 128 * 2),
        ("qwen2.5-7b", &[], 57_344),
        ("falcon-7b", &[], 32 * 2 * 64 * 2),
        ("deepseek-v2-lite", &[], 27 * 576 * 2),
        ("deepseek-v3", &[], 70_272),
        ("phi-3-mini", &[], 32 * 32 * 2 * 96 * 2),
        ("gpt-oss-120b", &[], 36 * 8 * 2 * 64 * 2),
        ("gpt2", &["--data-type", "fp16"], 12 * 12 * 2 * 64 * 2),
        ("bert-base", &[], 0),
        // An 8-bit cache; four GPUs with two heads each; sixteen GPUs with one of eight heads each; a latent vector on
        // each GPU.
        ("llama-3-8b", &["--kv-data-type", "fp8"], 65_536),
        ("llama-3-8b", &["--kv-data-type", "q8_0"], 32 * 8 * 2 * 128 / 32 * 34),
        ("llama-3-70b", &["--tensor-parallel", "4"], 80 * 2 * 2 * 128 * 2),
        ("llama-3-70b", &["--tensor-parallel", "16"], 80 * 2 * 128 * 2),
        ("deepseek-v3", &["--tensor-parallel", "8"], 70_272),
    ] {
        let cache = model(name, words)["parts"]["kv_cache"].clone();
        assert_eq!(cache["bytes_per_token"], bytes, "{name} {words:?}");
    }
}

#[test]
fn a_window_bounds_what_a_sequence_keeps() {
    let sequence = |name, context| {
        model(name, &["--context", context])["parts"]["kv_cache"]["bytes_per_sequence"].clone()
    };
    assert_eq!(sequence("mistral-7b", "4096"), 131_072u64 * 4096);
    assert_eq!(sequence("mistral-7b", "32768"), 131_072u64 * 4096);
    // Gemma 3: 10 layers of the whole context, 52 of 1,024 tokens.
    let layer = 16 * 2 * 128 * 2u64;
    assert_eq!(sequence("gemma-3-27b", "131072"), layer * (10 * 131_072 + 52 * 1024));
}

#[test]
fn the_parts_make_the_whole_and_the_profile_is_the_smallest() {
    let answer = model("llama-3-8b", &["--concurrency", "3"]);
    let parts = ["weights", "kv_cache", "activations", "context_overhead"];
    let sum = parts.iter().map(|part| answer["parts"][part]["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(answer["total_bytes"], sum);
    assert_eq!(answer["parts"]["weights"]["bytes"], 16_060_522_496u64);
    assert_eq!(answer["parts"]["context_overhead"]["bytes"], 500 << 20);
    assert_eq!(answer["parts"]["context_overhead"]["origin"], "assumed");
    assert_eq!(answer["complete"], true);
    let fits = answer["fits"].as_array().unwrap();
    let on = |product: &str| fits.iter().find(|fit| fit["product"] == product).unwrap().clone();
    assert_eq!(on("h100-sxm-80gb")["profile"], "1g.20gb");
    assert_eq!(on("h100-sxm-80gb")["concurrency"], 3);
    assert_eq!(on("a30-24gb")["profile"], "4g.24gb");
    assert_eq!(on("rtx-pro-5000-48gb")["profile"], Value::Null);
    assert_eq!(on("rtx-pro-5000-48gb")["gpus"], 1);
    assert_eq!(on("thor-igpu")["gpus"], 0);
    // Too large for one GPU: whole ones, and never MIG.
    let large = model("llama-3-70b", &["--product", "h100-sxm-80gb"]);
    let fit = &large["fits"][0];
    assert_eq!((&fit["profile"], &fit["gpus"]), (&Value::Null, &Value::from(2)));
    assert_eq!(large["fits"].as_array().unwrap().len(), 1);
}

#[test]
fn a_page_for_people() {
    let words =
        ["--product", "h100-sxm-80gb", "--product", "a30-24gb", "--product", "thor-igpu", "--width", "100"];
    let of = |words: &[&str]| run_in(&root(), &[&["estimate"], words].concat());
    let mixtral =
        of(&[&["docs/examples/models/mixtral-8x7b.json", "--context", "8192"], &words[..]].concat());
    insta::assert_snapshot!("estimate of a model", mixtral);
    let parameters = of(&[&["--parameters", "7b", "--data-type", "bf16"], &words[..]].concat());
    insta::assert_snapshot!("estimate of parameters", parameters);
}

#[test]
fn parameters_alone() {
    let of =
        |words: &[&str]| run(&[&["estimate", "--format", "json", "--parameters"], words].concat()).json();
    let bytes = |words: &[&str]| of(words)["parts"]["weights"]["bytes"].clone();
    assert_eq!(bytes(&["7b", "--data-type", "bf16"]), 14_000_000_000u64);
    assert_eq!(bytes(&["1.5B", "--data-type", "int4"]), 750_000_000u64);
    assert_eq!(bytes(&["350m", "--data-type", "fp32"]), 1_400_000_000u64);
    assert_eq!(bytes(&["6738415616", "--data-type", "fp8"]), 6_738_415_616u64);
    let answer = of(&["7b"]);
    assert_eq!(answer["parts"]["weights"]["origin"], "assumed");
    assert_eq!(answer["parts"]["kv_cache"]["bytes"], Value::Null);
    assert_eq!((&answer["complete"], &answer["gpu_memory_mib"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(answer["fits"][0]["concurrency"], Value::Null);
    let bad = |words: &[&str], mentions: &[&str]| {
        run(&[&["estimate", "--parameters"], words].concat()).refused(mentions);
    };
    bad(&["8x7b"], &["share their attention", "46.7b"]);
    bad(&["seven"], &["7b"]);
    bad(&["0"], &["at least one"]);
    bad(&["9999999t"], &["no model has so many"]);
    bad(&["7b", "--data-type", "bf61"], &["--data-type", "bf61", "did you mean bf16"]);
    bad(&["7b", "--product", "h100"], &["h100", "h100-sxm-80gb"]);
    bad(&["7b", "--concurrency", "0"], &["--concurrency"]);
    run(&["estimate"]).refused(&["FILE|DIR"]);
}

/// A safetensors file of one matrix.
fn safetensors(name: &str, rows: u64, columns: u64) -> Vec<u8> {
    let bytes = rows * columns * 2;
    let json = format!(
        "{{\"{name}\":{{\"dtype\":\"BF16\",\"shape\":[{rows},{columns}],\"data_offsets\":[0,{bytes}]}}}}"
    );
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json.bytes());
    file.resize(file.len() + usize::try_from(bytes).unwrap(), 0);
    file
}

#[test]
fn a_folder_is_a_model() {
    let folder = folder("estimate_folder");
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let of = |words: &[&str]| run_in(&folder, &[&["estimate", "--format", "json"], words].concat());
    let bytes = |run: &Run| run.json()["parts"]["weights"]["bytes"].clone();
    of(&["."]).refused(&[".: holds no config.json", "name a config.json"]);
    put("a.safetensors", &safetensors("model.embed_tokens.weight", 8, 4));
    put("b.safetensors", &safetensors("lm_head.weight", 8, 4));
    put("consolidated.safetensors", &safetensors("w", 100, 100));
    put("adapter_model.safetensors", &safetensors("w", 100, 100));
    assert_eq!(bytes(&of(&["."])), 128);
    let index =
        br#"{"metadata": {"total_size": 128}, "weight_map": {"x": "a.safetensors", "y": "c.safetensors"}}"#;
    put("model.safetensors.index.json", index);
    let told = of(&["."]);
    assert_eq!(bytes(&told), 128);
    assert!(told.json()["notes"].to_string().contains("1 of its 2 shards"), "{told}");
    let config = std::fs::read(root().join("docs/examples/models/gpt2.json")).unwrap();
    put("config.json", &config);
    let told = of(&["."]).json();
    assert_eq!(told["model"]["architecture"], "GPT2LMHeadModel");
    assert_eq!(told["parts"]["weights"]["origin"], "measured");
    of(&["config.json", "config.json"]).refused(&["named twice"]);
    of(&["config.json", "missing.gguf"]).refused(&["missing.gguf: there is no such file"]);
    of(&["a.safetensors", "--parameters", "7b"]).refused(&["a.safetensors", "--parameters is not needed"]);
}

#[test]
fn headers_come_through_standard_input_too() {
    let file = safetensors("model.embed_tokens.weight", 1000, 4);
    // The header alone: what follows need not be there.
    let told = run_with(&["estimate", "-", "--format", "json"], &file[..200]);
    assert_eq!(told.json()["parts"]["weights"]["bytes"], 8000);
}

#[test]
fn files_that_lie_are_refused() {
    let folder = folder("estimate_lies");
    let refused = |name: &str, bytes: &[u8], mentions: &[&str]| {
        std::fs::write(folder.join(name), bytes).unwrap();
        run_in(&folder, &["estimate", name]).refused(&[&[name], mentions].concat());
    };
    let whole = safetensors("w", 8, 4);
    refused("cut.safetensors", &whole[..whole.len() - 1], &["64 bytes, but 63 bytes follow"]);
    refused("huge.safetensors", &[&u64::MAX.to_le_bytes()[..], b"{"].concat(), &["announce a header"]);
    let billion = [&b"GGUF\x03\0\0\0"[..], &1_000_000_000u64.to_le_bytes(), &[0; 8]].concat();
    refused("many.gguf", &billion, &["1000000000 tensors, but the file has 24"]);
    refused("pickle.bin", b"PK\x03\x04xxxxxxxxxx", &["neither JSON nor"]);
    refused("empty.json", b"", &["nothing in it"]);
    refused("config.json", b"{\n  \"hidden_size\": \"wide\"\n}", &["config.json:2:3", "`hidden_size`"]);
    let new = br#"{"architectures": ["NewModel"], "model_type": "new", "hidden_size": 64}"#;
    refused("new.json", new, &["NewModel", "num_hidden_layers", "--parameters 7b"]);
    let told = run_in(&folder, &["estimate", "new.json", "--parameters", "1b", "--format", "json"]).json();
    assert!(told["notes"].to_string().contains("num_hidden_layers"), "{told}");
}

/// Each row of the table in docs/estimate.md: the command is run, and the estimate and the error are what stands there.
#[test]
fn the_table_in_the_docs_is_true() {
    let docs = std::fs::read_to_string(root().join("docs/estimate.md")).unwrap();
    let rows = docs.lines().filter(|line| line.contains("| `tesela estimate ")).collect::<Vec<_>>();
    assert!(rows.len() >= 15, "{}", rows.len());
    for row in rows {
        let cells = row.split('|').map(str::trim).collect::<Vec<_>>();
        let (what, printed, estimate, error) = (cells[1], cells[2], cells[5], cells[6]);
        let command = cells[4].trim_matches('`').strip_prefix("tesela ").unwrap();
        let words = command.split(' ').chain(["--format", "json"]).collect::<Vec<_>>();
        let answer = run_in(&root(), &words).json();
        let (number, unit) = printed.split_once(' ').unwrap();
        let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
        let number = number.replace(',', "").parse::<f64>().unwrap();
        let value = value_of(what, unit, &answer);
        let percent = (value - number) / number * 100.0;
        let sign = if percent >= 0.05 { "+" } else { "" };
        let percent = if percent.abs() < 0.05 { "0.0".to_owned() } else { format!("{sign}{percent:.1}") };
        assert_eq!(estimate.replace(',', ""), format!("{value:.decimals$} {unit}"), "{row}");
        let error = error.split(" (").next().unwrap();
        assert_eq!(error, format!("{percent} %"), "{row}");
    }
}

/// What a row speaks of, in its unit.
#[expect(clippy::cast_precision_loss, reason = "rounded to a few digits right away")]
fn value_of(what: &str, unit: &str, answer: &Value) -> f64 {
    let (_, what) = what.rsplit_once(": ").unwrap();
    if let Some(room) = what.strip_prefix("tokens in ") {
        let gib = room.strip_suffix(" GiB").unwrap().parse::<f64>().unwrap();
        let token = answer["parts"]["kv_cache"]["bytes_per_token"].as_f64().unwrap();
        return (gib * f64::from(1 << 30) / token).floor();
    }
    let part = match what.split(" of ").next().unwrap() {
        "weights" => "weights",
        "KV cache" => "kv_cache",
        "activations" => "activations",
        other => panic!("{other}"),
    };
    let bytes = answer["parts"][part]["bytes"].as_u64().unwrap();
    bytes as f64 / f64::from(if unit == "GiB" { 1 << 30 } else { 1 << 20 })
}
