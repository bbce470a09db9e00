//! The present spread of workloads (`docs/spread.md`): the workloads of a namespace, and the skew
//! of each by its constraints or by a topology key.

mod balance;
mod keys;
mod survey;
mod workload;

pub use balance::{Balance, Concentration, JudgedWorkload, Share, SpreadStanding};
pub use keys::{TopologyKey, UnknownKey, ZONE, check_key, topology_keys};
pub use survey::{By, Survey, judge_selected, untie};
pub use workload::{
    NamedWorkload, WantedSpread, WorkloadId, WorkloadPods, controller, is_controlled_by,
    ordinal_of, selects,
};
