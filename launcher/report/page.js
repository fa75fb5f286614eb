// SPDX-License-Identifier: Apache-2.0
// page.js - the parts of the page, from the JSON of report_data.c.
const $ = (id) => document.getElementById(id);
let data = { jobs: [] },
  jobs = [];
const DRAWN = 8;
const NOTES = 40;
const ROWS = 50;
const PARTS = ["forward", "backward", "read", "push", "pull", "wait"];
const PART_TEXT = {
  forward: "forward",
  backward: "backward",
  read: "reading data",
  push: "push",
  pull: "pull",
  wait: "waiting for servers",
  other: "other",
};
const partColor = (p) =>
  p === "other" ? variable("--line") : color([2, 0, 4, 3, 5, 1][PARTS.indexOf(p)]);

// --- what the records have ---
const column = (s, key) => (s && s.cols[key]) || [];
const series = (job, ev) => job.series.filter((s) => s.ev === ev).sort((a, b) => a.rank - b.rank);
const chief = (job, ev) => series(job, ev).find((s) => s.rank === 0);
const last = (values) => {
  for (let i = values.length; i--;) if (isNumber(values[i])) return values[i];
};
const label = (job) => (job.run.name ? job.run.name + " (" + job.job.slice(-4) + ")" : job.job);
const firstOf = (shown, all, name) =>
  all > shown
    ? element("p", { class: "sub" }, `The first ${shown} of ${all} ${name} are shown.`)
    : "";
const trainerName = (s) => "trainer " + s.rank + (s.host ? ", " + s.host : "");
const serverName = (s) => "server " + s.rank + (s.host ? ", " + s.host : "");

function pairs(s, x, y) {
  const xs = typeof x === "function" ? x(s) : column(s, x),
    ys = column(s, y);
  const out = [];
  for (let i = 0; i < ys.length; i++)
    if (isNumber(xs[i]) && isNumber(ys[i])) out.push([xs[i], ys[i]]);
  return out;
}
const seconds = (s) => column(s, "t").map((t) => (isNumber(t) ? t / 1000 : null));
function passes(s) {
  const pass = column(s, "pass"),
    fraction = column(s, "fraction");
  return pass.map((p, i) =>
    !isNumber(p)
      ? null
      : s.ev === "progress"
        ? isNumber(fraction[i])
          ? p + fraction[i]
          : null
        : p + 1,
  );
}
const axis = (s) => ($("x").value === "time" ? seconds(s) : passes(s));
const axisText = (v) => ($("x").value === "time" ? duration(v) : "pass " + plain(v));
const failures = (job) => job.marks.filter(isBad).map((m) => m.t / 1000);
function isBad(m) {
  return (
    m.ev === "lost" ||
    m.ev === "failed" ||
    (m.ev === "state" && /^(failed|lost|restart)/.test(m.state || ""))
  );
}
const drawn = () => jobs.filter((j) => j.drawn);
const chosen = () => jobs[+$("job").value || 0];

