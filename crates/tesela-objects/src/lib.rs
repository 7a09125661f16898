//! Kubernetes objects to the model and back, without a client.

pub mod observe;
pub mod render;
