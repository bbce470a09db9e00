#!/usr/bin/env bash
# The parts of .ci/nightly, which says what they check. .ci/run takes some of them.
# Sourced. A part is a function run_NAME. It fails when what it checks does not
# hold, and says in lines "left out: WHAT: WHY" what of it cannot run here.
# Variables make a part longer or shorter.

. deploy/tools.sh

# external FILTER...: tests of tests/external, also those that need something. There must be some.
external() {
    { cargo test --locked --test external -- --include-ignored "$@" | tee /dev/fd/3 |
        grep '^test result: ok\. [1-9]' >/dev/null; } 3>&1
}

# on_nats FILTER..., on_control_plane FILTER...: these tests, where that can be installed.
on_nats() {
    install_nats >/dev/null || return "$LEFT_OUT"
    external "$@"
}

on_control_plane() {
    install_control_plane >/dev/null || return "$LEFT_OUT"
    external "$@"
}

# program: builds the server that scripts start.
program() {
    cargo build --locked --quiet
}

run_contract() { on_nats replicas::contract; }

run_partition() { on_nats replicas::partition; }

run_engine() { on_nats replicas::engine replicas::secured replicas::mistakes; }

# What no other part has, so that a new file is in a part.
run_fleet() {
    local other
    other=(contract partition engine secured mistakes upgrade outcomes copies full_disks chaos namespaces)
    on_nats replicas:: "${other[@]/#/--skip=replicas::}"
}

run_upgrade() { on_nats replicas::upgrade; }

run_damage() {
    local more=(replicas::full_disks)
    if [ "$(id -u)" != 0 ]; then
        more=()
        echo "left out: full disks: a disk can be mounted by root alone"
    fi
    on_nats replicas::outcomes replicas::copies "${more[@]}"
}

run_chaos() { CHAOS_SECONDS="${CHAOS_SECONDS:-600}" on_nats --nocapture replicas::chaos; }

run_namespaces() {
    local library=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1
    [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return "$LEFT_OUT"; }
    has ip iproute2 && has iptables || return "$LEFT_OUT"
    [ -e "${FAKETIME_LIBRARY:-$library}" ] ||
        { echo "libfaketime is not installed: apt-get install libfaketime"; return "$LEFT_OUT"; }
    FAULT_SECONDS="${FAULT_SECONDS:-1800}" on_nats --nocapture replicas::namespaces
}

run_smoke() {
    SHADOW_PODS="${SHADOW_PODS:-40}" on_control_plane every_set_and_every_score a_watch_that_expired \
        an_account_that_may_not a_replica_set_stays_spread
}

run_control-plane() { on_control_plane kubernetes:: --skip kubernetes::shadow; }

run_shadow() { SHADOW_PODS="${SHADOW_PODS:-3000}" on_control_plane --nocapture kubernetes::shadow; }

run_versions() {
    local code ran=""
    for KUBERNETES_VERSION in ${VERSIONS:-v1.36.3 v1.35.4}; do
        export KUBERNETES_VERSION
        echo "-- $KUBERNETES_VERSION"
        code=0
        on_control_plane kubernetes:: || code=$?
        case $code in
            0) ran=1 ;;
            "$LEFT_OUT") echo "left out: $KUBERNETES_VERSION: it cannot be built" ;;
            *) return 1 ;;
        esac
    done
    [ -n "$ran" ] || return "$LEFT_OUT"
}

run_plugin() {
    has_go || return "$LEFT_OUT"
    program && integrations/kube-scheduler/check
}

run_plugin-versions() {
    has_go || return "$LEFT_OUT"
    program && integrations/kube-scheduler/check 1.36 1.35
}

run_real-cluster() {
    local file=../shared/data/kurl-cluster/cluster.json
    [ -e "$file" ] || { echo "$file is not there: what kubectl get -o json wrote of a real cluster"; return "$LEFT_OUT"; }
    cargo test --locked --test service -- --include-ignored real_cluster
}

run_load-balancers() { deploy/load-balancers/check; }

run_examples() { program && examples/check; }

# DEPLOY: which parts of deploy/validate.
run_deploy() {
    # One part a word.
    # shellcheck disable=SC2086
    program && deploy/validate ${DEPLOY:-}
}

run_pairs() { cargo test --locked --release --test measured -- --include-ignored --nocapture pairs; }

run_plans() {
    CASES="${CASES:-20000}" cargo test --locked --release --test service -- --nocapture \
        decisions::nodes decisions::rebalance
}

run_simulation() {
    export SEEDS="${SEEDS:-1000000}" FIRST_SEED="${FIRST_SEED:-$(date +%s)}"
    cargo test --locked --release --test service no_fault
}

run_fuzz() {
    install_cargo_fuzz >/dev/null || return "$LEFT_OUT"
    has c++ g++ || return "$LEFT_OUT"
    # One target a word.
    # shellcheck disable=SC2086
    fuzz/run "${FUZZ_SECONDS:-3600}" ${FUZZ_TARGETS:-}
}

run_soak() { bench/soak --duration "${SOAK:-2h}"; }

# record LOG COMMAND...: runs a part, and keeps what it says in a file. What it
# leaves out stands there in lines "left out: WHAT: WHY".
record() {
    local log="$1" code=0
    shift
    { "$@" 2>&1 | tee "$log"; } || code=$?
    if [ "$code" = "$LEFT_OUT" ] && ! grep -q '^left out: ' "$log"; then
        echo "left out: $(basename "$log"): $(tail -n 1 "$log")" >>"$log"
    fi
    return "$code"
}
