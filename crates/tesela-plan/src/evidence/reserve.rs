//! Servers that reserve memory: what is known of them, what is not, and the command that tells.

use std::fmt::Write as _;

use tesela_model::demand::Workload;
use tesela_model::finding::{Finding, Severity};
use tesela_model::server::{Program, Server};

use super::Measured;
use crate::decide::percent;

/// What a server takes when nobody says how much, as its own reference has it.
fn by_default(program: Program) -> &'static str {
    match program {
        Program::Vllm | Program::Aphrodite => "about nine tenths of the GPU by default",
        Program::Sglang | Program::TensorRtLlm => "most of the GPU by default",
        Program::Tgi | Program::TensorFlow | Program::TensorFlowServing => "nearly all of the GPU by default",
        Program::Lmdeploy => "four fifths of what its weights leave free by default",
        Program::Jax => "three quarters of the GPU by default",
        Program::Triton | Program::Nim => "a pool whose size its backend sets",
    }
}

/// The command that estimates what a server needs, with the flags that are understood; and what must be put in.
#[must_use]
pub fn estimate_command(server: &Server) -> (String, Vec<&'static str>) {
    let mut command = "tesela estimate".to_owned();
    let mut missing = Vec::new();
    // Writing to a String cannot fail.
    match server.parameters_millions {
        Some(m) if m % 1000 == 0 => command.push_str(&format!(" --parameters {}b", m / 1000)),
        Some(m) if m > 1000 => command.push_str(&format!(" --parameters {}b", decimal(m))),
        Some(m) => command.push_str(&format!(" --parameters {m}m")),
        None => missing.push("--parameters"),
    }
    match weights(server) {
        Some(data_type) => command.push_str(&format!(" --data-type {data_type}")),
        None => missing.push("--data-type"),
    }
    if let Some(data_type) = server.kv_data_type.and_then(plain) {
        command.push_str(&format!(" --kv-data-type {data_type}"));
    }
    let mut number = |flag: &'static str, value: Option<u64>, needed: bool| match value {
        Some(value) => command.push_str(&format!(" {flag} {value}")),
        None if needed => missing.push(flag),
        None => {}
    };
    number("--context", server.context, true);
    number("--concurrency", server.concurrency, true);
    number("--tensor-parallel", server.tensor_parallel.filter(|n| *n > 1), false);
    (command, missing)
}

/// Thousandths as a decimal without zeros behind: 1500 = 1.5.
fn decimal(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The data type of the weights, in the words of `estimate`.
fn weights(server: &Server) -> Option<&'static str> {
    match server.quantization {
        Some("fp8" | "fbgemm_fp8" | "w8a8_fp8" | "modelopt") => Some("fp8"),
        Some("int8" | "w8a8_int8" | "eetq") => Some("int8"),
        Some("awq" | "awq_marlin" | "gptq" | "gptq_marlin" | "bitsandbytes-nf4" | "bitsandbytes-fp4") => {
            Some("int4")
        }
        Some("mxfp4" | "modelopt_fp4") => Some("mxfp4"),
        // The width stands in the model's own files.
        Some(_) => None,
        None => server.data_type.and_then(plain),
    }
}

fn plain(word: &str) -> Option<&'static str> {
    Some(match word {
        "half" | "float16" | "fp16" => "fp16",
        "bfloat16" | "bf16" => "bf16",
        "float" | "float32" => "fp32",
        "fp8" | "fp8_e4m3" | "fp8_e5m2" | "fp8_inc" => "fp8",
        _ => return None,
    })
}

/// What is said of a workload whose server reserves memory and whose need nobody gave.
pub(super) fn finding(workload: &Workload, server: &Server, measured: Option<&Measured>) -> Finding {
    let takes = match server.memory_share {
        Some(share) => format!("was told to take {} of each GPU's memory", percent(share)),
        None => format!("takes {}", by_default(server.program)),
    };
    let mut message = format!("{} {takes} before it needs it", server.program);
    if let Some(peak) = measured.and_then(|m| m.peak) {
        let _ = write!(message, "; the {peak} that were measured are that reservation and no need");
    }
    message.push_str(", so its need stays unknown and it keeps what it holds");
    let spread = server.tensor_parallel.unwrap_or(1).max(1) * server.pipeline_parallel.unwrap_or(1).max(1);
    if spread > 1 {
        let _ = write!(message, "; one model is spread over {spread} GPUs, which never goes to MIG");
        if spread > u64::from(workload.gpus) {
            let _ = write!(message, " (a pod asks for {} only)", workload.gpus);
        }
    }
    let (command, missing) = estimate_command(server);
    let put_in = match missing.len() {
        0 => String::new(),
        _ => format!(" (put in {}, which its arguments do not say)", missing.join(", ")),
    };
    Finding {
        severity: Severity::Info,
        rule: "server-reserves-memory".to_owned(),
        subject: workload.key.to_string(),
        message,
        fix: format!("{command}{put_in}; write the answer as gpuMemory into a Demand and plan again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_what_is_understood() {
        let all = Server {
            parameters_millions: Some(8000),
            context: Some(8192),
            concurrency: Some(64),
            tensor_parallel: Some(2),
            data_type: Some("bfloat16"),
            kv_data_type: Some("fp8_e5m2"),
            ..Server::new(Program::Vllm)
        };
        let (command, missing) = estimate_command(&all);
        assert_eq!(
            command,
            "tesela estimate --parameters 8b --data-type bf16 --kv-data-type fp8 --context 8192 --concurrency 64 \
             --tensor-parallel 2"
        );
        assert!(missing.is_empty());
        let quantised = Server { quantization: Some("awq"), parameters_millions: Some(1500), ..all };
        assert!(
            estimate_command(&quantised).0.starts_with("tesela estimate --parameters 1.5b --data-type int4 ")
        );
        let small = Server { parameters_millions: Some(125), ..Server::new(Program::Vllm) };
        let (command, missing) = estimate_command(&small);
        assert_eq!(command, "tesela estimate --parameters 125m");
        assert_eq!(missing, ["--data-type", "--context", "--concurrency"]);
    }
}
