//! `tesela estimate`: the GPU memory of a model, and the smallest profile of each product that holds it.

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tesela_formats::model_files::{
    Choices, JsonKind, ModelFileKind, ModelFiles, json_kind, kind_of, network, read_config, read_gguf,
    read_index, read_safetensors,
};
use tesela_model::network::{Attention, DataType, Experts, Network, WeightGroup};
use tesela_model::origin::{Known, Origin};
use tesela_model::product::{Product, ProductId, ProductTable, ProfileName};
use tesela_plan::estimate::{Estimate as Found, Fit, Part, Question, estimate, fits};
use tesela_plan::input::Settings;

use super::layouts::find;
use crate::cli::Estimate;
use crate::failure::{Failure, Outcome};
use crate::io::{Input, files_in, length_of, open, read_all, unreadable};
use crate::printer::Printer;
use crate::table;

/// Bytes looked at to tell what a file is.
const HEAD: u64 = 4 << 10;
/// What to do when a folder or a file holds no model.
const NAME_FILES: &str = "name a config.json, a .safetensors or its index, or a .gguf; or give --parameters 7b \
                          --data-type bf16";

/// The result. Keys are a contract (docs/estimate.md).
#[derive(Serialize)]
struct Answer<'a> {
    model: Model<'a>,
    context: Option<Known<u64>>,
    concurrency: u64,
    tensor_parallel: u64,
    parts: Parts<'a>,
    /// Of the parts that are known.
    total_bytes: Option<u64>,
    complete: bool,
    /// What a Demand calls `gpuMemory`, in MiB.
    gpu_memory_mib: Option<u64>,
    fits: Vec<Place<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Model<'a> {
    files: &'a [String],
    architecture: Option<&'a str>,
    parameters: Option<u64>,
    attention: Option<Attention>,
    experts: Option<Experts>,
    max_context: Option<u64>,
    data_type: Option<Known<DataType>>,
}

#[derive(Serialize)]
struct Parts<'a> {
    weights: Weights<'a>,
    kv_cache: Cache<'a>,
    activations: Piece<'a>,
    context_overhead: Piece<'a>,
}

#[derive(Serialize)]
struct Piece<'a> {
    bytes: Option<u64>,
    origin: Origin,
    formula: &'a str,
    source: &'a str,
}

#[derive(Serialize)]
struct Weights<'a> {
    #[serde(flatten)]
    part: Piece<'a>,
    /// Of the whole model, before it is split.
    groups: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct Group<'a> {
    part: &'a str,
    data_type: Option<DataType>,
    elements: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Cache<'a> {
    #[serde(flatten)]
    part: Piece<'a>,
    data_type: Option<Known<DataType>>,
    bytes_per_token: Option<u64>,
    bytes_per_sequence: Option<u64>,
}

#[derive(Serialize)]
struct Place<'a> {
    product: &'a ProductId,
    profile: Option<&'a ProfileName>,
    gpus: u64,
    memory_mib: Option<u64>,
    memory_origin: Option<Origin>,
    needed_bytes: Option<u64>,
    concurrency: Option<u64>,
    reason: &'a str,
}

