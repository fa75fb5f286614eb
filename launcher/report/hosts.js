// SPDX-License-Identifier: Apache-2.0
// hosts.js - the jobs on the hosts of conf.ini: `paddlectl dashboard` asks them.
const NO_RECORD =
  "A job whose record is not in this folder has no curves, settings, events and files below: " +
  "only what its agents tell is shown. 'paddlectl fetch --log JOB' makes a record of it here.";

function jobProgress(p) {
  if (!p) return ["-", "-", "-", "-"];
  const done = isNumber(p.fraction) ? ", " + share(p.fraction) : "";
  const metrics = Object.entries(p.metrics).map(([name, v]) => name + " " + plain(v));
  return [
    p.pass + 1 + (p.num_passes ? "/" + p.num_passes : "") + done,
    plain(p.cost),
    metrics.join(", ") || "-",
    isNumber(p.rate) ? plain(p.rate) + " " + p.unit + "/s" : "-",
  ];
}
const ELSEWHERE =
  "Of a job under another root_dir, of another account for example, only its id, owner, start " +
  "and hosts are known: nobody but that account can ask its agents.";

// Who follows the job, and when its progress was last seen to move.
function jobLife(job) {
  if (job.elsewhere) return "-";
  if (!job.running) return job.ended_ms ? "ended " + new Date(job.ended_ms).toLocaleString() : "-";
  return (
    (job.attached ? "attached" : "detached") +
    (job.changed_ms ? ", moved " + new Date(job.changed_ms).toLocaleTimeString() : "")
  );
}
function hostJob(job) {
  const end = job.ended_ms || (job.running ? data.made_ms : 0);
  const [pass, cost, metrics, speed] = jobProgress(job.progress);
  const all = job.nodes || (job.elsewhere ? "?" : job.having),
    nodes = (job.running || job.having) + "/" + all;
  const cells = [
    [job.name ? element("b", {}, job.name) : null, " ", element("code", {}, job.job)],
    job.user || "-",
    element("span", { class: job.running ? "good" : stateClass(job.state) }, job.state),
    nodes + (job.lost ? ", " + job.lost + " lost" : ""),
    job.started_ms ? new Date(job.started_ms).toLocaleString() : "-",
    job.started_ms && end > job.started_ms ? duration((end - job.started_ms) / 1000) : "-",
    pass,
    cost,
    metrics,
    speed,
    jobLife(job),
    job.record ? "below" : job.elsewhere ? "another root_dir" : "none here",
  ];
  const numeric = new Set([5, 7, 9]);
  return element(
    "tr",
    { "data-host-job": job.job },
    cells.map((c, i) =>
      element("td", { class: numeric.has(i) ? "n" : i === 0 ? "name" : undefined }, c),
    ),
  );
}

// `hosts`: of dashboard_hosts_json; undefined in a report.
function drawHosts(hosts) {
  $("hosts").hidden = !hosts;
  if (!hosts) return;
  const rows = hosts.jobs || [],
    silent = hosts.silent || [];
  const note = (text) => element("p", { class: "note" }, text);
  const texts = [];
  if (hosts.why_not) texts.push("The hosts are not asked for jobs: " + hosts.why_not);
  texts.push(...silent.map((s) => "No answer, asked again: " + s));
  if (rows.some((j) => !j.record && !j.elsewhere)) texts.push(NO_RECORD);
  if (rows.some((j) => j.elsewhere)) texts.push(ELSEWHERE);
  $("hosts-notes").replaceChildren(...texts.map(note));
  $("hosts-text").textContent = hosts.asking
    ? "The hosts are being asked."
    : hosts.why_not
      ? ""
      : hosts.answered + " of " + hosts.n + " hosts of conf.ini answer. " +
        (rows.length < hosts.n_jobs
          ? rows.length + " of " + hosts.n_jobs + " jobs are shown: those that run, and the newest."
          : rows.length ? "" : "They have no job.");
  const names = ["Job", "Owner", "State", "Nodes", "Started", "Duration", "Pass", "Cost", "Metrics"];
  names.push("Speed", "Followed", "Record");
  $("hosts-jobs").replaceChildren(
    element("thead", {}, element("tr", {}, names.map((n) => element("th", { scope: "col" }, n)))),
    element("tbody", {}, rows.map(hostJob)),
  );
  $("hosts-jobs").parentElement.hidden = !rows.length;
}
