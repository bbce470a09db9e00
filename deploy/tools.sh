# Tools that checks need, in pinned versions under target/tools. Sourced.
# Each function prints the path of a tool, or says on standard error why there
# is none and fails.

TOOLS="${CARGO_TARGET_DIR:-$PWD/target}/tools"
HELM_VERSION=v3.22.0
KUSTOMIZE_VERSION=v5.7.1
PROMETHEUS_OPERATOR_VERSION=v0.82.0

# For one tool, in seconds: some are built from source.
INSTALL_TIMEOUT="${INSTALL_TIMEOUT:-300}"

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

install_helm() { install_go_tool helm "$HELM_VERSION" helm.sh/helm/v3/cmd/helm; }

install_kustomize() {
    install_go_tool kustomize "$KUSTOMIZE_VERSION" sigs.k8s.io/kustomize/kustomize/v5
}

# The file that defines ServiceMonitor.
install_service_monitor() {
    command -v go >/dev/null || { echo "go is not installed" >&2; return 1; }
    local module="github.com/prometheus-operator/prometheus-operator"
    local json
    json="$(timeout "$INSTALL_TIMEOUT" go mod download -json \
        "$module@$PROMETHEUS_OPERATOR_VERSION")" || return 1
    echo "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$json")/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
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