/// Reads the model, estimates, and prints.
///
/// # Errors
/// Files that are no model or contradict each other, a type or product that does not exist, output not writable.
pub(crate) fn run(words: &Estimate, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let data_type = kind("--data-type", words.data_type.as_deref())?;
    let kv_data_type = kind("--kv-data-type", words.kv_data_type.as_deref())?;
    let wanted = wanted(words, products)?;
    let files = read(&words.files)?;
    let names = names_of(&files);
    let choices = Choices { data_type, parameters: words.parameters.map(|p| p.0) };
    let network = network(&files, &choices)?;
    let mut notes = network.notes.clone();
    if words.files.is_empty() {
        notes.retain(|note| !note.starts_with("there is no config.json"));
        let alone = "a number of parameters says nothing of layers and heads: the KV cache and the activations are not \
                     known and come on top; a config.json tells them";
        notes.insert(0, alone.to_owned());
    }
    let question = Question {
        network: &network,
        context: words.context,
        concurrency: words.concurrency,
        tensor_parallel: words.tensor_parallel,
        kv_data_type,
        batch_tokens: words.batch_tokens,
        context_overhead: Settings::default().context_overhead,
    };
    let refuse = |error: tesela_plan::estimate::EstimateError| Failure::input(error.to_string());
    let found = estimate(&question).map_err(refuse)?;
    let places = fits(&question, &wanted).map_err(refuse)?;
    if let Some(Known { value, origin: Origin::Assumed }) = found.context {
        notes
            .push(format!("it names no longest context: {value} tokens are taken; --context says otherwise"));
    }
    let answer = answer(&names, &network, &found, &places, &notes);
    printer.result(&answer, |page| table::estimate::put(page, &names, &network, &found, &places, &notes))?;
    Ok(Outcome::Done)
}

fn kind(flag: &str, text: Option<&str>) -> Result<Option<DataType>, Failure> {
    let parse = |text| DataType::parse(text).map_err(|error| Failure::input(format!("{flag}: {error}")));
    text.map(parse).transpose()
}

/// The products asked for, in their order; all where none is named.
fn wanted(words: &Estimate, products: &ProductTable) -> Result<Vec<Product>, Failure> {
    if words.only.is_empty() {
        return Ok(products.products().to_vec());
    }
    words.only.iter().map(|text| find(products, text).cloned()).collect()
}

/// Reads each file, and the model's files of each folder.
fn read(paths: &[PathBuf]) -> Result<ModelFiles, Failure> {
    let mut files = ModelFiles::default();
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].contains(path) {
            return Err(Failure::input(format!("{}: is named twice", path.display())));
        }
        match files_in(path)? {
            None => read_one(path, &mut files)?,
            Some(found) => read_folder(path, &found, &mut files)?,
        }
    }
    Ok(files)
}

/// The files of a folder that make up a model. Repositories often hold weights in several forms; safetensors go first.
fn read_folder(folder: &Path, found: &[PathBuf], files: &mut ModelFiles) -> Result<(), Failure> {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = |end: &str| found.iter().filter(move |path| name(path).ends_with(end)).collect::<Vec<_>>();
    let before = count(files);
    if let Some(config) = found.iter().find(|path| name(path) == "config.json") {
        read_one(config, files)?;
    }
    let indexes = ending(".safetensors.index.json");
    let shards = ending(".safetensors");
    let ggufs = ending(".gguf");
    if let Some(index) = indexes.first() {
        read_one(index, files)?;
        let named = files.indexes.last().map(|index| index.shards.clone()).unwrap_or_default();
        for shard in shards.iter().filter(|path| named.contains(&name(path))) {
            read_one(shard, files)?;
        }
    } else if let Some(whole) = shards.iter().find(|path| name(path) == "model.safetensors") {
        read_one(whole, files)?;
    } else if !shards.is_empty() {
        // Adapters are no model, and consolidated files hold the same weights again.
        let own = shards
            .iter()
            .filter(|path| !name(path).starts_with("adapter") && !name(path).starts_with("consolidated"));
        own.into_iter().try_for_each(|path| read_one(path, files))?;
    } else if !ggufs.is_empty() {
        files.configs.clear();
        ggufs.into_iter().try_for_each(|path| read_one(path, files))?;
    } else if let Some(index) = ending(".bin.index.json").first() {
        read_one(index, files)?;
    }
    if count(files) == before {
        let message = format!("{}: holds no config.json, no safetensors and no GGUF file", folder.display());
        return Err(Failure::input(message).hint(NAME_FILES));
    }
    Ok(())
}

fn count(files: &ModelFiles) -> usize {
    files.configs.len() + files.indexes.len() + files.headers.len() + files.ggufs.len()
}

