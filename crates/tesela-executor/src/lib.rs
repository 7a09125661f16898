//! Changes of MIG layouts on the GPUs of one node: only what must change is touched, every step stands in a journal
//! before it is taken, and a change that cannot be finished is undone.
//!
//! Decide and do are apart:
//!
//! | module | what |
//! | --- | --- |
//! | [`observe`] | reads the live state through [`tesela_model::driver::GpuDriver`] into plain structs |
//! | [`catalogue`] | what the profiles of one GPU mean: the driver first, the profile table second. Pure |
//! | [`wish`] | what is wanted of a GPU, as counts or as an exact layout. Pure |
//! | [`plan`](mod@plan) | live state and wish → keep, destroy, create, or why not. Pure |
//! | [`steps`] | live state and goal → driver calls in their order. Pure |
//! | [`journal`] | the records on disk and how they are read back. Pure |
//! | [`disk`], [`lock`] | files: the journal's, and the lock that keeps a second executor out |
//! | [`apply`] | takes the steps of a plan, and undoes them |
//! | [`recover`](mod@recover) | after a crash: finishes or undoes |
//! | [`checkpoint`] | layouts of a node as a JSON file, and back |
//!
//! Everything is keyed by GPU UUID, profile id and start; instance ids are used again by drivers and are looked up anew.

pub mod apply;
pub mod catalogue;
pub mod checkpoint;
pub mod disk;
pub mod goal;
pub mod journal;
pub mod lock;
pub mod observe;
pub mod plan;
pub mod recover;
pub mod steps;
pub mod wish;
