//! How the elements of a tensor are stored, as whole blocks of elements and bytes.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::product::nearest;

/// A way to store elements: `elements` of them take `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataType {
    name: &'static str,
    elements: u64,
    bytes: u64,
}

/// A text that names no data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no data type{}; use one of {}", .nearest.map(|n| format!(", did you mean {n}?")).unwrap_or_default(), DataType::USUAL.join(", "))]
pub struct UnknownDataType {
    /// The text as given.
    pub text: String,
    /// The nearest name.
    pub nearest: Option<&'static str>,
}

const fn of(name: &'static str, elements: u64, bytes: u64) -> DataType {
    DataType { name, elements, bytes }
}

/// Types of GGUF files by their number: `ggml_type` of ggml.h, sizes as in gguf-py's `GGML_QUANT_SIZES`
/// (github.com/ggml-org/llama.cpp). Numbers that no longer occur are left out.
const GGML: [(u32, DataType); 35] = [
    (0, DataType::FP32),
    (1, DataType::FP16),
    (2, of("q4_0", 32, 18)),
    (3, of("q4_1", 32, 20)),
    (6, of("q5_0", 32, 22)),
    (7, of("q5_1", 32, 24)),
    (8, of("q8_0", 32, 34)),
    (9, of("q8_1", 32, 36)),
    (10, of("q2_k", 256, 84)),
    (11, of("q3_k", 256, 110)),
    (12, of("q4_k", 256, 144)),
    (13, of("q5_k", 256, 176)),
    (14, of("q6_k", 256, 210)),
    (15, of("q8_k", 256, 292)),
    (16, of("iq2_xxs", 256, 66)),
    (17, of("iq2_xs", 256, 74)),
    (18, of("iq3_xxs", 256, 98)),
    (19, of("iq1_s", 256, 50)),
    (20, of("iq4_nl", 32, 18)),
    (21, of("iq3_s", 256, 110)),
    (22, of("iq2_s", 256, 82)),
    (23, of("iq4_xs", 256, 136)),
    (24, DataType::INT8),
    (25, of("int16", 1, 2)),
    (26, of("int32", 1, 4)),
    (27, of("int64", 1, 8)),
    (28, DataType::FP64),
    (29, of("iq1_m", 256, 56)),
    (30, DataType::BF16),
    (34, of("tq1_0", 256, 54)),
    (35, of("tq2_0", 256, 66)),
    (39, of("mxfp4", 32, 17)),
    (40, of("nvfp4", 64, 36)),
    // Repacked forms of q4_0 that old files hold.
    (31, of("q4_0_4_4", 32, 18)),
    (32, of("q4_0_4_8", 32, 18)),
];

/// Types of safetensors files by their name (github.com/huggingface/safetensors, `Dtype`).
const SAFETENSORS: [(&str, DataType); 20] = [
    ("BF16", DataType::BF16),
    ("BOOL", of("bool", 1, 1)),
    ("C64", of("complex64", 1, 8)),
    ("F16", DataType::FP16),
    ("F32", DataType::FP32),
    ("F4", of("fp4", 2, 1)),
    ("F64", DataType::FP64),
    ("F6_E2M3", of("fp6", 4, 3)),
    ("F6_E3M2", of("fp6", 4, 3)),
    ("F8_E4M3", DataType::FP8),
    ("F8_E5M2", DataType::FP8),
    ("F8_E8M0", DataType::FP8),
    ("I16", of("int16", 1, 2)),
    ("I32", of("int32", 1, 4)),
    ("I64", of("int64", 1, 8)),
    ("I8", DataType::INT8),
    ("U16", of("uint16", 1, 2)),
    ("U32", of("uint32", 1, 4)),
    ("U64", of("uint64", 1, 8)),
    ("U8", of("uint8", 1, 1)),
];

/// Other names of the same: those of PyTorch, NumPy, vLLM and people.
const ALIASES: [(&str, DataType); 17] = [
    ("bfloat16", DataType::BF16),
    ("double", DataType::FP64),
    ("f16", DataType::FP16),
    ("f32", DataType::FP32),
    ("f64", DataType::FP64),
    ("float", DataType::FP32),
    ("float16", DataType::FP16),
    ("float32", DataType::FP32),
    ("float64", DataType::FP64),
    ("float8_e4m3fn", DataType::FP8),
    ("float8_e5m2", DataType::FP8),
    ("fp4", of("fp4", 2, 1)),
    ("fp8_e4m3", DataType::FP8),
    ("fp8_e5m2", DataType::FP8),
    ("half", DataType::FP16),
    ("i8", DataType::INT8),
    ("nf4", DataType::INT4),
];

impl DataType {
    /// Brain floating point, 16 bits.
    pub const BF16: Self = of("bf16", 1, 2);
    /// IEEE half precision.
    pub const FP16: Self = of("fp16", 1, 2);
    /// IEEE single precision.
    pub const FP32: Self = of("fp32", 1, 4);
    /// IEEE double precision.
    pub const FP64: Self = of("fp64", 1, 8);
    /// Floating point in 8 bits, whatever its exponent.
    pub const FP8: Self = of("fp8", 1, 1);
    /// Whole numbers of 8 bits.
    pub const INT8: Self = of("int8", 1, 1);
    /// 4 bits; scales not counted.
    pub const INT4: Self = of("int4", 2, 1);
    /// 32 elements of 4 bits with one shared exponent (OCP microscaling).
    pub const MXFP4: Self = of("mxfp4", 32, 17);

