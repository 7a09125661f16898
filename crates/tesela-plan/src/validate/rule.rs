//! The rules, each with a stable name.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)+) => {
        /// A rule that every plan must obey.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $name,)+
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its stable kebab-case name.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)+
                }
            }
        }
    };
}

rules! {
    /// For each workload, pods assigned and unmet are the pods of the demand.
    PodsAccounted = "pods-accounted",
    /// Assignments and unmet name workloads of the demand.
    UnknownWorkload = "unknown-workload",
    /// GPUs per pod and tenant are the workload's.
    WorkloadFacts = "workload-facts",
    /// One entry per workload, node, mode, resource and profile.
    DuplicateAssignment = "duplicate-assignment",
    /// Counts are at least 1.
    ZeroCount = "zero-count",
    /// `partial` exactly when something is unmet.
    Status = "status",
    /// `replicas` is null or at least 2, and goes with the mode.
    Replicas = "replicas",
    /// `profile` goes with mode `mig` and is the table's name.
    Profile = "profile",
    /// What the pods request is what the node offers in this mode.
    Resource = "resource",
    /// What the pods request today is said where it is another resource.
    RequestToday = "request-today",
    /// `start` and `gpu` name a device of the node.
    Seat = "seat",
    /// Pods that stay run there today.
    Staying = "staying",
    /// A pod that may not be moved stays.
    Pinned = "pinned",
    /// A pod of which only the request is known keeps what it holds.
    UnknownNeed = "unknown-need",
    /// Mode, profile and product are the ones a person chose.
    Chosen = "chosen",

    /// Assignments and pools name nodes that exist.
    UnknownNode = "unknown-node",
    /// Every node of the fleet is in the plan, once, with its GPUs.
    NodeGpus = "node-gpus",
    /// What the plan says of today is what the fleet says.
    NodeToday = "node-today",
    /// Hardware that is not there yet occurs only where it may be bought.
    NullNode = "null-node",
    /// No more nodes are bought than are offered.
    BuyLimit = "buy-limit",
    /// The parts of a planned GPU go together.
    PlannedGpu = "planned-gpu",
    /// Instances sit where the product allows.
    Placement = "placement",
    /// Instances do not overlap.
    Overlap = "overlap",
    /// Instances take no more compute slices than there are.
    ComputeSlices = "compute-slices",
    /// Instances take no more engines than there are.
    Engines = "engines",
    /// No more instances of a profile than the driver allows.
    MaxInstances = "max-instances",
    /// GPUs of a node that are not cut are shared alike.
    OneSharing = "one-sharing",

    /// No more devices are assigned than the node has under the plan.
    Devices = "devices",
    /// A whole GPU or an instance has one pod.
    UsedTwice = "used-twice",
    /// A shared device has no more pods than shares.
    Shares = "shares",
    /// Users of the devices are the assignments.
    Users = "users",
    /// A pod's GPUs are on one node.
    CrossesNode = "crosses-node",
    /// Work over several GPUs does not go to MIG.
    SeveralGpus = "several-gpus",
    /// Need and context fit the device.
    DeviceMemory = "device-memory",
    /// The compute that work keeps busy fits the instance.
    DeviceCompute = "device-compute",
    /// The needs of those who share a device fit it together.
    SharedMemory = "shared-memory",

    /// New pods go to nodes with CPU left.
    Cpu = "cpu",
    /// New pods go to nodes with main memory left.
    Memory = "memory",
    /// New pods go to nodes where kubelet takes more pods.
    Pods = "pods-per-node",
    /// New pods go to nodes that selector and affinity allow.
    Selector = "selector",
    /// New pods tolerate the node's taints.
    Taint = "taint",
    /// No new pod goes to a node that takes none.
    Unschedulable = "unschedulable",
    /// No more pods of a workload on a node than it allows.
    Spread = "spread",
    /// All pods of a `sameNode` workload are on one node.
    SameNode = "same-node",

    /// A regulated tenant shares no device below `instance`.
    Regulated = "regulated",
    /// A workload gets the isolation it needs.
    Isolation = "isolation",
    /// Work isolated by tenant shares with its own tenant only.
    IsolationTenant = "isolation-tenant",
    /// Work with a latency promise takes no turns.
    Slo = "slo",

    /// GPUs that exist and that the plan uses are counted right.
    GpuCount = "gpu-count",
    /// The lower bound is not above what is used nor above what can be derived.
    LowerBound = "lower-bound",
    /// `proven_optimal` says that the bound is reached.
    ProvenOptimal = "proven-optimal",
    /// No layout costs more than the certificate's scale.
    Certificate = "certificate",

    /// Each GPU that changes is listed.
    ChangeMissing = "change-missing",
    /// No GPU that stays as it is is listed.
    ChangeUnneeded = "change-unneeded",
    /// The kind of change is right.
    ChangeKind = "change-kind",
    /// Pods on what goes away are named.
    Disturbed = "disturbed",
    /// Nothing is cut where pods that go on might sit on it, as far as anybody knows.
    Guessed = "guessed",
    /// As many devices as kubelet does not give out stay unused and as they are.
    Unwell = "unwell",

    /// Each namespace has a line for each GPU resource name.
    QuotaOpen = "quota-open",
    /// No quota is below what the namespace's pods request.
    QuotaTooSmall = "quota-too-small",
    /// A quota has one line for each name.
    QuotaTwice = "quota-twice",

    /// GPUs, nodes and money of today.
    Today = "today",
    /// Money of the plan.
    Cost = "cost",
    /// Alternatives that are possible, and a reason for each other one.
    Alternative = "alternative",
    /// Pools agree with the nodes.
    Pool = "pool",
    /// Headroom is free.
    Headroom = "headroom",
    /// The summary agrees with the plan.
    Summary = "summary",
}
