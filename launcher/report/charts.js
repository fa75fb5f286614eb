// SPDX-License-Identifier: Apache-2.0
// charts.js - numbers as text, elements, and charts of lines and areas over dygraphs.
// All texts of records become text nodes: dygraphs gets numbers and names made here.
const dark = matchMedia("(prefers-color-scheme: dark)");
const PALETTES = {
  light: ["#0067a5", "#c2410c", "#007a5a", "#a8327f", "#8a6100", "#5b4bb7", "#00838f", "#6b6b6b"],
  dark: ["#58b4ff", "#ff9a62", "#3fd6a2", "#f28fd0", "#f2c14e", "#b3a5ff", "#4dd8e6", "#c4c4c4"],
};
const color = (i) => PALETTES[dark.matches ? "dark" : "light"][i % 8];
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  for (const c of children.flat())
    if (c !== null && c !== undefined) e.append(c instanceof Node ? c : String(c));
  return e;
}

// --- numbers ---
const isNumber = (v) => typeof v === "number" && isFinite(v);
function plain(v, digits = 4) {
  if (!isNumber(v)) return "-";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e15 || a < 1e-4) return v.toExponential(2);
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ])
    if (a >= size) return +(v / (unit === "k" ? 1e3 : size)).toPrecision(digits) + " " + unit;
  return String(+v.toPrecision(digits));
}
function bytes(v) {
  if (!isNumber(v)) return "-";
  let i = 0;
  while (Math.abs(v) >= 1000 && i < 5) {
    v /= 1000;
    i++;
  }
  return +v.toPrecision(3) + " " + ["B", "kB", "MB", "GB", "TB", "PB"][i];
}
function duration(s) {
  if (!isNumber(s)) return "-";
  if (s < 100) return +s.toPrecision(s < 10 ? 2 : 3) + " s";
  if (s < 5400)
    return Math.floor(s / 60) + " min" + (s % 60 >= 1 ? " " + Math.floor(s % 60) + " s" : "");
  const m = Math.floor(s / 60);
  return Math.floor(m / 60) + " h" + (m % 60 ? " " + (m % 60) + " min" : "");
}
const share = (v) => (isNumber(v) ? Math.round(v * 100) + " %" : "-");

// --- charts ---
const charts = [];

function smoothed(points, weight) {
  if (!weight) return points;
  let sum = 0,
    of = 0;
  return points.map(([x, y]) => {
    sum = sum * weight + y * (1 - weight);
    of = of * weight + (1 - weight);
    return [x, sum / of];
  });
}

