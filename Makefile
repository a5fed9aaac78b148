# SPDX-License-Identifier: Apache-2.0
# Every target is a line of cmake, ctest or a script. `make run` and `make test` work on a fresh Debian 12.
SHELL := /bin/bash
BUILD ?= build
RANKS ?= 2
OUT ?= out/quickstart
JOBS ?= $(shell nproc)
# Ranks of a test wait for each other, and a test of whole runs counts as two: on two cores, five keep half as much again busy
# as three.
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS) + 1)))
FUZZ_SECONDS ?= 60
space := $(subst ,, )
SHOAL := $(BUILD)/shoal
MPIEXEC ?= mpiexec
# Debian's python3-h5py works with Debian's Python, which may not be the first in PATH.
PYTHON = $(shell for p in python3 /usr/bin/python3; do $$p -c 'import h5py, numpy, matplotlib' 2>/dev/null && echo $$p && break; done || true)
CXX_FILES = $(shell git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.cu')
PY_FILES = $(shell git ls-files -co --exclude-standard '*.py')
SH_FILES = $(shell git ls-files -co --exclude-standard '*.sh') .ci/run .ci/nightly

.PHONY: all deps run test test-isa test-long nightly bench bench-peers bench-cluster bench-gpu gpu-bundle format lint tidy fuzz install clean asan cuda cudnn configure kokkos portable python

all: configure
	cmake --build $(BUILD) -j $(JOBS)

configure: deps
	cmake --preset cpu -B $(BUILD) $(CMAKE_ARGS)

# The program on portable kernels, for processors and compilers that the tuned ones do not know: build-portable/shoal.
portable: deps
	cmake --preset portable
	cmake --build build-portable -j $(JOBS) --target shoal

# Installs missing packages (Debian and Ubuntu; needs root only then). On clusters load modules instead: jobscripts/README.md.
deps:
	@./src/cmake/install_dependencies.sh

run: configure
	cmake --build $(BUILD) -j $(JOBS) --target shoal
	$(MPIEXEC) -n $(RANKS) $(SHOAL) train inputs/quickstart.cfg --output.dir=$(OUT) --output.overwrite
	$(PYTHON) analysis/report.py $(OUT)

test: all
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE long -j $(TEST_JOBS) $(TEST_ARGS)

# Tests kernels, models, plans of memory and whole runs as on processors with fewer instructions, and in builds for such
# processors.
test-isa: all
	tests/support/test_isa.sh $(BUILD) $(JOBS)

# All tests including the long ones, the sanitizers, the fuzzers.
test-long: all asan fuzz
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(TEST_JOBS)

# Takes hours: clang-tidy, all tests including the long ones, the sanitizers, a minute of every fuzzer.
nightly:
	.ci/nightly

asan: deps
	cmake --preset asan $(ASAN_ARGS)
	cmake --build build-asan -j $(JOBS)
	ctest --test-dir build-asan --output-on-failure --no-tests=error -LE 'long|cluster|contract' -E '@AVX512$(if $(ASAN_WITHOUT),|$(ASAN_WITHOUT))' -j $(TEST_JOBS)

# The program for three generations of NVIDIA's GPUs, build-cuda/shoal, and the tests for them (tests/gpu/README.md). Starts the
# program as on a machine without one. Attention is by cuDNN where it and the headers of its frontend are found; CMake says if
# not.
cuda: deps
	$(MAKE) cudnn || echo "make cuda: no headers of cuDNN's frontend from PyPI" >&2
	cmake --preset cuda -DSHOAL_TESTS=ON $(CUDA_ARGS)
	cmake --build build-cuda -j $(JOBS) --target shoal gpu_tests
	tests/gpu/starts_without_device.sh build-cuda/shoal

# What tests/gpu/run_all.sh needs on a machine that has CUDA, but no MPI nor HDF5.
gpu-bundle: configure
	cmake --build $(BUILD) -j $(JOBS) --target shoal kernels_bits
	tests/gpu/bundle.sh build-gpu-bundle/bundle.tar.xz $(BUILD)

# Speed on a GPU beside the machine's PyTorch. Ends with 77 without a GPU.
bench-gpu:
	python3 -B tests/gpu/bench.py --program $(firstword $(wildcard build-gpu/shoal build-cuda/shoal) build-cuda/shoal) $(BENCH_ARGS)

bench: all
	python3 tests/bench/bench.py --shoal $(SHOAL) $(BENCH_ARGS)

bench-peers: all
	python3 tests/bench/peers/bench_peers.py --shoal $(SHOAL) $(BENCH_ARGS)

# Strategies on virtual nodes with slow links: needs root and the tools in $SHOAL_SHARED/cluster. RATE: of a link, Gbit/s.
bench-cluster: all
	SHOAL_BINARY=$(abspath $(SHOAL)) tests/cluster/links_bench.sh || [ $$? -eq 77 ]
	SHOAL_BINARY=$(abspath $(SHOAL)) tests/cluster/strategies_bench.sh || [ $$? -eq 77 ]
	SHOAL_BINARY=$(abspath $(SHOAL)) tests/cluster/simulation_bench.sh || [ $$? -eq 77 ]
	$(PYTHON) tests/cluster/losses_bench.py --shoal $(abspath $(SHOAL))

# ruff is installed from PyPI into a virtual environment.
RUFF := build-lint/bin/ruff
$(RUFF):
	./src/cmake/install_dependencies.sh lint
	/usr/bin/python3 -m venv build-lint
	build-lint/bin/pip install --quiet ruff==0.14.0

# Python packages that tests compare results with (PyPI; 180 MB to download, 800 MB on disk). CMake finds this environment when it
# configures; without it two tests are skipped.
PYTHON_FOR_TESTS := build-python/complete
$(PYTHON_FOR_TESTS): tests/requirements.txt
	./src/cmake/install_dependencies.sh python
	/usr/bin/python3 -m venv --clear build-python
	build-python/bin/pip install --quiet -r tests/requirements.txt
	touch $@

python: $(PYTHON_FOR_TESTS)

# A Kokkos with OpenMP, from PyPI, with which tests run portable kernels in teams of threads. They are skipped without it.
build-kokkos/complete: tests/kernels/kokkos.txt
	./src/cmake/install_dependencies.sh python
	rm -rf build-kokkos && /usr/bin/python3 -m venv build-kokkos/venv
	build-kokkos/venv/bin/pip install --quiet --no-deps --require-hashes --target build-kokkos -r tests/kernels/kokkos.txt
	rm -r build-kokkos/venv
	touch $@
kokkos: build-kokkos/complete

# The C++ headers of cuDNN's frontend, from PyPI: the same wheel for each Python, since nothing else of it is used.
build-cudnn/complete: kernels/cuda/cudnn_frontend.txt
	./src/cmake/install_dependencies.sh python
	rm -rf build-cudnn && /usr/bin/python3 -m venv build-cudnn/venv
	build-cudnn/venv/bin/pip install --quiet --no-deps --require-hashes --only-binary=:all: --python-version 3.11 \
	  --platform manylinux_2_28_x86_64 --target build-cudnn/wheel -r kernels/cuda/cudnn_frontend.txt
	mv "$$(dirname "$$(find build-cudnn/wheel build-cudnn/wheel/include -maxdepth 1 -name cudnn_frontend.h -print -quit)")" build-cudnn/include
	rm -rf build-cudnn/venv build-cudnn/wheel
	touch $@
cudnn: build-cudnn/complete

format: $(RUFF)
	clang-format -i $(CXX_FILES)
	$(RUFF) format $(PY_FILES)

lint: $(RUFF)
	@clang-format --dry-run -Werror $(CXX_FILES)
	@shellcheck -x -P SCRIPTDIR $(SH_FILES)
	@$(RUFF) check $(PY_FILES)
	@$(RUFF) format --check $(PY_FILES)
	@echo "lint: clean"

# Slow: runs clang-tidy on every source file.
tidy: configure lint
	run-clang-tidy -quiet -p $(BUILD) -j $(JOBS) '^$(CURDIR)/(src|kernels)/'

# Coverage-guided fuzzing, a minute each, of the readers of decks, JSON, safetensors, tokens files, traces and checkpoints; or of
# some of them: FUZZERS="deck_fuzz json_fuzz".
fuzz:
	./src/cmake/install_dependencies.sh fuzz
	CXX=clang++ cmake -S tests/fuzz -B build-fuzz -G Ninja -DSHOAL_FUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build build-fuzz -j $(JOBS) $(if $(FUZZERS),--target $(FUZZERS))
	ctest --test-dir build-fuzz --output-on-failure --no-tests=error -j $(JOBS) $(if $(FUZZERS),-R 'fuzz/($(subst $(space),|,$(strip $(FUZZERS))))$$')

install: all
	cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf $(BUILD) build-isa-* build-asan build-cuda build-cudnn build-fuzz build-gpu build-gpu-bundle build-kokkos build-lint build-portable build-python
