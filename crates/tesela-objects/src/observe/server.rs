//! Servers that reserve GPU memory up front, by image and arguments.
//!
//! Of the arguments only the values of known flags are kept, and of these only numbers and words of a known list:
//! an argument may be a secret. The environment is not read at all.
//!
//! Flags: the programs' own references (`vllm serve --help`, `sglang.launch_server --help`,
//! `text-generation-launcher --help`, `trtllm-serve --help`, `tensorflow_model_server --help`, `lmdeploy serve
//! api_server --help`).

use tesela_model::server::{Program, Server};

use super::wire::Container;

/// Words of a command line that are looked at.
const WORDS: usize = 512;
/// Largest number that a flag can mean.
const MOST: u64 = 1 << 40;

/// The server that a container runs, if it is one that reserves memory.
pub(super) fn server(container: &Container) -> Option<Server> {
    let words = words(container);
    let mut server = Server::new(program(&container.image, &words)?);
    read_flags(&mut server, &words);
    Some(server)
}

/// Command and arguments as words. A shell's one long word is cut at blanks, which is right for every value kept.
fn words(container: &Container) -> Vec<&str> {
    let all = container.command.iter().chain(&container.args);
    let cut = |word: &'_ str| word.contains(char::is_whitespace);
    let words = all.flat_map(|word| {
        let parts: Vec<&str> =
            if cut(word) { word.split_whitespace().collect() } else { vec![word.as_str()] };
        parts
    });
    words.map(|w| w.trim_matches(['"', '\''])).take(WORDS).collect()
}

/// By what is run; else by the image's name, without registry and tag.
fn program(image: &str, words: &[&str]) -> Option<Program> {
    // The first words say what is run; later ones may be prompts or names.
    let run = words.iter().take(8).map(|word| word.rsplit('/').next().unwrap_or(word));
    for word in run {
        let found = match word {
            "vllm"
            | "vllm.entrypoints.openai.api_server"
            | "vllm.entrypoints.api_server"
            | "dynamo.vllm"
            | "openllm" => Program::Vllm,
            "huggingfaceserver" => kserve(words)?,
            "sglang.launch_server" | "sglang" | "dynamo.sglang" => Program::Sglang,
            "trtllm-serve" | "dynamo.trtllm" => Program::TensorRtLlm,
            "lmdeploy" | "lmdeploy.serve.openai.api_server" => Program::Lmdeploy,
            "aphrodite" | "aphrodite.endpoints.openai.api_server" => Program::Aphrodite,
            "tritonserver" => Program::Triton,
            "text-generation-launcher" => Program::Tgi,
            "tensorflow_model_server" | "tf_serving_entrypoint.sh" => Program::TensorFlowServing,
            _ => continue,
        };
        return Some(found);
    }
    let whole = image.split('@').next().unwrap_or_default().to_ascii_lowercase();
    let name = super::pod::image_path(&whole);
    // Order matters: `tritonserver` images exist with vLLM inside, and serving is more than TensorFlow.
    let has = |part: &str| name.contains(part);
    let words_of_name = || name.split(|c: char| !c.is_ascii_alphanumeric());
    let has_part = |part: &str| name.split('/').any(|one| one == part);
    Some(match () {
        () if has("vllm") || has("openllm") || has("ray-llm") || has_part("llm-d") => Program::Vllm,
        () if has("huggingfaceserver") => kserve(words)?,
        () if has("djl-serving") || has("djl-inference") => djl(&whole)?,
        () if has("lmdeploy") => Program::Lmdeploy,
        () if has("aphrodite") => Program::Aphrodite,
        () if has("sglang") => Program::Sglang,
        () if has("tritonserver") || has("triton-server") => Program::Triton,
        () if has("tensorrt-llm") || has("trtllm") => Program::TensorRtLlm,
        () if has("text-generation-inference") => Program::Tgi,
        () if has("tensorflow/serving") || has("tensorflow-serving") || has("tf-serving") => {
            Program::TensorFlowServing
        }
        () if has("tensorflow") => Program::TensorFlow,
        () if words_of_name().any(|word| word == "jax") => Program::Jax,
        () if whole.starts_with("nvcr.io/nim/") || name.contains("/nim/") => Program::Nim,
        () => return None,
    })
}

