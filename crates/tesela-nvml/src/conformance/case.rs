//! A case: a scene, what is called, what must be answered, and who says so.

use serde::{Deserialize, Serialize};
use tesela_model::driver::Code;

/// What a driver must answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, in a few words.
    pub name: String,
    /// Where the expected answers come from.
    pub source: String,
    /// The GPU before the first step; absent: whatever is there, every GPU of the node, and nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene: Option<Scene>,
    /// What is called, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Whether it changes anything.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.scene.is_some()
    }
}

/// One GPU and what is on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Table id of the product.
    pub product: String,
    /// Instances by profile and start, each with one compute instance that fills it; absent: MIG is off. Steps know them by
    /// their position, from `"0"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Vec<(String, u32)>>,
    /// Processes by pid and position of their instance; no position: the whole GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<(u32, Option<usize>)>,
    /// Whether the GPU is passed through to a virtual machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passthrough: bool,
}

impl Scene {
    /// The scene as the machine file of emulated GPUs.
    #[must_use]
    pub fn machine_file(&self) -> String {
        let mig = self.mig.as_ref().map(|mig| {
            let each = mig.iter().map(|(profile, start)| format!("{{profile: {profile}, start: {start}}}"));
            format!(", mig: [{}]", each.collect::<Vec<_>>().join(", "))
        });
        let process = |(pid, instance): &(u32, Option<usize>)| {
            let on = instance.map(|index| format!(", instance: {index}"));
            format!("{{pid: {pid}{}}}", on.unwrap_or_default())
        };
        let processes = self.processes.iter().map(process).collect::<Vec<_>>().join(", ");
        let Self { product, passthrough, .. } = self;
        let mig = mig.unwrap_or_default();
        format!("gpus: [{{product: {product}, passthrough: {passthrough}, processes: [{processes}]{mig}}}]\n")
    }
}

/// A call and its answer. `refused` says with which code; absent: it succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Laws that hold of every GPU at every time.
    Laws,
    /// Profiles, as (name, id, enum value, most instances): these and no others.
    Profiles(Vec<(String, u32, u32, u32)>),
    /// Where a profile may sit.
    Placements {
        /// Profile name.
        profile: String,
        /// First units.
        starts: Vec<u32>,
        /// Units of each.
        size: u32,
    },
    /// MIG mode now and later.
    Mode {
        /// Now.
        current: bool,
        /// After the next reset.
        pending: bool,
    },
    /// Asks for MIG mode on or off.
    SetMode {
        /// On or off.
        on: bool,
        /// What it waits for; absent: it is in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<Code>,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Makes a GPU instance.
    Create {
        /// Profile name.
        profile: String,
        /// Where; absent: where the driver likes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<u32>,
        /// Where it must be then, where the source tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lands: Option<u32>,
        /// Its id, where the source tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u32>,
        /// How steps call it.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Makes a GPU instance of a profile id that is none.
    CreateUnknown {
        /// The id.
        id: u32,
        /// Refusal.
        refused: Code,
    },
    /// Removes a GPU instance.
    Destroy {
        /// Which.
        instance: String,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Removes a GPU instance by an id that is none.
    DestroyUnknown {
        /// The id.
        id: u32,
        /// Refusal.
        refused: Code,
    },
    /// Makes a compute instance.
    CreateCompute {
        /// In which GPU instance.
        instance: String,
        /// Compute slices.
        slices: u32,
        /// Where; absent: where the driver likes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<u32>,
        /// Its id, where the source tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u32>,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Removes a compute instance.
    DestroyCompute {
        /// Of which GPU instance.
        instance: String,
        /// Its id.
        id: u32,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// How many more fit.
    Capacity {
        /// Profile name.
        profile: String,
        /// So many.
        #[serde(default)]
        count: u32,
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Nothing more fits: the capacity of every profile is 0.
    Full,
    /// The GPU instances, as (profile name, start), by start: these and no others.
    Instances(Vec<(String, u32)>),
    /// How many MIG devices there are.
    Devices(usize),
    /// Remembers id and MIG UUID of a GPU instance, makes it again at its place, and compares: the same id, another UUID.
    Renew {
        /// Which.
        instance: String,
    },
    /// A process comes to a compute instance 0 of a GPU instance, or to the whole GPU.
    Start {
        /// Its id.
        pid: u32,
        /// On which GPU instance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<String>,
    },
    /// It ends.
    End {
        /// Its id.
        pid: u32,
    },
    /// The GPU is reset.
    Reset {
        /// Refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Code>,
    },
    /// Without rights: what needs them is refused, what does not is answered.
    Unprivileged,
}
