//! How matrices are stored: plain, or quantised with scales beside them.
//!
//! Layouts of the tensors: AutoGPTQ and AutoAWQ (`qweight`, `scales`, `qzeros`, `g_idx`), compressed-tensors
//! (`weight_packed`, `weight_scale`), bitsandbytes (`absmax`, nested once more with double quantisation), DeepSeek-V3's
//! fp8 (`weight_scale_inv` for each tile of 128 × 128), OCP microscaling (`blocks`, `scales`).

use tesela_model::network::DataType;

use super::super::fields::{BadField, Fields};

/// Elements that share a scale in bitsandbytes, and scales that share one when nested (its defaults).
const BNB_BLOCK: u64 = 64;
const BNB_NESTED: u64 = 256;

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Elements alone; scales, if any, are inside of the type's blocks.
    Plain(DataType),
    /// A scale for each group of inputs and output.
    Groups {
        element: DataType,
        /// Inputs of a group; `None` = all of them.
        group: Option<u64>,
        scale: DataType,
        /// A zero point beside each scale, packed like the elements.
        zeros: bool,
        /// The group of each input, as int32.
        order: bool,
    },
    /// A scale for each tile; `None` = one for the matrix.
    Tiles { element: DataType, tile: Option<(u64, u64)> },
    /// bitsandbytes' 4 bits.
    Blocks { nested: bool },
}

/// Elements of one kind that a matrix takes: what for, type, how many.
pub(super) type Stored = (&'static str, DataType, u128);

impl Packing {
    /// What a matrix takes.
    pub(super) fn of(self, inputs: u64, outputs: u64) -> Vec<Stored> {
        let (i, o) = (u128::from(inputs), u128::from(outputs));
        let scales = "scales";
        match self {
            Self::Plain(element) => vec![("", element, i * o)],
            Self::Groups { element, group, scale, zeros, order } => {
                let groups = group.map_or(1, |group| i.div_ceil(u128::from(group.max(1))));
                let mut all = vec![("", element, i * o), (scales, scale, groups * o)];
                if zeros {
                    all.push((scales, element, groups * o));
                }
                if order {
                    // The order of inputs is one int32 for each.
                    all.extend(DataType::packed(32).map(|int32| (scales, int32, i)));
                }
                all
            }
            Self::Tiles { element, tile } => {
                let tiles = tile.map_or(1, |(rows, columns)| {
                    o.div_ceil(u128::from(rows.max(1))) * i.div_ceil(u128::from(columns.max(1)))
                });
                vec![("", element, i * o), (scales, DataType::FP32, tiles)]
            }
            Self::Blocks { nested } => {
                let blocks = (i * o).div_ceil(u128::from(BNB_BLOCK));
                let mut all = vec![("", DataType::INT4, i * o)];
                if nested {
                    all.push((scales, DataType::INT8, blocks));
                    all.push((scales, DataType::FP32, blocks.div_ceil(u128::from(BNB_NESTED))));
                } else {
                    all.push((scales, DataType::FP32, blocks));
                }
                all
            }
        }
    }
}

/// What a `quantization_config` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quantisation {
    /// The method as the config calls it.
    pub(super) method: String,
    /// How the linear layers inside of the network's layers are stored; `None` = not understood.
    pub(super) packing: Option<Packing>,
    /// Whether only experts are stored so.
    pub(super) only_experts: bool,
    /// Whether attention is left as it was.
    pub(super) not_attention: bool,
    /// Modules that are left as they were, beyond those that always are.
    pub(super) left: usize,
}

impl Quantisation {
    /// In words, such as `gptq int4 in groups of 128`.
    pub(super) fn words(&self) -> String {
        match self.packing {
            Some(Packing::Groups { element, group: Some(group), .. }) => {
                format!("{} {element} in groups of {group}", self.method)
            }
            Some(
                Packing::Groups { element, .. } | Packing::Tiles { element, .. } | Packing::Plain(element),
            ) => {
                format!("{} {element}", self.method)
            }
            Some(Packing::Blocks { .. }) => format!("{} int4 in blocks of {BNB_BLOCK}", self.method),
            None => self.method.clone(),
        }
        .replace("mxfp4 mxfp4", "mxfp4")
        .replace("fp8 fp8", "fp8")
    }

