#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: bundle.sh [--list] OUTPUT.tar.xz [BUILD]. Packs what run_all.sh needs on a machine that has only CUDA's toolkit, g++ and
# CMake: Debian's MPICH, parallel HDF5, Boost.Program_options, nlohmann-json, xxHash, zlib and GoogleTest, with the shared libraries
# that they need; and what the build for processors in BUILD (build) computes, to compare with. --list: prints the files.
set -euo pipefail
list=false
if [[ ${1:-} == --list ]]; then list=true; shift; fi
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
most=$((60 * 1024 * 1024))
lib=/usr/lib/x86_64-linux-gnu

# What every machine has, in the version of its own compiler.
of_system='/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so'
needed() { ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | grep -vE "$of_system" | sort -u; }

files() {
  local hdf5
  hdf5=$(readlink -f "$lib/libhdf5_mpich.so")
  needed /usr/bin/mpiexec.hydra /usr/bin/hydra_pmi_proxy "$lib/libmpich.so" "$hdf5" "$lib/libboost_program_options.so"
  readlink -f /usr/bin/mpiexec.hydra /usr/bin/hydra_pmi_proxy
  ls "$lib"/libmpich.so* "$lib"/libhdf5_mpich.so* "$lib"/libboost_program_options.so* "$lib"/lib{gtest,gtest_main,gmock,gmock_main}.a
  find /usr/include/x86_64-linux-gnu/mpich /usr/include/hdf5/mpich -name '*.h'
  find /usr/include/nlohmann /usr/include/gtest /usr/include/gmock "$lib"/cmake/GTest "$lib"/cmake/boost_headers-* \
    "$lib"/cmake/boost_program_options-* "$lib"/cmake/Boost-* "$lib"/cmake/BoostDetectToolset-* -type f
  ls /usr/include/xxhash.h /usr/include/zlib.h /usr/include/zconf.h "$lib"/libz.so*
  dpkg -L nlohmann-json3-dev | grep '\.cmake$'
  # Of Boost's headers, those that Program_options includes.
  echo '#include <boost/program_options.hpp>' | g++ -x c++ -std=c++20 -M - | grep -o '/usr/include/boost/[^ ]*'
  ls /usr/include/boost/version.hpp
}

if $list; then
  files | sort -u
  exit 0
fi
output=$(realpath -m "$1")
build=$(realpath "${2:-$source_root/build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files | sort -u | while read -r file; do
  mkdir -p "$work/bundle$(dirname "${file/#\/lib\//\/usr\/lib\/}")"
  cp -a "$file" "$work/bundle${file/#\/lib\//\/usr\/lib\/}"
  if [[ -L $file ]]; then cp -a "$(readlink -f "$file")" "$work/bundle$(dirname "${file/#\/lib\//\/usr\/lib\/}")/"; fi
done
mkdir -p "$work/bundle/bin"
# The compiler that CMake asks for MPI's directories, and the launcher.
cat >"$work/bundle/bin/mpicxx" <<'END'
#!/usr/bin/env bash
usr=$(cd "$(dirname "${BASH_SOURCE[0]}")/../usr" && pwd)
command=(g++)
for word in "$@"; do [[ $word == -show ]] || command+=("$word"); done
command+=("-I$usr/include/x86_64-linux-gnu/mpich" "-L$usr/lib/x86_64-linux-gnu" -lmpich)
if [[ " $* " == *" -show "* ]]; then echo "${command[*]}"; else exec "${command[@]}"; fi
END
cat >"$work/bundle/bin/mpiexec" <<'END'
#!/usr/bin/env bash
usr=$(cd "$(dirname "${BASH_SOURCE[0]}")/../usr" && pwd)
export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$usr/bin/mpiexec.hydra" -launcher fork "$@"
END
chmod +x "$work/bundle/bin"/*
"$build/tests/kernels/kernels_bits" >"$work/bundle/bits.txt"
python3 -B "$source_root/tests/gpu/trajectories.py" --program "$build/shoal" --write "$work/bundle/trajectories.json"
mkdir -p "$(dirname "$output")"
tar -C "$work" -cf - bundle | xz -T0 -6 >"$output"
size=$(stat -c %s "$output")
[[ $size -le $most ]] || { echo "bundle.sh: $output has $size bytes, more than $most" >&2; exit 1; }
echo "bundle.sh: $output, $((size / 1024)) KiB"
