/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "train/report.h"

#include "base/memory_use.h"
#include "base/spans.h"
#include "nn/graph/describe.h"

enum {
    EVENT_PERIOD_NS = 250000000,
    OTHERS_PERIOD_NS = 1000000000,
    VALUES_TEXT = 4000, /* evaluators of a line; as long as report.h's test_metrics */
    EVENT_MAX = VALUES_TEXT + 2000,
    MODEL_MAX = 60000
};

/* Writes the event whose keys are formatted: {"t":TIME,"ev":"WHAT","role":"trainer","rank":RANK,
 * then the keys. An event that is too long is left out. */
__attribute__((format(printf, 3, 4))) static void put_event(const struct train_report *r,
                                                            const char *what, const char *fmt,
                                                            ...) {
    char line[EVENT_MAX];
    va_list ap;
    if (r->event_fd < 0)
        return;
    const int head =
        snprintf(line, sizeof line, "{\"t\":%llu,\"ev\":\"%s\",\"role\":\"trainer\",\"rank\":%u,",
                 (unsigned long long)(pd_wall_us() / 1000), what, r->trainer_id);
    va_start(ap, fmt);
    const int n = vsnprintf(line + head, sizeof line - (size_t)head, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)(head + n) + 2 >= sizeof line)
        return;
    memcpy(line + head + n, "}\n", 2);
    (void)pd_write_all(r->event_fd, line, (size_t)(head + n) + 2);
}

void train_report_print(struct train_report *r, const char *fmt, ...) {
    char line[VALUES_TEXT + 1000];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    pd_info(r->log, "%s", line);
    size_t len = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[len] = '\n';
    (void)pd_write_all(r->out_fd, line, len + 1);
}

double train_report_seconds(const struct train_report *r) {
    return r->seconds_before + (double)(pd_mono_ns() - r->started_ns) * 1e-9;
}

const char *train_report_pass_text(const struct train_report *r, uint64_t pass,
                                   char out[TRAIN_PASS_TEXT]) {
    int n = snprintf(out, TRAIN_PASS_TEXT, "%llu", (unsigned long long)pass + 1);
    if (r->n_passes)
        snprintf(out + n, TRAIN_PASS_TEXT - (size_t)n, "/%llu", (unsigned long long)r->n_passes);
    return out;
}

static double seconds(const struct train_report *r) {
    double s = (double)(pd_mono_ns() - r->started_ns) * 1e-9;
    return s > 1e-9 ? s : 1e-9;
}

/* Samples per second of this process; of the whole pass if its time is known. */
static double rate(const struct train_report *r, int whole) {
    return whole && r->seconds_before > 0 ? (double)r->samples / train_report_seconds(r)
                                          : (double)(r->samples - r->samples_before) / seconds(r);
}

static const char *const part_names[] = {[TRAIN_READ] = "read",
                                         [TRAIN_FORWARD] = "forward",
                                         [TRAIN_BACKWARD] = "backward",
                                         [TRAIN_PUSH] = "push",
                                         [TRAIN_PULL] = "pull"};

uint64_t train_report_time(struct train_report *r, enum train_part part, uint64_t began_ns) {
    const uint64_t now = pd_mono_ns();
    if (part != TRAIN_FORWARD && part != TRAIN_BACKWARD) /* the threads record these */
        pd_span_add(part_names[part], began_ns, now);
    r->part_ns[part] += now - began_ns;
    r->pass_part_ns[part] += now - began_ns;
    return now;
}

enum { PARTS_TEXT = 200 };

/* ,"read":0.02,"forward":0.41, ... each divided by `unit_ns` */
static void put_parts(const uint64_t ns[TRAIN_N_PARTS], double unit_ns, char out[PARTS_TEXT]) {
    size_t n = 0;
    for (int i = 0; i < TRAIN_N_PARTS; i++)
        n += (size_t)snprintf(out + n, PARTS_TEXT - n, ",\"%s\":%.3f", part_names[i],
                              (double)ns[i] / unit_ns);
}

/* ,"sent_rate":53000,"received_rate":61000: bytes per second since the last event that has them,
 * also of an earlier pass. */
