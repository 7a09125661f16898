//! The header of a GGUF file: metadata, and types and shapes of tensors; never the tensors.
//!
//! Format: github.com/ggml-org/ggml, docs/gguf.md, versions 1 to 3, little-endian. Read as a stream; every length is held
//! against what is left of the file before anything is read, and nothing is kept but a few numbers and sums.

mod shape;
mod value;

use std::collections::BTreeMap;
use std::io::Read;

use tesela_model::network::{DataType, Shape, WeightGroup};

use self::value::{Stream, Value};
use super::tally::Tally;
use crate::diagnostic::{Diagnostic, Diagnostics, shown};

/// More than any header has; vocabularies make up some 20 MiB.
const MOST_HEADER: u64 = 256 << 20;
/// Metadata that is kept, and the longest key of it in bytes.
const MOST_KEPT: usize = 2_000;
const LONGEST_KEY: usize = 256;
/// The least bytes of a tensor's entry: name's length, a letter, number of dimensions, one of them, type, offset.
const LEAST_TENSOR: u64 = 8 + 1 + 4 + 8 + 4 + 8;
/// The least bytes of a piece of metadata: key's length, a letter, type, value.
const LEAST_VALUE: u64 = 8 + 1 + 4 + 1;

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufHeader {
    pub(super) file: String,
    architecture: Option<String>,
    tally: Tally,
    bytes: u64,
    shape: Option<Shape>,
    /// This part and how many there are.
    split: Option<(u64, u64)>,
    pub(super) notes: Vec<String>,
}

impl GgufHeader {
    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// `general.architecture`.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    /// Bytes of all tensors, without padding.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of tensors.
    #[must_use]
    pub fn tensors(&self) -> u64 {
        self.tally.tensors
    }

    /// Tensors of one kind and type together.
    #[must_use]
    pub fn groups(&self) -> &[WeightGroup] {
        self.tally.groups()
    }

    /// What decides the memory of a request, where the metadata tells.
    #[must_use]
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Which part of how many this file is, from 1.
    #[must_use]
    pub fn split(&self) -> Option<(u64, u64)> {
        self.split
    }
}

/// Reads a header. `length` is that of the whole file, where it is known; of the file only the header is read.
///
/// # Errors
/// Rules `model-truncated`, `model-length` (counts, lengths or offsets beyond the file), `model-header` (no GGUF, an
/// unknown version or type), `model-shape`.
pub fn read_gguf(file: &str, reader: impl Read, length: Option<u64>) -> Result<GgufHeader, Diagnostics> {
    let mut stream = Stream::new(file, reader, length, MOST_HEADER);
    let (tensors, values) = counts(&mut stream)?;
    let mut kept = BTreeMap::new();
    for _ in 0..values {
        let (key, value) = stream.pair()?;
        // Words of the vocabulary are skipped; how many there are is kept.
        let wanted = !key.starts_with("tokenizer.") || key == "tokenizer.ggml.tokens";
        let wanted = wanted && key.len() <= LONGEST_KEY;
        if let Some(value) = value.filter(|_| wanted) {
            kept.insert(key, value);
        }
        if kept.len() > MOST_KEPT {
            return Err(stream.refuse("model-header", "it has more than 2,000 pieces of metadata"));
        }
    }
    let alignment = match kept.get("general.alignment") {
        None => 32,
        Some(Value::Number(n)) if n.is_power_of_two() && *n <= 1 << 20 => *n,
        Some(_) => return Err(stream.refuse("model-header", "`general.alignment` is no power of two")),
    };
    let mut tally = Tally::default();
    let mut end = 0;
    for _ in 0..tensors {
        end = tensor(&mut stream, &mut tally)?.max(end);
    }
    let bytes = tally.bytes().filter(|bytes| *bytes <= end);
    let Some(bytes) = bytes else {
        return Err(
            stream.refuse("model-length", "its tensors overlap, or have more bytes than 64 bits count")
        );
    };
    if let Some(length) = length {
        let start = stream.at().div_ceil(alignment) * alignment;
        if length.saturating_sub(start) < end {
            let message =
                format!("its tensors end {end} bytes behind byte {start}, but the file has {length} bytes");
            return Err(stream.refuse("model-length", &message));
        }
    }
    let number = |key: &str| kept.get(key).and_then(Value::number);
    let split = number("split.count").filter(|n| *n > 1).map(|n| (number("split.no").unwrap_or(0) + 1, n));
    let architecture = kept.get("general.architecture").and_then(Value::text).map(str::to_owned);
    let mut notes = Vec::new();
    let shape = shape::of(architecture.as_deref().unwrap_or_default(), &kept, &mut notes);
    Ok(GgufHeader { file: file.to_owned(), architecture, tally, bytes, shape, split, notes })
}

