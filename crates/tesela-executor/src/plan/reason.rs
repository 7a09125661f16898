//! Why a GPU is not changed, in words a person can act on.

use std::fmt;

use tesela_model::driver::{DriverError, Process};
use tesela_model::layout::Geometry;
use tesela_plan::layouts::LayoutsError;

use crate::catalogue::CatalogueError;
use crate::wish::WishError;

/// Why the change of a GPU is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// The GPU has no MIG.
    NotCapable,
    /// The caller may not list its instances.
    Hidden(DriverError),
    /// Its profiles are not known.
    Catalogue(CatalogueError),
    /// A name that means nothing here.
    Wish(WishError),
    /// An id that the driver does not offer, in a checkpoint.
    UnknownId(u32),
    /// A layout that breaks the rules of the GPU, in a checkpoint.
    Layout(String),
    /// Layouts cannot be walked.
    Layouts(LayoutsError),
    /// No layout has these instances.
    Infeasible {
        /// What was wanted.
        wanted: Geometry,
        /// The largest part of it that fits.
        nearest: Geometry,
    },
    /// Somebody is on instances that would have to go.
    Busy {
        /// Those instances, with who is on them.
        instances: Vec<(String, Vec<Holder>)>,
        /// What could be had while they stay.
        nearest: Option<Geometry>,
    },
    /// The mode changes only on an idle GPU.
    GpuBusy {
        /// Whether MIG is to be on.
        on: bool,
        /// Who is on the GPU.
        holders: Vec<Holder>,
    },
}

impl Blocked {
    /// Whether it passes when processes end.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::GpuBusy { .. })
    }
}

/// Somebody who uses a GPU or an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Process id, of the host.
    pub pid: u32,
    /// Name, where it is known.
    pub name: Option<String>,
}

impl Holder {
    /// The holders of processes, each once.
    #[must_use]
    pub fn of(processes: &[Process]) -> Vec<Self> {
        let mut found =
            processes.iter().map(|p| Self { pid: p.pid, name: p.name.clone() }).collect::<Vec<_>>();
        found.sort();
        found.dedup();
        found
    }
}

impl fmt::Display for Holder {
    /// `4321 (python)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)?;
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// `process 4321 (python)`, `processes 1, 2`.
pub(crate) fn told(holders: &[Holder]) -> String {
    let list = holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {list}", if holders.len() == 1 { "process" } else { "processes" })
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCapable => f.write_str("it has no MIG"),
            Self::Hidden(error) => write!(
                f,
                "its instances cannot be listed ({error}); run as root, or with read access to the capability file \
                 mig/monitor of the driver"
            ),
            Self::Catalogue(error) => error.fmt(f),
            Self::Wish(error) => error.fmt(f),
            Self::UnknownId(id) => write!(f, "the driver offers no profile with the id {id} here"),
            Self::Layout(error) => f.write_str(error),
            Self::Layouts(error) => error.fmt(f),
            Self::Infeasible { wanted, nearest } => {
                write!(f, "no layout has {wanted}; the largest part of it that fits is {nearest}")
            }
            Self::Busy { instances, nearest } => {
                let one = |(instance, holders): &(String, Vec<Holder>)| {
                    format!("{instance} is in use by {}", told(holders))
                };
                let list = instances.iter().map(one).collect::<Vec<_>>().join("; ");
                f.write_str(&list)?;
                match nearest {
                    Some(nearest) => write!(f, "; while they stay, {nearest} can be had"),
                    None => Ok(()),
                }
            }
            Self::GpuBusy { on, holders } => {
                let word = if *on { "on" } else { "off" };
                write!(f, "MIG turns {word} only on an idle GPU, and {} use it", told(holders))
            }
        }
    }
}
