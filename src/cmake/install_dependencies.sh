#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing Debian packages among those that the build, the tests and the report need. Prints what it found.
# usage: install_dependencies.sh [lint] [fuzz] [python] [ccache] [cluster]      adds the packages that these make targets need
#        install_dependencies.sh names                                          only prints the packages that all need
set -euo pipefail

packages=(
  g++ cmake make ninja-build git                      # the build
  mpich libmpich-dev libhdf5-mpich-dev                # MPI, parallel HDF5
  libdnnl-dev libtrilinos-kokkos-dev                  # matrix products, portable kernels
  libboost-program-options-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev liburing-dev
  libgtest-dev libgmock-dev libbenchmark-dev          # tests, benchmarks
  strace                                              # tests of what each rank asks of the file system
  python3 python3-h5py python3-numpy python3-matplotlib # analysis/
)
if [ "$*" = names ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
for group in "$@"; do
  case $group in
    lint) packages+=(clang-format clang-tidy shellcheck python3-venv) ;;
    fuzz) packages+=(clang libclang-rt-dev llvm) ;;      # libFuzzer and the sanitizers; llvm translates addresses to source lines
    python) packages+=(python3-venv) ;;
    ccache) packages+=(ccache) ;;                        # the CPU's and the GPU's program have most objects in common
    cluster) packages+=(slurm-wlm munge iproute2 util-linux libsimgrid-dev) ;; # virtual nodes and a batch system: tests/cluster; simulations
    *) echo "deps: no group '$group'; there are lint, fuzz, python, ccache, cluster" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "deps: this is not a Debian system; CMake will name each missing library and the module or Spack package that provides it"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "deps: all ${#packages[@]} packages are installed"
  exit 0
fi

echo "deps: missing: ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deps: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "deps: installed"
