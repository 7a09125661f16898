//! Which GPU and which instance the words mean.

use tesela_model::driver::GpuUuid;
use tesela_sim::state::{Gpu, State};

use crate::failure::Failure;

/// The GPU of an index or UUID.
///
/// # Errors
/// When there is none, with those there are.
pub(super) fn gpu<'a>(state: &'a State, text: &str) -> Result<&'a Gpu, Failure> {
    let by_index = text.parse::<usize>().ok().and_then(|index| state.gpus.get(index));
    let found = by_index.or_else(|| state.gpus.iter().find(|gpu| gpu.uuid == GpuUuid::new(text)));
    found.ok_or_else(|| {
        let all = state.gpus.iter().enumerate().map(|(index, gpu)| format!("{index} ({})", gpu.uuid));
        Failure::input(format!("--gpu {text}: there is no such GPU on this node"))
            .hint(format!("there are {}", all.collect::<Vec<_>>().join(", ")))
    })
}

/// A MIG device: GPU and compute instance.
///
/// # Errors
/// When there is none, with those there are.
pub(super) fn device(gpu: &Gpu, text: &str) -> Result<(u32, u32), Failure> {
    let (gi, ci) = instance(gpu, text)?;
    let there = gpu.instances.iter().find(|one| one.id == gi);
    let first = there.and_then(|one| one.compute.first()).map(|one| one.id);
    let ci = ci.or(first).ok_or_else(|| {
        Failure::input(format!("--instance {text}: that GPU instance has no compute instance"))
            .hint("nothing can run on it before one is made")
    })?;
    Ok((gi, ci))
}

/// A GPU instance, and a compute instance where one is named.
///
/// # Errors
/// When there is none, with those there are.
pub(super) fn instance(gpu: &Gpu, text: &str) -> Result<(u32, Option<u32>), Failure> {
    let all = || gpu.instances.iter().flat_map(|one| one.compute.iter().map(move |part| (one.id, part)));
    if let Some((gi, part)) = all().find(|(_, part)| part.uuid.as_str() == text) {
        return Ok((gi, Some(part.id)));
    }
    let (gi, ci) = match text.split_once('/') {
        Some((gi, ci)) => (gi.parse().ok(), ci.parse().ok()),
        None => (text.parse().ok(), None),
    };
    let named = text.contains('/');
    let there = |gi: u32| gpu.instances.iter().find(|one| one.id == gi);
    let found = gi
        .and_then(there)
        .filter(|one| !named || ci.is_some_and(|ci: u32| one.compute.iter().any(|part| part.id == ci)));
    match found {
        Some(one) => Ok((one.id, ci)),
        None => {
            let all = all().map(|(gi, part)| format!("{gi}/{} ({})", part.id, part.uuid)).collect::<Vec<_>>();
            let hint = if all.is_empty() {
                "it has no MIG device".to_owned()
            } else {
                format!("it has {}", all.join(", "))
            };
            Err(Failure::input(format!("--instance {text}: there is no such instance on {}", gpu.uuid))
                .hint(hint))
        }
    }
}