    /// The names people use most, for messages.
    pub const USUAL: [&'static str; 9] =
        ["bf16", "fp16", "fp32", "fp8", "int8", "int4", "mxfp4", "q8_0", "q4_k"];

    /// The type with this name; case does not matter.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn parse(text: &str) -> Result<Self, UnknownDataType> {
        let wanted = text.trim().to_ascii_lowercase();
        Self::all().find(|(name, _)| *name == wanted).map(|(_, found)| found).ok_or_else(|| UnknownDataType {
            text: text.to_owned(),
            nearest: nearest(&wanted, Self::all().map(|(name, _)| name)).first().copied(),
        })
    }

    /// All names with their types.
    fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let own = [Self::BF16, Self::FP16, Self::FP32, Self::FP64, Self::FP8, Self::INT8, Self::INT4];
        let own = own.into_iter().chain(GGML.into_iter().map(|(_, found)| found)).map(|t| (t.name, t));
        own.chain(ALIASES)
    }

    /// The type of a GGUF tensor by its number.
    #[must_use]
    pub fn of_ggml(number: u32) -> Option<Self> {
        GGML.iter().find(|(known, _)| *known == number).map(|(_, found)| *found)
    }

    /// The type of a safetensors tensor by its name.
    #[must_use]
    pub fn of_safetensors(name: &str) -> Option<Self> {
        SAFETENSORS.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
    }

    /// A number of bits for each element, packed; `None` for 0 bits or more than 64.
    #[must_use]
    pub fn packed(bits: u64) -> Option<Self> {
        Some(match bits {
            1 => of("int1", 8, 1),
            2 => of("int2", 4, 1),
            3 => of("int3", 8, 3),
            4 => Self::INT4,
            5 => of("int5", 8, 5),
            6 => of("int6", 4, 3),
            8 => Self::INT8,
            16 => of("int16", 1, 2),
            32 => of("int32", 1, 4),
            _ => return None,
        })
    }

    /// Its name: `bf16`, `q4_k`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Elements of a block.
    #[must_use]
    pub const fn block_elements(self) -> u64 {
        self.elements
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> u64 {
        self.bytes
    }

    /// Bytes of so many elements, a last block that is not full counted whole; `None` beyond 64 bits.
    #[must_use]
    pub fn bytes_of(self, elements: u64) -> Option<u64> {
        elements.div_ceil(self.elements).checked_mul(self.bytes)
    }

    /// Whether an element takes less than two bytes, so that a model in it was quantised.
    #[must_use]
    pub const fn is_narrow(self) -> bool {
        self.bytes < 2 * self.elements
    }

    /// Whether each element is a floating-point number of its own, of 16 bits or more.
    #[must_use]
    pub fn is_wide_float(self) -> bool {
        [Self::BF16, Self::FP16, Self::FP32, Self::FP64].contains(&self)
    }

    /// Bytes of an element, as a text for formulas: `2`, `0.5`, `18/32`.
    #[must_use]
    pub fn ratio(self) -> String {
        match (self.bytes, self.elements) {
            (bytes, 1) => bytes.to_string(),
            (1, 2) => "0.5".to_owned(),
            (bytes, elements) => format!("{bytes}/{elements}"),
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_worlds_are_understood() {
        for (text, name) in [
            ("bf16", "bf16"),
            ("BFloat16", "bf16"),
            ("float16", "fp16"),
            ("half", "fp16"),
            ("fp8_e5m2", "fp8"),
            ("int4", "int4"),
            ("Q4_K", "q4_k"),
        ] {
            assert_eq!(DataType::parse(text).map(DataType::name), Ok(name), "{text}");
        }
        let refusal = DataType::parse("bf61").unwrap_err();
        assert_eq!(refusal.nearest, Some("bf16"));
        assert!(refusal.to_string().contains("did you mean bf16?"), "{refusal}");
        assert!(DataType::parse("").is_err());
    }

    #[test]
    fn bytes_count_whole_blocks() {
        assert_eq!(DataType::BF16.bytes_of(3), Some(6));
        assert_eq!(DataType::INT4.bytes_of(3), Some(2));
        assert_eq!(DataType::of_ggml(12).and_then(|q4_k| q4_k.bytes_of(257)), Some(288));
        assert_eq!(DataType::FP32.bytes_of(u64::MAX), None);
        assert_eq!(DataType::BF16.bytes_of(0), Some(0));
    }

    #[test]
    fn bits_for_each_element_as_llama_cpp_prints_them() {
        // Bits per weight: ggml-org/llama.cpp, tools/quantize.
        for (number, bits_times_10000) in
            [(2, 45_000), (12, 45_000), (13, 55_000), (14, 65_625), (23, 42_500)]
        {
            let found = DataType::of_ggml(number).unwrap();
            assert_eq!(found.block_bytes() * 80_000 / found.block_elements(), bits_times_10000, "{found}");
        }
    }
}
