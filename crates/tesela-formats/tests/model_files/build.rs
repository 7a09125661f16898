//! Headers as real files have them: names, shapes and types of published models, without the data.

/// A tensor: name, shape as transformers has it (outputs first), type.
pub(crate) type Tensor = (String, Vec<u64>, &'static str);

/// A safetensors header and the length of the whole file.
pub(crate) fn safetensors(tensors: &[Tensor]) -> (Vec<u8>, u64) {
    let mut offset = 0;
    let mut entries = vec!["\"__metadata__\":{\"format\":\"pt\"}".to_owned()];
    for (name, shape, kind) in tensors {
        let width = match *kind {
            "F32" | "I32" => 4,
            "F8_E4M3" | "U8" => 1,
            _ => 2,
        };
        let end = offset + shape.iter().product::<u64>() * width;
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"{kind}\",\"shape\":{shape:?},\"data_offsets\":[{offset},{end}]}}"
        ));
        offset = end;
    }
    let json = format!("{{{}}}", entries.join(","));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.bytes());
    let length = bytes.len() as u64 + offset;
    (bytes, length)
}

/// A network built like Llama.
#[derive(Clone, Copy)]
pub(crate) struct Llama {
    pub(crate) vocabulary: u64,
    pub(crate) hidden: u64,
    pub(crate) inner: u64,
    pub(crate) layers: u64,
    pub(crate) queries: u64,
    pub(crate) keys: u64,
    /// Biases of queries, keys and values.
    pub(crate) bias: bool,
    /// 0 = a dense feed-forward layer.
    pub(crate) experts: u64,
}

pub(crate) const LLAMA_2_7B: Llama = Llama {
    vocabulary: 32_000,
    hidden: 4096,
    inner: 11_008,
    layers: 32,
    queries: 4096,
    keys: 4096,
    bias: false,
    experts: 0,
};
pub(crate) const LLAMA_3_8B: Llama = Llama { vocabulary: 128_256, inner: 14_336, keys: 1024, ..LLAMA_2_7B };
pub(crate) const LLAMA_3_70B: Llama =
    Llama { hidden: 8192, inner: 28_672, layers: 80, queries: 8192, ..LLAMA_3_8B };
pub(crate) const MISTRAL_7B: Llama = Llama { vocabulary: 32_000, ..LLAMA_3_8B };
pub(crate) const MIXTRAL: Llama = Llama { experts: 8, ..MISTRAL_7B };
pub(crate) const QWEN_7B: Llama = Llama {
    vocabulary: 152_064,
    hidden: 3584,
    inner: 18_944,
    layers: 28,
    queries: 3584,
    keys: 512,
    bias: true,
    experts: 0,
};

