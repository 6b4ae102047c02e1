# make help    these lines
# make setup   what minirun needs, on Debian or Ubuntu, as root: packages, .venv, the launcher
# make demo    the first run: two GPUs (SIMULATED where there is no driver) put into a container
# make lab     the lessons in JupyterLab, on this machine alone
# make quick   the tests of the core and of what differs from main, or SINCE=HEAD: 3 minutes at most
# make test    what the tests need, masked; then all tests, against the real kernel: about half an hour
# make mutants  wrong programs of the ladder, all of them: each gets its hint; `test` tries a quarter, MUTANTS=1
# make night   the tests with all seeds, examples and broken configurations: some hours
# make engines   runc's answers below engines, and docker's, which the tests keep, anew
# make check   linters and types, then these              make clean   remove what lies in here
# make bench   the start measured against runc and crun
# make recordings   record anew what `minirun replay` ships
# make reference   write its pages anew          make man   minirun.1 and one for each command: build/man
# make path    trace a start, without and with GPUs: tutorials/reference/one-start.md, every function of it
# make notebooks  write them, and what the lessons ship, from tutorials/NN-topic.LANGUAGE.md
# make levels  the programs of the ladder, from tutorials/levels/ladder.txt
# make quotes  what the pages quote of the tree, written anew; what is to be read again is said
# make site    the lessons, notebooks with outputs, reference, recordings: build/site; LESSONS="…"
# make tab     a real Linux with minirun, in a browser: build/site/tab; as root, some minutes
# make slides  of the lessons, for the arrow keys: build/slides; LESSONS="…" for some
# make assignment  the labs as notebooks for nbgrader: build/assignment; LESSONS="…" for some
# make release VERSION=X.Y.Z  write the version, build a wheel, an sdist and a .deb: build/release
# make pictures   draw anew, from these, the pictures of the README and the tutorials
# make matrix  demo and tests on a bare Debian 12, 13 and sid, or SUITES="noble" (Ubuntu), PYTEST="…"
# make test-v2  tests on a pure cgroup v2 Debian in QEMU; SUITE=trixie, PYTEST="…" as for test
# make vm      a disk with minirun for a laptop that has QEMU, and the lines that start it: build/vm
# make journeys  what the pages promise, typed on fresh machines; SURROUNDINGS="user", JOURNEYS="lab"
# make conformance  what OCI's validation programs say of minirun, or of RUNTIME=runc
# make bats    runc's own tests against minirun and runc, side by side; FILES="exec tty" for some

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help setup packages tested launcher store images demo lab quick test mutants night engines check bench matrix \
	test-v2 vm journeys recordings notebooks levels quotes site slides assignment pictures reference path man tab \
	conformance bats release clean

# the interpreter, and what makes images; what minirun can do without, for names of processes,
# networks, and names by DNS there
NEEDED := python3 python3-venv mmdebstrap libseccomp2
USEFUL := python3-prctl nftables python3-dnspython
# what tests and bench call
TESTED := busybox-static gcc libc6-dev strace hyperfine runc crun podman criu tmux iproute2 chromium \
	containerd containernetworking-plugins docker.io docker-cli|docker.io buildah slurmctld \
	slurmd slurm-client munge systemd dbus uidmap umoci zstd skopeo docker-registry apache2-utils openssl passt slirp4netns \
	util-linux-extra debian-archive-keyring zsh fish e2fsprogs squashfs-tools firefox-esr
PYTHON := .venv/bin/python
PUBLISH := $(PYTHON) -m tutorials.publish
MINIRUN := .venv/bin/minirun
# What makes a machine of another processor, and what starts one.
FOREIGN := $(if $(findstring :arm64,$(SUITE)),qemu-user-static arch-test qemu-system-arm)
MACHINE = .ci/packages $(or $(FOREIGN),qemu-system-x86) openssh-client
SITE := import sysconfig; print(sysconfig.get_path("platlib"))
# Debian's Go, and the libraries that OCI's runtime-tools import: for `conformance` alone
GO_PACKAGES := apt golang-go golang-gocapability-dev golang-github-google-uuid-dev \
	golang-github-hashicorp-go-multierror-dev golang-github-mrunalp-fileutils-dev \
	golang-github-opencontainers-selinux-dev golang-github-opencontainers-specs-dev \
	golang-github-sirupsen-logrus-dev golang-github-urfave-cli-dev golang-golang-x-sys-dev \
	tar util-linux xz-utils
# What runc's own tests call, and the libraries of their three helpers in Go: for `bats` alone
BATS_PACKAGES := apt bats busybox-static gawk gcc golang-go golang-dbus-dev \
	golang-github-cilium-ebpf-dev golang-github-containerd-console-dev golang-github-coreos-go-systemd-dev \
	golang-github-cyphar-filepath-securejoin-dev golang-github-moby-sys-dev \
	golang-github-opencontainers-specs-dev golang-github-seccomp-libseccomp-golang-dev \
	golang-github-sirupsen-logrus-dev golang-github-urfave-cli-dev golang-golang-x-sys-dev jq \
	libc6-dev libseccomp-dev pkgconf runc tar util-linux xz-utils
