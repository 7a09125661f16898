//! The rims: journal and lock in a folder, and checkpoints.

use std::path::PathBuf;

use tesela_executor::checkpoint::{Checkpoint, CheckpointError};
use tesela_executor::disk::{Disk as _, FileDisk, make_folder};
use tesela_executor::lock::{Lock, LockError};
use tesela_executor::plan::Change;
use tesela_executor::wish::Wish;
use tesela_model::product::ProductTable;

use crate::deaths::done;
use crate::world::{World, counts, gpu, shown};

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    make_folder(&folder).unwrap();
    folder
}

#[test]
fn a_journal_on_disk_keeps_what_it_was_given() {
    let mut disk = FileDisk::new(&folder("journal"));
    assert_eq!(disk.read().unwrap(), None);
    disk.replace(b"one").unwrap();
    disk.append(b", two").unwrap();
    disk.append(b", three").unwrap();
    disk.sync().unwrap();
    assert_eq!(disk.read().unwrap().unwrap(), b"one, two, three");
    disk.cut(8).unwrap();
    disk.append(b"!").unwrap();
    disk.sync().unwrap();
    assert_eq!(FileDisk::new(disk.path().parent().unwrap()).read().unwrap().unwrap(), b"one, two!");
    disk.replace(b"new").unwrap();
    assert_eq!(disk.read().unwrap().unwrap(), b"new");
}

#[test]
fn a_second_executor_is_told_who_the_first_is() {
    let folder = folder("lock");
    let first = Lock::take(&folder).unwrap();
    let refused = Lock::take(&folder).unwrap_err();
    assert!(matches!(&refused, LockError::Held { pid: Some(pid), .. } if *pid == std::process::id()));
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    drop(first);
    Lock::take(&folder).unwrap();
    assert!(matches!(Lock::take(&folder.join("nowhere")), Err(LockError::File { .. })));
}

#[test]
fn a_checkpoint_brings_every_start_back() {
    let first = [("1g.5gb", 6, None), ("3g.20gb", 0, Some(4))];
    let machine = format!("gpus:\n{}  - product: h100-sxm-80gb\n", gpu("a100-40gb", &first));
    let world = World::new(&machine);
    let seen = tesela_executor::observe::observe(&world.driver).unwrap();
    let saved = Checkpoint::of(&seen, ProductTable::builtin()).unwrap();
    let text = serde_json::to_vec_pretty(&saved).unwrap();
    let read = Checkpoint::read(&text).unwrap();
    assert_eq!(read, saved);
    let busy = world.busy(0);
    assert!(done(
        &world.apply(&[world.plan(0, &counts("3g.20gb=1,2g.10gb=1")), world.plan(1, &counts("1g.10gb=2"))])
    ));
    let back = |gpu: usize| world.plan(gpu, &Wish::Exactly(read.gpus[gpu].goal()));
    let plans = [back(0), back(1)];
    assert_eq!((plans[0].change, plans[1].change), (Change::Geometry, Change::MigMode));
    assert!(done(&world.apply(&plans)));
    assert_eq!(shown(&world, 0), "3g.20gb@0 1g.5gb@6");
    assert!(!world.live(1).mode.current);
    assert_eq!(world.busy(0), busy);
    assert_eq!(back(0).calls, 0);
}

#[test]
fn what_is_no_checkpoint_is_refused() {
    let told = |text: &str| Checkpoint::read(text.as_bytes()).unwrap_err().to_string();
    assert!(told("version: v1").contains("not a checkpoint"));
    assert!(told("{\"version\": \"v1\"}").contains("not a checkpoint"));
    assert!(told("{\"format\": \"x\"}").contains("`format` is `x`"));
    assert!(told("{\"format\": \"tesela-mig-checkpoint\", \"version\": 2}").contains("version 2"));
    let gpu = "{\"uuid\": \"GPU-1\", \"product\": \"x\", \"mig\": false, \"instances\": []}";
    let twice =
        format!("{{\"format\": \"tesela-mig-checkpoint\", \"version\": 1, \"gpus\": [{gpu}, {gpu}]}}");
    assert!(matches!(Checkpoint::read(twice.as_bytes()), Err(CheckpointError::Twice { .. })));
    // A layout that cannot be is refused before anything is done.
    let world = World::new("gpus:\n  - {product: a100-40gb, mig: []}\n");
    let at = |start: u32| {
        format!(
            "{{\"profile\": \"3g.20gb\", \"profile_id\": 9, \"start\": {start}, \"size\": 4, \"compute_instances\": []}}"
        )
    };
    let bad = format!(
        "{{\"format\": \"tesela-mig-checkpoint\", \"version\": 1, \"gpus\": [{{\"uuid\": \"GPU-1\", \"product\": \"x\", \"mig\": true, \"instances\": [{}, {}]}}]}}",
        at(0),
        at(2),
    );
    let goal = Checkpoint::read(bad.as_bytes()).unwrap().gpus[0].goal();
    let plan = world.plan(0, &Wish::Exactly(goal));
    assert!(plan.blocked.unwrap().to_string().contains("cannot start at unit 2"));
}
