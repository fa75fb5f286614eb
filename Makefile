# SPDX-License-Identifier: Apache-2.0
# paddlectl - one Makefile. Objects live in build/FLAVOR, one folder per set of flags:
#   make                      release build, programs in build/release (build/bin points there)
#   make DEV=1                the same with -Werror
#   make V=1                  whole commands in place of short lines
#   make SANITIZE=address,undefined | thread
#   make test | soak | demo | bench | quality | goldens | docs | recording | man | deb | wheel | release |
#   install PREFIX= LIBDIR= DESTDIR= | compile_commands.json

CC      ?= gcc
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
PKG     ?= pkg-config

# $(call say,CC,FILE)COMMAND: a short line in place of the command; with V=1 the command, with -s neither.
ifneq ($(V),1)
say = @$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,echo $(1) $(2);)
.SILENT: install dist clean reference
endif

FLAVOR  := release
CFLAGS_OPT := -O3 -g
ifneq ($(DEV),)
FLAVOR  := dev
WERROR  := -Werror
endif
ifneq ($(SANITIZE),)
comma   := ,
FLAVOR  := san-$(subst $(comma),-,$(SANITIZE))
CFLAGS_OPT := -O1 -g1 -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
endif
ifneq ($(FUZZ),)
FLAVOR  := fuzz
CC      := $(filter ccache,$(CC)) clang
SANITIZE := address,undefined
CFLAGS_OPT := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wno-unknown-warning-option
endif
B := build/$(FLAVOR)

# -ffp-contract=off: a fused multiply-add rounds once where two operations round twice; without this the
# bits of a result would depend on which clone of a kernel the CPU selects.
# -fno-math-errno: sqrtf is then the one exact instruction, in every lane of a vectorised loop.
# -ffile-prefix-map: no file has the path of this folder in it, so that builds in two folders are equal.
# The shell sets PWD: the flags themselves are the same everywhere.
BASE_H := -include src/base/base.h
CFLAGS_ALL = -std=gnu11 -D_GNU_SOURCE -Isrc -I. $(BASE_H) $(CFLAGS_OPT) \
    -Wall -Wextra -Wformat=2 -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -ffp-contract=off -fno-math-errno -ffunction-sections \
    -fdata-sections -ffile-prefix-map="$$PWD"=. $(HARDEN) $(WERROR) $(CFLAGS)
LDFLAGS_ALL = -Wl,--gc-sections $(HARDEN_LINK) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(filter thread,$(SANITIZE)),tests/support/c/tsan_close.c) $(LDFLAGS)