    /// Reads it from a config. `scale` is the type of scales where the config does not say.
    pub(super) fn read(config: &Fields, scale: DataType) -> Result<Option<Self>, BadField> {
        let Some((_, fields)) = config.object(&["quantization_config", "compression_config"]) else {
            return Ok(None);
        };
        let method = fields.text(&["quant_method", "quant_type", "quant_algo"]).unwrap_or("unnamed");
        let method = method.to_ascii_lowercase();
        let packing = packing(fields, &method, scale)?;
        let left = fields.texts(&["modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"]);
        let left = left.unwrap_or_default();
        let not_attention =
            left.iter().any(|name| name.ends_with("self_attn") || name.ends_with("self_attn*"));
        // The output, routers and image encoders are never counted as quantised.
        let usual = |name: &&str| {
            ["lm_head", "embed", "router", "gate", "self_attn", "vision", "visual", "norm", "head"]
                .iter()
                .any(|word| name.contains(word))
        };
        Ok(Some(Self {
            only_experts: method == "mxfp4",
            not_attention,
            left: left.iter().filter(|name| !usual(name)).count(),
            packing,
            method,
        }))
    }
}

fn packing(fields: &Fields, method: &str, scale: DataType) -> Result<Option<Packing>, BadField> {
    let bits = fields.number(&["bits", "w_bit", "wbits"])?;
    Ok(match method {
        "awq" | "gptq" | "gptqmodel" | "auto-round" | "auto_round" | "autoround" | "intel/auto-round"
        | "unnamed" => {
            let Some(element) = bits.or((method == "awq").then_some(4)).and_then(DataType::packed) else {
                return Ok(None);
            };
            let group = group_size(fields, 128)?;
            // Scales are fp16 in both formats, whatever the rest is.
            let order = method.starts_with("gptq");
            Some(Packing::Groups { element, group, scale: DataType::FP16, zeros: true, order })
        }
        "bitsandbytes" => Some(if fields.flag("load_in_8bit") == Some(true) {
            Packing::Groups {
                element: DataType::INT8,
                group: None,
                scale: DataType::FP32,
                zeros: false,
                order: false,
            }
        } else {
            Packing::Blocks { nested: fields.flag("bnb_4bit_use_double_quant") == Some(true) }
        }),
        "fp8" | "fbgemm_fp8" => {
            let tile = fields.numbers("weight_block_size").filter(|sizes| sizes.len() == 2);
            let tile = tile.map(|sizes| (sizes[0], sizes[1]));
            if method == "fbgemm_fp8" {
                let (element, scale) = (DataType::FP8, DataType::FP32);
                Some(Packing::Groups { element, group: None, scale, zeros: false, order: false })
            } else {
                Some(Packing::Tiles { element: DataType::FP8, tile })
            }
        }
        "mxfp4" => Some(Packing::Plain(DataType::MXFP4)),
        "compressed-tensors" => compressed(fields, scale)?,
        "modelopt" => modelopt(fields),
        _ => {
            // A method that is not known, but says how many bits: elements and scales in groups are the rule.
            let element = bits.and_then(DataType::packed);
            let group = group_size(fields, 128)?;
            element.map(|element| Packing::Groups {
                element,
                group,
                scale: DataType::FP16,
                zeros: true,
                order: false,
            })
        }
    })
}

/// The size of a group; -1 means all inputs.
fn group_size(fields: &Fields, default: u64) -> Result<Option<u64>, BadField> {
    match fields.number(&["group_size", "q_group_size", "groupsize"]) {
        Ok(Some(0)) => Ok(None),
        Ok(Some(size)) => Ok(Some(size)),
        Ok(None) => Ok(Some(default)),
        Err(bad) if bad.value == "-1" => Ok(None),
        Err(bad) => Err(bad),
    }
}

/// The first group of a compressed-tensors config: its weights.
fn compressed(fields: &Fields, scale: DataType) -> Result<Option<Packing>, BadField> {
    let Some((_, groups)) = fields.object(&["config_groups"]) else { return Ok(None) };
    let Some((_, weights)) = groups.objects().find_map(|group| group.object(&["weights"])) else {
        return Ok(None);
    };
    let float = weights.text(&["type"]) == Some("float");
    let bits = weights.number(&["num_bits"])?;
    let element = match (bits, float) {
        (Some(8), true) => Some(DataType::FP8),
        (Some(bits), _) => DataType::packed(bits),
        (None, _) => None,
    };
    let Some(element) = element else { return Ok(None) };
    let zeros = weights.flag("symmetric") == Some(false);
    Ok(Some(match weights.text(&["strategy"]).unwrap_or("channel") {
        "tensor" => Packing::Tiles { element, tile: None },
        "block" => {
            let tile = weights.numbers("block_structure").filter(|sizes| sizes.len() == 2);
            Packing::Tiles { element, tile: tile.map(|sizes| (sizes[0], sizes[1])).or(Some((128, 128))) }
        }
        "group" | "tensor_group" => {
            let group = group_size(weights, 128)?;
            let scale = if float && bits == Some(4) { DataType::FP8 } else { scale };
            Packing::Groups { element, group, scale, zeros, order: false }
        }
        _ => Packing::Groups { element, group: None, scale, zeros, order: false },
    }))
}

