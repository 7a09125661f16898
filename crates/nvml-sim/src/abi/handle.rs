//! Handles: what NVML gives programs to name devices, instances and sets.
//!
//! A handle is a number that looks like a pointer and is none: nothing is ever read through it, so a handle that is
//! stale or made up is refused with a code. The same thing always gets the same handle.

use std::collections::BTreeMap;

use tesela_model::driver::{Code, GpuUuid, MigUuid};

/// A handle, as an argument: it has the layout of a pointer.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(usize);

impl Handle {
    /// As a pointer, for fields and places that hold one.
    pub(crate) fn pointer<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0)
    }
}

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A GPU.
    Gpu(GpuUuid),
    /// A MIG device: it is gone when its compute instance is.
    Mig(GpuUuid, MigUuid),
    /// A GPU instance. Ids are used again, and the handle then stands for the new one, as ids do.
    GpuInstance(GpuUuid, u32),
    /// A compute instance, by GPU instance and own id.
    ComputeInstance(GpuUuid, u32, u32),
    /// A set of events.
    EventSet(u32),
    /// A sample of counters.
    Sample(u32),
}

/// Where handles begin: far above the small numbers that runtimes take for faults, and below what the kernel maps.
const BASE: usize = 0x0000_6e76_0000_0000;
/// Apart as objects would be.
const STEP: usize = 64;

/// The handles given so far.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    things: Vec<Thing>,
    numbers: BTreeMap<Thing, usize>,
}

impl Handles {
    /// The handle of a thing.
    pub(crate) fn of(&mut self, thing: Thing) -> Handle {
        let next = self.things.len();
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.things.push(thing);
        }
        Handle(BASE + number * STEP)
    }

    /// What a handle stands for; a number that was never given is an invalid argument.
    pub(crate) fn thing(&self, handle: Handle) -> Result<&Thing, Code> {
        let offset = handle.0.checked_sub(BASE).filter(|offset| offset % STEP == 0);
        offset.and_then(|offset| self.things.get(offset / STEP)).ok_or(Code::InvalidArgument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_has_one_handle_and_numbers_never_given_are_refused() {
        let mut handles = Handles::default();
        let gpu = handles.of(Thing::Gpu(GpuUuid::new("GPU-1")));
        let set = handles.of(Thing::EventSet(0));
        assert_ne!(gpu, set);
        assert_eq!(handles.of(Thing::Gpu(GpuUuid::new("GPU-1"))), gpu);
        assert_eq!(handles.thing(set), Ok(&Thing::EventSet(0)));
        for wrong in [0, 1, BASE + 1, BASE + 2 * STEP, usize::MAX] {
            assert_eq!(handles.thing(Handle(wrong)), Err(Code::InvalidArgument), "{wrong:#x}");
        }
    }
}
