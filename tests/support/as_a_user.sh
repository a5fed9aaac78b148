#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# as_a_user.sh COMMAND...: runs the command in a fresh clone of what is committed, on this machine as a user's would be: its
# Debian packages are those that install_dependencies.sh names without an argument, those that every Debian has, and what
# these need; /usr/local has CUDA alone, and no variable of this environment is set. What else this machine has (ccache, SLURM,
# SimGrid, other compilers, Python packages) is hidden: within a mount namespace, an overlay lies over /usr, and what must not
# be there is deleted from it. Nothing outside changes. Needs root, or user namespaces that may mount overlays.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() {
  echo "SKIPPED: a machine as a user has it: $1"
  exit 77
}
for tool in apt-cache dpkg-query git unshare; do
  [[ -n $(command -v $tool) ]] || skip "there is no $tool"
done
mkdir "$work/home" "$work/overlay"
namespace=(unshare --mount)
[[ $(id -u) -eq 0 ]] || namespace=(unshare --map-root-user --mount)

# over_usr COMMAND...: runs it where what is written to /usr goes to a file system in memory.
over_usr() {
  # shellcheck disable=SC2016  # expanded there
  "${namespace[@]}" bash -euc 'mount -t tmpfs -o mode=755 tmpfs "$1"
    mkdir "$1/upper" "$1/work"
    mount -t overlay -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work" overlay /usr
    shift
    exec "$@"' bash "$work/overlay" "$@"
}
over_usr true || skip "this kernel lets us mount no overlay"

# What stays: "a | b" among the dependencies of a package keeps both, if both are installed.
mapfile -t wanted < <("$root/src/cmake/install_dependencies.sh" names; echo apt
  dpkg-query -W -f '${Package} ${Priority}\n' | awk '$2 == "required" {print $1}')
apt-cache depends --recurse --important --installed "${wanted[@]}" | grep '^[a-z0-9]' | sed 's/:.*//' | sort -u >"$work/kept"
dpkg-query -W -f '${Package}\n' | sort -u | comm -23 - "$work/kept" >"$work/hidden"
files() { # PACKAGES: a path of a file in /usr per line
  dpkg-query -W -f '${Package} ${binary:Package}\n' | awk 'NR == FNR {chosen[$1]; next} $1 in chosen {print $2}' "$1" - |
    xargs dpkg-query -L | sed -nE 's,^(/usr)?(/(bin|sbin|lib|lib32|lib64|libx32|include|share|libexec|src)/.*),/usr\2,p' | sort -u
}
files "$work/hidden" | comm -23 - <(files "$work/kept") >"$work/files"
[[ -s $work/files ]] || skip "no package is installed that a user need not have"
echo "as_a_user: hides $(wc -l <"$work/files") files of $(wc -l <"$work/hidden") packages; keeps $(wc -l <"$work/kept") packages"

git clone --quiet "$root" "$work/shoal"
cat >"$work/hide.sh" <<'END'
set -euo pipefail
tr '\n' '\0' <"$1/files" | xargs -0 -n 1000 rm -f 2>/dev/null || true  # not its directories
find /usr/local -mindepth 1 -maxdepth 1 ! -name 'cuda*' -exec rm -rf {} +
hash -r
for program in ccache srun smpirun clang++; do
  ! command -v $program || { echo "as_a_user: $program is still there" >&2; exit 1; }
done
cd "$1/shoal"
shift
exec "$@"
END
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
over_usr env -i PATH=$path HOME="$work/home" LANG=C.UTF-8 bash "$work/hide.sh" "$work" "$@"
