//! A state directory keeps its promises across stops, kills, faults and damage.

mod assigned;
mod crash;
mod directories;
mod feeder;
mod full_disk;
mod home;
mod kept;
mod limits;
mod node_names;
mod retried;

use support::process;