static void put_bytes(struct train_report *r, uint64_t now, char *out, size_t cap) {
    const struct ps_client_stats before = r->stats;
    const double period = (double)(now - r->stats_ns) * 1e-9;
    if (!r->client || now - r->stats_ns < EVENT_PERIOD_NS / 2)
        return;
    ps_client_stats(r->client, &r->stats);
    if (r->stats_ns)
        snprintf(out, cap, ",\"sent_rate\":%.0f,\"received_rate\":%.0f",
                 (double)(r->stats.sent_bytes - before.sent_bytes) / period,
                 (double)(r->stats.received_bytes - before.received_bytes) / period);
    r->stats_ns = now;
}

/* Writes an event. A cost that is not finite is omitted, because JSON has no NaN. */
static void write_event(struct train_report *r, double cost, int last) {
    uint64_t now = pd_mono_ns(), since = r->last_event_ns ? r->last_event_ns : r->started_ns;
    if (r->event_fd < 0 ||
        (!last && now - since < (r->trainer_id ? OTHERS_PERIOD_NS : EVENT_PERIOD_NS)))
        return;
    char dropped[80] = "", c[40] = "", m[sizeof r->test_metrics + 40] = "", f[40] = "",
         whole[60] = "", own[80] = "", parts[PARTS_TEXT] = "", bytes[100] = "";
    double period = (double)(now - since) * 1e-9;
    put_bytes(r, now, bytes, sizeof bytes);
    if (isfinite(cost))
        snprintf(c, sizeof c, ",\"cost\":%.6g", cost);
    if (isfinite(cost) && r->perplexity && isfinite(exp(cost)))
        snprintf(m, sizeof m, "\"perplexity\":%.6g", exp(cost));
    if (*r->test_metrics)
        snprintf(m + strlen(m), sizeof m - strlen(m), "%s%s", *m ? "," : "", r->test_metrics);
    if (r->pushes_dropped && !r->trainer_id)
        snprintf(dropped, sizeof dropped, ",\"pushes\":%llu,\"pushes_dropped\":%llu",
                 (unsigned long long)r->pushes, (unsigned long long)r->pushes_dropped);
    if (r->fraction >= 0)
        snprintf(f, sizeof f, ",\"fraction\":%.4f", last ? 1.0 : r->fraction);
    if (!r->trainer_id)
        snprintf(whole, sizeof whole, ",\"rate\":%.1f", rate(r, last));
    if (now - since >= EVENT_PERIOD_NS / 2) { /* over a shorter time the speed means nothing */
        snprintf(own, sizeof own, ",\"own_rate\":%.1f,\"wait\":%.3f",
                 (double)r->own_samples / period, fmin((double)r->waited_ns * 1e-9 / period, 1));
        put_parts(r->part_ns, (double)(now - since), parts);
        r->own_samples = r->waited_ns = 0;
        memset(r->part_ns, 0, sizeof r->part_ns);
        r->last_event_ns = now;
    }
    put_event(
        r, "progress",
        "\"pass\":%llu,\"num_passes\":%llu,\"batch\":%llu,\"samples\":%llu%s%s%s%s,\"unit\":\"%s\""
        "%s%s%s%s%s%s",
        (unsigned long long)r->pass, (unsigned long long)r->n_passes,
        (unsigned long long)r->batches, (unsigned long long)r->samples, whole, own, parts, bytes,
        r->unit, dropped, f, c, *m ? ",\"metrics\":{" : "", m, *m ? "}" : "");
}

static void write_doing(struct train_report *r, uint64_t waited_ms, const char *servers) {
    static const char *const names[] = {[TRAIN_STEPS] = "training",
                                        [TRAIN_TESTING] = "testing",
                                        [TRAIN_SAVING] = "saving",
                                        [TRAIN_LOADING] = "loading",
                                        [TRAIN_WATCHING] = "waiting for data"};
    r->doing_event_ns = pd_mono_ns();
    put_event(r, "doing", "\"doing\":\"%s\",\"waited\":%.1f,\"servers\":\"%s\"", names[r->doing],
              (double)waited_ms / 1000, servers);
}