# --- hardening: tests/integration/security/hardening.sh reads the programs ----------------------------
# A flag that the compiler does not know is left out. The kernels have the same flags: none of them adds
# an instruction to a loop (endbr64 stands at the beginning of functions, stack probes in frames above 4 KiB).
knows = $(shell printf '\043include <stdio.h>\nint main(void) { return 0; }\n' | $(CC) -Werror -O2 $(1) -x c -c - -o /dev/null 2>/dev/null && echo '$(1)')
FORTIFY := $(if $(SANITIZE),,$(or $(call knows,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN := -fPIE -fstack-protector-strong $(call knows,-fstack-clash-protection) $(call knows,-fcf-protection) $(FORTIFY)
HARDEN_LINK := -Wl,-z,relro,-z,now,-z,noexecstack

# --- what each program links -------------------------------------------------------------------------
libdir := $(shell $(PKG) --variable=libdir libuv 2>/dev/null)
BLAS   := $(firstword $(wildcard $(libdir)/openblas-serial/libopenblas.a /usr/lib/*/openblas-serial/libopenblas.a))
# Its work buffers are handed out under a lock of ours: src/nn/kernels/gemm.c.
BLAS_LINK := $(BLAS) -Wl,--wrap=blas_memory_alloc,--wrap=blas_memory_free
BLAS_CFLAGS := $(addprefix -I,$(firstword $(wildcard $(libdir:/usr/lib/%=/usr/include/%)/openblas-serial /usr/include/*/openblas-serial)))
CFLAGS_ALL += $(BLAS_CFLAGS)

# Static archives by name: the node programs must run on any Linux of this architecture.
A = $(firstword $(wildcard $(libdir)/lib$(1).a /usr/lib/*/lib$(1).a))
UV_A := $(firstword $(wildcard $(libdir)/libuv_a.a $(libdir)/libuv.a))
NODE_LIBS   = $(UV_A) $(call A,inih) $(call A,sodium) $(call A,jansson) $(call A,zstd) $(call A,z) -lpthread -ldl -lm
CLIENT_LIBS = $(shell $(PKG) --libs libssh libcrypto libuv libsodium jansson libarchive libzstd zlib INIReader 2>/dev/null | sed 's/-lINIReader//') \
    -linih -lprotobuf-c -lpthread -lm

# A sanitizer's runtime can't be linked static.
STATIC := $(if $(SANITIZE),-pie,-static-pie)

MODULES := base thread math conf wire net pack agent ps model_ini nn data model train capi
src_of   = $(sort $(wildcard $(1)/*.c $(1)/*/*.c))
obj_of   = $(patsubst %.c,$(B)/%.o,$(1))
LIB_OBJS := $(foreach m,$(MODULES),$(call obj_of,$(call src_of,src/$(m))))
LAUNCHER_SRCS := $(call src_of,launcher)
EVENT := $(B)/launcher/tensorboard/event.pb-c
LAUNCHER_OBJS := $(call obj_of,$(filter-out launcher/main.c,$(LAUNCHER_SRCS))) $(EVENT).o
WORKER_OBJS := $(call obj_of,$(filter-out worker/agent_main.c worker/worker_main.c,$(call src_of,worker)))
LIBPADDLE := $(B)/libpaddle.a
PROGRAMS := $(B)/paddlectl $(B)/paddle_agent $(B)/paddle_worker

# The client library (src/capi): the same sources once more as position-independent code; everything but its calls is hidden, what
# they don't need is left out. A sanitizer's runtime can't come with a library.
CAPI_SRCS := $(filter-out src/wire/aes_openssl.c,$(foreach m,base thread math conf wire net ps model capi,$(call src_of,src/$(m))))
CAPI_OBJS := $(patsubst %.c,$(B)/pic/%.o,$(CAPI_SRCS))
CAPI_SO   := $(B)/libpaddle_ps.so.1
CAPI_LIBS := -luv -lsodium -ljansson -linih -lpthread -lm
CAPI_MAP  := src/capi/exports.map
CAPI_ALL  := $(if $(SANITIZE),,$(CAPI_SO))

.PHONY: all test test-fast demo bench install clean packages-build packages-demo packages-test check-sources FORCE
# The node's programs as they travel. The seed makes its own system calls: not for every architecture.
HAS_SEED := $(if $(SANITIZE),1,$(filter x86_64-% aarch64-%,$(shell $(CC) -dumpmachine)))
PACKED := $(B)/paddle_agent.gz $(if $(HAS_SEED),$(B)/paddle_seed) $(if $(SANITIZE),,$(B)/paddle_worker.zst)

all: $(PROGRAMS) $(PACKED) $(CAPI_ALL) build/bin

build/bin: | $(B)
	@[ "$(FLAVOR)" != release ] || ln -sfn release build/bin

$(B):
	@mkdir -p $@

# Tests may call more of libc than the programs: src/base/base.h. Their compilation costs more time
# than their runs.
TEST_OPT := $(if $(SANITIZE),-O0,-O1) -Wno-format-truncation
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS_ALL) $(if $(filter tests/% bench/%,$<),-DPD_TEST) $(if $(filter tests/%,$<),$(TEST_OPT)) -MMD -MP -c $< -o $@

# The page of `paddlectl report` has these files in it.
DYGRAPHS ?= /usr/share/javascript/dygraphs
DYGRAPHS_LICENCE ?= /usr/share/doc/libjs-dygraphs/copyright
$(B)/launcher/report/report_page.o: private CFLAGS_ALL += -DDYGRAPHS='"$(DYGRAPHS)"' -DDYGRAPHS_LICENCE='"$(DYGRAPHS_LICENCE)"'
$(B)/launcher/report/report_page.o: $(wildcard launcher/report/*.js launcher/report/*.css launcher/report/*.html) \
    $(DYGRAPHS)/dygraph.min.js

# protobuf-c's code for the messages of event files. Its warnings are not ours.
$(EVENT).c: launcher/tensorboard/event.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$<)protoc-c --c_out=$(@D) --proto_path=$(<D) $<
$(EVENT).h: $(EVENT).c ;
$(EVENT).o: $(EVENT).c $(B)/flags
	$(call say,CC,$<)$(CC) $(CFLAGS_ALL) -w -MMD -MP -c $< -o $@
$(B)/launcher/tensorboard/tensorboard.o: private CFLAGS_ALL += -I$(B)/launcher/tensorboard
$(B)/launcher/tensorboard/tensorboard.o: $(EVENT).h

# Rebuild when the flags change.
$(B)/flags: FORCE | $(B)
	@echo '$(CC) $(CFLAGS_ALL)' | cmp -s - $@ || echo '$(CC) $(CFLAGS_ALL)' > $@

$(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< -fPIC)$(CC) $(CFLAGS_ALL) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

# It finds the libraries that lie beside it: a workspace brings them all, since nodes have nothing installed.
$(CAPI_SO): $(CAPI_OBJS) $(CAPI_MAP)
	$(call say,LD,$(@F))$(CC) -shared -Wl,-soname,libpaddle_ps.so.1 -Wl,-rpath,'$$ORIGIN' -Wl,-z,defs -Wl,--version-script=$(CAPI_MAP) $(LDFLAGS_ALL) \
	    $(CAPI_OBJS) $(CAPI_LIBS) -o $@

$(LIBPADDLE): $(LIB_OBJS)
	@rm -f $@
	$(call say,AR,$(@F))ar rcs $@ $^

$(B)/liblauncher.a: $(LAUNCHER_OBJS)
	@rm -f $@
	$(call say,AR,$(@F))ar rcs $@ $^

$(B)/libworker.a: $(WORKER_OBJS)
	@rm -f $@
	$(call say,AR,$(@F))ar rcs $@ $^

# Its calls are weak references, so that the static file does without: launcher/dashboard/dashboard_http.c.
$(B)/paddlectl: $(B)/launcher/main.o $(B)/liblauncher.a $(LIBPADDLE)
	$(call say,LD,$(@F))$(CC) -pie $(LDFLAGS_ALL) $^ $(CLIENT_LIBS) -Wl,--no-as-needed -lmicrohttpd -o $@

$(B)/paddle_agent: $(B)/worker/agent_main.o $(B)/libworker.a $(LIBPADDLE)
	$(call say,LD,$(@F))$(CC) $(STATIC) $(LDFLAGS_ALL) $^ $(NODE_LIBS) -o $@
	$(if $(SANITIZE),,$(call say,STRIP,$(@F))strip $@)

$(B)/paddle_agent.gz: $(B)/paddle_agent
	$(call say,GZIP,$(@F))gzip $(if $(SANITIZE),-1,-9)nc $< >$@

# Some kB: no libc (src/seed/sys.h), one segment. With a sanitizer it is a program like any other.
SEED_CFLAGS := -std=gnu11 -Isrc -Wall -Wextra -Wformat=2 -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings $(WERROR)
# Position-independent without a relocation, so that it needs no loader; its one segment is read-only.
SEED_BARE := -O2 -static-pie -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns \
    -fPIE $(call knows,-fcf-protection) -ffunction-sections -Wl,--gc-sections,-z,noseparate-code,-z,norelro,-z,noexecstack,--no-dynamic-linker,--build-id=none -s
$(B)/paddle_seed: $(wildcard src/seed/*.c src/seed/*.h) src/base/blake2b_tables.h $(B)/flags
	$(call say,LD,$(@F))$(CC) $(SEED_CFLAGS) $(if $(SANITIZE),-D_GNU_SOURCE -DSEED_LIBC $(CFLAGS_OPT),$(SEED_BARE)) $(filter %.c,$^) -o $@

$(B)/paddle_worker: $(B)/worker/worker_main.o $(B)/libworker.a $(LIBPADDLE)
	$(call say,LD,$(@F))$(CC) $(STATIC) $(LDFLAGS_ALL) $^ $(BLAS_LINK) $(call A,crypto) $(NODE_LIBS) -o $@
	$(if $(SANITIZE),,$(call say,STRIP,$(@F))strip -g $@)

# Where there is no zstd here, it travels as it is.
$(B)/paddle_worker.zst: $(B)/paddle_worker
	$(call say,ZSTD,$(@F))if command -v zstd >/dev/null; then zstd -q -f -9 --check $< -o $@ && touch $@; else rm -f $@; fi

# --- tests: a program per tests/unit/FOLDER/test_*.c, a script per tests/integration/*/*.sh --------
UNIT_SRCS := $(wildcard tests/unit/*/test_*.c)
UNIT := $(patsubst %.c,$(B)/%,$(UNIT_SRCS))

$(UNIT): %: %.o $(B)/tests/support/c/alloc_fails.o $(B)/liblauncher.a $(B)/libworker.a $(LIBPADDLE)
	$(call say,LD,$(@F))$(CC) $(LDFLAGS_ALL) -Wl,--wrap=pd_fault,--wrap=pd_secret_new,--wrap=pd_secret_free $(filter %.o,$^) $(filter %.a,$^) $(BLAS_LINK) $(CLIENT_LIBS) -lcmocka -o $@

$(B)/tests/unit/launcher/test_launch_seed: | $(if $(HAS_SEED),$(B)/paddle_seed)
# Jobs on a simulated clock and network: the calls of tests/sim/wraps end there.
SIM_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/sim/*.c))
SIM_TESTS := $(addprefix $(B)/tests/unit/agent/,test_agent_sim test_agent_sim_claims)
$(SIM_TESTS): $(SIM_OBJS) | tests/sim/wraps
$(SIM_TESTS): LDFLAGS_ALL += -Wl,@tests/sim/wraps
# Claims of a job, on a clock of the test.
$(B)/tests/unit/launcher/test_launch_claims: LDFLAGS_ALL += -Wl,--wrap=clock_gettime,--wrap=view_printf
$(B)/tests/unit/train/test_train_allocs: LDFLAGS_ALL += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
unit: $(UNIT)
# Every object of the programs, for tests/integration/source/layers.sh.
objects: $(LIB_OBJS) $(LAUNCHER_OBJS) $(WORKER_OBJS) \
    $(call obj_of,launcher/main.c worker/agent_main.c worker/worker_main.c)
.PHONY: unit objects

# bench/programs/NAME.c is build/FLAVOUR/bench/NAME; their scripts build them.
$(B)/bench/%: $(B)/bench/programs/%.o $(LIBPADDLE)
	@mkdir -p $(@D)
	$(call say,LD,$(@F))$(CC) $(LDFLAGS_ALL) $^ $(BLAS_LINK) $(CLIENT_LIBS) -o $@
$(B)/bench/products: LDFLAGS_ALL += -Wl,--wrap=nn_gemm
bench-programs: $(patsubst bench/programs/%.c,$(B)/bench/%,$(wildcard bench/programs/*.c))
.PHONY: bench-programs

# libFuzzer targets, in a flavour of their own: make FUZZ=1 fuzzers. FUZZ_SECONDS bounds each in `make fuzz`.
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/liblauncher.a $(B)/libworker.a $(LIBPADDLE)
	@mkdir -p $(@D)
	$(call say,LD,$(@F))$(CC) -fsanitize=fuzzer $(LDFLAGS_ALL) $^ $(BLAS_LINK) $(CLIENT_LIBS) -o $@

# The fuzzers without libFuzzer, with the objects of a sanitizer's flavour:
# tests/support/fuzz/replay.c.
REPLAYS := $(patsubst tests/fuzz/%.c,$(B)/replay/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/replay/%: $(B)/tests/fuzz/%.o $(B)/tests/support/fuzz/replay.o $(B)/liblauncher.a $(B)/libworker.a $(LIBPADDLE)
	@mkdir -p $(@D)
	$(call say,LD,$(@F))$(CC) $(LDFLAGS_ALL) $^ $(BLAS_LINK) $(CLIENT_LIBS) -o $@
replays: $(REPLAYS)
.PHONY: replays

# It has src/seed in it, which has no libc.
$(B)/tests/fuzz/fuzz_seed.o: BASE_H :=
fuzzers: $(FUZZERS)
fuzz:
	@$(MAKE) --no-print-directory FUZZ=1 fuzzers
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} tests/support/fuzz-all
.PHONY: fuzz fuzzers

packages-build packages-demo packages-test packages-bench packages-docs: packages-%:
	@tests/support/install-packages build demo $* $(ENGINE) $(and $(filter test,$*),bench)

test: packages-test
	@tests/run-all

# async, ssp and geo against sync with the word model of the template: ten minutes. docs/results.md has the figures.
quality: all
	@MODES_FULL=1 bash tests/integration/train/quality_modes.sh
.PHONY: quality

# PyTorch's results, with which tests/integration/train/train_goldens.sh and quality.sh compare ours.
# Needs python3-torch and python3-numpy.
goldens: all
	@/usr/bin/python3 tests/goldens/make.py $(B) tests/goldens
	@/usr/bin/python3 tests/goldens/perplexity.py $(B) tests/goldens
.PHONY: goldens

# ENGINE=slurm, mpi: the same job on a Slurm, or on the hosts of an mpirun, of this machine.
demo: packages-demo
	@$(MAKE) --no-print-directory all
	@tests/support/demo $(ENGINE)

# Random kills of every part of a job, and what remains: nothing. SOAK_KILLS, SOAK_SEED and more: see tests/soak/soak.py.
# Then 100,000 schedules of a simulated job (docs/folders/agent.md), the allocations of all unit tests and 1,000 scenarios of docs/faults.md.
# Interrupted, these two continue where they were: build/unit-allocs-$(FAULTS_SEED).jsonl, build/faults-$(FAULTS_SEED).jsonl.
# Then every fuzzer (docs/fuzzing.md), the integration tests with sanitizers, and Slurm, Open MPI and
# kubectl of Debian 13.
FAULTS_SEED ?= 1
FAULTS ?= 1000
soak: packages-test
	@$(MAKE) --no-print-directory all
	@tests/soak/soak.py
	@$(MAKE) --no-print-directory DEV=1 build/dev/tests/unit/agent/test_agent_sim build/dev/tests/unit/agent/test_agent_sim_claims
	@build/dev/tests/unit/agent/test_agent_sim --count=100000
	@build/dev/tests/unit/agent/test_agent_sim_claims --count=100000
	@$(MAKE) --no-print-directory SANITIZE=address,undefined unit
	@tests/faults/unit_allocs --seed=$(FAULTS_SEED) --report=build/unit-allocs-$(FAULTS_SEED).jsonl
	@tests/faults/faults --count=$(FAULTS) --seed=$(FAULTS_SEED) --report=build/faults-$(FAULTS_SEED).jsonl
	@$(MAKE) --no-print-directory fuzz
	@FLAVOURS=san tests/run-all integration/san
	@WHOLE=1 FLAVOURS=release tests/run-all source/reproducible
	@WHOLE=1 FLAVOURS=release tests/run-all train/cpu_matrix
	@DEBIAN_STEPS="engines packages" tests/soak/debian 13 || [ $$? = 77 ]
.PHONY: soak

bench: packages-bench
	@$(MAKE) --no-print-directory all
	@bench/run --all

SOURCES := $(foreach m,$(MODULES),$(call src_of,src/$(m))) $(LAUNCHER_SRCS) $(call src_of,worker) $(UNIT_SRCS)

compile_commands.json: $(B)/flags
	@{ echo '['; sep=; for f in $(SOURCES); do \
	  printf '%s{"directory":"%s","file":"%s","command":"%s"}\n' "$$sep" '$(CURDIR)' "$$f" "$(CC) $(CFLAGS_ALL) -c $$f"; sep=,; done; echo ']'; } > $@

# The format of .clang-format, which tests/integration/source/format.sh compares with.
format:
	@find src launcher worker tests bench -name '*.[ch]' | xargs clang-format -i
.PHONY: format

# The sources of the last commit; the same commit gives the same bytes.
VERSION := $(shell sed -n 's/.*PD_VERSION "\(.*\)"/\1/p' src/base/version.h)
dist:
	@mkdir -p build
	git -c tar.umask=0022 archive --format=tar --prefix=paddlectl-$(VERSION)/ HEAD | gzip -9n >build/paddlectl-$(VERSION).tar.gz
	@echo build/paddlectl-$(VERSION).tar.gz
.PHONY: dist

# docs/demo.svg: a real run, as it is seen on a terminal.
recording: all
	@tests/support/documents/record.py docs/demo.svg --share=1
.PHONY: recording

# README.md and docs as HTML in build/docs; fails if a link leads nowhere.
docs: packages-docs
	@docs/site.py build/docs
.PHONY: docs

# docs/train-ini.md is what the program prints; the interfaces' pages come from their sources.
reference: all
	$(B)/paddlectl help train.ini >docs/train-ini.md
	docs/api.py python >docs/python-api.md
	docs/api.py c >docs/c-api.md
.PHONY: reference

# The manual and the completions come from the program's own tables.
MAN := $(B)/manual
man: $(MAN)/made
.PHONY: man

$(MAN)/made: $(B)/paddlectl $(B)/paddle_worker
	@rm -rf $(MAN) && mkdir -p $(MAN)
	@for p in $$($(B)/paddlectl help --pages); do $(B)/paddlectl help --man=$$p >$(MAN)/$$p || exit 1; done
	@$(B)/paddlectl help --bash >$(MAN)/paddlectl.bash && $(B)/paddlectl help --zsh >$(MAN)/_paddlectl
	@touch $@

# The licences of what the programs contain: of the packages of the linked archives and included headers.
CONTAINED = $(filter %.a,$(NODE_LIBS)) $(BLAS) $(call A,crypto) $(call A,c) $(shell $(CC) -print-libgcc-file-name) \
    $(wildcard /usr/include/Random123/philox.h /usr/include/xxhash.h $(DYGRAPHS)/dygraph.min.js)
$(B)/NOTICES $(B)/NOTICES-static: Makefile $(B)/flags
	$(call say,LICENCES,$(@F))echo 'The programs and libpaddle_ps contain parts of these packages of Debian, under these licences.' >$@
	$(if $(filter 1,$(V)),,@)for f in $(realpath $(CONTAINED)); do dpkg -S $$f; done | sed 's/:.*//' | sort -u | while read -r p; do \
	    printf '\n==== %s\n\n' $$p && cat /usr/share/doc/$$p/copyright || exit 1; done >>$@

D := $(DESTDIR)
PYTHONDIR = $(PREFIX)/share/paddlectl/python
install: all man $(B)/NOTICES
	$(call say,INSTALL,$D$(PREFIX)):
	install -d $(addprefix $D$(PREFIX)/,bin include libexec/paddlectl share/doc/paddlectl share/paddlectl \
	    share/man/man1 share/man/man5) $D$(LIBDIR)/pkgconfig $D$(PYTHONDIR)/paddle_ps
	install -m 755 $(B)/paddlectl $D$(PREFIX)/bin/
	install -m 755 $(B)/paddle_agent $(B)/paddle_worker $D$(PREFIX)/libexec/paddlectl/
	ln -sfn ../libexec/paddlectl/paddle_worker $D$(PREFIX)/bin/paddle_worker
	for f in $(PACKED); do [ ! -e $$f ] || install -m 644 $$f $D$(PREFIX)/libexec/paddlectl/; done
	install -m 644 $(CAPI_SO) $D$(LIBDIR)/
	ln -sfn libpaddle_ps.so.1 $D$(LIBDIR)/libpaddle_ps.so
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' \
	    'pythondir=$(PYTHONDIR)' '' 'Name: paddle_ps' 'Description: client of paddlectl parameter servers' \
	    'Version: $(VERSION)' 'Libs: -L$${libdir} -lpaddle_ps' 'Cflags: -I$${includedir}' >$(B)/paddle_ps.pc
	install -m 644 $(B)/paddle_ps.pc $D$(LIBDIR)/pkgconfig/
	install -m 644 src/capi/paddle_ps.h $D$(PREFIX)/include/
	install -m 644 src/capi/python/paddle_ps/*.py src/capi/python/paddle_ps/py.typed $D$(PYTHONDIR)/paddle_ps/
	cp -R workspace_template conf $D$(PREFIX)/share/paddlectl/
	chmod -R u=rwX,go=rX $D$(PREFIX)/share/paddlectl
	install -m 644 $(MAN)/*.1 $D$(PREFIX)/share/man/man1/
	install -m 644 $(MAN)/*.5 $D$(PREFIX)/share/man/man5/
	install -m 644 LICENSE $(B)/NOTICES $D$(PREFIX)/share/doc/paddlectl/
	install -D -m 644 $(MAN)/paddlectl.bash $D$(PREFIX)/share/bash-completion/completions/paddlectl
	install -D -m 644 $(MAN)/_paddlectl $D$(PREFIX)/share/zsh/site-functions/_paddlectl

# The time that packages give their files: that of the last commit; from a tarball, that of its files.
EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y src/base/version.h))

# paddlectl as one static file for any Linux of this architecture, with all that `make install` installs behind
# it: launcher/link/bundle.c unpacks that. Debian has no static libraries of Kerberos.
RELEASE_LIBS = $(foreach l,ssh archive nettle crypto protobuf-c,$(call A,$l)) $(UV_A) \
    $(foreach l,sodium jansson inih lzma bz2 zstd z,$(call A,$l)) -lpthread -ldl -lm
RELEASE := build/paddlectl-$(VERSION)-$(shell uname -m)
$(B)/NOTICES-static: CONTAINED += $(filter %.a,$(RELEASE_LIBS))
$(B)/paddlectl-static: $(B)/launcher/main.o $(B)/packaging/no_kerberos.o $(B)/liblauncher.a $(LIBPADDLE)
	$(call say,LD,$(@F))$(CC) -static-pie $(LDFLAGS_ALL) $^ $(RELEASE_LIBS) -o $@
	$(call say,STRIP,$(@F))strip $@
release: all $(B)/paddlectl-static $(B)/NOTICES-static
	@rm -rf $(B)/bundle && $(MAKE) --no-print-directory -s install DESTDIR='$(CURDIR)/$(B)/bundle' PREFIX= >$(B)/bundle.log 2>&1 || \
	    { tail -20 $(B)/bundle.log; exit 1; }
	@rm -rf $(B)/bundle/bin/* && install -m 644 $(B)/NOTICES-static $(B)/bundle/share/doc/paddlectl/NOTICES
	@tar -C $(B)/bundle --sort=name --mtime=@$(EPOCH) --owner=0 --group=0 --numeric-owner \
	    -cf - bin libexec share | zstd -q -9 --check >$(B)/bundle.tar.zst
	@{ cat $(B)/paddlectl-static $(B)/bundle.tar.zst && printf '\120\052\115\030\074\000\000\000PDBUNDLE%.32s%020d' "$$(sha256sum <$(B)/bundle.tar.zst)" \
	    "$$(stat -c %s $(B)/paddlectl-static)"; } >$(RELEASE).part && chmod 755 $(RELEASE).part && mv $(RELEASE).part $(RELEASE)
	@echo $(RELEASE)
.PHONY: release

# Debian packages of what is installed, into build/deb. It needs debhelper.
deb: all
	@rm -rf build/deb && mkdir -p build/deb/work && cp -R packaging/debian build/deb/work/
	@printf 'paddlectl (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n -- %s  %s\n' '$(VERSION)' \
	    "$$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$$(LC_ALL=C date -u -R -d @$(EPOCH))" >build/deb/work/debian/changelog
	@$(MAKE) --no-print-directory -s install DESTDIR='$(CURDIR)/build/deb/work/debian/tmp' PREFIX=/usr \
	    PYTHONDIR=/usr/lib/python3/dist-packages \
	    LIBDIR=/usr/lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH) >build/deb/log 2>&1 && cd build/deb/work && \
	    DEBS='$(CURDIR)/build/deb' SOURCE_DATE_EPOCH=$(EPOCH) debian/rules binary >>../log 2>&1 || { tail -20 '$(CURDIR)/build/deb/log'; exit 1; }
	@rm -rf build/deb/work && ls build/deb/*.deb
.PHONY: deb

# The Python package with its library; the tag of its name says the oldest glibc.
wheel: $(CAPI_SO) $(B)/NOTICES
	@rm -rf build/wheel
	@SOURCE_DATE_EPOCH=$(EPOCH) packaging/wheel/build $(VERSION) $(CAPI_SO) $(B)/NOTICES build/wheel
.PHONY: wheel

clean:
	rm -rf build compile_commands.json

-include $(shell find $(B) -name '*.d' 2>/dev/null)
