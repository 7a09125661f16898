//! What a plan is made from.

use tesela_model::demand::Demand;
use tesela_model::finding::Finding;
use tesela_model::fleet::Fleet;
use tesela_model::price::PriceBook;
use tesela_model::product::ProductTable;
use tesela_model::quantity::Mib;

/// Everything a plan is made from. Read only; the same input gives the same plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// Products and their placement rules.
    pub products: &'a ProductTable,
    /// Nodes and GPUs as they are.
    pub fleet: &'a Fleet,
    /// What teams need.
    pub demand: &'a Demand,
    /// What observation found about today.
    pub findings: &'a [Finding],
    /// Prices, where known.
    pub prices: Option<&'a PriceBook>,
    /// Choices with defaults.
    pub settings: Settings,
}

/// Choices with defaults; each default is an assumption that the plan lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// GPU memory that the driver and one CUDA context take from each pod beside its need. Default 500 MiB:
    /// 300–500 MiB seen per process (pytorch/pytorch#20532, pytorch/serve#2128).
    pub context_overhead: Mib,
    /// Share of the time, in thousandths, that a workload is taken to work when nobody said. Default 250.
    pub assumed_duty_permille: u16,
    /// Time-slicing is offered up to this duty, in thousandths, when isolation is not said. Default 500.
    pub light_duty_permille: u16,
    /// Never more shares of one device than this. Default 16.
    pub max_replicas: u32,
    /// Whether the plan is made again with each assumption wrong, to say what would change. Default true.
    pub what_if: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            context_overhead: Mib(500),
            assumed_duty_permille: 250,
            light_duty_permille: 500,
            max_replicas: 16,
            what_if: true,
        }
    }
}