impl Llama {
    /// Its tensors as transformers names them.
    pub(crate) fn tensors(self, kind: &'static str) -> Vec<Tensor> {
        let Self { vocabulary, hidden, inner, queries, keys, .. } = self;
        let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![vocabulary, hidden], kind)];
        for layer in 0..self.layers {
            let mut add =
                |name: &str, shape: Vec<u64>| all.push((format!("model.layers.{layer}.{name}"), shape, kind));
            for (projection, outputs) in [("q", queries), ("k", keys), ("v", keys)] {
                add(&format!("self_attn.{projection}_proj.weight"), vec![outputs, hidden]);
                if self.bias {
                    add(&format!("self_attn.{projection}_proj.bias"), vec![outputs]);
                }
            }
            add("self_attn.o_proj.weight", vec![hidden, queries]);
            if self.experts == 0 {
                add("mlp.gate_proj.weight", vec![inner, hidden]);
                add("mlp.up_proj.weight", vec![inner, hidden]);
                add("mlp.down_proj.weight", vec![hidden, inner]);
            } else {
                add("block_sparse_moe.gate.weight", vec![self.experts, hidden]);
            }
            for expert in 0..self.experts {
                add(&format!("block_sparse_moe.experts.{expert}.w1.weight"), vec![inner, hidden]);
                add(&format!("block_sparse_moe.experts.{expert}.w2.weight"), vec![hidden, inner]);
                add(&format!("block_sparse_moe.experts.{expert}.w3.weight"), vec![inner, hidden]);
            }
            add("input_layernorm.weight", vec![hidden]);
            add("post_attention_layernorm.weight", vec![hidden]);
        }
        all.push(("model.norm.weight".to_owned(), vec![hidden], kind));
        all.push(("lm_head.weight".to_owned(), vec![vocabulary, hidden], kind));
        all
    }

    /// Its tensors as llama.cpp names them, each with the number of its type; `of` chooses it by name and layer.
    pub(crate) fn gguf_tensors(self, of: impl Fn(&str, u64) -> u32) -> Vec<GgufTensor> {
        let Self { vocabulary, hidden, inner, queries, keys, .. } = self;
        let mut all = vec![("token_embd.weight".to_owned(), vec![hidden, vocabulary], of("token_embd", 0))];
        for layer in 0..self.layers {
            for (name, sizes) in [
                ("attn_q", vec![hidden, queries]),
                ("attn_k", vec![hidden, keys]),
                ("attn_v", vec![hidden, keys]),
                ("attn_output", vec![queries, hidden]),
                ("ffn_gate", vec![hidden, inner]),
                ("ffn_up", vec![hidden, inner]),
                ("ffn_down", vec![inner, hidden]),
            ] {
                all.push((format!("blk.{layer}.{name}.weight"), sizes, of(name, layer)));
            }
            all.push((format!("blk.{layer}.attn_norm.weight"), vec![hidden], 0));
            all.push((format!("blk.{layer}.ffn_norm.weight"), vec![hidden], 0));
        }
        all.push(("output_norm.weight".to_owned(), vec![hidden], 0));
        all.push(("output.weight".to_owned(), vec![hidden, vocabulary], of("output", 0)));
        all
    }

    /// Its metadata as llama.cpp's converter writes it.
    pub(crate) fn gguf_metadata(self, heads: u64) -> Vec<(String, Metadata)> {
        let number = |key: &str, n: u64| (format!("llama.{key}"), Metadata::U32(u32::try_from(n).unwrap()));
        vec![
            ("general.architecture".to_owned(), Metadata::Text("llama".to_owned())),
            number("block_count", self.layers),
            number("context_length", 8192),
            number("embedding_length", self.hidden),
            number("feed_forward_length", self.inner),
            number("attention.head_count", heads),
            number("attention.head_count_kv", self.keys / 128),
            (
                "tokenizer.ggml.tokens".to_owned(),
                Metadata::Texts((0..self.vocabulary).map(|_| "a".to_owned()).collect()),
            ),
        ]
    }
}

/// A tensor of a GGUF file: name, sizes (inputs first), number of its type.
pub(crate) type GgufTensor = (String, Vec<u64>, u32);

/// A value of a GGUF file's metadata.
#[derive(Clone)]
pub(crate) enum Metadata {
    U32(u32),
    Text(String),
    Texts(Vec<String>),
    Numbers(Vec<u32>),
    Flag(bool),
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
}

/// Elements and bytes of a block by the type's number, for the types that the tests use.
fn block(kind: u32) -> (u64, u64) {
    match kind {
        0 => (1, 4),
        1 | 30 => (1, 2),
        2 => (32, 18),
        8 => (32, 34),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        other => panic!("type {other}"),
    }
}

/// A GGUF header of version 3 and the length of the whole file.
pub(crate) fn gguf(metadata: &[(String, Metadata)], tensors: &[GgufTensor]) -> (Vec<u8>, u64) {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        text(&mut bytes, key);
        match value {
            Metadata::U32(n) => {
                bytes.extend(4u32.to_le_bytes());
                bytes.extend(n.to_le_bytes());
            }
            Metadata::Text(value) => {
                bytes.extend(8u32.to_le_bytes());
                text(&mut bytes, value);
            }
            Metadata::Texts(list) => {
                bytes.extend([9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
                bytes.extend((list.len() as u64).to_le_bytes());
                list.iter().for_each(|one| text(&mut bytes, one));
            }
            Metadata::Numbers(list) => {
                bytes.extend([9u32.to_le_bytes(), 4u32.to_le_bytes()].concat());
                bytes.extend((list.len() as u64).to_le_bytes());
                list.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
            }
            Metadata::Flag(flag) => {
                bytes.extend(7u32.to_le_bytes());
                bytes.push(u8::from(*flag));
            }
        }
    }
    let mut offset = 0u64;
    for (name, sizes, kind) in tensors {
        text(&mut bytes, name);
        bytes.extend(u32::try_from(sizes.len()).unwrap().to_le_bytes());
        sizes.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        let (elements, each) = block(*kind);
        offset += (sizes.iter().product::<u64>() / elements * each).next_multiple_of(32);
    }
    let length = (bytes.len() as u64).next_multiple_of(32) + offset;
    (bytes, length)
}