fn modelopt(fields: &Fields) -> Option<Packing> {
    let algorithm = fields.text(&["quant_algo"]).unwrap_or_default().to_ascii_lowercase();
    match algorithm.as_str() {
        "fp8" => Some(Packing::Tiles { element: DataType::FP8, tile: None }),
        "nvfp4" => Some(Packing::Groups {
            element: DataType::INT4,
            group: Some(16),
            scale: DataType::FP8,
            zeros: false,
            order: false,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(packing: Packing, inputs: u64, outputs: u64) -> u128 {
        let each = packing.of(inputs, outputs).into_iter();
        each.map(|(_, kind, n)| n.div_ceil(kind.block_elements().into()) * u128::from(kind.block_bytes()))
            .sum()
    }

    #[test]
    fn a_matrix_of_4096_by_4096_in_each_packing() {
        let plain = Packing::Plain(DataType::BF16);
        assert_eq!(bytes(plain, 4096, 4096), 33_554_432);
        let gptq = Packing::Groups {
            element: DataType::INT4,
            group: Some(128),
            scale: DataType::FP16,
            zeros: true,
            order: true,
        };
        // qweight 8 MiB, scales 32 × 4096 × 2, qzeros 32 × 4096 / 2, g_idx 4096 × 4.
        assert_eq!(bytes(gptq, 4096, 4096), 8_388_608 + 262_144 + 65_536 + 16_384);
        let tiles = Packing::Tiles { element: DataType::FP8, tile: Some((128, 128)) };
        assert_eq!(bytes(tiles, 4096, 4096), 16_777_216 + 32 * 32 * 4);
        let whole = Packing::Tiles { element: DataType::FP8, tile: None };
        assert_eq!(bytes(whole, 4096, 4096), 16_777_216 + 4);
        assert_eq!(bytes(Packing::Blocks { nested: false }, 4096, 4096), 8_388_608 + 262_144 * 4);
        assert_eq!(bytes(Packing::Blocks { nested: true }, 4096, 4096), 8_388_608 + 262_144 + 1024 * 4);
        assert_eq!(bytes(Packing::Plain(DataType::MXFP4), 4096, 4096), 16_777_216 / 32 * 17);
    }

    fn read(text: &str) -> Option<Packing> {
        let text = format!("{{\"quantization_config\": {text}}}");
        let fields = Fields::read("c.json", text.as_bytes()).unwrap();
        Quantisation::read(&fields, DataType::BF16).unwrap().unwrap().packing
    }

    #[test]
    fn methods_as_configs_write_them() {
        let groups = |element, group, scale, zeros, order| {
            Some(Packing::Groups { element, group, scale, zeros, order })
        };
        let (int4, fp16) = (DataType::INT4, DataType::FP16);
        assert_eq!(
            read(r#"{"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false}"#),
            groups(int4, Some(128), fp16, true, true)
        );
        assert_eq!(
            read(r#"{"quant_method": "gptq", "bits": 8, "group_size": -1}"#),
            groups(DataType::INT8, None, fp16, true, true)
        );
        assert_eq!(
            read(r#"{"quant_method": "awq", "w_bit": 4, "q_group_size": 64}"#),
            groups(int4, Some(64), fp16, true, false)
        );
        assert_eq!(
            read(
                r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights":
                   {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true}}}}"#
            ),
            groups(DataType::INT8, None, DataType::BF16, false, false)
        );
        assert_eq!(
            read(r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#),
            Some(Packing::Tiles { element: DataType::FP8, tile: Some((128, 128)) })
        );
        assert_eq!(
            read(
                r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true}"#
            ),
            Some(Packing::Blocks { nested: true })
        );
        assert_eq!(read(r#"{"quant_method": "mxfp4"}"#), Some(Packing::Plain(DataType::MXFP4)));
        assert_eq!(read(r#"{"quant_method": "aqlm"}"#), None);
    }
}
