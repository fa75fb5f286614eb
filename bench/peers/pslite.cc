/* SPDX-License-Identifier: Apache-2.0 */
// pslite.cc - rows of D floats on a ps-lite server, pulled and pushed with AdaGrad by one worker: a peer for `ps sparse`.
//
//     pslite DIM ROWS KEYS SECONDS, as scheduler, server and worker (DMLC_ROLE), on 127.0.0.1
//
// The server's rows lie in one array behind a std::unordered_map, which is more than ps-lite's own KVServerDefaultHandle does.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point t0) { return std::chrono::duration<double>(Clock::now() - t0).count(); }

static ps::Key mix(uint64_t x) { // splitmix64; ps-lite's keys end below 2^64 - 1
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) >> 1;
}

struct Table {
    size_t dim;
    std::unordered_map<ps::Key, uint32_t> row;
    std::vector<float> values; // a row: dim values, dim squares
    float *find(ps::Key k) {
        auto it = row.find(k);
        if (it == row.end()) {
            it = row.emplace(k, (uint32_t)row.size()).first;
            values.resize(row.size() * 2 * dim);
        }
        return &values[(size_t)it->second * 2 * dim];
    }
    void operator()(const ps::KVMeta &meta, const ps::KVPairs<float> &in, ps::KVServer<float> *server) {
        ps::KVPairs<float> out;
        if (meta.push) {
            for (size_t i = 0; i < in.keys.size(); i++) {
                float *w = find(in.keys[i]), *s = w + dim;
                const float *g = in.vals.data() + i * dim;
                for (size_t d = 0; d < dim; d++) {
                    s[d] += g[d] * g[d];
                    w[d] -= 0.01f * g[d] / (std::sqrt(s[d]) + 1e-6f);
                }
            }
        } else {
            out.keys = in.keys;
            out.vals.resize(in.keys.size() * dim);
            for (size_t i = 0; i < in.keys.size(); i++)
                std::copy_n(find(in.keys[i]), dim, out.vals.data() + i * dim);
        }
        server->Response(meta, out);
    }
};

static double p99(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[(size_t)(0.99 * (double)(v.size() - 1))];
}

static void work(size_t dim, uint64_t rows, size_t n, double limit) {
    enum { DISTINCT = 64 };
    ps::KVWorker<float> kv(0, 0);
    std::vector<std::vector<ps::Key>> keys(DISTINCT);
    for (int r = 0; r < DISTINCT; r++) { // one of each n-th part of the ids: random, and no key twice
        for (size_t i = 0; i < n; i++)
            keys[r].push_back(mix(rows / n * i + mix(i * DISTINCT + (uint64_t)r) % (rows / n) + 1));
        std::sort(keys[r].begin(), keys[r].end());
    }
    std::vector<float> w, g(n * dim, 0.001f);
    for (uint64_t at = 0; at < rows; at += 65536) {
        std::vector<ps::Key> all;
        for (uint64_t i = at; i < rows && i < at + 65536; i++)
            all.push_back(mix(i + 1));
        std::sort(all.begin(), all.end());
        std::vector<float> zero(all.size() * dim);
        kv.Wait(kv.Push(all, zero));
    }
    std::vector<double> pull, push;
    double in_pull = 0, in_push = 0;
    for (auto t0 = Clock::now(); since(t0) < limit;) {
        auto &k = keys[pull.size() % DISTINCT];
        auto a = Clock::now();
        kv.Wait(kv.Pull(k, &w));
        pull.push_back(since(a));
        auto b = Clock::now();
        kv.Wait(kv.Push(k, g));
        push.push_back(since(b));
        in_pull += pull.back();
        in_push += push.back();
    }
    double m = (double)(n * pull.size()) / 1e6;
    std::printf("pslite dim %zu rows %llu pull %.2f push %.2f Mkeys/s p99 pull %.2f push %.2f ms\n", dim, (unsigned long long)rows,
                m / in_pull, m / in_push, p99(pull) * 1e3, p99(push) * 1e3);
}

int main(int argc, char **argv) {
    if (argc != 5)
        return std::fputs("usage: pslite DIM ROWS KEYS SECONDS\n", stderr), 2;
    size_t dim = std::strtoull(argv[1], nullptr, 10);
    uint64_t rows = std::strtoull(argv[2], nullptr, 10);
    ps::Start(0);
    if (ps::IsServer()) {
        auto server = new ps::KVServer<float>(0);
        auto table = std::make_shared<Table>();
        table->dim = dim;
        table->row.reserve(rows);
        table->values.reserve(rows * 2 * dim);
        server->set_request_handle([table](const ps::KVMeta &m, const ps::KVPairs<float> &in, ps::KVServer<float> *s) { (*table)(m, in, s); });
        ps::RegisterExitCallback([server]() { delete server; });
    }
    if (ps::IsWorker())
        work(dim, rows, std::strtoull(argv[3], nullptr, 10), std::strtod(argv[4], nullptr));
    ps::Finalize(0, true);
    return 0;
}