void train_report_doing(struct train_report *r, enum train_doing doing) {
    const int other = doing != r->doing;
    r->doing = doing;
    if (doing != TRAIN_STEPS && (other || pd_mono_ns() - r->doing_event_ns >= OTHERS_PERIOD_NS))
        write_doing(r, 0, "");
}

void train_report_wait(struct train_report *r, const struct ps_waiting *w) {
    write_doing(r, w->ms, w->servers);
}

void train_report_pass_begin(struct train_report *r, uint64_t pass) {
    r->pass = pass;
    r->batches = r->samples = r->samples_before = 0;
    r->cost = r->seconds_before = 0;
    r->started_ns = pd_mono_ns();
    r->last_event_ns = 0;
    r->pushes = r->pushes_dropped = 0;
    r->own_samples = r->waited_ns = r->pass_waited_ns = 0;
    memset(r->part_ns, 0, sizeof r->part_ns);
    memset(r->pass_part_ns, 0, sizeof r->pass_part_ns);
    r->fraction = -1;
    r->doing = TRAIN_STEPS;
}

void train_report_continue(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, double seconds_done) {
    r->batches = batches;
    r->samples = r->samples_before = samples;
    r->cost = cost_sum;
    r->seconds_before = seconds_done;
}

void train_report_step(struct train_report *r, uint64_t n_samples, double cost_sum) {
    r->batches++;
    r->samples += n_samples;
    r->cost += cost_sum;
    double cost = n_samples ? cost_sum / (double)n_samples : NAN;
    char pass[TRAIN_PASS_TEXT];
    write_event(r, cost, 0);
    if (r->trainer_id)
        return;
    if (r->batches % r->log_period == 0)
        train_report_print(
            r, "Pass %s, Batch %llu, Cost %.8g (average %.5g), %llu samples, %.0f %s/s",
            train_report_pass_text(r, r->pass, pass), (unsigned long long)r->batches, cost,
            r->cost / (double)r->samples, (unsigned long long)r->samples, rate(r, 0), r->unit);
}

/* ", auc 0.93125, error 0.141"; whole values only */
static void values_text(const struct nn_eval *eval, char *out, size_t cap) {
    size_t n = 0;
    *out = 0;
    for (uint32_t i = 0; eval && i < nn_eval_n_values(eval); i++) {
        const size_t more = (size_t)snprintf(out + n, cap - n, ", %s %.6g", nn_eval_name(eval, i),
                                             nn_eval_value(eval, i));
        if (more >= cap - n) {
            out[n] = 0;
            return;
        }
        n += more;
    }
}

/* The values as members of a JSON object, "BEFORE.NAME"; whole members only. JSON has no NaN. */
static void put_metrics(const struct nn_eval *eval, const char *before, char *out, size_t cap) {
    size_t n = 0;
    *out = 0;
    for (uint32_t i = 0; eval && i < nn_eval_n_values(eval); i++) {
        if (!isfinite(nn_eval_value(eval, i)))
            continue;
        size_t more = (size_t)snprintf(out + n, cap - n, "%s\"%s%s\":%.6g", n ? "," : "", before,
                                       nn_eval_name(eval, i), nn_eval_value(eval, i));
        if (more >= cap - n) {
            out[n] = 0;
            return;
        }
        n += more;
    }
}

enum { MEMBERS_TEXT = 600 };

/* An object of numbers; whole members only, as many as there is room for. */
struct members {
    char text[MEMBERS_TEXT];
    size_t n;
};

static void put_member(struct members *m, const char *object, const char *name, uint64_t value) {
    const size_t room = MEMBERS_TEXT - 1 - m->n; /* for the last brace */
    char begin[40] = ",";
    if (!m->n)
        snprintf(begin, sizeof begin, ",\"%s\":{", object);
    const int more =
        snprintf(m->text + m->n, room, "%s\"%s\":%llu", begin, name, (unsigned long long)value);
    if (more > 0 && (size_t)more < room)
        m->n += (size_t)more;
    m->text[m->n] = 0;
}

static const char *end_members(struct members *m) {
    if (m->n)
        memcpy(m->text + m->n, "}", 2);
    return m->text;
}

