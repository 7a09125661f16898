//! Sizing on the ParvaGPU sets: the numbers of GPUs, each with a proof that is checked again by other code.

#![expect(unreachable_pub, reason = "the module is also part of a benchmark")]

mod parva;
mod size_checker;

use tesela_plan::slo::{SizeProof, size};

/// GPUs for S1 to S6.
#[expect(clippy::expect_used, reason = "a helper of tests")]
fn gpus(processes: u32, scale: u64) -> Vec<u64> {
    let one = |set: usize| {
        let services = parva::services(set, processes, scale);
        let found = size(parva::product(), &services).expect("the sets can be served");
        let faults = size_checker::faults(parva::product(), &services, &found);
        assert_eq!(faults, Vec::<String>::new(), "S{} with {processes} processes, × {scale}", set + 1);
        assert_eq!(found.proof, SizeProof::Certificate, "S{} with {processes} processes, × {scale}", set + 1);
        found.gpus
    };
    (0..6).map(one).collect()
}

#[test]
fn up_to_five_processes() {
    assert_eq!(gpus(5, 1), [2, 3, 5, 7, 12, 15]);
}

#[test]
fn up_to_three_processes() {
    assert_eq!(gpus(3, 1), [2, 3, 5, 7, 12, 16]);
}

#[test]
fn one_process() {
    assert_eq!(gpus(1, 1), [2, 3, 5, 7, 13, 17]);
}

/// Ten and a hundred times the rates: proven by the certificate too (`gpus` asserts it).
#[test]
fn many_times_the_rates() {
    assert_eq!(gpus(5, 10), [9, 18, 36, 54, 113, 145]);
    assert_eq!(gpus(5, 100), [84, 171, 356, 534, 1117, 1446]);
}
