#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The reference pages of libpaddle_ps, made from its sources: make reference

    docs/api.py c         docs/c-api.md, from the comments of src/capi/paddle_ps.h
    docs/api.py python    docs/python-api.md, from docstrings and type hints of src/capi/python

Prints the page. Exits with status 1 if a public name has no comment, docstring or type hint.
"""
import ast
import inspect
import os
import re
import sys
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = "src/capi/paddle_ps.h"
MODULES = [("paddle_ps", "src/capi/python/paddle_ps/__init__.py"),
           ("paddle_ps.torch", "src/capi/python/paddle_ps/torch.py")]


def sentence(text):
    """A title's words as a paragraph."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def prose(text, names):
    """Text of a comment as Markdown: a name becomes a link to its heading, indented lines are code."""
    def link(m):
        anchor = re.sub(r"[^\w\- ]", "", names[m[0]]).lower()
        return "[`%s`](#%s)" % (m[0], anchor)

    named = sorted((re.escape(n) for n in names if "_" in n), key=len, reverse=True) or ["(?!)"]
    pattern = r"(?<![\w/.])(?:%s)(?![\w/.]\w)" % "|".join(named)
    parts = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        if not part.startswith("    "):
            # Outside of `code`: no tags, no emphasis, links.
            spans = re.split(r"(`[^`]*`)", part)
            spans[::2] = [re.sub(pattern, link, s.replace("<", "&lt;").replace("*", "\\*")) for s in spans[::2]]
            part = "".join(spans)
            part = textwrap.fill(part, 100, break_long_words=False, break_on_hyphens=False)
            part = re.sub(r"(?m)^(\d*)(?=[-+#.)])", r"\1\\", part)
        parts.append(part)
    return "\n\n".join(parts)


def code(kind, text):
    return "```%s\n%s\n```" % (kind, text)


# --- C: /* comment */ and the declarations that follow it; /* --- section --- */

def c_page():
    with open(os.path.join(TOP, HEADER), encoding="utf-8") as f:
        text = f.read()
    head, text = re.match(r"/\* SPDX.*?\*/\n(/\*.*?\*/)\n(.*)", text, re.S).groups()
    text = text[text.index("#define PADDLE_PS_VERSION"):text.rindex("#ifdef __cplusplus")]
    names = {n: n for n in re.findall(r"\b(paddle_ps_[a-z_]+)\(", text)}

    def plain(comment):
        lines = [re.sub(r"^ \* ?", "", line) for line in comment[2:-2].strip().split("\n")]
        return "\n".join(lines)

    title, _, rest = plain(head).partition("\n\n")
    first, name = title.split(" - ", 1)
    out = ["# The C interface", prose("`%s`, %s." % (first, name), {}), prose(rest, names), "## Constants and types"]
    item = re.compile(r"(?P<section>/\* --- .*? --- \*/)|(?P<comment>/\*.*?\*/)"
                      r"|(?P<decl>(?:#define[^\n]*|[a-z][^;{]*(?:\{[^}]*\})?[^;{}]*;)(?:[ \t]*/\*[^\n]*\*/)?)", re.S)
    comment, functions = "", False
    for m in item.finditer(text):
        if m["section"]:
            words = plain(m["section"])[4:-4]
            title, _, when = words.partition(": ")
            out += ["## " + title.capitalize()] + ([prose(sentence(when), names)] if when else [])
            functions = True
        elif m["comment"]:
            comment = plain(m["comment"])
        else:
            decl = m["decl"].strip()
            name = re.search(r"\b(paddle_ps_[a-z_]+)\(", decl)
            if name:
                if not functions:
                    out.append("## The handle")
                    functions = True
                if not comment and "/*" not in decl and not re.search(r"\(const paddle_ps \*ps\)", decl):
                    sys.exit("%s: %s has no comment" % (HEADER, name[1]))
                out.append("### " + name[1])
            out.append(code("c", decl))
            if comment:
                out.append(prose(comment, names))
            comment = ""
    return out


# --- Python: the docstring of each public class, function and property, with its signature

def is_public(node):
    return isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")


def is_property(node):
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def members(node):
    return [n for n in node.body if is_public(n)]


def signature(node, name):
    """NAME(ARGUMENTS) -> TYPE, broken into lines of at most 92 columns."""
    args = node.args
    if node.returns is None or any(a.annotation is None for a in args.args + args.kwonlyargs if a.arg != "self"):
        sys.exit("%s has no type hints" % name)
    args.args = [a for a in args.args if a.arg != "self"]
    result = ast.unparse(node.returns)
    if is_property(node):
        return "%s: %s" % (name, result)
    line, depth = "", 0
    for c in "%s(%s)\0->\0%s" % (name, ast.unparse(args).replace("=", " = "), result):
        depth += (c in "([") - (c in ")]")
        line += "\0" if c == " " and (depth > 1 or line[-1] != ",") else c
    line = textwrap.fill(line, 92, subsequent_indent=" " * (len(name) + 1), break_long_words=False, break_on_hyphens=False)
    return line.replace("\0", " ")


def documented(node, name):
    text = ast.get_docstring(node)
    if not text:
        sys.exit("%s has no docstring" % name)
    return text


def python_page():
    trees = []
    for module, path in MODULES:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            trees.append((module, ast.parse(f.read())))
    names = {}
    for _, tree in trees:
        for node in members(tree):
            names.setdefault(node.name, node.name)
            if isinstance(node, ast.ClassDef):
                for member in members(node):
                    names.setdefault(member.name, "%s.%s" % (node.name, member.name))
    out = ["# The Python client"]
    for module, tree in trees:
        title, _, rest = documented(tree, module).partition("\n\n")
        out += ["## " + module, prose(sentence(title.partition(" - ")[2]), {}), prose(rest, names)]
        types = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
                 and not n.targets[0].id.startswith("_")]
        if types:
            out.append(code("python", "\n".join(ast.unparse(n) for n in types)))
        for node in members(tree):
            if isinstance(node, ast.FunctionDef):
                out += ["### " + node.name, code("python", signature(node, node.name)), prose(documented(node, node.name), names)]
                continue
            init = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
            base = "".join("(%s)" % ast.unparse(b) for b in node.bases)
            made = signature(init[0], node.name).rsplit(" -> ", 1)[0] if init else node.name
            out += ["### " + node.name, code("python", "class %s%s\n\n%s" % (node.name, base, made)), prose(documented(node, node.name), names)]
            for member in members(node):
                name = "%s.%s" % (node.name, member.name)
                out += ["#### " + name, code("python", signature(member, member.name)), prose(documented(member, name), names)]
    return out


if __name__ == "__main__":
    pages = {"c": c_page, "python": python_page}
    if len(sys.argv) != 2 or sys.argv[1] not in pages:
        sys.exit(inspect.cleandoc(__doc__))
    print("\n\n".join(part for part in pages[sys.argv[1]]() if part))