RUNTIME ?= $(abspath $(MINIRUN))
SUITE ?= trixie
IMAGES := busybox debian ubuntu
# With CI set, a test that would skip for want of an ability that can be had fails instead.
export MINIRUN_REQUIRE ?= $(if $(CI),all)
# Which quarter of the ladder's wrong programs the tests try: 1 to 4, or all.
export MUTANTS ?= 1

setup: packages .venv/.ready launcher

help:
	@grep '^# make ' Makefile | cut --characters=3-

# The machine is asked anew each time: it may be another one than last time.
packages:
	@.ci/packages $(NEEDED) --optional $(USEFUL)

tested: setup .venv/.tested
	@.ci/packages --optional $(foreach name,$(TESTED),'$(name)')

# Debian's own Python, whatever else comes first in PATH: it lies where only root can write. Ubuntu
# 22.04 has one that is too old, and a newer one beside it.
# Of Debian's python-prctl the .venv gets links: pip would need a compiler for it. Of dnspython too.
.venv/.ready: pyproject.toml Makefile | packages
	@base=/usr/bin/python3; $$base -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ .ci/packages python3.11 python3.11-venv; base=/usr/bin/python3.11; }; $$base -m venv .venv
	@$(PYTHON) -c 'import _prctl' 2>/dev/null || find /usr/lib/python3/dist-packages -maxdepth 1 \
		-name '*prctl*' -exec ln -sfnt "$$($(PYTHON) -c '$(SITE)')" {} +
	@$(PYTHON) -c 'import dns' 2>/dev/null || find /usr/lib/python3/dist-packages -maxdepth 1 \
		\( -name dns -o -name 'dnspython-*' \) -exec ln -sfnt "$$($(PYTHON) -c '$(SITE)')" {} +
	$(PYTHON) .ci/install
	@touch $@

# No Jupyter on a machine of 32 bits: of pyzmq and psutil, which it needs, there is no wheel for it.
EXTRAS := test more $(if $(filter i686,$(shell uname -m)),,lab site grading)
.venv/.tested: .venv/.ready
	$(PYTHON) .ci/install $(EXTRAS)
	@touch $@ .venv/.lab .venv/.site

launcher: .venv/.ready
	@$(PYTHON) -m compileall -q minirun rootfs-tools/rootfs_tools
	@$(PYTHON) -m minirun.fast.launcher $(MINIRUN)
	@$(PYTHON) -c 'from minirun.faces.knowledge import source; source.keep()'

demo: setup
	@$(PYTHON) rootfs-tools/build ubuntu
	$(MINIRUN) run --rm --gpus 0,1 --progress lanes ubuntu sh -c 'ls -l /dev; nvidia-smi -L'

# The lessons in JupyterLab, on this machine alone; its address, with a token, is printed. No news, nor
# a look for updates: both ask hosts outside. The question about news is a setting of the browser's
# side, whose default is written into .venv. JUPYTER="--no-browser" and the like go to it.
.venv/.lab: .venv/.ready
	$(PYTHON) .ci/install lab
	@touch $@

NO_NEWS := {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}

lab: setup .venv/.lab
	@[ $$(id -u) != 0 ] || $(PYTHON) rootfs-tools/build ubuntu
	@mkdir -p .venv/share/jupyter/lab/settings
	@echo '$(NO_NEWS)' > .venv/share/jupyter/lab/settings/overrides.json
	$(PYTHON) -m jupyter lab --ip=127.0.0.1 --allow-root \
		--ServerApp.root_dir=. --ServerApp.preferred_dir=notebooks \
		--LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(JUPYTER)

store: setup
	@$(PYTHON) rootfs-tools/build $(IMAGES)

images: tested store

# Three workers for two processors, since tests often wait; each begins with a third of the list, so
# that an engine or a browser is started once, and takes over from another when it is through. What
# pytest makes of a file of tests is kept for the other workers, also where Python is told not to.
test: export PYTHONDONTWRITEBYTECODE :=
test: images
	@echo "of the ladder's wrong programs: quarter $(MUTANTS)"
	$(PYTHON) -m pytest -n 3 --dist worksteal $(PYTEST)
	$(if $(CI),@$(MAKE) --no-print-directory conformance)

# What is changed since SINCE, with its neighbours in tests/: tests/quick.py.
SINCE := main
quick: tested
	$(PYTHON) tests/quick.py --since $(SINCE) -- $(PYTEST)

mutants night: MUTANTS := all
mutants: tested
	@.ci/packages apt golang-go rustc
	@go version; rustc --version
	$(PYTHON) -m pytest -n 3 --dist worksteal tests/faces/teach/levels/test_mutants.py \
		tests/faces/teach/levels/test_languages.py tests/faces/teach/levels/test_own_program.py $(PYTEST)

night: export MINIRUN_FUZZ ?= 2200
night: test

engines: images
	$(PYTHON) -m pytest -n 3 --dist worksteal --peers=keep tests/engines/clients \
		tests/{cli/run,docker}/test_*_beside_docker.py $(PYTEST)