/* ,"rows":{"emb.w":30512} */
static void put_rows(const struct ps_client *c, struct members *m) {
    uint64_t rows;
    const char *name;
    for (uint32_t i = 0; (name = ps_pass_rows(c, i, &rows)); i++)
        put_member(m, "rows", name, rows);
}

/* ,"server_memory":{"0":83886080}, by the ranks of the servers */
static void put_server_memory(const struct ps_client *c, struct members *m) {
    uint64_t bytes;
    char rank[16];
    for (uint32_t i = 0; !ps_pass_memory(c, i, &bytes); i++)
        if (bytes) {
            snprintf(rank, sizeof rank, "%u", i);
            put_member(m, "server_memory", rank, bytes);
        }
}

/* The event "pass": trainer 0 has the figures of the job, each trainer its own. */
static void write_pass(const struct train_report *r, const struct nn_eval *eval, int cut) {
    char job[200] = "", cost[40] = "", metrics[sizeof r->test_metrics] = "", bytes[100] = "",
         parts[PARTS_TEXT];
    struct members rows = {0}, memory = {0};
    struct ps_client_stats st = {0};
    if (r->event_fd < 0)
        return;
    if (r->client) {
        ps_client_stats(r->client, &st);
        snprintf(bytes, sizeof bytes, ",\"sent\":%llu,\"received\":%llu",
                 (unsigned long long)st.sent_bytes, (unsigned long long)st.received_bytes);
    }
    if (!r->trainer_id) {
        snprintf(
            job, sizeof job, ",\"batches\":%llu,\"samples\":%llu,\"unit\":\"%s\",\"rate\":%.1f",
            (unsigned long long)r->batches, (unsigned long long)r->samples, r->unit, rate(r, 1));
        if (r->samples && isfinite(r->cost))
            snprintf(cost, sizeof cost, ",\"cost\":%.6g", r->cost / (double)r->samples);
        put_metrics(eval, "", metrics, sizeof metrics);
        if (r->client) {
            put_rows(r->client, &rows);
            put_server_memory(r->client, &memory);
        }
    }
    put_parts(r->pass_part_ns, 1e9, parts);
    put_event(r, "pass",
              "\"pass\":%llu,\"num_passes\":%llu,\"complete\":%s,\"seconds\":%.3f,\"waited\":%.3f,"
              "\"peak_memory\":%llu%s%s%s%s%s%s%s%s%s",
              (unsigned long long)r->pass, (unsigned long long)r->n_passes, cut ? "false" : "true",
              train_report_seconds(r), (double)r->pass_waited_ns * 1e-9,
              (unsigned long long)pd_peak_memory(), parts, bytes, job, cost,
              *metrics ? ",\"metrics\":{" : "", metrics, *metrics ? "}" : "", end_members(&rows),
              end_members(&memory));
}

void train_report_pass_end(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, const struct nn_eval *eval, uint64_t bad_lines,
                           int cut) {
    r->batches = batches;
    r->samples = samples;
    r->cost = cost_sum;
    char more[VALUES_TEXT], pass[TRAIN_PASS_TEXT], cost[40] = "";
    train_report_pass_text(r, r->pass, pass);
    if (bad_lines)
        train_report_print(r, "Pass %s: %llu unreadable lines were skipped", pass,
                           (unsigned long long)bad_lines);
    write_event(r, r->samples ? r->cost / (double)r->samples : NAN, 1);
    write_pass(r, eval, cut);
    if (r->trainer_id)
        return;
    if (r->pushes_dropped)
        train_report_print(r,
                           "Pass %s: %llu of %llu pushes (%.3g %%) came too late and were dropped "
                           "(async_lagged_grad_discard_ratio)",
                           pass, (unsigned long long)r->pushes_dropped,
                           (unsigned long long)r->pushes,
                           100.0 * (double)r->pushes_dropped / (double)r->pushes);
    values_text(eval, more, sizeof more);
    if (r->samples)
        snprintf(cost, sizeof cost, ", cost %.6g", r->cost / (double)r->samples);
    train_report_print(r, "Pass %s %s: %llu batches, %llu samples in %.1f s (%.0f %s/s)%s%s", pass,
                       cut ? "stopped" : "done", (unsigned long long)r->batches,
                       (unsigned long long)r->samples, train_report_seconds(r), rate(r, 1), r->unit,
                       cost, r->samples ? more : "");
}