// Rows of all x values: [x, a value or null for each line].
function merged(lines, weight) {
  const rows = new Map();
  lines.forEach((line, i) => {
    const points = line.points.slice().sort((a, b) => a[0] - b[0]);
    for (const [x, y] of smoothed(points, weight)) {
      if (!rows.has(x)) rows.set(x, [x, ...lines.map(() => null)]);
      rows.get(x)[i + 1] = y;
    }
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// Two fingers zoom, one scrolls the page.
function touches() {
  const model = Object.assign({}, Dygraph.defaultInteractionModel);
  const start = model.touchstart;
  model.touchstart = (e, g, context) => {
    if (e.touches.length > 1) start(e, g, context);
  };
  return model;
}

function legend(c) {
  const values = c.lines.map((l) => element("b"));
  const spans = c.lines.map((l, i) =>
    element(
      "span",
      {},
      element("i", {
        class: "key" + (l.dashed ? " dashed" : "") + (c.stacked ? " area" : ""),
        style: "border-top-color:" + l.color,
      }),
      l.name,
      values[i],
    ),
  );
  c.legend.replaceChildren(...(c.stacked ? spans.reverse() : spans));
  return (x, points) => {
    values.forEach((v) => {
      v.textContent = "";
    });
    for (const p of points || []) {
      const i = +p.name.slice(1),
        row = c.rows[p.idx];
      const y = row ? row[i + 1] : p.yval;
      if (c.lines[i] && isNumber(y)) values[i].textContent = c.y(y);
    }
    c.at.textContent = points ? c.x(x) : "";
  };
}

function drawLines(g, area, c) {
  const canvas = g.hidden_ctx_;
  canvas.save();
  canvas.strokeStyle = variable("--bad");
  canvas.setLineDash([4, 4]);
  for (const x of c.failures || []) {
    const at = g.toDomXCoord(x);
    canvas.beginPath();
    canvas.moveTo(at, area.y);
    canvas.lineTo(at, area.y + area.h);
    canvas.stroke();
  }
  canvas.restore();
}

// c: {id, title, text, lines: [{name, points: [[x, y]], color, dashed}], x, y (formats), stacked,
// smooth, log (may be shown so), from0, failures: [x], empty: text without points}
function chart(parent, c) {
  c.lines = c.lines.filter((l) => l.points.length);
  c.n = c.lines.reduce((n, l) => n + l.points.length, 0);
  c.at = element("span", { class: "sub" });
  c.legend = element("div", { class: "legend" });
  const plot = element(
    "div",
    c.n ? { class: "plot", role: "img", "aria-label": c.title } : { class: "empty" },
    c.n ? [] : [c.empty || "This is not recorded."],
  );
  parent.append(
    element(
      "figure",
      { "data-chart": c.id, "data-series": c.lines.length, "data-points": c.n },
      element(
        "figcaption",
        {},
        element("h3", {}, c.title),
        element("div", { class: "sub" }, c.text, " ", c.at),
      ),
      plot,
      c.legend,
    ),
  );
  if (!c.n) return;
  c.update = () => {
    const weight = c.smooth ? +document.getElementById("smooth").value : 0;
    const log = Boolean(c.log && document.getElementById("log").checked);
    c.rows = merged(c.lines, weight);
    if (log) c.rows = c.rows.map((r) => r.map((v, i) => (i && v !== null && v <= 0 ? null : v)));
    const series = {};
    c.lines.forEach((l, i) => {
      series["s" + i] = {
        strokePattern: l.dashed ? [6, 4] : null,
        drawPoints: !c.stacked && l.points.length < 40,
      };
    });
    const options = {
      file: c.rows,
      colors: c.lines.map((l) => l.color),
      logscale: log,
      series,
      axisLineColor: variable("--line"),
      gridLineColor: variable("--line"),
    };
    if (c.graph) {
      c.graph.updateOptions(options);
      return;
    }
    const show = legend(c);
    c.graph = new Dygraph(
      plot,
      c.rows,
      Object.assign(options, {
        labels: ["x", ...c.lines.map((l, i) => "s" + i)],
        legend: "never",
        connectSeparatedPoints: true,
        stackedGraph: Boolean(c.stacked),
        fillAlpha: 0.75,
        strokeWidth: c.stacked ? 1 : 2,
        pointSize: 2.5,
        highlightCircleSize: 4,
        includeZero: Boolean(c.from0),
        valueRange: c.range || null,
        interactionModel: touches(),
        gridLinePattern: [2, 3],
        rightGap: 12,
        xRangePad: 4,
        yRangePad: c.stacked ? 0 : 8,
        animatedZooms: false,
        axes: {
          x: { axisLabelFormatter: (v) => c.x(v), pixelsPerLabel: 80, axisLabelWidth: 76 },
          y: { axisLabelFormatter: (v) => c.y(v), axisLabelWidth: 62 },
        },
        highlightCallback: (e, x, points) => show(x, points),
        unhighlightCallback: () => show(0, null),
        underlayCallback: (canvas, area, g) => drawLines(g, area, c),
      }),
    );
    delete c.graph.user_attrs_.file;
  };
  c.update();
  if (zooms.has(c.id)) c.graph.updateOptions({ dateWindow: zooms.get(c.id) });
  charts.push(c);
}

// A chart that is drawn again with newer data keeps its zoom.
const zooms = new Map();
function forgetZoom() {
  for (const c of charts) if (c.graph.isZoomed("x")) c.graph.resetZoom();
  zooms.clear();
}
function clearCharts(parent) {
  for (let i = charts.length - 1; i >= 0; i--)
    if (parent.contains(charts[i].legend)) {
      if (charts[i].graph.isZoomed("x")) zooms.set(charts[i].id, charts[i].graph.xAxisRange());
      else zooms.delete(charts[i].id);
      charts[i].graph.destroy();
      charts.splice(i, 1);
    }
  parent.replaceChildren();
}
