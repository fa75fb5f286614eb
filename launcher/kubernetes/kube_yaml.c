/* SPDX-License-Identifier: Apache-2.0 */
/* kube_yaml.c - JSON as YAML, in blocks. */
#include "launcher/kubernetes/kube_manifest.h"

static void put_block(struct pd_buf *out, const json_t *v, int indent, int in_line);

static int is_block(const json_t *v) { return json_object_size(v) || json_array_size(v); }

/* Keys that no parser takes for anything but text. */
static int is_plain(const char *key) {
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcasecmp(key, words[i]))
            return 0;
    for (const char *s = key; *s; s++)
        if (!isalnum((unsigned char)*s) && (s == key || !strchr("-_./", *s)))
            return 0;
    return isalpha((unsigned char)*key);
}

/* What JSON writes on a line is YAML, too: quoted text, a number, true, {}. */
static void put_line(struct pd_buf *out, const json_t *v) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text)
        pd_put_fmt(out, "%s", text);
    else
        out->failed = 1;
    free(text);
}

static void put_key(struct pd_buf *out, const char *key) {
    json_t *text = is_plain(key) ? NULL : json_string(key);
    if (text)
        put_line(out, text);
    else
        pd_put_fmt(out, "%s", key);
    json_decref(text);
}

/* The value behind a key or a dash, and the end of its line. */
static void put_value(struct pd_buf *out, const json_t *v, int indent, int in_line) {
    if (!is_block(v)) {
        pd_put_fmt(out, " ");
        put_line(out, v);
        pd_put_fmt(out, "\n");
    } else {
        pd_put_fmt(out, in_line ? " " : "\n");
        put_block(out, v, indent, in_line);
    }
}

/* in_line: the first line has its indent already. */
static void put_block(struct pd_buf *out, const json_t *v, int indent, int in_line) {
    const char *key;
    const json_t *item;
    size_t i;
    json_object_foreach ((json_t *)(uintptr_t)v, key, item) {
        pd_put_fmt(out, "%*s", in_line ? 0 : indent, "");
        in_line = 0;
        put_key(out, key);
        pd_put_fmt(out, ":");
        put_value(out, item, indent + 2, 0);
    }
    json_array_foreach (v, i, item) {
        pd_put_fmt(out, "%*s-", in_line ? 0 : indent, "");
        in_line = 0;
        put_value(out, item, indent + 2, 1);
    }
}

void kube_put_yaml(struct pd_buf *out, const json_t *list) {
    const json_t *item;
    size_t i;
    json_array_foreach (json_object_get(list, "items"), i, item) {
        pd_put_fmt(out, "---\n");
        put_block(out, item, 0, 0);
    }
}
