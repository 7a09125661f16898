//! What all files of a model say together.

use tesela_model::network::{CacheKind, DataType, Network, WeightGroup, Weights};
use tesela_model::origin::Origin;

use super::tally::KEYS_AND_VALUES;
use super::{Config, GgufHeader, Index, SafetensorsHeader};
use crate::diagnostic::{Diagnostic, Diagnostics};

/// The files of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFiles {
    /// At most one.
    pub configs: Vec<Config>,
    /// At most one.
    pub indexes: Vec<Index>,
    /// Shards, in any order.
    pub headers: Vec<SafetensorsHeader>,
    /// Parts, in any order.
    pub ggufs: Vec<GgufHeader>,
}

/// What a person says beside the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The type that weights are loaded in.
    pub data_type: Option<DataType>,
    /// How many numbers the model has.
    pub parameters: Option<u64>,
}

/// The network that the files and the choices describe. Weights come from headers, else from a given number of
/// parameters, else from the total of an index, else from the sizes in a config.
///
/// # Errors
/// Rules `model-files` (files that contradict each other, or a part that is missing), `model-unknown` (fields without
/// which nothing can be computed), `model-data-type`, `model-size`.
pub fn network(files: &ModelFiles, choices: &Choices) -> Result<Network, Diagnostics> {
    one_model(files)?;
    if let Some(first) = files.ggufs.first() {
        return of_gguf(&files.ggufs, first, choices);
    }
    let config = files.configs.first();
    let headers_are_whole = has_all_shards(files);
    let index_total = files.indexes.first().and_then(|index| index.total);
    let weights_elsewhere = headers_are_whole || index_total.is_some() || choices.parameters.is_some();
    if let Some(config) = config.filter(|_| !weights_elsewhere) {
        config.require()?;
    }
    // The type of --parameters is that of those parameters; a header's tensors are converted below.
    let for_config = if headers_are_whole || choices.parameters.is_some() {
        wide(choices.data_type)
    } else {
        choices.data_type
    };
    let mut network = match config {
        Some(config) => config.network(for_config)?,
        None => nothing_known(),
    };
    if config.is_some_and(|config| !config.missing().is_empty()) {
        let missing = config.map(Config::missing).unwrap_or_default().join(", ");
        network.notes.push(format!("the config does not say {missing}: what a request adds is not known"));
    }
    if config.is_none() {
        network.notes.push(
            "there is no config.json: what a request adds (KV cache, activations) is not known".to_owned(),
        );
    }
    if headers_are_whole {
        if choices.parameters.is_some() {
            return Err(contradiction(
                &files.headers[0].file,
                "says its weights exactly, so --parameters is not needed",
            ));
        }
        of_headers(&mut network, &files.headers, choices.data_type)?;
        compare_with_index(&mut network, index_total);
    } else if let Some(parameters) = choices.parameters {
        of_parameters(&mut network, parameters, choices.data_type)?;
    } else if let Some(index) = files.indexes.first() {
        of_index(&mut network, index, files, choices.data_type)?;
    } else if config.is_none() {
        return Err(no_weights(files));
    }
    split_keys_and_values(&mut network);
    Ok(network)
}

fn wide(data_type: Option<DataType>) -> Option<DataType> {
    data_type.filter(|found| found.is_wide_float())
}

fn nothing_known() -> Network {
    Network { architecture: None, parameters: None, weights: None, shape: None, notes: Vec::new() }
}

/// That the files can belong to one model.
fn one_model(files: &ModelFiles) -> Result<(), Diagnostics> {
    if let [first, second, ..] = &files.configs[..] {
        return Err(contradiction(
            second.file(),
            &format!("is a second config.json beside {}", first.file()),
        ));
    }
    if let [first, second, ..] = &files.indexes[..] {
        return Err(contradiction(&second.file, &format!("is a second index beside {}", first.file)));
    }
    if let (Some(gguf), Some(header)) = (files.ggufs.first(), files.headers.first()) {
        return Err(contradiction(&gguf.file, &format!("and {} hold weights in two formats", header.file)));
    }
    Ok(())
}

fn contradiction(file: &str, message: &str) -> Diagnostics {
    Diagnostic::error(file, "model-files", message).fix("name the files of one model in one format").into()
}

fn no_weights(files: &ModelFiles) -> Diagnostics {
    let file = files.headers.first().map_or("", |header| header.file.as_str());
    Diagnostic::error(file, "model-files", "says neither weights nor sizes")
        .fix("name its config.json too, or --parameters")
        .into()
}

/// Whether the headers are all there are.
fn has_all_shards(files: &ModelFiles) -> bool {
    let Some(index) = files.indexes.first() else { return !files.headers.is_empty() };
    let named = |shard: &String| files.headers.iter().any(|header| last_part(&header.file) == shard);
    !files.headers.is_empty() && index.shards.iter().all(named)
}