/* Copies `s` without the characters that a JSON string would have to escape. The lines for users
 * have the full text. */
static void put_plain(const char *s, char *out, size_t cap) {
    size_t n = 0;
    for (; *s && n + 1 < cap; s++)
        if ((unsigned char)*s >= 32 && *s != '"' && *s != '\\')
            out[n++] = *s;
    out[n] = 0;
}

void train_report_model(const struct train_report *r, const struct nn_graph *g) {
    struct pd_buf line = {0};
    if (r->event_fd < 0 || r->trainer_id)
        return;
    pd_put_fmt(&line, "{\"t\":%llu,\"ev\":\"model\",\"role\":\"trainer\",\"rank\":%u,",
               (unsigned long long)(pd_wall_us() / 1000), r->trainer_id);
    if (!nn_graph_describe_json(g, &line)) {
        pd_put_fmt(&line, "}\n");
        if (!line.failed && line.len < MODEL_MAX)
            (void)pd_write_all(r->event_fd, line.data, line.len);
    }
    pd_buf_release(&line);
}

void train_report_saved(struct train_report *r, const char *dir, const char *name, const char *what,
                        int state) {
    char full[300], path[300];
    train_report_print(r, "Saved %s/%s (%s)", dir, name, what);
    if (pd_fmt(full, sizeof full, "%s/%s", dir, name))
        return;
    put_plain(full, path, sizeof path);
    put_event(r, "saved", "\"path\":\"%s\",\"state\":%s", path, state ? "true" : "false");
}

void train_report_no_checkpoint(struct train_report *r, const char *dir) {
    char path[300];
    put_plain(dir, path, sizeof path);
    put_event(r, "no_checkpoint", "\"path\":\"%s\"", path);
}

static void write_test(struct train_report *r, const struct train_tested *what, uint64_t n_samples,
                       double cost, const struct nn_eval *eval) {
    char when[300], c[40] = "", pass[60] = "", judge[200] = "", p[40] = "";
    uint32_t by = 0;
    const int better = eval ? nn_eval_judge(eval, &by) : 0;
    const double value = better ? nn_eval_value(eval, by) : cost;
    put_plain(what->when, when, sizeof when);
    if (isfinite(cost))
        snprintf(c, sizeof c, ",\"cost\":%.6g", cost);
    if (r->perplexity && isfinite(exp(cost)))
        snprintf(p, sizeof p, "\"perplexity\":%.6g%s", exp(cost), *r->test_metrics ? "," : "");
    if (what->after)
        snprintf(pass, sizeof pass, ",\"pass\":%llu", (unsigned long long)what->pass);
    if (isfinite(value))
        snprintf(judge, sizeof judge, ",\"by\":\"%s\",\"better\":\"%s\",\"value\":%.9g",
                 better ? nn_eval_name(eval, by) : "cost", better > 0 ? "higher" : "lower", value);
    put_event(r, "test", "\"when\":\"%s\"%s,\"samples\":%llu%s%s,\"metrics\":{%s%s}", when, pass,
              (unsigned long long)n_samples, c, judge, p, r->test_metrics);
}

void train_report_test(struct train_report *r, const struct train_tested *what, uint64_t n_samples,
                       double cost_sum, const struct nn_eval *eval) {
    double cost = n_samples ? cost_sum / (double)n_samples : NAN;
    char p[60] = "", more[VALUES_TEXT];
    put_metrics(eval, "test.", r->test_metrics, sizeof r->test_metrics);
    if (r->trainer_id)
        return;
    if (r->perplexity)
        snprintf(p, sizeof p, ", perplexity %.4f", exp(cost));
    values_text(eval, more, sizeof more);
    train_report_print(r, "Test %s: cost %.6f%s%s, %llu samples", what->when, cost, p, more,
                       (unsigned long long)n_samples);
    write_test(r, what, n_samples, cost, eval);
}
