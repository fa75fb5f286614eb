// SPDX-License-Identifier: Apache-2.0
// parts.js - the parts of the page that are no charts: events, the network, settings.
const LANES = 20;
const SVG = "http://www.w3.org/2000/svg";
function shape(tag, attributes, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// --- events ---
function eventText(m) {
  return [m.state, m.path, m.text, m.from, m.reason].filter(Boolean).join(" - ");
}
function eventWho(m) {
  const process = m.role ? m.role + " " + (m.rank || 0) : "";
  return [process, m.host || (isNumber(m.node) ? "node " + m.node : "")].filter(Boolean).join(", ");
}
function drawEvents(shown, job) {
  const ends = shown.map((j) =>
    Math.max(
      1,
      ...j.marks.map((m) => m.t),
      ...j.series.flatMap((s) => s.cols.t || []).filter(isNumber),
    ),
  );
  const end = Math.max(1, ...ends);
  const lanes = shown.slice(0, LANES).map((j) => {
    const ticks = (chief(j, "pass") || { cols: {} }).cols.t || [];
    const at = (t) => "left:" + (100 * Math.min(1, t / end)).toFixed(2) + "%";
    return element(
      "div",
      { class: "lane" },
      element("div", { title: label(j) }, label(j)),
      element(
        "div",
        {
          class: "track",
          "data-marks": j.marks.length,
          role: "img",
          "aria-label": "events of " + label(j),
        },
        ticks.filter(isNumber).map((t) => element("i", { class: "mark tick", style: at(t) })),
        j.marks.map((m) =>
          element("i", {
            class: "mark " + (isBad(m) ? "bad" : m.ev === "saved" ? "saved" : ""),
            style: at(m.t),
            title: duration(m.t / 1000) + ": " + m.ev + " " + eventText(m) + " " + eventWho(m),
          }),
        ),
      ),
    );
  });
  $("lanes").replaceChildren(
    ...lanes,
    element(
      "div",
      { class: "lane" },
      element("div"),
      element(
        "div",
        { class: "axis" },
        [0, 0.25, 0.5, 0.75, 1].map((f) => element("span", {}, duration((f * end) / 1000))),
      ),
    ),
    element(
      "p",
      { class: "sub" },
      "Lines: ends of passes. Squares: saved models. Diamonds: failures. Circles: others.",
    ),
    firstOf(LANES, shown.length, "runs"),
  );
  const failure = job.run.failure,
    rows = job.marks.map((m) =>
      element(
        "tr",
        {},
        element("td", { class: "n" }, duration(m.t / 1000)),
        element("td", { class: isBad(m) ? "bad" : m.ev === "saved" ? "good" : "" }, m.ev),
        element("td", {}, eventWho(m)),
        element("td", {}, eventText(m)),
      ),
    );
  const why =
    failure && typeof failure === "object"
      ? Object.entries(failure)
          .filter(([, v]) => (typeof v === "string" && v) || isNumber(v))
          .map(([k, v]) => k + ": " + v)
          .join("\n")
      : "";
  $("events").replaceChildren(
    why
      ? element(
          "p",
          { class: "note", id: "failure", style: "white-space:pre-wrap" },
          "The first failure\n" + why,
        )
      : "",
    element(
      "div",
      { class: "tall" },
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            ["After", "Event", "From", "Text"].map((n) => element("th", { scope: "col" }, n)),
          ),
        ),
        element("tbody", {}, rows),
      ),
    ),
  );
}

