#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layers.py OBJECTS [WAITING FOLDER]... - checks the sources below the current folder against the
table of the section "Layers" in docs/design.md. tests/integration/source/layers.sh lists the rules.

OBJECTS is the folder of a build; the WAITING folders may still have functions that one file uses.
Each error is a line FILE: RULE. The exit status is 1 if there is any."""
import glob
import os
import re
import subprocess
import sys

TABLE = "docs/design.md"
FOLDER_MAX = 30
errors = []


def error(file, text):
    errors.append(f"{file}: {text}")


class Row:
    def __init__(self, number, folder, prefixes, includes):
        self.number = number
        self.folder = folder  # or the beginning of file names: launcher/job/job_*
        self.prefixes = prefixes
        self.includes = includes  # as they are written: "base", "launcher/ssh", "nn/*"
        self.needs = set()  # rows whose headers and functions the files use
        self.files = 0

    def has(self, file):
        return file.startswith(self.folder[:-1] if self.folder.endswith("*") else self.folder + "/")


def read_table():
    """Reads the rows | folder | purpose | prefixes | may include | of the section."""
    with open(TABLE) as f:
        section = re.search(r"^## Layers\n(.*?)(?=^## )", f.read() + "\n## ", re.M | re.S)
    rows = []
    for line in section.group(1).splitlines() if section else []:
        cells = line.strip("|").split("|")
        folder = re.fullmatch(r" *`([^`]+)` *", cells[0])
        if line.startswith("|") and folder:
            if len(cells) != 4:
                sys.exit(f"{TABLE}: a row of {len(cells)} columns, not 4: {line}")
            rows.append(Row(len(rows), folder[1], re.findall(r"`([^`]+)`", cells[2]),
                            re.findall(r"`([^`]+)`", cells[3])))
    if not rows:
        sys.exit(f"{TABLE}: no table in the section Layers")
    return rows


def in_tree(name):
    """The file or folder that an include names: "base/err.h" is src/base/err.h."""
    return name if name.split("/")[0] in ("launcher", "worker") else "src/" + name


class Tree:
    def __init__(self):
        self.rows = read_table()
        self.files = sorted(f for top in ("src", "launcher", "worker")
                            for f in glob.glob(top + "/**/*.[ch]", recursive=True))
        self.row_of = {}
        for f in self.files:
            fits = [r for r in self.rows if r.has(f)]
            if not fits:
                error(f, f"no row of the table in {TABLE} has its folder")
                continue
            self.row_of[f] = max(fits, key=lambda r: len(r.folder.rstrip("*")))
            self.row_of[f].files += 1
        self.check_rows()

    def named(self, row, name):
        """The rows that `name` in the last column of `row` means."""
        if name.endswith("/*"):
            return [r for r in self.rows
                    if r is not row and (r.folder + "/").startswith(in_tree(name[:-1]))]
        return [r for r in self.rows if r.folder == in_tree(name)]

    def check_rows(self):
        for row in self.rows:
            if not row.files:
                error(TABLE, f"row {row.folder}: there is no such file")
            row.allowed = {row}
            for name in row.includes:
                named = self.named(row, name)
                if not named:
                    error(TABLE, f"row {row.folder}: {name} is no row")
                for r in named:
                    if r.number < row.number:
                        error(TABLE, f"row {row.folder}: {name} stands above it: rows include what "
                                     "stands below them, so that there is no circle")
                row.allowed.update(named)

    def allows(self, user, used):
        rows = self.row_of.get(user), self.row_of.get(used)
        if None in rows:
            return True
        rows[0].needs.add(rows[1])
        return rows[1] in rows[0].allowed

    def check_needs(self):
        for row in self.rows:
            for name in row.includes:
                if row.needs.isdisjoint(self.named(row, name)):
                    error(TABLE, f"row {row.folder}: nothing in it needs {name}")

    def rule(self, user, used):
        return f"the row of {self.row_of[user].folder} does not allow {self.row_of[used].folder}"


def check_includes(tree):
    n = 0
    for file in tree.files:
        with open(file) as f:
            for name in re.findall(r'^#include "([^"]+)"', f.read(), re.M):
                n += 1
                path = in_tree(name)
                if path not in tree.row_of:
                    error(file, f'#include "{name}": there is no {path} with a row')
                elif not tree.allows(file, path):
                    error(file, f'#include "{name}": {tree.rule(file, path)}')
    return n


def check_common(tree):
    """No file includes what src/base/base.h has. The seed and the public header do without it."""
    base = "src/base/base.h"
    pattern = re.compile(r'^#include (["<])([^">]+)', re.M)
    if base not in tree.files:
        return
    with open(base) as f:
        has = {name for _, name in pattern.findall(f.read())}
    tests = (f for top in ("unit", "sim") for f in glob.glob(f"tests/{top}/**/*.[ch]", recursive=True))
    for file in (*tree.files, *tests):
        if file in (base, "src/capi/paddle_ps.h") or file.startswith("src/seed/"):
            continue
        with open(file) as f:
            for mark, name in pattern.findall(f.read()):
                if name in has:
                    error(file, f"#include {mark}{name}{mark.replace('<', '>')}: {base} has it")


def symbols(objects, *options):
    """{object: {name: type}}"""
    out = {o: {} for o in objects}
    for i in range(0, len(objects), 200):
        text = subprocess.run(["nm", "-A", *options, *objects[i:i + 200]], check=True,
                              capture_output=True, text=True).stdout
        for line in text.splitlines():
            file, rest = line.split(":", 1)
            out[file][rest.split()[-1]] = rest.split()[-2]
    return out


def words(files):
    """Counts each identifier in the files, without comments and texts."""
    count = {}
    for file in files:
        with open(file) as f:
            code = re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])*\'', " ",
                          f.read(), flags=re.S)
        for w in re.findall(r"[A-Za-z_]\w*", code):
            count[w] = count.get(w, 0) + 1
    return count


class Objects:
    def __init__(self, tree, folder):
        sources = [f for f in tree.files if f.endswith(".c")]
        self.object = {f"{folder}/{f[:-1]}o": f for f in sources if f.split("/")[1] != "seed"}
        missing = [f for o, f in self.object.items() if not os.path.exists(o)]
        if missing:
            sys.exit(f"{folder} has no object of {missing[0]}: make DEV=1 objects unit")
        names = sorted(self.object)
        unit = [f"{folder}/{t[:-1]}o" for t in glob.glob("tests/unit/**/*.c", recursive=True)]
        unit = [o for o in unit if os.path.exists(o)]
        self.home = {}  # {function or table: source}
        self.functions = set()
        for o, found in symbols(names, "-g", "--defined-only").items():
            for name, kind in found.items():
                if kind in "TWiDBR" and "." not in name:
                    self.home[name] = self.object[o]
                if kind in "TWi":
                    self.functions.add(name)
        undefined = symbols(names + unit, "-u")
        self.uses = {self.object[o]: set(undefined[o]) for o in names}
        others = glob.glob("tests/fuzz/*.c") + glob.glob("bench/programs/*.c")
        self.tests = set(words(others)).union(*(undefined[o] for o in unit))


def check_calls(tree, objects):
    """Checks functions only: a table may be declared in a lower wing and defined in a higher one,
    like nn_layers."""
    n = 0
    for file, used in sorted(objects.uses.items()):
        for name in sorted(used & objects.functions):
            n += 1
            home = objects.home[name]
            if not tree.allows(file, home):
                error(file, f"calls {name} of {home}: {tree.rule(file, home)}")
    return n


def check_names(tree, objects):
    for name, file in sorted(objects.home.items()):
        row = tree.row_of.get(file)
        of_linker = name == "main" or name.startswith("__wrap_")
        if row and not of_linker and not name.startswith(tuple(row.prefixes)):
            error(file, f"{name} begins with no prefix of the row of {row.folder}")


def check_users(tree, objects, waiting):
    """Every external name has a user in another file; a test counts."""
    exported = words(f for f in tree.files if f.endswith("/paddle_ps.h"))
    # An object does not use its own names as undefined.
    others = set().union(*objects.uses.values())
    for name, file in sorted(objects.home.items()):
        # The linker's --wrap=NAME calls __wrap_NAME.
        if name in others or name == "main" or name in exported or name.startswith("__wrap_"):
            continue
        if name in objects.tests:
            if words([file]).get(name, 1) == 1:  # no word: a macro makes the name
                print(f"for tests alone: {name} of {file}")
        elif any(file.startswith(w + "/") for w in waiting):
            print(f"waits: only {file} uses {name}")
        elif words([file])[name] > 1:
            error(file, f"{name} is used in this file only: make it static")
        else:
            error(file, f"nobody uses {name}")


def check_tags(tree):
    """A struct, union or enum tag is defined in one file."""
    homes = {}
    for file in tree.files:
        with open(file) as f:
            code = re.sub(r"/\*.*?\*/|^#define (?:[^\n]*\\\n)*[^\n]*", " ", f.read(),
                          flags=re.M | re.S)
        for tag in re.findall(r"\b(?:struct|union|enum) (\w+) *\{", code):
            home = homes.setdefault(tag, file)
            if home != file:
                error(file, f"{home} defines another type {tag}")


def check_folders():
    """A folder has at most FOLDER_MAX files."""
    for top in ("src", "launcher", "worker", "tests", "bench"):
        for folder, _, files in os.walk(top):
            if len(files) > FOLDER_MAX and "__pycache__" not in folder:
                error(folder, f"{len(files)} files, more than {FOLDER_MAX}")


def check_headers(tree):
    """An inner header, for the files of one folder, has one ending: _internal.h."""
    for file in tree.files:
        inner = re.search(r"(_int|_impl|_inner|_priv|_private|/internal)\.h$", file)
        if inner:
            error(file, "inner headers are called NAME_internal.h")


def check_inline(tree):
    """Every inline function of a header is used."""
    count = words(tree.files + glob.glob("tests/**/*.[ch]", recursive=True))
    for file in tree.files:
        if file.endswith(".h"):
            with open(file) as f:
                for name in re.findall(r"^static inline [^(;]*?(\w+)\(", f.read(), re.M):
                    if count[name] < 2:
                        error(file, f"nobody uses {name}")


def main():
    tree = Tree()
    objects = Objects(tree, sys.argv[1])
    includes, calls = check_includes(tree), check_calls(tree, objects)
    tree.check_needs()
    check_common(tree)
    check_names(tree, objects)
    check_users(tree, objects, sys.argv[2:])
    check_inline(tree)
    check_headers(tree)
    check_tags(tree)
    check_folders()
    print(f"{len(tree.rows)} rows, {len(tree.files)} files, {includes} includes, "
          f"{len(objects.home)} external names, {calls} calls")
    for e in errors:
        print(e)
    sys.exit(1 if errors else 0)


main()