// --- the table of runs ---
function best(job, key) {
  const b = job.run[key];
  if (!b || !isNumber(b.value)) return "-";
  return (
    (b.by || "value") +
    " " +
    plain(b.value) +
    (isNumber(b.pass) ? " (pass " + (b.pass + 1) + ")" : "")
  );
}
function stateClass(s) {
  return s === "done" ? "good" : s === "failed" || s === "lost" ? "bad" : "warn";
}
function dashedOf(job) {
  return job.index >= 8;
}
function runsTable() {
  const names = [
    "",
    "Run",
    "State",
    "Started",
    "Took",
    "Hosts",
    "Passes",
    "Best test",
    "Last test",
    "Cost",
    "Speed",
  ];
  const numeric = new Set([4, 5, 6, 9, 10]);
  const head = element(
    "tr",
    {},
    names.map((n, i) =>
      element("th", { scope: "col", class: numeric.has(i) ? "n" : undefined }, n),
    ),
  );
  const rows = jobs.map((job) => {
    const pass = chief(job, "pass"),
      done = last(column(pass, "pass")),
      of = last(column(pass, "num_passes"));
    const box = element("input", {
      type: "checkbox",
      "aria-label": "draw " + label(job),
      checked: job.drawn,
    });
    box.addEventListener("change", () => {
      job.drawn = box.checked;
      drawAll();
    });
    const cells = [
      [
        box,
        " ",
        element("i", {
          class: "key" + (dashedOf(job) ? " dashed" : ""),
          style: "border-top-color:" + color(job.index),
        }),
      ],
      [job.run.name ? element("b", {}, job.run.name) : null, " ", element("code", {}, job.job)],
      element("span", { class: stateClass(job.state) }, job.state || "unknown"),
      isNumber(job.run.started_ms) ? new Date(job.run.started_ms).toLocaleString() : "-",
      duration(job.run.seconds),
      job.run.hosts || "-",
      isNumber(done) ? done + 1 + (of ? "/" + of : "") : "-",
      best(job, "best"),
      best(job, "test"),
      plain(last(column(pass, "cost"))),
      isNumber(last(column(pass, "rate"))) ? plain(last(column(pass, "rate"))) + "/s" : "-",
    ];
    return element(
      "tr",
      { "data-job": job.job },
      cells.map((c, i) =>
        element("td", { class: numeric.has(i) ? "n" : i === 1 ? "name" : undefined }, c),
      ),
    );
  });
  $("runs").replaceChildren(element("thead", {}, head), element("tbody", {}, rows));
  $("drawn").textContent =
    jobs.length > 1
      ? drawn().length + " of " + jobs.length + " runs are drawn: choose them in the first column."
      : "";
}

// --- curves of all drawn runs ---
function lines(ev, key, dashed, suffix) {
  return drawn().map((job) => ({
    name: label(job) + (suffix || ""),
    color: color(job.index),
    dashed: dashed || dashedOf(job),
    points: pairs(chief(job, ev), axis, key),
  }));
}
function drawCurves() {
  clearCharts($("curves"));
  const common = { x: axisText, y: plain, smooth: true, log: true };
  chart(
    $("curves"),
    Object.assign(
      {
        id: "cost",
        title: "Cost",
        text: "Per sample, while training.",
        lines: [...lines("progress", "cost", false, ""), ...lines("test", "cost", true, ", test")],
      },
      common,
    ),
  );
  const names = new Set();
  for (const job of drawn())
    for (const s of [chief(job, "pass"), chief(job, "test")])
      for (const key of s ? Object.keys(s.cols) : [])
        if (key.startsWith("metrics.")) names.add(key.slice(8).replace(/^test\./, ""));
  for (const name of names)
    chart(
      $("curves"),
      Object.assign(
        {
          id: "metric." + name,
          title: name,
          text: "At the end of each pass.",
          lines: [
            ...lines("pass", "metrics." + name, false, ", training"),
            ...lines("test", "metrics.test." + name, true, ", test"),
            ...lines("test", "metrics." + name, true, ", test"),
          ],
        },
        common,
      ),
    );
  chart(
    $("curves"),
    Object.assign(
      {
        id: "speed",
        title: "Speed",
        text: "Units per second of the whole job.",
        lines: lines("progress", "rate"),
        from0: true,
      },
      common,
    ),
  );
}

// --- inside a run ---
const trainers = (job) => {
  const all = series(job, "progress"),
    one = $("trainer").value;
  return one === "all" || one === "" ? all : all.filter((s) => String(s.rank) === one);
};
const perProcess = (job, ev, key, name) =>
  series(job, ev)
    .filter((s) => s.rank < 64)
    .map((s, i) => ({
      name: name(s),
      color: color(i),
      dashed: i >= 8,
      points: pairs(s, seconds, key),
    }));
const perTrainer = (job, ev, key) => perProcess(job, ev, key, trainerName);

// Seconds of passes as shares.
const ofPasses = (job) =>
  series(job, "pass").map((s) => {
    const time = column(s, "seconds");
    const cols = { t: column(s, "t") };
    for (const part of PARTS)
      cols[part] = column(s, part === "wait" ? "waited" : part).map((v, i) =>
        isNumber(v) && time[i] > 0 ? v / time[i] : null,
      );
    return { cols };
  });