fn read_one(path: &Path, files: &mut ModelFiles) -> Result<(), Failure> {
    let length = length_of(path);
    let Input { name, reader: mut bytes } = open(path)?;
    let mut head = Vec::new();
    bytes.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| unreadable(&name, &error))?;
    let kind = kind_of(&head);
    let whole = Box::new(Cursor::new(head).chain(bytes));
    match kind {
        Some(ModelFileKind::Safetensors) => files.headers.push(read_safetensors(&name, whole, length)?),
        Some(ModelFileKind::Gguf) => files.ggufs.push(read_gguf(&name, whole, length)?),
        Some(ModelFileKind::Json) => {
            let text = read_all(Input { name: name.clone(), reader: whole })?;
            match json_kind(&text) {
                JsonKind::Config => files.configs.push(read_config(&name, &text)?),
                JsonKind::Index => files.indexes.push(read_index(&name, &text)?),
            }
        }
        // A cut-off header is told as what its name says it is.
        None if name.ends_with(".safetensors") => files.headers.push(read_safetensors(&name, whole, length)?),
        None if name.ends_with(".gguf") => files.ggufs.push(read_gguf(&name, whole, length)?),
        None if name.ends_with(".json") => {
            let text = read_all(Input { name: name.clone(), reader: whole })?;
            files.configs.push(read_config(&name, &text)?);
        }
        None => {
            let message = format!("{name}: is neither JSON nor a safetensors or GGUF file");
            return Err(Failure::input(message).hint(NAME_FILES));
        }
    }
    Ok(())
}

fn names_of(files: &ModelFiles) -> Vec<String> {
    let configs = files.configs.iter().map(|config| config.file().to_owned());
    let indexes = files.indexes.iter().map(|index| index.file.clone());
    let headers = files.headers.iter().map(|header| header.file().to_owned());
    let ggufs = files.ggufs.iter().map(|gguf| gguf.file().to_owned());
    configs.chain(indexes).chain(headers).chain(ggufs).collect()
}

fn answer<'a>(
    names: &'a [String],
    network: &'a Network,
    found: &'a Found,
    places: &'a [Fit],
    notes: &'a [String],
) -> Answer<'a> {
    let shape = network.shape.as_ref();
    let groups = network.weights.iter().flat_map(|weights| &weights.groups);
    let group = |g: &'a WeightGroup| Group {
        part: &g.part,
        data_type: g.data_type,
        elements: g.elements,
        bytes: g.bytes,
    };
    Answer {
        model: Model {
            files: names,
            architecture: network.architecture.as_deref(),
            parameters: network.parameters,
            attention: shape.map(|s| s.attention),
            experts: shape.and_then(|s| s.experts),
            max_context: shape.and_then(|s| s.max_context),
            data_type: shape.map(|s| Known { value: s.compute, origin: s.compute_origin }),
        },
        context: found.context,
        concurrency: found.concurrency,
        tensor_parallel: found.tensor_parallel,
        parts: Parts {
            weights: Weights { part: piece(&found.weights), groups: groups.map(group).collect() },
            kv_cache: Cache {
                part: piece(&found.kv_cache),
                data_type: found.kv_data_type,
                bytes_per_token: found.kv_bytes_per_token,
                bytes_per_sequence: found.kv_bytes_per_sequence,
            },
            activations: piece(&found.activations),
            context_overhead: piece(&found.context_overhead),
        },
        total_bytes: found.known_bytes(),
        complete: found.is_complete(),
        gpu_memory_mib: found.gpu_memory().map(|m| m.0),
        fits: places.iter().map(place).collect(),
        notes,
    }
}

fn piece(part: &Part) -> Piece<'_> {
    Piece { bytes: part.bytes, origin: part.origin, formula: &part.formula, source: &part.source }
}

fn place(fit: &Fit) -> Place<'_> {
    Place {
        product: &fit.product,
        profile: fit.profile.as_ref(),
        gpus: fit.gpus,
        memory_mib: fit.memory.map(|m| m.value.0),
        memory_origin: fit.memory.map(|m| m.origin),
        needed_bytes: fit.needed,
        concurrency: fit.concurrency,
        reason: &fit.reason,
    }
}
