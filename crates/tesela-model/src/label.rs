//! The node labels this field agrees on (GPU feature discovery, GPU Operator, Kubernetes).

/// GPU feature discovery: the product, blanks as `-`, with `-MIG-…` and `-SHARED` suffixes.
pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
/// GPU feature discovery: physical GPUs, or MIG devices under strategy single.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
/// GPU feature discovery: replicas of each device; 1 = no sharing, 0 = MIG or invalid.
pub const GPU_REPLICAS: &str = "nvidia.com/gpu.replicas";
/// GPU feature discovery: MiB of one GPU (of one instance under strategy single).
pub const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// GPU feature discovery: `none`, `mps` or `time-slicing`.
pub const GPU_SHARING_STRATEGY: &str = "nvidia.com/gpu.sharing-strategy";
/// GPU feature discovery: whether any GPU supports MIG.
pub const MIG_CAPABLE: &str = "nvidia.com/mig.capable";
/// GPU feature discovery: `single` or `mixed`; absent under strategy none.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";
/// GPU Operator: which label of the mig-parted file the node shall have.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// GPU Operator: `pending`, `rebooting`, `success` or `failed`.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// Which entry of the device plugin's ConfigMap the node takes.
pub const DEVICE_PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// GPU Operator: this node has a GPU.
pub const GPU_PRESENT: &str = "nvidia.com/gpu.present";
/// GPU Operator: `container`, `vm-passthrough` or `vm-vgpu`.
pub const WORKLOAD_CONFIG: &str = "nvidia.com/gpu.workload.config";
/// Prefix of the GPU Operator's switches for its parts.
pub const DEPLOY_PREFIX: &str = "nvidia.com/gpu.deploy.";
/// Kubernetes: the node's name as a label.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Tesela: the pool a node belongs to.
pub const POOL: &str = "tesela.dev/pool";
