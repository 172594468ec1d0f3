"use strict";
// Draws the figures of the page. Whatever comes from elsewhere reaches the page
// as text: the library escapes names, and tooltips go through text().
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const text = echarts.format.encodeHTML;
  const charts = new Map();
  const paper = 680; // pixels that fit on a sheet
  const printing = () => "print" in document.documentElement.dataset;
  const narrow = () => printing() || window.innerWidth < 720;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const count = (n) => n.toLocaleString("en-US");
  const rate = (r) => (r >= 99.5 ? r.toFixed(0) : r >= 9.95 ? r.toFixed(1) : r.toFixed(2));
  const clock = (s) => (figures.duration < 180 ? `${+s.toFixed(2)} s` : `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`);
  const span = (s) => (s < 1 ? `${+(s * 1000).toPrecision(3)} ms` : `${+s.toPrecision(3)} s`);

  const base = () => ({
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: colour("ink") },
  });
  const legend = () => ({ top: 0, left: 0, itemWidth: 34, textStyle: { color: colour("ink") }, inactiveColor: colour("line") });
  const tooltip = (more) => ({
    backgroundColor: colour("panel"), borderColor: colour("line"), textStyle: { color: colour("ink"), fontSize: 13 }, confine: true, transitionDuration: 0, ...more,
  });
  const axis = (more) => ({
    nameTextStyle: { color: colour("faint") }, axisLabel: { color: colour("faint"), hideOverlap: true, ...more.axisLabel },
    axisLine: { lineStyle: { color: colour("line") } }, splitLine: { lineStyle: { color: colour("line"), opacity: 0.6 } },
    ...Object.fromEntries(Object.entries(more).filter(([k]) => k !== "axisLabel")),
  });
  // The first of these that leaves no more ticks than there is room for.
  const interval = () => [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].find((s) => figures.duration / s <= (narrow() ? 6 : 12)) || 7200;
  const time = (more) => axis({
    type: "value", min: 0, max: figures.duration, interval: interval(), name: figures.duration < 180 ? "seconds since the start" : "minutes since the start",
    nameLocation: "middle", nameGap: 28, axisLabel: { formatter: (s) => clock(s).replace(" s", ""), showMaxLabel: figures.duration % interval() === 0 }, splitLine: { show: false }, ...more,
  });
  // A curve's counts belong to the steps that begin at i × step.
  const points = (step, values) => values.map((v, i) => [Math.min(i * step, figures.duration), v]);

  function open() {
    const { step, placed, completed, cancelled } = figures.open;
    let n = 0;
    const still = placed.map((p, i) => (n += p - completed[i] - cancelled[i]));
    const marks = figures.marks || [];
    const names = [...new Set(marks.map((m) => m.name))];
    const lanes = names.map((name) => `${name} ${marks.filter((m) => m.name === name).length}×`);
    const left = names.length ? (narrow() ? 124 : 150) : 60;
    const lane = 20, below = lanes.length * lane;
    const band = (m) => [{ xAxis: m.at }, { xAxis: Math.max(m.until, m.at + figures.duration / 400) }];
    return {
      ...base(), height: 290 + below,
      tooltip: tooltip({ trigger: "axis", axisPointer: { type: "line", axis: "x", animation: false, lineStyle: { color: colour("faint") } },
        formatter: (all) => {
          const at = Number(all[0].axisValue);
          const now = marks.filter((m) => m.at <= at + step && at <= Math.max(m.until, m.at + figures.duration / 400));
          const here = all.find((p) => p.seriesIndex === 0);
          return `${text(clock(at))}<br>${here ? `<b>${count(here.value[1])}</b> orders not settled` : ""}${now.map((m) => `<br>${text(m.name)}${m.until > m.at ? `, ${text(span(m.until - m.at))}` : ""}`).join("")}`;
        } }),
      axisPointer: { animation: false, link: [{ xAxisIndex: "all" }] },
      grid: [
        { left, right: 16, top: 34, bottom: below + 74 },
        { left, right: 16, height: below, bottom: 48 },
      ],
      xAxis: [time({ name: "", axisLabel: { show: false }, axisTick: { show: false } }), time({ gridIndex: 1 })],
      yAxis: [
        axis({ type: "value", name: "orders not settled", nameLocation: "end", nameTextStyle: { color: colour("faint"), align: "left", padding: [0, 0, 0, -left + 8] }, minInterval: 1 }),
        axis({ type: "category", gridIndex: 1, inverse: true, data: lanes, axisTick: { show: false }, axisLabel: { interval: 0, color: colour("ink"), fontSize: 12 }, splitLine: { show: true, lineStyle: { color: colour("line"), opacity: 0.6 } } }),
      ],
      series: [
        { name: "orders not settled", type: "line", step: "end", symbol: "none", data: points(step, still), lineStyle: { width: 2, color: colour("c0") }, itemStyle: { color: colour("c0") }, areaStyle: { color: colour("c0"), opacity: 0.2 },
          markArea: { silent: true, itemStyle: { color: colour("fault"), opacity: 0.1 }, data: marks.filter((m) => m.name !== "repair" && m.until - m.at <= figures.duration / 2).map(band) },
          markLine: { silent: true, symbol: "none", lineStyle: { color: colour("good"), type: "dashed", width: 1.5 }, label: { formatter: "repaired by a person", color: colour("good"), position: "end", align: "right" }, data: marks.filter((m) => m.name === "repair").slice(0, 1).map((m) => ({ xAxis: m.at })) } },
        { type: "custom", xAxisIndex: 1, yAxisIndex: 1, data: marks.map((m) => [m.at, names.indexOf(m.name), m.until]),
          encode: { x: [0, 2], y: 1 },
          renderItem: (params, api) => {
            const from = api.coord([api.value(0), api.value(1)]), to = api.coord([Math.max(api.value(2), api.value(0)), api.value(1)]);
            const good = names[api.value(1)] === "repair";
            return { type: "rect", shape: { x: from[0], y: from[1] - 6, width: Math.max(to[0] - from[0], 3), height: 12 }, style: { fill: colour(good ? "good" : "fault") } };
          } },
      ],
    };
  }

  function rates() {
    const { step } = figures.rates;
    const series = [["placed", "c0", "solid"], ["completed", "c1", "dashed"], ["cancelled", "c2", "dotted"]];
    return {
      ...base(), height: 340, legend: legend(),
      tooltip: tooltip({ trigger: "axis", formatter: (all) => `${text(clock(all[0].axisValue))}${all.map((p) => `<br>${p.marker}${text(p.seriesName)} <b>${rate(p.value[1])}</b> per second`).join("")}` }),
      grid: { left: 60, right: 16, top: 60, bottom: 48 },
      xAxis: time({}),
      yAxis: axis({ type: "value", name: "orders per second", nameTextStyle: { color: colour("faint"), align: "left", padding: [0, 0, 0, -52] } }),
      series: series.map(([name, c, type]) => ({
        name, type: "line", symbol: "none", data: points(step, figures.rates[name].map((n) => n / step)),
        lineStyle: { width: 2, type, color: colour(c) }, itemStyle: { color: colour(c) }, areaStyle: name === "completed" ? { color: colour(c), opacity: 0.12 } : undefined,
      })),
    };
  }

  function latencies() {
    const looks = [["c0", "solid"], ["c2", "dashed"]];
    const edges = figures.latency[0].edges || [];
    const room = 0.22 * (narrow() ? 2 : 1); // of the axis, for a label
    const far = (h) => Math.log(h.p99 / h.p50) / Math.log(edges[edges.length - 1] / edges[0]) > room;
    let rows = 0; // of labels above the drawing, so that none covers another
    const lines = figures.latency.map((h) => {
      const row = rows;
      rows += far(h) ? 1 : 2;
      return [["median", h.p50, row], ["p99", h.p99, rows - 1]].filter(([, v]) => v >= edges[0]);
    });
    return {
      ...base(), height: 300 + 18 * rows, legend: legend(),
      tooltip: tooltip({ trigger: "axis", formatter: (all) => `from ${text(span(all[0].axisValue))}${all.map((p) => `<br>${p.marker}${text(p.seriesName)} <b>${p.value[1].toFixed(2)} %</b>`).join("")}` }),
      grid: { left: 60, right: 24, top: 48 + 18 * rows, bottom: 48 },
      xAxis: axis({ type: "log", min: edges[0], max: edges[edges.length - 1], name: "latency, logarithmic", nameLocation: "middle", nameGap: 28, axisLabel: { formatter: span }, minorTick: { show: true, splitNumber: 9 } }),
      yAxis: axis({ type: "value", name: "% of all", nameTextStyle: { color: colour("faint"), align: "left", padding: [0, 0, 0, -52] } }),
      series: figures.latency.map((h, k) => ({
        name: h.name, type: "line", step: "end", symbol: "none", data: (h.share || []).map((s, i) => [h.edges[i], s]),
        lineStyle: { width: 2, type: looks[k][1], color: colour(looks[k][0]) }, itemStyle: { color: colour(looks[k][0]) }, areaStyle: { color: colour(looks[k][0]), opacity: 0.18 },
        markLine: { silent: true, symbol: "none", lineStyle: { color: colour(looks[k][0]), type: looks[k][1], width: 1.5 },
          data: lines[k].map(([name, v, row]) => ({ xAxis: v, label: { formatter: `${name} ${span(v)}`, color: colour(looks[k][0]), position: "end", offset: [0, -18 * row], fontSize: 12 } })) },
      })),
    };
  }

  function flows() {
    const { emitted, applied } = figures.flow;
    const from = [...new Set((emitted || []).map((s) => s.service))].sort();
    const to = [...new Set((applied || []).map((s) => s.service))].sort();
    const of = (event) => colour("c" + (Math.max(from.indexOf(((emitted || []).find((s) => s.event === event) || {}).service), 0) % 8));
    const total = (all, key, name) => all.filter((s) => s[key] === name).reduce((t, s) => ({ n: t.n + s.count, r: t.r + s.rate }), { n: 0, r: 0 });
    const label = (name, t) => `${name}  ${count(t.n)}${narrow() ? "" : ` · ${rate(t.r)}/s`}`;
    const nodes = [
      ...from.map((s) => ({ name: "from " + s, depth: 0, label: { formatter: () => label(s, total(emitted, "service", s)), fontWeight: "bold" }, itemStyle: { color: colour("c" + (from.indexOf(s) % 8)) } })),
      ...[...new Set([...(emitted || []), ...(applied || [])].map((s) => s.event))].map((e) => ({ name: "event " + e, depth: 1, label: { formatter: () => label(e, total(emitted || [], "event", e)) }, itemStyle: { color: of(e) } })),
      ...to.map((s) => ({ name: "to " + s, depth: 2, label: { formatter: () => label(s, total(applied, "service", s)), fontWeight: "bold" }, itemStyle: { color: colour("c6") } })),
    ];
    const link = (source, target, s) => ({ source, target, value: s.count, rate: s.rate, lineStyle: { color: of(s.event), opacity: 0.3 } });
    return {
      ...base(), height: Math.max(300, 34 * (nodes.length - from.length - to.length)),
      tooltip: tooltip({ trigger: "item", formatter: (p) => p.dataType === "edge"
        ? `${text(p.data.source)} → ${text(p.data.target)}<br><b>${count(p.data.value)}</b>, ${rate(p.data.rate)} per second`
        : text(p.name) }),
      series: [{
        type: "sankey", left: 4, right: narrow() ? 110 : 190, top: 8, bottom: 8, nodeWidth: 12, nodeGap: 16, draggable: false, layoutIterations: 64, emphasis: { focus: "adjacency" },
        label: { color: colour("ink"), fontSize: narrow() ? 11 : 13, textBorderColor: colour("ground"), textBorderWidth: 3 },
        data: nodes,
        links: [
          ...(emitted || []).map((s) => link("from " + s.service, "event " + s.event, s)),
          ...(applied || []).map((s) => link("event " + s.event, "to " + s.service, s)),
        ],
      }],
    };
  }

  const builders = { open, rates, latencies, flows };
  function draw() {
    for (const [id, build] of Object.entries(builders)) {
      const at = document.getElementById(id);
      if (!charts.has(id)) charts.set(id, echarts.init(at, null, { renderer: "svg" }));
      const { height, ...option } = build();
      at.style.height = `${height}px`;
      charts.get(id).resize({ width: printing() ? paper : "auto" });
      charts.get(id).setOption(option, { notMerge: true });
    }
  }
  let due = 0;
  const later = () => { cancelAnimationFrame(due); due = requestAnimationFrame(draw); };
  window.addEventListener("resize", later);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  // Paper is white: drawn once more in the light colours, which the style sheet then gives.
  window.addEventListener("beforeprint", () => { document.documentElement.dataset.print = ""; draw(); });
  window.addEventListener("afterprint", () => { delete document.documentElement.dataset.print; draw(); });
  draw();
})();