// The mean over trainers, on common times; shares that the record lacks are part of "other".
function shares(job) {
  let all = trainers(job).filter((s) => column(s, "wait").some(isNumber));
  if (!all.length) all = ofPasses(job); // each pass was shorter than the time between two events
  const keys = PARTS.filter((k) => all.some((s) => column(s, k).some(isNumber)));
  const times = all.flatMap(seconds).filter(isNumber);
  if (!times.length) return [];
  const lo = Math.min(...times),
    hi = Math.max(...times),
    n = Math.min(120, column(all[0], "t").length);
  const bins = Array.from({ length: n }, () => ({}));
  for (const s of all)
    seconds(s).forEach((t, i) => {
      if (!isNumber(t)) return;
      const bin = bins[Math.min(n - 1, Math.floor(((t - lo) / (hi - lo || 1)) * n))];
      for (const k of keys) {
        const v = column(s, k)[i];
        if (isNumber(v)) (bin[k] = bin[k] || []).push(v);
      }
    });
  const order = [...keys, "other"]; // dygraphs draws the last one at the bottom
  const out = order.map((k) => ({ name: PART_TEXT[k], color: partColor(k), points: [] }));
  bins.forEach((bin, i) => {
    if (!Object.keys(bin).length) return;
    const means = keys.map((k) => (bin[k] ? bin[k].reduce((a, b) => a + b, 0) / bin[k].length : 0));
    const x = lo + ((i + 0.5) / n) * (hi - lo),
      sum = means.reduce((a, b) => a + b, 0);
    [...means, Math.max(0, 1 - sum)].forEach((v, k) =>
      out[k].points.push([x, v / Math.max(1, sum)]),
    );
  });
  return out.reverse();
}

// Bytes per second: those of progress, else of sums between two passes, which begin anew with a process.
function rates(job, key) {
  const live = perTrainer(job, "progress", key + "_rate");
  if (live.some((line) => line.points.length)) return live;
  return series(job, "pass").map((s, i) => {
    const p = pairs(s, seconds, key),
      points = [];
    for (let k = 1; k < p.length; k++) {
      const more = p[k][1] - p[k - 1][1],
        time = p[k][0] - p[k - 1][0];
      if (more >= 0 && time > 0) points.push([p[k][0], more / time]);
    }
    return { name: trainerName(s), color: color(i), dashed: i >= 8, points };
  });
}

// The columns "BEGIN.NAME" of the ends of passes.
function named(job, begin, name) {
  const pass = chief(job, "pass");
  return Object.keys(pass ? pass.cols : {})
    .filter((key) => key.startsWith(begin))
    .map((key, i) => ({
      name: name(key.slice(begin.length)),
      color: color(i),
      dashed: i >= 8,
      points: pairs(pass, seconds, key),
    }));
}

function drawInside() {
  const job = chosen(),
    here = $("inside"),
    bad = failures(job);
  clearCharts(here);
  const common = { x: duration, failures: bad };
  const add = (c) => chart(here, Object.assign(c, common));
  add({
    id: "throughput",
    title: "Throughput per node",
    text: "Units per second of each trainer.",
    lines: perTrainer(job, "progress", "own_rate"),
    empty: "Each pass was shorter than the time between two events.",
    y: plain,
    from0: true,
    smooth: true,
  });
  add({
    id: "time",
    title: "Where the time goes",
    text: "Shares of a trainer's time.",
    lines: shares(job),
    y: share,
    stacked: true,
    range: [0, 1.001],
  });
  add({
    id: "wait",
    title: "Waiting for servers",
    text: "The trainer that waits least holds the others up, if they train in step.",
    lines: perTrainer(job, "progress", "wait"),
    y: share,
    from0: true,
    smooth: true,
  });
  add({
    id: "sent",
    title: "Network: sent",
    text: "Bytes per second from each trainer to the servers.",
    lines: rates(job, "sent"),
    y: (v) => bytes(v) + "/s",
    from0: true,
  });
  add({
    id: "received",
    title: "Network: received",
    text: "Bytes per second from the servers to each trainer.",
    lines: rates(job, "received"),
    y: (v) => bytes(v) + "/s",
    from0: true,
  });
  add({
    id: "queue",
    title: "Queues of servers",
    text: "Requests to each parameter server that wait for a step.",
    lines: perProcess(job, "serving", "waiting", serverName),
    y: plain,
    from0: true,
    empty: "No queues of servers are recorded in this run.",
  });
  add({
    id: "memory",
    title: "Memory",
    text: "The most that each trainer has used until then.",
    lines: perTrainer(job, "pass", "peak_memory"),
    y: bytes,
    from0: true,
  });
  add({
    id: "server-memory",
    title: "Memory of servers",
    text: "The most that each parameter server has used until then.",
    lines: named(job, "server_memory.", (rank) => "server " + rank),
    y: bytes,
    from0: true,
    empty: "No memory of servers is recorded in this run.",
  });
  add({
    id: "tables",
    title: "Table growth",
    text: "Rows of each table, on all servers.",
    lines: named(job, "rows.", (name) => name),
    y: plain,
    from0: true,
    empty: "No growth of tables is recorded in this run.",
  });
  $("job-notes").replaceChildren();
  if (bad.length)
    $("job-notes").append(
      element(
        "p",
        { class: "sub" },
        "Dashed red lines in the charts: failures, lost hosts and restarts.",
      ),
    );
  drawStragglers(job);
}

