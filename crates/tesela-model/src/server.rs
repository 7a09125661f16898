//! Programs that take GPU memory before they need it, so that what they use says nothing about what they need.

use std::fmt;

/// A program that reserves GPU memory up front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM's server.
    TensorRtLlm,
    /// NVIDIA Triton Inference Server.
    Triton,
    /// Hugging Face Text Generation Inference.
    Tgi,
    /// LMDeploy.
    Lmdeploy,
    /// Aphrodite, which began as vLLM.
    Aphrodite,
    /// TensorFlow Serving.
    TensorFlowServing,
    /// TensorFlow.
    TensorFlow,
    /// JAX.
    Jax,
    /// NVIDIA NIM, which runs one of the first three.
    Nim,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::Triton => "Triton",
            Self::Tgi => "Text Generation Inference",
            Self::Lmdeploy => "LMDeploy",
            Self::Aphrodite => "Aphrodite",
            Self::TensorFlowServing => "TensorFlow Serving",
            Self::TensorFlow => "TensorFlow",
            Self::Jax => "JAX",
            Self::Nim => "NVIDIA NIM",
        })
    }
}

/// What a server's image and arguments say. Only numbers and words of a known list are ever kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Which program.
    pub program: Program,
    /// Share of the GPU's memory that it was told to take, in thousandths; `None` = its default.
    pub memory_share: Option<u16>,
    /// Parameters of the model in millions, where the model's name tells them.
    pub parameters_millions: Option<u64>,
    /// Tokens of one sequence.
    pub context: Option<u64>,
    /// Sequences at a time.
    pub concurrency: Option<u64>,
    /// GPUs that one model is spread over.
    pub tensor_parallel: Option<u64>,
    /// Stages that one model is cut into.
    pub pipeline_parallel: Option<u64>,
    /// Data type of the weights.
    pub data_type: Option<&'static str>,
    /// Quantisation of the weights.
    pub quantization: Option<&'static str>,
    /// Data type of the KV cache.
    pub kv_data_type: Option<&'static str>,
}

impl Server {
    /// A server of which nothing but the program is known.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            memory_share: None,
            parameters_millions: None,
            context: None,
            concurrency: None,
            tensor_parallel: None,
            pipeline_parallel: None,
            data_type: None,
            quantization: None,
            kv_data_type: None,
        }
    }
}
