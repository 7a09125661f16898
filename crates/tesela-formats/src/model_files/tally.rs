//! Tensors of a file counted together by what they are for and how they are stored; their names are not kept.

use tesela_model::network::{DataType, WeightGroup};

/// Part of keys and values, which can be split among as many GPUs as there are KV heads.
pub(super) const KEYS_AND_VALUES: &str = "keys and values";

/// Sums of tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    groups: Vec<WeightGroup>,
    /// Tensors counted.
    pub(super) tensors: u64,
}

impl Tally {
    /// Adds a tensor by its name; `None` beyond 64 bits.
    pub(super) fn add(
        &mut self,
        name: &str,
        rank: usize,
        kind: Option<DataType>,
        elements: u64,
        bytes: u64,
    ) -> Option<()> {
        let (part, ways) = part_of(name, rank);
        self.tensors = self.tensors.checked_add(1)?;
        let same = |g: &&mut WeightGroup| g.part == part && g.data_type == kind && g.ways == ways;
        match self.groups.iter_mut().find(same) {
            Some(group) => {
                group.elements = group.elements.checked_add(elements)?;
                group.bytes = group.bytes.checked_add(bytes)?;
            }
            None => {
                self.groups.push(WeightGroup {
                    part: part.to_owned(),
                    data_type: kind,
                    elements,
                    bytes,
                    ways,
                });
            }
        }
        Some(())
    }

    /// Bytes of all tensors; `None` beyond 64 bits.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.groups.iter().try_fold(0u64, |sum, group| sum.checked_add(group.bytes))
    }

    /// The sums, in the order in which their first tensors came.
    pub(super) fn groups(&self) -> &[WeightGroup] {
        &self.groups
    }
}

/// What a tensor is for, and among how many GPUs it can be split, by the names that transformers and llama.cpp give.
fn part_of(name: &str, rank: usize) -> (&'static str, u64) {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if rank <= 1 {
        return ("norms and biases", 1);
    }
    // Compressed queries, keys and values (latent attention) and routers are held by each GPU.
    let copied = has(&[
        "kv_a_proj",
        "q_a_proj",
        "attn_kv_a",
        "attn_q_a",
        "gate_inp",
        "router",
        "mlp.gate.",
        "block_sparse_moe.gate.",
    ]);
    let ways = if copied { 1 } else { WeightGroup::ANY };
    let part = if has(&["experts", "_exps", "expert"]) {
        "experts"
    } else if copied && has(&["gate", "router"]) {
        "router"
    } else if has(&["k_proj", "v_proj", "attn_k.", "attn_v."]) {
        KEYS_AND_VALUES
    } else if has(&["attn", "attention"]) {
        "attention"
    } else if has(&["lm_head", "embed_out"]) || name == "output.weight" {
        "output"
    } else if has(&["embed", "wte", "wpe", "token_embd"]) {
        "embedding"
    } else if has(&["mlp", "ffn", "feed_forward", "intermediate", "fc1", "fc2", "dense_h"]) {
        "feed-forward"
    } else {
        "other matrices"
    };
    (part, ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_by_name() {
        for (name, rank, part, ways) in [
            ("model.layers.0.self_attn.k_proj.weight", 2, KEYS_AND_VALUES, WeightGroup::ANY),
            ("model.layers.0.self_attn.q_proj.weight", 2, "attention", WeightGroup::ANY),
            ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", 2, "attention", 1),
            ("model.layers.0.block_sparse_moe.gate.weight", 2, "router", 1),
            ("model.layers.0.block_sparse_moe.experts.0.w1.weight", 2, "experts", WeightGroup::ANY),
            ("model.layers.0.mlp.gate_proj.weight", 2, "feed-forward", WeightGroup::ANY),
            ("model.layers.0.input_layernorm.weight", 1, "norms and biases", 1),
            ("model.embed_tokens.weight", 2, "embedding", WeightGroup::ANY),
            ("lm_head.weight", 2, "output", WeightGroup::ANY),
            ("blk.0.attn_k.weight", 2, KEYS_AND_VALUES, WeightGroup::ANY),
            ("blk.0.ffn_gate_exps.weight", 3, "experts", WeightGroup::ANY),
            ("blk.0.ffn_gate_inp.weight", 2, "router", 1),
            ("token_embd.weight", 2, "embedding", WeightGroup::ANY),
            ("output.weight", 2, "output", WeightGroup::ANY),
        ] {
            assert_eq!(part_of(name, rank), (part, ways), "{name}");
        }
    }
}