function drawStragglers(job) {
  const rows = series(job, "pass")
    .map((s) => {
      const sum = (key) =>
        column(s, key)
          .filter(isNumber)
          .reduce((a, b) => a + b, 0);
      const time = sum("seconds"),
        own = column(
          series(job, "progress").find((p) => p.rank === s.rank),
          "own_rate",
        ).filter(isNumber);
      const parts = PARTS.map((p) => [p, sum(p === "wait" ? "waited" : p) / (time || 1)]);
      return {
        s,
        time,
        parts,
        wait: sum("waited") / (time || 1),
        rate: own.reduce((a, b) => a + b, 0) / own.length,
      };
    })
    .filter((r) => r.time > 0)
    .sort((a, b) => a.wait - b.wait);
  $("stragglers").setAttribute("data-rows", rows.length);
  if (!rows.length) {
    $("stragglers").replaceChildren(
      element("p", { class: "empty" }, "No pass of this run has ended."),
    );
    return;
  }
  const spread = rows[rows.length - 1].wait - rows[0].wait;
  const keys = [...PARTS, "other"].map((p) =>
    element(
      "span",
      {},
      element("i", { class: "key area", style: "border-top-color:" + partColor(p) }),
      PART_TEXT[p],
    ),
  );
  $("stragglers").replaceChildren(
    element(
      "table",
      {},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ["Trainer", "Units/s", "Waits", "Its time"].map((n, i) =>
            element("th", { scope: "col", class: i === 1 || i === 2 ? "n" : undefined }, n),
          ),
        ),
      ),
      element(
        "tbody",
        {},
        rows.slice(0, ROWS).map((r, i) =>
          element(
            "tr",
            {},
            element(
              "td",
              {},
              trainerName(r.s),
              i === 0 && rows.length > 1 && spread > 0.1
                ? element("span", { class: "warn" }, " waits least")
                : null,
            ),
            element("td", { class: "n" }, plain(r.rate)),
            element("td", { class: "n" }, share(r.wait)),
            element(
              "td",
              {},
              element(
                "div",
                {
                  class: "parts",
                  role: "img",
                  "aria-label": r.parts.map(([p, v]) => PART_TEXT[p] + " " + share(v)).join(", "),
                },
                r.parts.map(([p, v]) =>
                  element("i", {
                    title: PART_TEXT[p] + " " + share(v),
                    style: "width:" + 100 * Math.min(1, v) + "%;background:" + partColor(p),
                  }),
                ),
                element("i", { style: "flex:1;background:" + partColor("other") }),
              ),
            ),
          ),
        ),
      ),
    ),
    element("div", { class: "legend", style: "padding:8px 10px" }, keys),
    firstOf(ROWS, rows.length, "trainers"),
  );
}

