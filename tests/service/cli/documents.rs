//! What commands print, as documents show it: each document beside this file is a test.

use std::path::Path;

macro_rules! documents {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let name = concat!("tests/service/cli/", stringify!($name), ".md");
            support::sessions::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
        })*
    };
}

documents! {
    advice bad_pods credentials endless gates in_process lint lint_cluster lint_custom lint_named lint_parts lint_settings lint_written made_pods matched
    named narrow new_workloads nodes nodes_cases odds place reassuring rebalance rebalance_reported refused remote report reservations
    rollouts scale_down serve_settings spread spread_cases stateful_sets stories unchecked what_if worked_examples
}
