//! The vocabulary of Tesela as types that cannot be built wrong.
//!
//! | module | words |
//! | --- | --- |
//! | [`quantity`] | memory, CPU, money |
//! | [`origin`] | where a value comes from: given, measured, estimated, assumed |
//! | [`product`] | GPU products, their MIG profiles and placements |
//! | [`layout`] | the instances of one GPU, and their multiset |
//! | [`resource`] | the names Kubernetes knows GPUs by |
//! | [`label`] | the node labels this field agrees on |
//! | [`fleet`] | nodes and the GPUs they hold, as they are now |
//! | [`activity`] | how busy workloads were, window by window |
//! | [`network`] | a served model: its weights, what it keeps of each request |
//! | [`demand`] | tenants, workloads, what their pods hold now |
//! | [`price`] | what a GPU hour costs |
//! | [`cloud`] | cloud instances with GPUs and their list prices |
//! | [`finding`] | something true about today that costs money or breaks work |
//! | [`driver`] | the port to a node's GPU driver: what it can be asked, what it answers |
//! | [`machine`] | a node with emulated GPUs, as a person describes it |
//! | [`plan`] | the decision |
//! | [`server`] | programs that reserve GPU memory up front |
//! | [`usage`] | evidence of use: series of memory and activity |
//!
//! The crate is pure: no clock, no file, no network, no environment.

pub mod activity;
pub mod cloud;
pub mod demand;
pub mod driver;
pub mod finding;
pub mod fleet;
pub mod label;
pub mod layout;
pub mod machine;
pub mod network;
pub mod origin;
pub mod plan;
pub mod price;
pub mod product;
pub mod quantity;
pub mod resource;
pub mod server;
pub mod usage;