/// Magic, version, and how many tensors and pieces of metadata follow; each held against what is left.
fn counts<R: Read>(stream: &mut Stream<'_, R>) -> Result<(u64, u64), Diagnostics> {
    let magic: [u8; 4] = stream.bytes()?;
    if &magic != b"GGUF" {
        return Err(stream.refuse("model-header", "it does not begin with `GGUF`"));
    }
    let version = u32::from_le_bytes(stream.bytes()?);
    if !(1..=3).contains(&version) {
        let message = if version.swap_bytes() <= 3 {
            "it is big-endian; models for GPUs are little-endian".to_owned()
        } else {
            format!("its version is {version}; versions 1 to 3 are known")
        };
        return Err(stream.refuse("model-header", &message));
    }
    stream.short_counts(version == 1);
    let tensors = stream.count()?;
    let values = stream.count()?;
    stream.room_for(tensors, LEAST_TENSOR, "tensors")?;
    stream.room_for(values, LEAST_VALUE, "pieces of metadata")?;
    Ok((tensors, values))
}

/// Reads a tensor's entry and says where its data ends.
fn tensor<R: Read>(stream: &mut Stream<'_, R>, tally: &mut Tally) -> Result<u64, Diagnostics> {
    let name = stream.name()?;
    let told = |stream: &Stream<'_, R>, why: String| {
        stream.refuse("model-shape", &format!("tensor `{}`: {why}", shown(&name)))
    };
    let rank = u32::from_le_bytes(stream.bytes()?);
    if rank > 8 {
        return Err(told(stream, format!("has {rank} dimensions; ggml knows 4")));
    }
    let mut elements = Some(1u64);
    let mut row = 1;
    for dimension in 0..rank {
        let size = stream.count()?;
        if dimension == 0 {
            row = size;
        }
        elements = elements.and_then(|n| n.checked_mul(size));
    }
    let number = u32::from_le_bytes(stream.bytes()?);
    let offset = u64::from_le_bytes(stream.bytes()?);
    let Some(kind) = DataType::of_ggml(number) else {
        return Err(told(stream, format!("is of type {number}, which this program does not know")));
    };
    if row % kind.block_elements() != 0 {
        return Err(told(
            stream,
            format!("has rows of {row}, which {kind} cannot cut into blocks of {}", kind.block_elements()),
        ));
    }
    let bytes = elements.and_then(|n| kind.bytes_of(n));
    let end = bytes.and_then(|bytes| offset.checked_add(bytes));
    let (Some(elements), Some(bytes), Some(end)) = (elements, bytes, end) else {
        return Err(told(stream, "has more bytes than 64 bits count".to_owned()));
    };
    let rank = if rank > 1 { 2 } else { 1 };
    match tally.add(&name, rank, Some(kind), elements, bytes) {
        Some(()) => Ok(end),
        None => Err(told(stream, "its bytes and those before make more than 64 bits count".to_owned())),
    }
}

/// A refusal about a GGUF file.
fn refusal(file: &str, rule: &'static str, message: &str) -> Diagnostics {
    let fix = if rule == "model-shape" || rule == "model-header" {
        "estimate from a number of parameters instead: --parameters 7b --data-type q4_k"
    } else {
        "the file is cut off, damaged or no GGUF file: fetch it again, whole"
    };
    Diagnostic::error(file, rule, message).fix(fix).into()
}
