# What the load tests share. To be sourced, from the repository's root.

GHZ_VERSION=v0.121.0

say() { echo "$*" >&2; }

# Prints the path of ghz, installed if need be. Another version on the PATH is
# not used: older ones cannot read optional fields, and none says its version.
find_ghz() {
  local bin=$PWD/target/ghz-$GHZ_VERSION
  if [[ ! -x $bin/ghz ]]; then
    say "installing ghz $GHZ_VERSION"
    GOBIN=$bin go install "github.com/bojand/ghz/cmd/ghz@$GHZ_VERSION"
  fi
  echo "$bin/ghz"
}

# The address in the JSON log $1 of a server, once it says $2.
address_in() {
  local found
  for _ in $(seq 600); do
    found=$(jq -rR --arg message "$2" 'fromjson? | select(.message == $message) | .address' "$1" | head -n 1)
    if [[ -n $found ]]; then
      echo "$found"
      return
    fi
    sleep 0.1
  done
  say "the server does not say \"$2\":"
  cat "$1" >&2
  return 1
}

# Milliseconds of CPU that process $1 has used. Its name stands in parentheses
# and may hold spaces, so fields are counted behind it.
cpu_ms() {
  sed 's/.*) //' "/proc/$1/stat" |
    awk -v hz="$(getconf CLK_TCK)" '{ printf "%.0f", ($12 + $13) * 1000 / hz }'
}

# Puts standard input between the marks of $2 in document $1.
write_section() {
  local section document
  section=$(cat)
  document=$(SECTION=$section awk -v mark="$2" '
    $0 == "<!-- " mark " -->" { print; print ENVIRON["SECTION"]; inside = 1; next }
    $0 == "<!-- /" mark " -->" { inside = 0 }
    !inside' "$1")
  echo "$document" >"$1"
}

# The median of column $1 of file $2, with $3 decimals.
median() {
  sort -n -k "$1,$1" "$2" | awk -v column="$1" -v format="%.$3f\n" \
    '{ v[NR] = $column } END { printf format, (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