check: tested
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	@$(MAKE) --no-print-directory test

bench: tested
	@$(PYTHON) rootfs-tools/build busybox ubuntu
	$(PYTHON) tests/bench/run.py
	$(PYTHON) tests/bench/with_engines.py
	$(PYTHON) tests/bench/networks.py
	$(PYTHON) tests/bench/many_machines.py
	$(PYTHON) tests/bench/images.py
	$(PYTHON) tests/bench/observed.py
	$(PYTHON) tests/bench/room.py

matrix: tested
	@$(PYTHON) tests/setup/matrix.py $(SUITES) --pytest '$(PYTEST)'

vm: setup
	@.ci/packages e2fsprogs qemu-utils $(filter-out qemu-system%,$(FOREIGN))
	@$(PYTHON) rootfs-tools/machines/vm.py --suite $(SUITE)

test-v2: setup
	@$(MACHINE)
	@$(PYTHON) tests/v2/run.py --suite $(SUITE) --pytest '$(PYTEST)'

journeys: tested
	$(if $(SURROUNDINGS),$(if $(findstring booted,$(SURROUNDINGS)),@$(MACHINE)),@$(MACHINE))
	@$(PYTHON) tests/journeys/run.py --surroundings '$(SURROUNDINGS)' --journeys '$(JOURNEYS)'

conformance: setup
	@.ci/packages $(GO_PACKAGES)
	@nice $(PYTHON) tests/conformance/run.py --runtime $(RUNTIME)

bats: setup
	@.ci/packages $(BATS_PACKAGES)
	@$(PYTHON) rootfs-tools/build busybox debian
	@nice $(PYTHON) tests/bats/run.py --runtime $(RUNTIME) $(FILES)

# The reference pages that are counted or collected, and not written by hand.
reference:
	$(PUBLISH).reference
	$(PYTHON) tests/journeys/page.py

path: tested
	@$(PYTHON) rootfs-tools/build busybox
	$(PUBLISH).reference.one_start

man: setup
	@$(PUBLISH).man

.venv/.release: .venv/.ready
	$(PYTHON) .ci/install release
	@touch $@

# Nothing is committed, tagged or pushed: the lines for that are printed.
release: setup .venv/.release
	@$(PYTHON) .ci/release '$(VERSION)' --depends $(NEEDED) --recommends $(USEFUL)

recordings: tested
	@$(PYTHON) rootfs-tools/build busybox ubuntu
	$(PUBLISH).recordings

# Every command of every lesson is run, and its output kept: LESSONS="07-devices" for one.
levels: .venv/.ready
	$(PUBLISH).levels

notebooks: tested
	@$(PYTHON) rootfs-tools/build busybox ubuntu
	$(PUBLISH).notebooks $(LESSONS)

quotes:
	@$(PUBLISH).quotes

.venv/.site: .venv/.ready
	$(PYTHON) .ci/install site
	@touch $@

site: setup .venv/.site
	@$(PUBLISH).site $(LESSONS)

# Node is asked for by its programs: Debian's packages are not the only ones that have it.
TAB := mmdebstrap arch-test cpio seabios squashfs-tools util-linux

tab: setup
	@.ci/packages $(TAB)
	@{ command -v node && command -v npm; } >/dev/null || .ci/packages nodejs npm
	@nice $(PUBLISH).tab

slides: setup .venv/.site
	@$(PUBLISH).slides $(LESSONS)

# The labs for nbgrader: what the students get, and what an instructor keeps.
assignment: setup
	$(PYTHON) .ci/install lab grading
	@$(PUBLISH).assignment $(LESSONS)

# The pictures are drawn by the program, and a test compares them.
pictures: tested
	$(MINIRUN) replay figure-1 --figure 1 --svg tutorials/pictures/figure-1.svg
	$(MINIRUN) replay gpus-0-1 --figure 2 --svg tutorials/pictures/figure-2.svg
	$(MINIRUN) --lang en replay cdi --figure 4 --svg tutorials/pictures/figure-4.svg
	$(MINIRUN) --lang ko replay cdi --figure 4 --svg tutorials/pictures/figure-4.ko.svg
	$(MINIRUN) --lang en replay gpus-0-1 --figure 3 --svg tutorials/pictures/figure-3.svg
	$(MINIRUN) --lang ko replay gpus-0-1 --figure 3 --svg tutorials/pictures/figure-3.ko.svg
	$(MINIRUN) --lang en replay slurm --figure 3 --svg tutorials/pictures/figure-3-slurm.svg
	$(MINIRUN) --lang en replay swarm --figure 3 --svg tutorials/pictures/figure-3-swarm.svg
	for stage in 1 2 3 4 5 7; do for in in en ko; do \
		$(MINIRUN) --lang $$in replay gpus-0-1 --figure 3 --upto $$stage \
		--svg tutorials/pictures/figure-3-upto-$$stage$$([ $$in = en ] || echo .$$in).svg; done; done

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis minirun.egg-info build dist .v2 .journeys
	find minirun tests tutorials notebooks rootfs-tools -name __pycache__ -prune -exec rm -rf {} +
