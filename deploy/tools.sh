# Tools that checks need, in pinned versions. Sourced. They are kept outside of
# the checkout: some take minutes to build, and a fresh clone finds them there.
# Each function prints the path of a tool, or says on standard error why there
# is none and fails.

TOOLS="${EVENKEEL_TOOLS:-${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/evenkeel}"
HELM_VERSION=v3.22.0
KUSTOMIZE_VERSION=v5.7.1
PROBE_VERSION=v0.4.40
CARGO_DENY_VERSION=0.20.2
CARGO_FUZZ_VERSION=0.13.2
BUF_VERSION=1.75.0
KREW_VERSION=v0.5.0
PROMETHEUS_OPERATOR_VERSION=v0.82.0

# For one tool, in seconds: some are built from source.
INSTALL_TIMEOUT="${INSTALL_TIMEOUT:-240}"

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
        command -v go >/dev/null || { echo "go is not installed" >&2; return 1; }
        GOBIN="$bin" timeout "$INSTALL_TIMEOUT" go install "$3@$2" >&2 ||
            { echo "$1 $2 cannot be installed" >&2; return 1; }
    fi
    echo "$bin/$1"
}

install_cargo_deny() { install_cargo_tool cargo-deny "$CARGO_DENY_VERSION"; }

install_cargo_fuzz() { install_cargo_tool cargo-fuzz "$CARGO_FUZZ_VERSION"; }

install_helm() { install_go_tool helm "$HELM_VERSION" helm.sh/helm/v3/cmd/helm; }

install_kustomize() {
    install_go_tool kustomize "$KUSTOMIZE_VERSION" sigs.k8s.io/kustomize/kustomize/v5
}

# install_krew_tool NAME: by a module that asks for it, as the one below.
install_krew_tool() {
    local directory="$TOOLS/krew-$KREW_VERSION"
    local module="sigs.k8s.io/krew"
    if [ ! -x "$directory/$1" ]; then
        command -v go >/dev/null || { echo "go is not installed" >&2; return 1; }
        mkdir -p "$directory"
        printf 'module tools\n\ngo 1.25\n\nrequire %s %s\n' "$module" "$KREW_VERSION" \
            >"$directory/go.mod"
        (cd "$directory" && timeout "$INSTALL_TIMEOUT" \
            go build -mod=mod -o "$1" "$module/cmd/$1") >&2 ||
            { echo "$1 cannot be installed" >&2; return 1; }
    fi
    echo "$directory/$1"
}

install_krew() { install_krew_tool krew; }

install_krew_validator() { install_krew_tool validate-krew-manifest; }

# Built by a module that asks for it: its own go.mod is not made for go install.
install_probe() {
    local directory="$TOOLS/grpc_health_probe-$PROBE_VERSION"
    local module="github.com/grpc-ecosystem/grpc-health-probe"
    if [ ! -x "$directory/grpc_health_probe" ]; then
        command -v go >/dev/null || { echo "go is not installed" >&2; return 1; }
        mkdir -p "$directory"
        printf 'module probe\n\ngo 1.25\n\nrequire %s %s\n' "$module" "$PROBE_VERSION" \
            >"$directory/go.mod"
        (cd "$directory" && timeout "$INSTALL_TIMEOUT" \
            go build -mod=mod -o grpc_health_probe "$module") >&2 ||
            { echo "grpc_health_probe cannot be installed" >&2; return 1; }
    fi
    echo "$directory/grpc_health_probe"
}

install_buf() {
    local directory="$TOOLS/buf-$BUF_VERSION"
    if [ ! -x "$directory/node_modules/.bin/buf" ]; then
        command -v npm >/dev/null || { echo "npm is not installed" >&2; return 1; }
        timeout "$INSTALL_TIMEOUT" npm install --silent --no-save --no-audit --no-fund \
            --prefix "$directory" "@bufbuild/buf@$BUF_VERSION" >&2 ||
            { echo "buf cannot be installed" >&2; return 1; }
    fi
    echo "$directory/node_modules/.bin/buf"
}

# A directory with the definitions of ServiceMonitor and PrometheusRule.
install_prometheus_operator() {
    command -v go >/dev/null || { echo "go is not installed" >&2; return 1; }
    local module="github.com/prometheus-operator/prometheus-operator"
    local json
    json="$(timeout "$INSTALL_TIMEOUT" go mod download -json \
        "$module@$PROMETHEUS_OPERATOR_VERSION")" || return 1
    echo "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$json")/example/prometheus-operator-crd"
}

# install_python NAME REQUIREMENT...: a Python with these packages.
install_python() {
    local venv="$TOOLS/python-$1"
    shift
    # Made anew when what is wanted has changed.
    if [ "$(cat "$venv/requirements" 2>/dev/null)" != "$*" ]; then
        command -v python3 >/dev/null || { echo "python3 is not installed" >&2; return 1; }
        rm -rf "$venv"
        { timeout "$INSTALL_TIMEOUT" python3 -m venv "$venv" &&
            timeout "$INSTALL_TIMEOUT" "$venv/bin/pip" install --quiet \
                --disable-pip-version-check "$@"; } >&2 ||
            { echo "$* cannot be installed" >&2; return 1; }
        echo "$*" >"$venv/requirements"
    fi
    echo "$venv/bin/python"
}
