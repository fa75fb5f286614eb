#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The documents as a site of plain HTML, made by cmark-gfm: make docs

    docs/site.py FOLDER     writes FOLDER/index.html and a page for each document

Exits with status 1 if a link leads to no page, file or heading of the site, or if a document of
docs is not in PAGES.
"""
import glob
import html
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = [
    ("Start", "README.md docs/install.md docs/tutorial.md docs/commands.md docs/troubleshooting.md docs/glossary.md"),
    ("How to", "docs/data.md docs/checkpoints.md docs/online.md docs/own-trainer.md docs/tuning.md docs/records.md docs/sweeps.md "
               "docs/shared-hosts.md docs/engines.md docs/kubernetes.md docs/by-hand.md "
               "docs/migration.md"),
    ("Reference", "docs/train-ini.md docs/python-api.md docs/c-api.md docs/model-format.md docs/protocol.md docs/sources.md"),
    ("Explanation", "docs/design.md docs/security.md docs/faults.md docs/fuzzing.md"),
    ("Figures", "docs/results.md docs/performance.md docs/experiments.md"),
    ("Project", "CONTRIBUTING.md docs/testing.md SECURITY.md CHANGELOG.md"),
    ("Folders of the code", "docs/folders/*.md"),
    ("中文", "README_cn.md docs/cn/*.md"),
]
STYLE = """
:root { --text: #1d2430; --soft: #5b6675; --back: #fff; --edge: #dfe3e8; --code: #f4f6f8; --link: #0b5cad;
    color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --text: #dfe5ec; --soft: #98a4b3; --back: #14181f;
    --edge: #2c333d; --code: #1d232c; --link: #7db7f0 } }
* { box-sizing: border-box }
body { margin: 0; display: flex; color: var(--text); background: var(--back);
    font: 16px/1.55 system-ui, sans-serif }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
nav { width: 16rem; flex: none; padding: 1rem; border-right: 1px solid var(--edge); font-size: .9rem;
    height: 100vh; overflow-y: auto; position: sticky; top: 0 }
nav summary { font-weight: 600; margin-top: .5rem; cursor: pointer }
nav ul { list-style: none; margin: .2rem 0; padding-left: .8rem }
nav .here { font-weight: 600; color: var(--text) }
main { min-width: 0; flex: 1; max-width: 56rem; padding: 1rem 2rem 4rem; margin: 0 auto }
h1, h2, h3 { line-height: 1.25; margin: 1.8em 0 .6em }
h1 { margin-top: .4em }
h2 { border-bottom: 1px solid var(--edge); padding-bottom: .2em }
.to { color: var(--soft); visibility: hidden; padding-left: .3em }
:hover > .to { visibility: visible }
code { font: .88em ui-monospace, Menlo, Consolas, monospace; background: var(--code);
    padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
pre { background: var(--code); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto }
pre code { padding: 0; overflow-wrap: normal }
.table { overflow-x: auto }
table { border-collapse: collapse; font-size: .93rem }
th, td { border: 1px solid var(--edge); padding: .35rem .6rem; text-align: left; vertical-align: top }
th { background: var(--code) }
thead:not(:has(th:not(:empty))) { display: none }
img { max-width: 100% }
nav > label, #menu { display: none }
@media (max-width: 52rem) {
    body { display: block }
    nav { width: auto; height: auto; position: static; border-right: 0;
        border-bottom: 1px solid var(--edge); padding: .6rem 1rem }
    nav > label { display: block; font-weight: 600; cursor: pointer }
    nav > div { display: none }
    #menu:checked ~ div { display: block }
    main { padding: .5rem 1rem 3rem }
}
"""


def slug(text):
    """The anchor of a heading, as GitHub makes it."""
    text = html.unescape(re.sub(r"<[^>]*>", "", text)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def page_of(path):
    return "index.html" if path == "README.md" else path[:-3] + ".html"


def convert(path):
    """(title, body, sections) of a document. Sections: (anchor, text) of its headings."""
    made = subprocess.run(["cmark-gfm", "-e", "table", path], cwd=TOP, check=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout
    sections, seen = [], {}

    def heading(m):
        anchor = slug(m[2])
        seen[anchor] = seen.get(anchor, -1) + 1
        if seen[anchor]:
            anchor += "-%d" % seen[anchor]
        sections.append((m[1], anchor, m[2]))
        return '<h%s id="%s">%s<a class="to" href="#%s">#</a></h%s>' % (m[1], anchor, m[2], anchor, m[1])

    made = re.sub(r"<h([1-6])>(.*?)</h\1>", heading, made)
    made = made.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    made = re.sub(r"<!-- .*? -->\n?", "", made)
    # A cell with nothing but several messages has each on a line.
    made = re.sub(r"<td>(<code>[^<]*</code>(?:, <code>[^<]*</code>)+)</td>",
                  lambda m: "<td>%s</td>" % m[1].replace("</code>, ", "</code><br>"), made)
    title = next((s[2] for s in sections if s[0] == "1"), os.path.basename(path))
    return re.sub(r"<[^>]*>", "", title), made, sections


def linked(path, body, documents, files, anchors, wrong):
    """Rewrites links between documents, and notes files that must be copied."""
    def one(m):
        target, _, anchor = m[2].partition("#")
        if re.match(r"[a-z]+:", m[2]):
            return m[0]
        to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if to in documents:
            if anchor and anchor not in anchors[to]:
                wrong.append("%s: no heading #%s in %s" % (path, anchor, to))
            to = page_of(to)
        elif os.path.isfile(os.path.join(TOP, to)) and not to.startswith(".."):
            files.add(to)
        elif os.path.isdir(os.path.join(TOP, to)):
            files.update(os.path.relpath(f, TOP) for f in glob.glob(os.path.join(TOP, to, "*")) if os.path.isfile(f))
        else:
            wrong.append("%s: no file %s" % (path, to))
        to = os.path.relpath(to, os.path.dirname(path) or ".")
        return '%s="%s%s"' % (m[1], to, "#" + anchor if anchor else "")
    return re.sub(r'\b(href|src)="([^"]*)"', one, body)


def navigation(path, made):
    """The list of all pages, with the sections of this one."""
    parts = []
    for name, patterns in PAGES:
        items = []
        for p in (p for pattern in patterns.split() for p in expand(pattern)):
            link = os.path.relpath(page_of(p), os.path.dirname(path) or ".")
            title = made[p][0].split(":")[0]
            items.append('<li><a href="%s"%s>%s</a>' % (link, ' class="here"' if p == path else "", title))
            if p == path:
                items.append("<ul>%s</ul>" % "".join(
                    '<li><a href="#%s">%s</a></li>' % s[1:] for s in made[p][2] if s[0] == "2"))
            items.append("</li>")
        is_open = " open" if any('class="here"' in i for i in items) or name in ("Start", "How to") else ""
        if items:
            parts.append("<details%s><summary>%s</summary><ul>%s</ul></details>" % (is_open, name, "".join(items)))
    return "".join(parts)


def expand(pattern):
    return sorted(os.path.relpath(f, TOP) for f in glob.glob(os.path.join(TOP, pattern)))


def main():
    out = os.path.abspath(sys.argv[1])
    documents = [p for _, patterns in PAGES for pattern in patterns.split() for p in expand(pattern)]
    wrong = ["%s is not in PAGES of docs/site.py" % p
             for p in expand("docs/**/*.md") + expand("docs/*.md") + expand("*.md") if p not in documents]
    made = {p: convert(p) for p in documents}
    anchors = {p: {s[1] for s in made[p][2]} for p in documents}
    shutil.rmtree(out, ignore_errors=True)
    files = set()
    for p in documents:
        title, body, _ = made[p]
        body = linked(p, body, documents, files, anchors, wrong)
        style = os.path.relpath("style.css", os.path.dirname(p) or ".")
        lang = "zh" if "cn" in re.split(r"[/_.]", p) else "en"
        page = os.path.join(out, page_of(p))
        os.makedirs(os.path.dirname(page), exist_ok=True)
        with open(page, "w", encoding="utf-8") as f:
            f.write('<!DOCTYPE html><html lang="%s"><head><meta charset="utf-8"><title>%s</title>'
                    '<meta name="viewport" content="width=device-width, initial-scale=1">'
                    '<link rel="stylesheet" href="%s"></head><body><nav><input type="checkbox" id="menu">'
                    '<label for="menu">&#9776; paddlectl</label><div>%s</div></nav>\n<main>%s</main></body></html>\n' %
                    (lang, title if p == "README.md" else title + " - paddlectl", style, navigation(p, made), body))
    with open(out + "/style.css", "w") as f:
        f.write(STYLE.strip() + "\n")
    for p in files:
        os.makedirs(os.path.dirname(os.path.join(out, p)), exist_ok=True)
        shutil.copy(os.path.join(TOP, p), os.path.join(out, p))
    print("\n".join(wrong + ["%d pages, %d files in %s" % (len(documents), len(files), out)]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