/// KServe's server for Hugging Face models runs vLLM where that knows the model, unless it is told otherwise.
fn kserve(words: &[&str]) -> Option<Program> {
    let joined = words.contains(&"--backend=huggingface");
    let apart = words.windows(2).any(|pair| pair == ["--backend", "huggingface"]);
    (!joined && !apart).then_some(Program::Vllm)
}

/// What AWS' and DJL's serving images have inside stands in the tag: `0.32.0-lmi14.0.0-cu126`, `0.30.0-tensorrtllm`.
fn djl(image: &str) -> Option<Program> {
    let (_, tag) = image.rsplit('/').next().unwrap_or(image).split_once(':')?;
    let part = |wanted: &str| tag.split('-').any(|part| part.starts_with(wanted));
    match () {
        () if part("tensorrtllm") || part("trtllm") => Some(Program::TensorRtLlm),
        () if part("lmi") => Some(Program::Vllm),
        () => None,
    }
}

/// `--flag value` and `--flag=value`, with `_` and `-` alike. Of a flag that stands twice the last counts.
fn read_flags(server: &mut Server, words: &[&str]) {
    for (at, word) in words.iter().enumerate() {
        let Some(flag) = word.strip_prefix('-') else { continue };
        let flag = flag.trim_start_matches('-');
        let (flag, value) = match flag.split_once('=') {
            Some((flag, value)) => (flag, value),
            None => (flag, words.get(at + 1).copied().unwrap_or_default()),
        };
        read_flag(server, &flag.to_ascii_lowercase().replace('_', "-"), value.trim_matches(['"', '\'']));
    }
    // `vllm serve MODEL`: the model is the word after the verb.
    if let Some(model) = words.windows(2).find(|w| w[0] == "serve").map(|w| w[1])
        && server.parameters_millions.is_none()
    {
        server.parameters_millions = parameters(model);
    }
}

fn read_flag(server: &mut Server, flag: &str, value: &str) {
    match flag {
        "gpu-memory-utilization"
        | "mem-fraction-static"
        | "cuda-memory-fraction"
        | "kv-cache-free-gpu-memory-fraction"
        | "per-process-gpu-memory-fraction" => {
            server.memory_share = permille(value).or(server.memory_share);
        }
        "max-model-len" | "session-len" | "context-length" | "max-total-tokens" | "max-seq-len" => {
            server.context = count(value).or(server.context);
        }
        "max-num-seqs" | "max-running-requests" | "max-concurrent-requests" | "max-batch-size" => {
            server.concurrency = count(value).or(server.concurrency);
        }
        "tensor-parallel-size" | "tp" | "tp-size" | "num-shard" => {
            server.tensor_parallel = count(value).or(server.tensor_parallel);
        }
        "pipeline-parallel-size" | "pp" | "pp-size" => {
            server.pipeline_parallel = count(value).or(server.pipeline_parallel);
        }
        "model" | "model-path" | "model-id" => {
            server.parameters_millions = parameters(value).or(server.parameters_millions);
        }
        "dtype" => server.data_type = word(value, &DATA_TYPES).or(server.data_type),
        "quantization" | "quantize" | "q" => {
            server.quantization = word(value, &QUANTIZATIONS).or(server.quantization);
        }
        "kv-cache-dtype" => server.kv_data_type = word(value, &KV_DATA_TYPES).or(server.kv_data_type),
        _ => {}
    }
}

