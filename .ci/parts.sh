# Shared by both checks: `.ci/run`, the gate, and `.ci/all`, the rest. Source it from the root of the checkout.
export DEBIAN_FRONTEND=noninteractive

# Installs Debian's packages for missing commands, each given as COMMAND:PACKAGE. If one cannot be installed, the proofs
# that need it say so.
need() {
  local packages=() tool package
  for tool in "$@"; do command -v "${tool%:*}" >/dev/null || packages+=("${tool#*:}"); done
  [ "${#packages[@]}" -gt 0 ] || return 0
  apt-get update -qq || true
  for package in "${packages[@]}"; do
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "$package cannot be installed here"
  done
}

work=$(mktemp -d)
service=
stop_postgres=:
trap '[ -z "$service" ] || kill "$service" 2>/dev/null || true; $stop_postgres || true; rm -rf "$work"' EXIT

# Runs one part and prints how long it took.
part() {
  local name=$1 started=$SECONDS
  shift
  echo "== $name"
  "$@"
  local status=$?
  echo "== $name: $((SECONDS - started)) s"
  return "$status"
}

# The path of the Node of this version, which npx installs.
node_of() { npx -y -p "node@$1" -c 'command -v node'; }

# Runs the tests that the arguments select, and keeps their counts for `summary` under the given name.
tests() {
  local name=$1
  shift
  npx vitest run --maxWorkers=2 --reporter=default --reporter=json --outputFile.json="$work/$name.json" "$@"
}

# Prints 'N passed, N failed, N skipped' for all `tests` so far.
summary() {
  npx node - "$work"/*.json <<'JS'
const { readFileSync } = require('node:fs');
const reports = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')));
const sum = (count) => reports.reduce((total, report) => total + report[count], 0);
console.log(`${sum('numPassedTests')} passed, ${sum('numFailedTests')} failed, ${sum('numPendingTests')} skipped`);
JS
}

# Starts the built service with the given Node, sends it one signed delivery, and stops it.
deliver_once() {
  local node=$1 folder address
  echo "Node $("$node" --version)"
  folder=$(mktemp -d -p "$work")
  SLUICE_PORT=0 SLUICE_DATABASE_URL="sqlite:$folder/sluice.db" "$node" dist/main.js >"$folder/out" 2>&1 &
  service=$!
  for _ in $(seq 100); do
    grep -q '^Sluice listens on ' "$folder/out" && break
    kill -0 "$service" 2>/dev/null || { cat "$folder/out"; exit 1; }
    sleep 0.1
  done
  address=$(sed -n 's/^Sluice listens on //p' "$folder/out")
  "$node" dist/cli.js send github-push --to "$address"
  kill -TERM "$service"
  wait "$service"
  service=
}