fn last_part(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn of_headers(
    network: &mut Network,
    headers: &[SafetensorsHeader],
    data_type: Option<DataType>,
) -> Result<(), Diagnostics> {
    let mut groups = Vec::new();
    for header in headers {
        add_groups(&mut groups, header.groups()).ok_or_else(|| too_large(&header.file))?;
    }
    let packed = groups.iter().any(|g| g.data_type.is_none_or(|t| !t.is_wide_float() && t != DataType::FP8));
    if !packed {
        network.parameters = groups.iter().try_fold(0u64, |sum, g| sum.checked_add(g.elements));
    }
    let mut origin = Origin::Measured;
    let mut formula = "sum of the bytes of all tensors in the headers".to_owned();
    if let Some(target) = data_type {
        if target.is_narrow() && packed {
            let message = format!("holds quantised weights; they cannot be {target} at the same time");
            return Err(Diagnostic::error(&headers[0].file, "model-data-type", message)
                .value(target.to_string())
                .fix("leave --data-type out, or name bf16 or fp16 for what is not quantised")
                .into());
        }
        if convert(&mut groups, target).ok_or_else(|| too_large(&headers[0].file))? {
            origin = Origin::Estimated;
            formula = format!(
                "elements of all floating-point tensors in the headers × {} bytes of {target}",
                target.ratio()
            );
        }
    }
    let source = match headers {
        [one] => one.file.clone(),
        many => format!("{} and {} more headers", many[0].file, many.len() - 1),
    };
    // What most of the numbers are kept in is what the network computes in.
    let widest =
        groups.iter().filter(|g| g.data_type.is_some_and(DataType::is_wide_float)).max_by_key(|g| g.bytes);
    if let (Some(shape), Some(kind)) = (&mut network.shape, widest.and_then(|g| g.data_type))
        && shape.compute_origin == Origin::Assumed
    {
        (shape.compute, shape.compute_origin) = (kind, Origin::Measured);
        if kind != DataType::FP32 {
            network.notes.retain(|note| !note.starts_with("fp32 is what"));
        }
    }
    network.weights = Some(Weights { groups, origin, formula, source });
    Ok(())
}

fn add_groups(sums: &mut Vec<WeightGroup>, more: &[WeightGroup]) -> Option<()> {
    for one in more {
        let same =
            |g: &&mut WeightGroup| g.part == one.part && g.data_type == one.data_type && g.ways == one.ways;
        match sums.iter_mut().find(same) {
            Some(group) => {
                group.elements = group.elements.checked_add(one.elements)?;
                group.bytes = group.bytes.checked_add(one.bytes)?;
            }
            None => sums.push(one.clone()),
        }
    }
    Some(())
}

/// Gives floating-point tensors another type; a narrow one only to matrices. Says whether any changed; `None` beyond
/// 64 bits.
fn convert(groups: &mut [WeightGroup], target: DataType) -> Option<bool> {
    let mut changed = false;
    for group in groups {
        let matrix = group.ways != 1 && group.part != "embedding" && group.part != "output";
        if !group.data_type.is_some_and(DataType::is_wide_float) || target.is_narrow() && !matrix {
            continue;
        }
        changed |= group.data_type != Some(target);
        group.bytes = target.bytes_of(group.elements)?;
        group.data_type = Some(target);
    }
    Some(changed)
}

fn too_large(file: &str) -> Diagnostics {
    Diagnostic::error(file, "model-size", "the files together make more bytes than 64 bits count")
        .fix("name the files of one model")
        .into()
}

fn compare_with_index(network: &mut Network, total: Option<u64>) {
    let sum = network.weights.as_ref().map(|w| w.groups.iter().map(|g| u128::from(g.bytes)).sum::<u128>());
    let measured = network.weights.as_ref().is_some_and(|w| w.origin == Origin::Measured);
    if let (Some(total), Some(sum), true) = (total, sum, measured)
        && sum != u128::from(total)
    {
        network.notes.push(format!("the index says {total} bytes, the headers {sum}; the headers are taken"));
    }
}

fn of_index(
    network: &mut Network,
    index: &Index,
    files: &ModelFiles,
    data_type: Option<DataType>,
) -> Result<(), Diagnostics> {
    let Some(bytes) = index.total else {
        if network.weights.is_some() {
            return Ok(());
        }
        return Err(Diagnostic::error(
            &index.file,
            "model-files",
            "does not say `metadata.total_size`, and not all of its shards are here",
        )
        .fix("name all shards, or its config.json")
        .into());
    };
    if data_type.is_some() {
        if network.weights.is_some() {
            // The config's count in the type asked for is better than a total in another type.
            return Ok(());
        }
        return Err(Diagnostic::error(
            &index.file,
            "model-data-type",
            "says bytes, but not of which types, so they cannot be converted",
        )
        .fix("name the shards or the config.json too, or leave --data-type out")
        .into());
    }
    let here = files.headers.len();
    if here > 0 {
        network.notes.push(format!(
            "{here} of its {} shards were named; the index's total is taken",
            index.shards.len()
        ));
    }
    let group = WeightGroup {
        part: "all tensors".to_owned(),
        data_type: None,
        elements: 0,
        bytes,
        ways: WeightGroup::ANY,
    };
    network.weights = Some(Weights {
        groups: vec![group],
        origin: Origin::Measured,
        formula: "metadata.total_size of the index".to_owned(),
        source: index.file.clone(),
    });
    Ok(())
}

fn of_parameters(
    network: &mut Network,
    parameters: u64,
    data_type: Option<DataType>,
) -> Result<(), Diagnostics> {
    let compute = network.shape.as_ref().map(|shape| shape.compute);
    let (kind, origin) = match (data_type, compute) {
        (Some(kind), _) => (kind, Origin::Given),
        (None, Some(kind)) => (kind, Origin::Estimated),
        (None, None) => (DataType::BF16, Origin::Assumed),
    };
    let bytes = kind.bytes_of(parameters).ok_or_else(|| too_large("--parameters"))?;
    if kind.is_narrow() {
        network.notes.push(format!(
            "{kind} takes {} bytes for each parameter here; quantised files keep scales, embedding and output beside that",
            kind.ratio()
        ));
    }
    network.parameters = Some(parameters);
    network.weights = Some(Weights {
        groups: vec![WeightGroup {
            part: "all parameters".to_owned(),
            data_type: Some(kind),
            elements: parameters,
            bytes,
            ways: WeightGroup::ANY,
        }],
        origin,
        formula: format!("parameters × {} bytes of {kind}", kind.ratio()),
        source: if data_type.is_some() { "--parameters and --data-type" } else { "--parameters" }.to_owned(),
    });
    Ok(())
}

fn of_gguf(parts: &[GgufHeader], first: &GgufHeader, choices: &Choices) -> Result<Network, Diagnostics> {
    if let Some(kind) = choices.data_type {
        let message = format!("says how each tensor is stored; it cannot be {kind} at the same time");
        return Err(Diagnostic::error(&first.file, "model-data-type", message)
            .fix("leave --data-type out; --kv-data-type chooses the type of the KV cache")
            .into());
    }
    if choices.parameters.is_some() {
        return Err(contradiction(&first.file, "says its weights exactly, so --parameters is not needed"));
    }
    let wanted = first.split().map_or(1, |(_, count)| count);
    let mut found = parts.iter().map(|part| part.split().map_or(1, |(this, _)| this)).collect::<Vec<_>>();
    found.sort_unstable();
    found.dedup();
    let alike = parts.iter().all(|part| part.split().map_or(1, |(_, count)| count) == wanted);
    if !alike || found.len() != parts.len() || found.len() as u64 != wanted {
        let message = if wanted > 1 && alike {
            format!("is one of {wanted} parts of a model, and {} of them were named", found.len())
        } else {
            format!("and {} other GGUF files are different models or forms of one", parts.len() - 1)
        };
        return Err(Diagnostic::error(&first.file, "model-files", message)
            .fix("name one GGUF file, or all parts of one model")
            .into());
    }
    let mut groups = Vec::new();
    for part in parts {
        add_groups(&mut groups, part.groups()).ok_or_else(|| too_large(&part.file))?;
    }
    // The first part alone holds the metadata.
    let told = parts.iter().find(|part| part.shape().is_some()).unwrap_or(first);
    let mut network = Network {
        architecture: told.architecture().map(str::to_owned),
        parameters: groups.iter().try_fold(0u64, |sum, g| sum.checked_add(g.elements)),
        weights: None,
        shape: told.shape().cloned(),
        notes: told.notes.clone(),
    };
    let source = if parts.len() == 1 {
        first.file.clone()
    } else {
        format!("{} and {} more parts", first.file, parts.len() - 1)
    };
    let formula = "sum over all tensors of blocks × bytes of a block".to_owned();
    network.weights = Some(Weights { groups, origin: Origin::Measured, formula, source });
    split_keys_and_values(&mut network);
    Ok(network)
}

/// Projections to keys and values can be split among as many GPUs as there are KV heads.
fn split_keys_and_values(network: &mut Network) {
    let heads = network.shape.iter().flat_map(|shape| &shape.cache).find_map(|c| match c.kind {
        CacheKind::Heads { kv_heads, .. } => Some(kv_heads),
        _ => None,
    });
    if let (Some(heads), Some(weights)) = (heads, &mut network.weights) {
        for group in weights.groups.iter_mut().filter(|g| g.part == KEYS_AND_VALUES) {
            group.ways = heads.max(1);
        }
    }
}
