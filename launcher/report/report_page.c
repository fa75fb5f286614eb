/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.c - the HTML file around the data; see report.h. The assembler puts the files of the
 * page into this object: the Makefile has the dependencies. */
#include "launcher/report/report.h"

#define EMBED(name, path)                                                    \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n" #name \
            "_end:\n.byte 0\n.popsection\n");                                \
    extern __attribute__((visibility("hidden"))) const char name[], name##_end[]

EMBED(report_library, DYGRAPHS "/dygraph.min.js");
EMBED(report_library_css, DYGRAPHS "/dygraph.min.css");
EMBED(report_licence, DYGRAPHS_LICENCE);
EMBED(report_css, "launcher/report/page.css");
EMBED(report_body, "launcher/report/page.html");
EMBED(report_charts, "launcher/report/charts.js");
EMBED(report_script, "launcher/report/page.js");
EMBED(report_parts, "launcher/report/parts.js");
EMBED(report_hosts, "launcher/report/hosts.js");

/* Without a last line that names a file for debuggers. */
static void put_part(struct pd_buf *out, const char *p, const char *end) {
    static const char mark[] = "# sourceMappingURL";
    const char *at = memmem(p, (size_t)(end - p), mark, sizeof mark - 1);
    if (at)
        for (end = at; end > p && (end[-1] == '/' || end[-1] == '*'); end--)
            ;
    pd_put(out, p, (size_t)(end - p));
    pd_put(out, "\n", 1);
}

/* A "<" is only in strings, where \u003c means the same: no text of a record can end the element.
 */
static void put_data(struct pd_buf *out, const char *json) {
    for (const char *p = json; *p; p++)
        if (*p == '<')
            pd_put(out, "\\u003c", 6);
        else
            pd_put(out, p, 1);
}

static void put_text(struct pd_buf *out, const char *text) { pd_put(out, text, strlen(text)); }

char *report_data_text(const json_t *data) {
    return json_dumps(data, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(5));
}

int report_page(struct pd_buf *out, const char *json, int is_live, struct pd_err *err) {
    put_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'");
    put_text(out, is_live ? "; connect-src 'self'" : "");
    put_text(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n"
                  "<title>paddlectl report</title>\n<style>\n");
    put_part(out, report_library_css, report_library_css_end);
    put_part(out, report_css, report_css_end);
    put_text(out, "</style>\n</head>\n<body>\n");
    put_part(out, report_body, report_body_end);
    put_text(out, "<script type=\"application/json\" id=\"data\">");
    put_data(out, json);
    put_text(out, "</script>\n<script type=\"text/plain\" id=\"licence-of-dygraphs\">\n");
    put_part(out, report_licence, report_licence_end);
    put_text(out, "</script>\n<script>\n");
    put_part(out, report_library, report_library_end);
    put_text(out, "</script>\n<script>\n\"use strict\";\n");
    put_part(out, report_charts, report_charts_end);
    put_part(out, report_script, report_script_end);
    put_part(out, report_hosts, report_hosts_end);
    put_part(out, report_parts, report_parts_end);
    put_text(out, "</script>\n</body>\n</html>\n");
    return out->failed ? pd_oom(err, "the report") : 0;
}
