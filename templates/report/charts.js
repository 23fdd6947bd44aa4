// Draws the charts of a page from the JSON object beside them. Each function has the name of its canvas.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const colours = ["#1f6fb4", "#d1661b", "#2f8f4e", "#8c4fa8", "#b0303c", "#5b6670"];
const colour = (i) => colours[i % colours.length];
const percent = (value) => value.toFixed(2) + " %";

function draw(name, config) {
  const canvas = document.getElementById(name);
  if (canvas === null) return;
  config.options = Object.assign({ animation: false, maintainAspectRatio: false }, config.options);
  new Chart(canvas, config);
}

function axis(title, more) {
  return Object.assign({ title: { display: true, text: title } }, more);
}

// Strategies: the mean of all searches, between the best and the worst of them.
function curves() {
  const length = Math.max(...data.curves.map((curve) => curve.mean.length));
  const datasets = [];
  data.curves.forEach((curve, i) => {
    const line = { borderColor: colour(i), pointRadius: 0, stepped: "before", spanGaps: false };
    const edge = Object.assign({}, line, { borderWidth: 0, backgroundColor: colour(i) + "22" });
    datasets.push(Object.assign({ label: curve.name, data: curve.mean, backgroundColor: colour(i) }, line,
                                { borderWidth: 2 }));
    datasets.push(Object.assign({ label: "", data: curve.least, fill: "+1" }, edge));
    datasets.push(Object.assign({ label: "", data: curve.most, fill: false }, edge));
  });
  datasets.push({ label: "tie", data: Array(length).fill(data.tie_percent), borderColor: "#8a96a1",
                  borderDash: [6, 4], borderWidth: 1, pointRadius: 0 });
  draw("curves", {
    type: "line",
    data: { labels: Array.from({ length }, (_, i) => i + 1), datasets },
    options: {
      interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { labels: { filter: (item) => item.text !== "" } },
        tooltip: { filter: (item) => item.dataset.label !== "",
                   callbacks: { label: (item) => item.dataset.label + ": " + percent(item.parsed.y) } },
      },
      scales: { x: axis("trials"), y: axis("slower than the fastest recorded, %", { beginAtZero: true }) },
    },
  });
}

// A search: ratios to the baseline with their intervals.
function finalists() {
  const rows = data.finalists.filter((one) => one.outcome === "ok");
  const range = (one) => [one.low === null ? one.ratio : one.low, one.high === null ? one.ratio : one.high];
  draw("finalists", {
    type: "bar",
    data: {
      labels: rows.map((one) => one.mask + "  " + one.plan),
      datasets: [
        { type: "line", label: "ratio", data: rows.map((one) => one.ratio), showLine: false, pointRadius: 4,
          borderColor: colour(1), backgroundColor: colour(1) },
        { label: "95 % interval", data: rows.map(range), backgroundColor: colour(0) + "66", barThickness: 9 },
      ],
    },
    options: { indexAxis: "y", scales: { x: axis("time over the baseline's", { beginAtZero: false }) } },
  });
}

function plans() {
  const rows = data.plans.filter((one) => one.outcome === "ok");
  rows.sort((a, b) => a.median_us - b.median_us);
  const ranked = rows.map((one, i) => ({ x: i + 1, y: one.median_us, plan: one }));
  const kinds = [...new Set(rows.map((one) => one.sampled))].sort();
  draw("plans", {
    type: "scatter",
    data: {
      datasets: kinds.map((kind, i) => ({
        label: kind, data: ranked.filter((one) => one.plan.sampled === kind),
        pointRadius: kind === "uniform" ? 2 : 4, backgroundColor: colour(i),
      })),
    },
    options: {
      plugins: { tooltip: { callbacks: {
        label: (item) => item.raw.plan.mask + "  " + item.raw.plan.plan + "  " + item.raw.y.toFixed(1) + " us",
      } } },
      scales: { x: axis("rank"), y: axis("median, us") },
    },
  });
}

// The kernels that the best plan is made of; of several rows of one the newest.
function samples() {
  const best = data.result !== null && data.result.best ? data.result.best : {};
  const schedules = Array.isArray(best.schedules) ? best.schedules : [];
  const found = data.finalists.concat(data.plans).find((one) => one.mask === best.mask);
  const kernels = found === undefined ? [] : found.plan.match(/\[[0-9-]+\]\*?/g) || [];
  const rows = kernels.map((kernel, i) => data.segments.filter((one) =>
    one.kernel === kernel && one.schedule === schedules[i] && one.outcome === "ok").pop());
  draw("samples", {
    type: "line",
    data: {
      labels: Array.from({ length: Math.max(0, ...rows.map((one) => one ? one.samples_us.length : 0)) },
                         (_, i) => i + 1),
      datasets: rows.filter((one) => one !== undefined).map((one, i) => ({
        label: one.kernel, data: one.samples_us.map((us) => us / one.median_us), borderColor: colour(i),
        backgroundColor: colour(i), borderWidth: 1, pointRadius: 2,
      })),
    },
    options: { scales: { x: axis("sample"), y: axis("over the median") } },
  });
}

if (data.kind === "strategies") curves();
if (data.kind === "search") [finalists, plans, samples].forEach((each) => each());
