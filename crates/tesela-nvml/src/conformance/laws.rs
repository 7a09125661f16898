//! Laws that hold of every GPU at every time, whatever is on it. Reading them changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::driver::{Code, Device, GpuDriver, GpuInstanceProfile, GpuUuid};
use tesela_model::product::Placement;

/// Checks every law on one GPU, for the profiles that its driver tells. The text says which does not hold.
pub(super) fn check(
    driver: &dyn GpuDriver,
    gpu: &GpuUuid,
    profiles: &[GpuInstanceProfile],
) -> Result<(), String> {
    let said = |error: tesela_model::driver::DriverError| error.to_string();
    let mode = driver.mig_mode(gpu).map_err(said)?;
    let on = mode.is_some_and(|mode| mode.current);
    let placements = placements(driver, gpu, profiles)?;
    let instances = driver.gpu_instances(gpu).map_err(said)?;
    let ids = instances.iter().map(|i| i.id).collect::<BTreeSet<_>>();
    must(ids.len() == instances.len(), "two GPU instances have one id")?;
    let mut units = 0;
    let mut slices = 0;
    for instance in &instances {
        let known = placements.get(&instance.profile);
        must(known.is_some_and(|all| all.contains(&instance.placement)), "an instance sits where none may")?;
        must(units & instance.placement.mask() == 0, "two instances overlap in memory units")?;
        units |= instance.placement.mask();
        slices += profiles.iter().find(|p| p.id == instance.profile).map_or(0, |p| p.compute_slices);
    }
    let whole = profiles.iter().map(|p| p.compute_slices).max().unwrap_or(0);
    must(slices <= whole, "the instances have more compute slices than the GPU")?;
    for profile in profiles {
        let capacity = driver.remaining_capacity(gpu, profile.id);
        if on {
            let there = instances.iter().filter(|i| i.profile == profile.id).count();
            let most = usize::try_from(profile.max_instances).unwrap_or(usize::MAX);
            let more = usize::try_from(capacity.map_err(said)?).unwrap_or(usize::MAX);
            must(there + more <= most, "more instances of a profile than it has at most")?;
        } else {
            let code = capacity.err().map(|e| e.code);
            must(code == Some(Code::NotSupported), "capacity is told with MIG off")?;
        }
    }
    if !on {
        must(instances.is_empty(), "there are GPU instances with MIG off")?;
    }
    devices(driver, gpu, &ids)
}

fn must(holds: bool, law: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(law.to_owned()) }
}

fn placements(
    driver: &dyn GpuDriver,
    gpu: &GpuUuid,
    profiles: &[GpuInstanceProfile],
) -> Result<BTreeMap<u32, Vec<Placement>>, String> {
    let mut all = BTreeMap::new();
    for profile in profiles {
        let places = driver.placements(gpu, profile.id).map_err(|e| e.to_string())?;
        let size = places.first().map(|p| p.size);
        must(size.is_some_and(|size| size > 0), "a profile has no placement")?;
        must(places.iter().all(|p| Some(p.size) == size), "placements of one profile differ in size")?;
        let most = usize::try_from(profile.max_instances).unwrap_or(usize::MAX);
        must(places.len() >= most, "a profile has fewer placements than instances")?;
        must(all.insert(profile.id, places).is_none(), "two profiles have one id")?;
    }
    Ok(all)
}

fn devices(driver: &dyn GpuDriver, gpu: &GpuUuid, ids: &BTreeSet<u32>) -> Result<(), String> {
    let said = |error: tesela_model::driver::DriverError| error.to_string();
    let mut compute = BTreeSet::new();
    for id in ids {
        let there = driver.compute_instances(gpu, *id).map_err(said)?;
        for one in &there {
            must(one.gpu_instance == *id, "a compute instance names another GPU instance")?;
            must(compute.insert((*id, one.id)), "two compute instances have one id")?;
        }
    }
    let devices = driver.mig_devices(gpu).map_err(said)?;
    let shown = devices.iter().map(|d| (d.gpu_instance, d.compute_instance)).collect::<BTreeSet<_>>();
    must(shown == compute, "MIG devices are not just the compute instances")?;
    let names = devices.iter().map(|d| d.uuid.as_str()).collect::<BTreeSet<_>>();
    must(names.len() == devices.len(), "two MIG devices have one UUID")?;
    for process in driver.processes(gpu).map_err(said)? {
        let on = process.gpu_instance.zip(process.compute_instance);
        must(on.is_none_or(|on| compute.contains(&on)), "a process is on an instance that is not there")?;
    }
    let mut all = vec![Device::Gpu(gpu.clone())];
    all.extend(devices.iter().map(|d| Device::Mig { gpu: gpu.clone(), mig: d.uuid.clone() }));
    for device in all {
        let Some(memory) = driver.readings(&device).map_err(said)?.memory else { continue };
        must(memory.total > 0 && memory.used <= memory.total, "more memory is used than there is")?;
    }
    Ok(())
}
