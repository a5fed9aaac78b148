# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The records of the night. .ci/night/PART has one line: commit, class of the processor (.ci/processor.sh), date, seconds, verdict
# (passed, FAILED or skipped), and a number of what the part read. .ci/nightly writes them, .ci/run prints them as a table.

records=.ci/night
gpu_classes=(80 90 100)  # compute capabilities for which kernels are compiled (CMakePresets.json)

# sources PART: a number of what the part reads: no records, no documents, and of the tests those of its own folder, if it is a
# test. READMEs are no sources, because only `make test` reads them, and .ci/run runs it for every change.
sources() {
  local folder=tests/${1%%/*}/
  [[ -d $folder ]] || folder=tests/
  git ls-tree -r HEAD | awk -F '\t' -v folder="$folder" \
    '$2 !~ /\.md$/ && $2 !~ /^\.ci\/night\// && ($2 !~ /^tests\/.*_test\.(cpp|py)$/ || index($2, folder) == 1)' |
    git hash-object --stdin | cut -c -12
}

record_of() { echo "$records/${1//[^A-Za-z0-9_]/-}"; }

# The parts, from the build folder $1: long tests first, since each is a part.
parts() {
  ctest --test-dir "$1" -N -L long | sed -n 's/^ *Test *#[0-9]*: //p'
  printf '%s\n' test test-isa build-apart presets cuda asan fuzz tidy
  printf 'gpu_%s\n' "${gpu_classes[@]}"
}

# How many commits ago this one was, or "unknown", as in a shallow clone or after a rebase.
age() {
  git merge-base --is-ancestor "$1" HEAD 2>/dev/null && git rev-list --count "$1..HEAD" 2>/dev/null || echo unknown
}

# verdict_of PART: sets commit class date seconds verdict number, or fails if there is no record.
verdict_of() {
  local file
  file=$(record_of "$1")
  [[ -f $file ]] && read -r commit class date seconds verdict number <"$file"
}

# A record is current if the part reads today what it read then, whatever happened elsewhere.
current() { verdict_of "$1" && [[ $verdict != skipped && $number == "$(sources "$1")" ]]; }

# table BUILD: all parts with what is known of them. Fails if a part has FAILED on the sources of today.
table() {
  local part said old here failed=0 commit class date seconds verdict number
  here=$(.ci/processor.sh | cut -d ' ' -f 1)
  echo "== what the night has shown, on a processor of class $here or others"
  while read -r part; do
    if ! verdict_of "$part"; then
      printf '%-40s no record\n' "$part"
      continue
    fi
    old=$(age "$commit")
    said=
    [[ $number == "$(sources "$part")" ]] && said=", on the sources of today"
    [[ $class == "$here" || $part == gpu_* ]] || said+=", only on $class"
    [[ $old != unknown ]] || said+=", nobody knows how old"
    [[ $old == unknown || $old -le 100 ]] || said+=", OLDER THAN 100 COMMITS"
    printf '%-40s %-8s %6s commits ago, %s, %s s%s\n' "$part" "$verdict" "$old" "$date" "$seconds" "$said"
    if [[ $verdict == FAILED ]] && current "$part"; then failed=1; fi
  done < <(parts "$1")
  return "$failed"
}