// --- all of it ---
function drawAll() {
  runsTable();
  drawCurves();
  drawInside();
  drawEvents(drawn(), chosen());
  drawGraph(chosen());
  drawSettings(drawn());
}
function trainersOf(job, one) {
  const all = series(job, "progress");
  $("trainer").replaceChildren(
    element("option", { value: "all" }, "all"),
    ...all.map((s) => element("option", { value: s.rank }, trainerName(s))),
  );
  if (all.some((s) => String(s.rank) === one)) $("trainer").value = one;
}
function chooseJob() {
  trainersOf(chosen(), "all");
  drawInside();
  drawEvents(drawn(), chosen());
  drawGraph(chosen());
}
// New data: runs that were there stay drawn or not, and keep their colours.
function load(next) {
  const before = new Map(jobs.map((job) => [job.job, job])),
    used = new Set();
  data = next;
  jobs = data.jobs;
  for (const job of jobs) {
    const old = before.get(job.job);
    if (old) used.add((job.index = old.index));
    for (const m of job.marks) m.t = Math.max(0, m.t - job.t0);
  }
  jobs.forEach((job, i) => {
    const old = before.get(job.job);
    job.drawn = old ? old.drawn : i < DRAWN;
    if (old) return;
    for (job.index = 0; used.has(job.index); ) job.index++;
    used.add(job.index);
  });
}
function show() {
  const selected = $("job").selectedOptions[0],
    trainer = $("trainer").value;
  $("title").textContent = jobs.length === 1 ? label(jobs[0]) : jobs.length + " runs";
  document.title = $("title").textContent + " - paddlectl " + (data.live ? "dashboard" : "report");
  $("made").textContent =
    "paddlectl " + data.paddlectl + ", " + new Date(data.made_ms).toLocaleString();
  const notes = [...data.notes, ...jobs.flatMap((j) => j.notes.map((n) => label(j) + ": " + n))];
  const graphs = new Set(jobs.filter((j) => j.graph).map((j) => JSON.stringify(j.graph.nodes)));
  if (graphs.size > 1)
    notes.push(
      "These runs have " + graphs.size + " different networks: their costs may not be comparable.",
    );
  if (notes.length > NOTES)
    notes.splice(NOTES, notes.length, notes.length - NOTES + " further notes are not shown.");
  $("notes").replaceChildren(...notes.map((n) => element("p", { class: "note" }, n)));
  drawHosts(data.hosts);
  $("none").hidden = jobs.length > 0;
  $("none").textContent = data.notes.length ? "No run could be read." : "There is no run yet.";
  document.querySelector("main").hidden = !jobs.length;
  $("job").replaceChildren(
    ...jobs.map((j, i) => element("option", { value: i, "data-run": j.job }, label(j))),
  );
  if (!jobs.length) return;
  const again = selected && jobs.findIndex((j) => j.job === selected.dataset.run);
  if (again > 0) $("job").value = again;
  trainersOf(chosen(), trainer);
  // The page keeps its height meanwhile, so that it does not scroll.
  document.body.style.minHeight = document.body.scrollHeight + "px";
  drawAll();
  document.body.style.minHeight = "";
}

// --- a live page: `paddlectl dashboard` ---
function follow(ms) {
  setTimeout(async () => {
    let next = ms;
    let text = null;
    try {
      const answer = await fetch("data", { cache: "no-cache" });
      next = +answer.headers.get("x-next-ms") || ms;
      if (answer.ok) text = await answer.text();
    } catch (e) {
      text = null; // no server
    }
    follow(next);
    $("live").textContent =
      text === null ? "paddlectl dashboard does not answer: these are the last figures" : "live";
    $("live").className = text === null ? "bad" : "good";
    if (text === null) return;
    if (text !== follow.text) {
      load(JSON.parse(text));
      show();
    }
    follow.text = text;
    document.documentElement.setAttribute("data-live", ++follow.n);
  }, ms);
}
follow.n = 0;

function begin() {
  load(JSON.parse($("data").textContent));
  $("differ").checked = jobs.length > 1;
  show();
  $("job").addEventListener("change", () => {
    forgetZoom();
    chooseJob();
  });
  $("trainer").addEventListener("change", drawInside);
  $("x").addEventListener("change", () => {
    forgetZoom();
    drawCurves();
  });
  $("differ").addEventListener("change", () => drawSettings(drawn()));
  for (const id of ["smooth", "log"])
    $(id).addEventListener("input", () => {
      $("smooth-value").textContent = $("smooth").value;
      charts.forEach((c) => c.update());
    });
  dark.addEventListener("change", drawAll);
  document.documentElement.setAttribute("data-ready", "1");
  if (data.live) follow(1000);
}