// --- the network: layers of nodes, each below its inputs ---
const NODE = { w: 176, h: 78, gap: 22, down: 40 };
function flopsText(v) {
  return v ? plain(v) + (v >= 1e4 ? "FLOP" : " FLOP") : "";
}
function cut(text, n) {
  return text.length > n ? text.slice(0, n - 1) + "\u2026" : text;
}
function place(nodes) {
  const byName = new Map(),
    rows = [],
    boxes = [];
  for (const n of nodes) {
    if (!n || typeof n.name !== "string" || byName.has(n.name)) continue;
    const inputs = (Array.isArray(n.in) ? n.in : []).map((i) => byName.get(i)).filter(Boolean);
    const box = { n, inputs, row: inputs.length ? 1 + Math.max(...inputs.map((b) => b.row)) : 0 };
    byName.set(n.name, box);
    boxes.push(box);
  }
  for (const b of boxes) {
    // a field stands right above the first node that reads it
    const users = boxes.filter((u) => u.inputs.includes(b)).map((u) => u.row);
    if (!b.inputs.length && users.length) b.row = Math.min(...users) - 1;
    (rows[b.row] = rows[b.row] || []).push(b);
  }
  const center = (b) =>
    b.inputs.length ? b.inputs.reduce((a, i) => a + i.x, 0) / b.inputs.length : Infinity;
  const widest = Math.max(...rows.map((r) => r.length));
  for (const row of rows) {
    if (row[0].row) row.sort((a, b) => (center(a) === center(b) ? 0 : center(a) - center(b)));
    row.forEach((b, i) => {
      b.x = (i + 0.5 + (widest - row.length) / 2) * (NODE.w + NODE.gap);
      b.y = b.row * (NODE.h + NODE.down);
    });
  }
  return { boxes, width: widest * (NODE.w + NODE.gap), height: rows.length * (NODE.h + NODE.down) };
}
function drawGraph(job) {
  const nodes = job.graph && Array.isArray(job.graph.nodes) ? job.graph.nodes : [];
  const all = nodes.length ? place(nodes) : { boxes: [] };
  $("graph").setAttribute("data-nodes", all.boxes.length);
  if (!all.boxes.length) {
    $("graph").replaceChildren(
      element("p", { class: "sub" }, "The network of this run is not recorded."),
    );
    return;
  }
  const svg = shape(
    "svg",
    {
      width: all.width,
      height: all.height - NODE.down + 4,
      role: "img",
      "aria-label": "the network of train.ini",
    },
    shape(
      "defs",
      {},
      shape(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto",
        },
        shape("path", { d: "M0,0L8,4L0,8z" }),
      ),
    ),
  );
  for (const b of all.boxes)
    for (const i of b.inputs) {
      const y0 = i.y + NODE.h,
        y1 = b.y - 1,
        mid = (y0 + y1) / 2;
      svg.append(
        shape("path", {
          d: `M${i.x},${y0}C${i.x},${mid + 8} ${b.x},${mid - 8} ${b.x},${y1}`,
          "marker-end": "url(#arrow)",
        }),
      );
    }
  for (const b of all.boxes) {
    const n = b.n,
      text = (y, s, c) =>
        shape("text", { x: b.x, y: b.y + y, "text-anchor": "middle", class: c }, s);
    const type = String(n.type || ""),
      size = n.shape === "cost" ? "" : String(n.shape || "");
    svg.append(
      shape(
        "g",
        { class: type === "field" ? "field" : n.shape === "cost" ? "cost" : "layer" },
        shape(
          "title",
          {},
          [n.name, type, size, n.params, flopsText(n.flops)].filter(Boolean).join("\n"),
        ),
        shape("rect", {
          x: b.x - NODE.w / 2,
          y: b.y + 1,
          width: NODE.w,
          height: NODE.h - 2,
          rx: 8,
        }),
        text(18, cut(n.name, 22), "strong"),
        text(35, cut(type, 26), ""),
        text(52, [size, flopsText(n.flops)].filter(Boolean).join(" \u00b7 "), "dim"),
        text(68, cut(String(n.params || ""), 28), "dim"),
      ),
    );
  }
  $("graph").replaceChildren(
    element(
      "p",
      { class: "sub" },
      plain(job.graph.values) +
        " parameters, " +
        plain(job.graph.flops) +
        " FLOPs a sample forward. Below the type: shape, FLOPs; then the parameters.",
    ),
    svg,
  );
}

// --- settings ---
function drawSettings(shown) {
  const keys = [...new Set(shown.flatMap((j) => Object.keys(j.settings)))].sort();
  const only = $("differ").checked;
  const rows = keys
    .map((k) => [k, shown.map((j) => j.settings[k])])
    .filter(([, v]) => !only || v.some((x) => x !== v[0]));
  $("settings").setAttribute("data-rows", rows.length);
  $("settings").replaceChildren(
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col" }, "Setting"),
        shown.map((j) => element("th", { scope: "col" }, label(j))),
      ),
    ),
    element(
      "tbody",
      {},
      rows.length
        ? rows.map(([k, v]) =>
            element(
              "tr",
              {},
              element("td", {}, element("code", {}, k)),
              v.map((x) => element("td", {}, x === undefined ? "-" : element("code", {}, x))),
            ),
          )
        : element(
            "tr",
            {},
            element(
              "td",
              { colspan: shown.length + 1 },
              only ? "All settings are equal." : "No settings are recorded.",
            ),
          ),
    ),
  );
}

begin();