const DATA_TYPES: [&str; 8] = ["auto", "half", "float16", "fp16", "bfloat16", "bf16", "float", "float32"];
const QUANTIZATIONS: [&str; 20] = [
    "awq",
    "awq_marlin",
    "gptq",
    "gptq_marlin",
    "marlin",
    "fp8",
    "fbgemm_fp8",
    "w8a8_fp8",
    "w8a8_int8",
    "int8",
    "bitsandbytes",
    "bitsandbytes-nf4",
    "bitsandbytes-fp4",
    "gguf",
    "mxfp4",
    "modelopt",
    "modelopt_fp4",
    "compressed-tensors",
    "eetq",
    "exl2",
];
const KV_DATA_TYPES: [&str; 6] = ["auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "bfloat16"];

/// A word of a known list; nothing else is kept.
fn word(value: &str, known: &[&'static str]) -> Option<&'static str> {
    known.iter().copied().find(|one| one.eq_ignore_ascii_case(value))
}

fn count(value: &str) -> Option<u64> {
    // vLLM takes 8k (thousands) and 8K (1024s) too.
    let (digits, times) = match value.strip_suffix('K') {
        Some(digits) => (digits, 1024),
        None => value.strip_suffix('k').map_or((value, 1), |digits| (digits, 1000)),
    };
    digits.parse::<u64>().ok()?.checked_mul(times).filter(|n| (1..=MOST).contains(n))
}

/// A share such as `0.9` in thousandths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn permille(value: &str) -> Option<u16> {
    let share = value.parse::<f64>().ok()?;
    (share > 0.0 && share <= 1.0).then(|| ((share * 1000.0).round() as u16).max(1))
}

/// Parameters in millions from a model's name, such as `meta-llama/Llama-3.1-8B-Instruct` or `opt-125m`. Experts that
/// are told as `8x7B` are left alone: their sum is not their product.
fn parameters(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let words = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    words.filter_map(size).next_back()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn size(word: &str) -> Option<u64> {
    let lower = word.to_ascii_lowercase();
    let (digits, millions) = match lower.strip_suffix('b') {
        Some(digits) => (digits, 1000.0),
        None => (lower.strip_suffix('m')?, 1.0),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || digits.len() > 6 {
        return None;
    }
    let number = digits.parse::<f64>().ok()? * millions;
    (1.0..10_000_000.0).contains(&number).then(|| number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(image: &str, args: &[&str]) -> Option<Server> {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        server(&Container { image: image.to_owned(), args, ..Container::default() })
    }

    #[test]
    fn programs_are_known_by_image_and_by_what_is_run() {
        let cases = [
            ("docker.io/vllm/vllm-openai:v0.11.2", &[][..], Some(Program::Vllm)),
            ("lmsysorg/sglang:latest", &[], Some(Program::Sglang)),
            ("nvcr.io/nvidia/tritonserver:25.10-py3", &[], Some(Program::Triton)),
            ("nvcr.io/nvidia/tensorrt-llm/release:1.0", &[], Some(Program::TensorRtLlm)),
            ("ghcr.io/huggingface/text-generation-inference:3", &[], Some(Program::Tgi)),
            ("tensorflow/serving:2.19.0-gpu", &[], Some(Program::TensorFlowServing)),
            ("tensorflow/tensorflow:2.19.0-gpu", &[], Some(Program::TensorFlow)),
            ("nvcr.io/nvidia/jax:25.10-py3", &[], Some(Program::Jax)),
            ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8", &[], Some(Program::Nim)),
            (
                "x.example/app@sha256:1",
                &["python", "-m", "vllm.entrypoints.openai.api_server"],
                Some(Program::Vllm),
            ),
            ("x.example/app", &["sh", "-c", "exec /usr/bin/vllm serve m --port 8000"], Some(Program::Vllm)),
            ("x.example/app", &["python3", "-m", "sglang.launch_server"], Some(Program::Sglang)),
            (
                "kserve/huggingfaceserver:v0.14.0-gpu",
                &["--model_name=l", "--model_id=m"],
                Some(Program::Vllm),
            ),
            ("kserve/huggingfaceserver:v0.14.0-gpu", &["--backend=huggingface"], None),
            ("kserve/huggingfaceserver:v0.14.0-gpu", &["--backend", "huggingface"], None),
            (
                "x.example/app",
                &["python", "-m", "huggingfaceserver", "--backend", "vllm"],
                Some(Program::Vllm),
            ),
            ("rayproject/ray-llm:2.44.0-py311-cu124", &["ray", "start", "--head"], Some(Program::Vllm)),
            ("rayproject/ray:2.44.0-py311-gpu", &["ray", "start", "--head"], None),
            ("deepjavalibrary/djl-serving:0.32.0-lmi14.0.0-cu126", &[], Some(Program::Vllm)),
            ("a.example:5000/djl-inference:0.30.0-tensorrtllm0.12.0-cu125", &[], Some(Program::TensorRtLlm)),
            ("deepjavalibrary/djl-serving:0.32.0-pytorch-gpu", &[], None),
            ("bentoml/openllm:0.6", &[], Some(Program::Vllm)),
            ("ghcr.io/llm-d/llm-d:v0.2.0", &[], Some(Program::Vllm)),
            ("x.example/llm-dashboard:1", &[], None),
            ("nvcr.io/nvidia/ai-dynamo/runtime:1", &["python3", "-m", "dynamo.vllm"], Some(Program::Vllm)),
            ("openmmlab/lmdeploy:v0.7", &[], Some(Program::Lmdeploy)),
            ("x.example/app", &["lmdeploy", "serve", "api_server", "m"], Some(Program::Lmdeploy)),
            ("alpindale/aphrodite-openai:latest", &[], Some(Program::Aphrodite)),
            ("harbor.example/proxy/nim/meta/llama-3.1-8b-instruct:1.8", &[], Some(Program::Nim)),
            ("vllm.example.com:5000/team/app:1", &[], None),
            ("ollama/ollama:0.12", &["serve"], None),
            ("x.example/ajax:1", &[], None),
            (
                "pytorch/pytorch:2.9",
                &["python", "train.py", "--note", "like", "the", "old", "one", "with", "vllm"],
                None,
            ),
        ];
        for (image, args, wanted) in cases {
            assert_eq!(of(image, args).map(|s| s.program), wanted, "{image} {args:?}");
        }
    }

    #[test]
    fn flags_are_read_in_both_forms() {
        let wanted = Server {
            memory_share: Some(850),
            parameters_millions: Some(70_000),
            context: Some(8192),
            concurrency: Some(64),
            tensor_parallel: Some(2),
            data_type: Some("bfloat16"),
            quantization: Some("awq"),
            kv_data_type: Some("fp8"),
            ..Server::new(Program::Vllm)
        };
        let apart = "vllm serve meta-llama/Llama-3.3-70B-Instruct --gpu-memory-utilization 0.85 --max-model-len 8K \
                     --max-num-seqs 64 --tensor-parallel-size 2 --quantization awq --dtype bfloat16 --kv-cache-dtype fp8";
        let joined = "--model=/models/llama-70b --gpu_memory_utilization=0.85 --max-model-len=8192 --max_num_seqs=64 \
                      -tp=2 --quantization=AWQ --dtype=bfloat16 --kv-cache-dtype=fp8";
        let split = |text: &str| of("a/vllm", &text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(split(apart).as_ref(), Some(&wanted));
        assert_eq!(split(joined).as_ref(), Some(&wanted));
        assert_eq!(of("a/b", &["bash", "-lc", &format!("exec {apart}")]).as_ref(), Some(&wanted));
    }

    #[test]
    fn only_numbers_and_known_words_are_kept() {
        let secret = "sk-4b1d-do-not-show";
        let flags = [
            "api-key",
            "model",
            "dtype",
            "quantization",
            "kv-cache-dtype",
            "max-model-len",
            "gpu-memory-utilization",
            "max-num-seqs",
            "tensor-parallel-size",
            "served-model-name",
            "hf-token",
        ];
        for form in [" ", "="] {
            let args = flags.map(|flag| format!("--{flag}{form}{secret}"));
            let joined = args.join(" ");
            let found = of("a/vllm", &joined.split(' ').collect::<Vec<_>>()).unwrap();
            assert_eq!(found, Server::new(Program::Vllm));
            assert!(!format!("{found:?}").contains("4b1d"));
        }
        let odd =
            of("a/vllm", &["--max-model-len", "$(LEN)", "--gpu-memory-utilization", "1.5", "--tp", "0"]);
        assert_eq!(odd, Some(Server::new(Program::Vllm)));
    }

    #[test]
    fn a_models_name_may_tell_its_size() {
        for (name, wanted) in [
            ("meta-llama/Llama-3.1-8B-Instruct", Some(8000)),
            ("facebook/opt-125m", Some(125)),
            ("Qwen/Qwen2.5-0.5B", Some(500)),
            ("Qwen/Qwen3-30B-A3B", Some(30_000)),
            ("mistralai/Mixtral-8x7B-v0.1", None),
            ("openai/gpt-oss-20b", Some(20_000)),
            ("bge-m3", None),
            ("BAAI/b", None),
        ] {
            assert_eq!(parameters(name), wanted, "{name}");
        }
    }
}
