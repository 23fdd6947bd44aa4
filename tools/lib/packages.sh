# The Debian packages fusetune needs, in one place, and how they get installed: sourced, not run.

# To build it. g++ is also needed when it runs: it compiles the kernels it generates. CMake finds libxgboost-dev
# only with the package xgboost beside it.
build_packages=(
  g++ cmake ninja-build pkg-config
  libboost-context-dev libcli11-dev libfmt-dev libsqlitecpp-dev libsqlite3-dev nlohmann-json3-dev libxxhash-dev
  librandom123-dev libxgboost-dev xgboost libjs-chart.js
)
# To run its tests as well.
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-numpy python3-venv
  clang-format git locales xz-utils
)
# To run tools/test --full as well. hipcc is 66 MB to fetch and 350 MB installed.
full_packages=(clang-tidy-16 clang-16 libclang-rt-16-dev hipcc)

# To compare with PyTorch, ONNX Runtime and oneDNN as well (tools/bench_peers): torch.compile needs Python's headers, and
# CMake finds oneDNN only beside OpenCL.
peer_packages=(libdnnl-dev ocl-icd-opencl-dev opencl-c-headers python3 python3-numpy python3-venv python3-dev)

is_installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# apt_get ARGUMENTS...: as root, or with sudo when it asks nothing.
apt_get() {
  local prefix=()
  if ((EUID != 0)); then prefix=(sudo -n); fi
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 "$@"
}

can_install() { ((EUID == 0)) || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

# install_missing PACKAGE...: installs what is not there; nothing, and no network, when all is.
install_missing() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is no Debian system: its equivalents of these must be there already: $*"
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "All $# packages are installed."
    return
  fi
  echo "Missing: ${missing[*]}"
  if ! can_install; then
    stop "installing needs root, or sudo without a password. Run this, then $0 again:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
  fi
  apt_get update -q && apt_get install -q -y --no-install-recommends "${missing[@]}"
}
