#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The error messages of the programs, and the entries of docs/troubleshooting.md that explain them.

    messages.py            every message: file:line, code, text with * for each value
    messages.py --check    compares them with the patterns of docs/troubleshooting.md

A message is the format of a call of pd_fail, pd_fail_errno, a function that ends in them, or of a
warning (CALLS).
An entry of the page is a table row whose first cell has patterns in backticks. A * stands for any
text. Each message must match a pattern, and each pattern a message. Texts of one
or two words are parts of messages. Errors of two codes have a section in place of rows (SECTIONS).
"""
import glob
import os
import re
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
PAGE = TOP + "/docs/troubleshooting.md"
SECTIONS = {"PD_ENOMEM": "Out of memory", "PD_EPROTO": "A frame that breaks the protocol"}
# Their words are values.
FRAMES = {"cannot * *", "--set **", "*: not *: '*'"}
WIDEST = 70  # more messages than this have no common cause
CALLS = re.compile(r"\b((?:data_bad|data_bad_text)|(?:pd_|client_|session_|cmd_|net_conn_|node_|capi_|head_reason_|link_|server_)?"
                   r"(?:fail|fail_errno|failed|failure|warn|error))\(")
VALUE = re.compile(r"%[-+ #0-9.*]*(?:hh|ll|[hlzjt])?[diouxXeEfgGcsp]")
TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|\b([A-Z][A-Za-z0-9_]+)\b')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def arguments(text, at):
    """The arguments of the call whose parenthesis ends before `at`."""
    depth, start, found, i = 0, at, [], at
    while True:
        c = text[i]
        if c == '"':
            i = STRING.match(text, i).end()
            continue
        if c == "'":
            i = text.index("'", i + (2 if text[i + 1] == "\\" else 1) + 1) + 1
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                return found + [text[start:i]]
            depth -= 1
        elif c == "," and depth == 0:
            found.append(text[start:i])
            start = i + 1
        i += 1


def formats(argument):
    """The texts of an argument: one, or those of both sides of a ?:."""
    argument = argument.strip()
    if not argument.startswith('"') and "?" not in argument:
        return []
    texts = []
    for side in re.split(r"[?:](?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", argument):
        text = ""
        for part, word in TOKEN.findall(side):
            if word:
                text += "d" if word.startswith("PRI") else "*" if text else ""
            else:
                text += part
        text = VALUE.sub("*", text).replace("%%", "%").replace('\\"', '"')
        texts.append(text.replace("\\n", " ").strip())
    return [t for t in texts if re.search("[a-z]{3}", t) and (len(t.split()) > 2 or "*" in t)]


def messages():
    """(place, code, text), sorted by text."""
    found = []
    for folder in ("src", "launcher", "worker"):
        for path in sorted(glob.glob("%s/%s/**/*.c" % (TOP, folder), recursive=True)):
            text = open(path, encoding="utf-8").read()
            text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
            for call in CALLS.finditer(text):
                if text[text.rfind("\n", 0, call.start()) + 1:call.start()].lstrip().startswith("#"):
                    continue
                try:
                    args = arguments(text, call.end())
                except (ValueError, IndexError, AttributeError):
                    continue
                place = "%s:%d" % (os.path.relpath(path, TOP), text.count("\n", 0, call.start()) + 1)
                code = next((m[0] for m in map(lambda a: re.search(r"\bPD_E[A-Z]+", a), args) if m), "")
                for a in args:
                    texts = formats(a)
                    if texts:
                        found += [(place, code, t) for t in texts if t not in FRAMES]
                        break
    return found


def patterns():
    """(line, section, pattern) of the page."""
    found, section = [], ""
    for number, line in enumerate(open(PAGE, encoding="utf-8"), 1):
        if line.startswith("## "):
            section = line[3:].strip()
        elif line.startswith("| `"):
            cell = line.split(" | ")[0]
            found += [(number, section, p) for p in re.findall(r"`([^`]+)`", cell)]
    return found


def matcher(pattern):
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.S)


def main():
    all_messages = messages()
    if sys.argv[1:] != ["--check"]:
        for place, code, text in all_messages:
            print("%s\t%s\t%s" % (place, code, text))
        return
    known = [(number, section, p, matcher(p)) for number, section, p in patterns()]
    used, missing, n_matched = set(), [], {}
    for place, code, text in all_messages:
        if code in SECTIONS or re.search(r"\b(no|out of) memory\b", text):
            continue
        hit = [k[0:3] for k in known if k[3].fullmatch(text)]
        used.update(hit)
        for k in hit:
            n_matched[k] = n_matched.get(k, 0) + 1
        if not hit:
            missing.append("%s: %s \"%s\"" % (place, code, text))
    for line in missing:
        print("no entry: " + line)
    unused = [k for k in known if k[0:3] not in used]
    for number, _, p, _ in unused:
        print("docs/troubleshooting.md:%d: no message is `%s`" % (number, p))
    wide = [k for k, n in n_matched.items() if n > WIDEST or len(re.findall("[A-Za-z]", k[2])) < 3]
    for number, _, p in wide:
        print("docs/troubleshooting.md:%d: too many messages are `%s`" % (number, p))
    print("%d messages, %d patterns, %d messages without an entry, %d patterns without a message" %
          (len(all_messages), len(known), len(missing), len(unused)))
    sys.exit(bool(missing or unused or wide))


if __name__ == "__main__":
    main()
