# make setup   what minirun needs, on Debian 12 or newer, as root: packages, .venv, the launcher
# make demo    the first run: two GPUs (SIMULATED where there is no driver) put into a container
# make test    the tests, against the real kernel        make check   linters and types, then these
# make bench   the start measured against runc and crun  make clean   remove what setup has made
# make recordings   record anew what `minirun replay` ships    make reference   write its pages anew
# make conformance  what OCI's validation programs say of minirun, or of RUNTIME=runc

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: setup packages demo test check bench recordings reference conformance clean

# the interpreter and what python-prctl is compiled with; images; what tests and bench call
PACKAGES := python3 python3-venv python3-dev gcc libc6-dev libcap-dev libseccomp2 \
	mmdebstrap busybox-static strace hyperfine runc crun podman tmux iproute2 \
	chromium containerd containernetworking-plugins docker.io buildah \
	slurmctld slurmd slurm-client munge systemd dbus uidmap
PYTHON := .venv/bin/python
MINIRUN := .venv/bin/minirun
# Debian's Go, and the libraries that OCI's runtime-tools import: for `conformance` alone
GO_PACKAGES := apt golang-go golang-gocapability-dev golang-github-google-uuid-dev \
	golang-github-hashicorp-go-multierror-dev golang-github-mrunalp-fileutils-dev \
	golang-github-opencontainers-selinux-dev golang-github-opencontainers-specs-dev \
	golang-github-sirupsen-logrus-dev golang-github-urfave-cli-dev golang-golang-x-sys-dev \
	tar util-linux xz-utils
RUNTIME ?= $(abspath $(MINIRUN))
IMAGES := busybox debian ubuntu
# With CI set, a test that would skip for want of an ability fails instead.
export MINIRUN_REQUIRE ?= $(if $(CI),all)

setup: packages .venv/.ready
	@$(PYTHON) -m compileall -q minirun
	@$(PYTHON) -m minirun.launcher $(MINIRUN)

# Asked anew each time: the machine may be another one than last time. One dpkg-query, 20 ms.
packages:
	@missing=$$(comm -23 <(printf '%s\n' $(PACKAGES) | sort) <(dpkg-query --show \
		--showformat '$${db:Status-Status} $${Package}\n' | sed -n 's/^installed //p' | sort)); \
	if [ -n "$$missing" ]; then \
		export DEBIAN_FRONTEND=noninteractive; \
		install=(apt-get install --yes --no-install-recommends $$missing); \
		"$${install[@]}" || { apt-get update && "$${install[@]}"; }; \
	fi

# Debian's own Python, whatever else comes first in PATH: it lies where only root can write.
.venv/.ready: pyproject.toml Makefile
	/usr/bin/python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --editable '.[test]'
	@touch $@

demo: setup
	@$(PYTHON) rootfs-tools/build ubuntu
	$(MINIRUN) run --rm --gpus 0,1 --progress tty ubuntu sh -c 'ls -l /dev; nvidia-smi -L'

test: setup
	@$(PYTHON) rootfs-tools/build $(IMAGES)
	$(PYTHON) -m pytest -n 2 $(PYTEST)
	$(if $(CI),@$(MAKE) --no-print-directory conformance)

check: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	@$(MAKE) --no-print-directory test

bench: setup
	@$(PYTHON) rootfs-tools/build busybox
	$(PYTHON) tests/bench/run.py
	$(PYTHON) tests/bench/engines.py

conformance: setup
	@$(MAKE) --no-print-directory packages PACKAGES='$(GO_PACKAGES)'
	@nice $(PYTHON) tests/conformance/run.py --runtime $(RUNTIME)

# The reference pages that are counted or collected, and not written by hand.
reference:
	$(PYTHON) tests/spec/page.py

recordings: setup
	@$(PYTHON) rootfs-tools/build busybox
	$(PYTHON) tests/recordings/make.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis minirun.egg-info build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
