//! Files that are cut off, lie about lengths, or are something else: refused, and nothing allocated for what they
//! announce.

use std::io::{Cursor, Read};

use proptest::prelude::*;
use tesela_formats::model_files::{
    Choices, ModelFiles, network, read_config, read_gguf, read_index, read_safetensors,
};

use crate::build::{LLAMA_2_7B, gguf, safetensors};

/// A safetensors file with this header.
fn with_header(json: &str) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.bytes());
    bytes
}

fn refused_header(bytes: &[u8], length: Option<u64>, mentions: &[&str]) {
    let told = read_safetensors("m.safetensors", bytes, length).unwrap_err().to_string();
    for mention in mentions {
        assert!(told.contains(mention), "{mention:?} is not said: {told}");
    }
}

#[test]
fn safetensors_headers_that_lie() {
    refused_header(b"", Some(0), &["ends inside of the header's length", "0 bytes"]);
    refused_header(b"\x08\0\0", Some(3), &["model-truncated"]);
    // A header beyond the file, and one beyond what the format allows.
    refused_header(&1_000u64.to_le_bytes(), Some(100), &["1000 bytes, but the file has 100"]);
    refused_header(
        &u64::MAX.to_le_bytes(),
        Some(1 << 40),
        &["18446744073709551615", "format allows 100000000"],
    );
    refused_header(&[0; 8], Some(8), &["empty header"]);
    // Cut off, though the length fits.
    let cut = [&50u64.to_le_bytes()[..], b"{\"a\":{\"dtype\":"].concat();
    refused_header(&cut, None, &["model-truncated", "cut off at byte"]);
    let tensor = |fields: &str| with_header(&format!("{{\"a\":{{{fields}}}}}"));
    let whole = tensor(r#""dtype":"F32","shape":[2,2],"data_offsets":[0,16]"#);
    assert!(read_safetensors("m", &whole[..], Some(whole.len() as u64 + 16)).is_ok());
    refused_header(&whole, Some(whole.len() as u64 + 15), &["16 bytes, but 15 bytes follow"]);
    refused_header(&whole, Some(whole.len() as u64 + 17), &["16 bytes, but 17 bytes follow"]);
    let short = tensor(r#""dtype":"F32","shape":[2,2],"data_offsets":[0,15]"#);
    refused_header(&short, None, &["`a`", "4 elements of F32 take 16 bytes, not 15"]);
    let backwards = tensor(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#);
    refused_header(&backwards, None, &["before it begins"]);
    let huge = tensor(r#""dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]"#);
    refused_header(&huge, None, &["more elements than 64 bits"]);
    let negative = tensor(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#);
    refused_header(&negative, None, &["-1"]);
    let deep = tensor(&format!(r#""dtype":"F32","shape":[{}1],"data_offsets":[0,4]"#, "1,".repeat(40)));
    refused_header(&deep, None, &["more than 32 dimensions"]);
    let gap = with_header(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}"#);
    refused_header(&gap, None, &["1 bytes and end at byte 6"]);
    refused_header(&with_header("{}"), None, &["names no tensor"]);
    refused_header(&with_header(r#"{"__metadata__":{"format":"pt"}}"#), Some(40), &["names no tensor"]);
    refused_header(&with_header("[1]"), None, &["an object of tensors"]);
    refused_header(&with_header("{\"a\": 5}"), None, &["byte"]);
    refused_header(&with_header("not json"), None, &["no JSON at byte"]);
}

#[test]
fn a_type_of_the_future_still_has_bytes() {
    let bytes = with_header(r#"{"a":{"dtype":"F3_E1M1","shape":[8],"data_offsets":[0,3]}}"#);
    let read = read_safetensors("m", &bytes[..], Some(bytes.len() as u64 + 3)).unwrap();
    assert_eq!((read.bytes(), read.groups()[0].data_type), (3, None));
}

/// Fails the test when more is read than a header may take.
struct Counted<R>(R, u64);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1 -= read as u64;
        Ok(read)
    }
}

#[test]
fn of_a_large_file_only_the_header_is_read() {
    // The data are zeros without end; whoever reads them all never comes back.
    let (bytes, length) = safetensors(&LLAMA_2_7B.tensors("F16"));
    let most = bytes.len() as u64 + (1 << 17);
    let file = Counted(Cursor::new(bytes).chain(std::io::repeat(0)), most);
    assert_eq!(read_safetensors("m", file, Some(length)).unwrap().bytes(), 13_476_831_232);
    let (bytes, length) = gguf(&LLAMA_2_7B.gguf_metadata(32), &LLAMA_2_7B.gguf_tensors(|_, _| 1));
    let most = bytes.len() as u64 + (1 << 17);
    let file = Counted(Cursor::new(bytes).chain(std::io::repeat(0)), most);
    assert!(read_gguf("m", file, Some(length)).is_ok());
}

#[test]
fn many_tensors_take_no_memory_of_their_own() {
    // Made while it is read: the header is never whole anywhere.
    const COUNT: u64 = 50_000;
    // Numbers are padded with blanks, so that all entries have one length.
    let entry = |i: u64| {
        let comma = if i + 1 < COUNT { "," } else { "" };
        format!(
            "\"t{i:07}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{i:>7},{:>7}]}}{comma}",
            i + 1
        )
    };
    let length = 2 + (0..COUNT).map(|i| entry(i).len() as u64).sum::<u64>();
    let mut parts = std::iter::once("{".to_owned()).chain((0..COUNT).map(entry)).chain(["}".to_owned()]);
    let mut rest: Vec<u8> = length.to_le_bytes().to_vec();
    let reader = FromFn(move |buffer: &mut [u8]| {
        while rest.is_empty() {
            match parts.next() {
                Some(part) => rest = part.into_bytes(),
                None => return 0,
            }
        }
        let some = rest.len().min(buffer.len());
        buffer[..some].copy_from_slice(&rest[..some]);
        rest.drain(..some);
        some
    });
    let read = read_safetensors("m", reader, None).unwrap();
    assert_eq!((read.tensors(), read.bytes(), read.groups().len()), (COUNT, COUNT, 1));
}

struct FromFn<F>(F);

impl<F: FnMut(&mut [u8]) -> usize> Read for FromFn<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok((self.0)(buffer))
    }
}

fn refused_gguf(bytes: &[u8], length: Option<u64>, mentions: &[&str]) {
    let told = read_gguf("m.gguf", bytes, length).unwrap_err().to_string();
    for mention in mentions {
        assert!(told.contains(mention), "{mention:?} is not said: {told}");
    }
}

/// Magic, version, and two counts.
fn start(version: u32, tensors: u64, values: u64) -> Vec<u8> {
    [&b"GGUF"[..], &version.to_le_bytes(), &tensors.to_le_bytes(), &values.to_le_bytes()].concat()
}

#[test]
fn gguf_headers_that_lie() {
    refused_gguf(b"", Some(0), &["model-length", "0 bytes"]);
    refused_gguf(b"PK\x03\x04....................", None, &["does not begin with `GGUF`"]);
    refused_gguf(&start(4, 0, 0), None, &["version is 4", "1 to 3"]);
    refused_gguf(&start(3u32.swap_bytes(), 0, 0), None, &["big-endian"]);
    // A billion tensors in a small file, and in one that could hold them: more than a header may be.
    refused_gguf(&start(3, 1_000_000_000, 0), Some(24), &["1000000000 tensors, but the file has 24"]);
    refused_gguf(&start(3, 1_000_000_000, 0), Some(1 << 40), &["1000000000 tensors, but at most 268435456"]);
    refused_gguf(&start(3, 1_000_000_000, 0), None, &["1000000000 tensors"]);
    refused_gguf(&start(3, u64::MAX, u64::MAX), None, &["18446744073709551615"]);
    refused_gguf(&start(3, 0, 1 << 60), None, &["pieces of metadata"]);
    let key = |kind: u32| [&start(3, 0, 1)[..], &1u64.to_le_bytes(), b"k", &kind.to_le_bytes()].concat();
    // A text, a list and a list of lists that are longer than the file.
    refused_gguf(&[&key(8)[..], &(1u64 << 50).to_le_bytes()].concat(), Some(99), &["model-length"]);
    let list = |kind: u32, count: u64| [&key(9)[..], &kind.to_le_bytes(), &count.to_le_bytes()].concat();
    refused_gguf(&list(4, 1 << 40), None, &["1099511627776 elements"]);
    refused_gguf(&list(4, u64::MAX), None, &["elements of a list"]);
    refused_gguf(&list(99, 1), None, &["a list is of type 99"]);
    refused_gguf(&key(99), Some(64), &["a value is of type 99"]);
    let mut deep = list(9, 1);
    for _ in 0..9 {
        deep.extend([&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat());
    }
    refused_gguf(&deep, None, &["more than 4 levels"]);
    refused_gguf(&[&start(3, 0, 1)[..], &0u64.to_le_bytes(), &[0; 20]].concat(), None, &["a name is empty"]);
}

#[test]
fn gguf_tensors_that_lie() {
    let tensor = |rank: u32, sizes: &[u64], kind: u32, offset: u64| {
        let sizes = sizes.iter().flat_map(|size| size.to_le_bytes()).collect::<Vec<_>>();
        [
            &start(3, 1, 0)[..],
            &1u64.to_le_bytes(),
            b"t",
            &rank.to_le_bytes(),
            &sizes,
            &kind.to_le_bytes(),
            &offset.to_le_bytes(),
        ]
        .concat()
    };
    let whole = tensor(2, &[32, 2], 2, 0);
    let start = (whole.len() as u64).next_multiple_of(32);
    assert_eq!(read_gguf("m", &whole[..], Some(start + 36)).unwrap().bytes(), 36);
    refused_gguf(&whole, Some(start + 35), &["end 36 bytes behind", "model-length"]);
    refused_gguf(&tensor(1, &[33], 2, 0), None, &["rows of 33", "q4_0", "blocks of 32"]);
    refused_gguf(
        &tensor(1, &[32], 4, 0),
        None,
        &["type 4, which this program does not know", "--parameters"],
    );
    refused_gguf(&tensor(9, &[1; 9], 0, 0), None, &["9 dimensions"]);
    refused_gguf(&tensor(2, &[1 << 40, 1 << 40], 0, 0), None, &["more bytes than 64 bits"]);
    refused_gguf(&tensor(1, &[4], 0, u64::MAX), None, &["more bytes than 64 bits"]);
    refused_gguf(&whole[..whole.len() - 3], None, &["model-truncated"]);
}

#[test]
fn configs_that_are_none() {
    let refused = |text: &str, mentions: &[&str]| {
        let told = read_config("config.json", text.as_bytes()).unwrap_err().to_string();
        for mention in mentions {
            assert!(told.contains(mention), "{mention:?} is not said: {told}");
        }
    };
    refused("", &["there is nothing in it"]);
    refused("[1]", &["config.json:1:", "no JSON object of a model"]);
    refused("{\"hidden_size\": 4096", &["config.json:1:", "cut off"]);
    refused("{\"a\": 1} x", &["config.json:1:10"]);
    refused("{\n \"hidden_size\": -5\n}", &["config.json:2:2", "`hidden_size` is -5"]);
    refused("{\n \"hidden_size\": 0\n}", &["`hidden_size` is 0", "from 1"]);
    refused("{\n \"num_hidden_layers\": 1000000000\n}", &["`num_hidden_layers` is 1000000000", "2^24"]);
    for kv in [3, 64] {
        let text = format!("{{\n \"num_attention_heads\": 32,\n \"num_key_value_heads\": {kv}\n}}");
        refused(&text, &["config.json:3:2", &format!("`num_key_value_heads` is {kv}"), "divides"]);
    }
    refused("{\"vocab_size\": [1]}", &["`vocab_size` is a list"]);
    refused("{\"hidden_size\": 1e300}", &["hidden_size"]);
    refused(&"[".repeat(100_000), &["config.json:1:"]);
    refused(&format!("{{\"quantization_config\": {}", "{\"a\":".repeat(100_000)), &["config.json:1:"]);
}

#[test]
fn what_a_config_lacks_is_named() {
    let of = |text: &str, parameters| {
        let configs = vec![read_config("config.json", text.as_bytes()).unwrap()];
        network(&ModelFiles { configs, ..ModelFiles::default() }, &Choices { data_type: None, parameters })
    };
    let text = r#"{"architectures": ["NewForCausalLM"], "model_type": "new", "hidden_size": 4096}"#;
    let told = of(text, None).unwrap_err().to_string();
    for mention in [
        "NewForCausalLM",
        "num_hidden_layers, num_attention_heads, vocab_size, intermediate_size",
        "--parameters 7b",
    ] {
        assert!(told.contains(mention), "{mention}: {told}");
    }
    let found = of(text, Some(7_000_000_000)).unwrap();
    assert_eq!(found.parameters, Some(7_000_000_000));
    assert!(
        found.shape.is_none() && found.notes.iter().any(|n| n.contains("num_hidden_layers")),
        "{:?}",
        found.notes
    );
    // Sizes at their limits make more bytes than can be counted, and are told so.
    let most = 1u64 << 24;
    let text = format!(
        r#"{{"model_type": "mixtral", "hidden_size": {most}, "num_hidden_layers": {most}, "vocab_size": {most},
            "num_attention_heads": {most}, "head_dim": {most}, "intermediate_size": {most},
            "num_local_experts": {most}, "torch_dtype": "bfloat16"}}"#
    );
    let told = of(&text, None).unwrap_err().to_string();
    assert!(told.contains("64 bits"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No byte that is changed, cut off or added makes a reader fail in another way than by a refusal.
    #[test]
    fn damaged_files_are_refused_or_read(
        which in 0usize..4, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
        known in any::<bool>(),
    ) {
        let small = crate::build::Llama { layers: 1, vocabulary: 5, ..LLAMA_2_7B };
        let (mut bytes, length) = match which {
            0 => safetensors(&small.tensors("F16")),
            1 => gguf(&small.gguf_metadata(32), &small.gguf_tensors(|_, _| 2)),
            _ => (br#"{"model_type": "qwen2", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 3,
                "num_attention_heads": 2, "vocab_size": 9, "metadata": {"total_size": 5}, "weight_map": {"a": "b"},
                "quantization_config": {"quant_method": "gptq", "bits": 4}}"#.to_vec(), 0),
        };
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len()) + bytes.len() / 2);
        let length = known.then_some(length);
        match which {
            0 => drop(read_safetensors("f", &bytes[..], length)),
            1 => drop(read_gguf("f", &bytes[..], length)),
            2 => drop(read_index("f", &bytes)),
            _ => {
                if let Ok(config) = read_config("f", &bytes) {
                    let files = ModelFiles { configs: vec![config], ..ModelFiles::default() };
                    drop(network(&files, &Choices::default()));
                }
            }
        }
    }
}
