// Charts of the report. All words stand in the page already; without this script it lacks the charts only.
"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const percent = (ratio, digits = 2) => {
    const text = Math.abs(100 * (ratio - 1)).toFixed(digits);
    const sign = Number(text) === 0 ? "" : ratio < 1 ? "\u2212" : "+";
    return `${sign}${text} %`;
  };
  const rowHeight = 24;
  let drawn = 0;

  const time = (seconds) => {
    const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
    const [size, unit] = units.find(([least]) => seconds >= least) || units[3];
    return (seconds / size).toPrecision(3) + " " + unit;
  };

  // The middle of a long name is what tells least.
  const fitted = (text, pixels) => {
    const most = Math.max(4, Math.floor(pixels / 6.7));
    if (text.length <= most) return text;
    const head = Math.ceil((most - 1) / 2);
    return text.slice(0, head) + "\u2026" + text.slice(text.length - (most - 1 - head));
  };

  const canvas = (node, height, label) => {
    const width = Math.max(260, node.clientWidth);
    d3.select(node).selectAll("*").remove();
    const svg = d3.select(node).append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img")
      .attr("aria-label", label);
    return { svg, width };
  };

  // Tax of each case with its interval; what has no tax says why.
  const forest = (node) => {
    const rows = data.forest;
    const narrow = node.clientWidth < 640;
    const step = narrow ? 2 * rowHeight : rowHeight;
    const top = 26, height = top + rows.length * step + 24;
    const { svg, width } = canvas(node, height, "tax of each case with its interval");
    const left = narrow ? 26 : Math.round(width * 0.42), right = narrow ? 26 : 96;
    const shown = rows.filter((row) => row.low !== null);
    const ends = shown.flatMap((row) => [row.low, row.high]).concat([0.99, 1.01]);
    const x = d3.scaleLinear().domain(d3.extent(ends)).nice(5).range([left, width - right]);
    const ticks = Math.max(2, Math.floor((width - left - right) / 90));
    for (const [axis, at] of [[d3.axisTop(x), top - 4], [d3.axisBottom(x), height - 22]]) {
      const digits = x.domain()[1] - x.domain()[0] < 0.05 ? 1 : 0;
      svg.append("g").attr("transform", `translate(0,${at})`).call(axis.ticks(ticks).tickFormat((value) => percent(value, digits)));
    }
    svg.append("line").attr("class", "zero").attr("x1", x(1)).attr("x2", x(1)).attr("y1", top - 4).attr("y2", height - 22);
    const row = svg.selectAll(".row").data(rows).enter().append("g").attr("class", "row")
      .attr("transform", (_, i) => `translate(0,${top + i * step})`);
    row.append("title").text((d) => `${d.id}, ${d.arm}: ${d.words}`);
    row.append("text").attr("x", narrow ? 6 : left - 10).attr("y", 16).attr("text-anchor", narrow ? "start" : "end")
      .text((d) => fitted(d.arm ? `${d.id} \u00b7 ${d.arm}` : d.id, (narrow ? width - 110 : left - 14)));
    row.append("text").attr("class", "soft").attr("x", width - 4).attr("y", 16).attr("text-anchor", "end")
      .text((d) => (d.value === null ? "" : percent(d.value)));
    const middle = narrow ? rowHeight + 10 : 12;
    const mark = row.filter((d) => d.low !== null);
    mark.append("line").attr("class", (d) => `interval ${d.status}`).attr("x1", (d) => x(d.low)).attr("x2", (d) => x(d.high))
      .attr("y1", middle).attr("y2", middle).attr("stroke-dasharray", (d) => (d.value === null ? "4 3" : null));
    mark.filter((d) => d.value !== null).append("circle").attr("class", (d) => d.status).attr("cx", (d) => x(d.value))
      .attr("cy", middle).attr("r", 4.5);
    row.filter((d) => d.low === null).append("text").attr("class", "soft").attr("x", Math.min(x(1) + 8, width - 150))
      .attr("y", middle + 4).text((d) => d.words);
  };

  // Step times of each arm on one axis.
  const steps = (node) => {
    const chart = data.steps[node.dataset.case];
    const band = 46, top = 4, height = top + chart.arms.length * band + 26;
    const { svg, width } = canvas(node, height, "distribution of step times of each arm");
    const left = width < 480 ? 8 : 130, right = 12;
    const x = d3.scaleLinear().domain([chart.low, chart.high]).range([left, width - right]);
    const count = chart.arms[0].counts.length;
    const edge = (i) => chart.low + ((chart.high - chart.low) * i) / count;
    chart.arms.forEach((arm, i) => {
      const y = d3.scaleLinear().domain([0, d3.max(arm.counts) || 1]).range([0, band - 18]);
      const group = svg.append("g").attr("transform", `translate(0,${top + i * band})`);
      group.append("title").text(`${arm.arm}: median ${time(arm.median)}, ${arm.steps} steps`);
      const over = arm.over > 0 ? `, ${arm.over} slower` : "";
      if (left > 100) {
        group.append("text").attr("x", left - 10).attr("y", band - 16).attr("text-anchor", "end").text(fitted(arm.arm, left - 14));
        group.append("text").attr("class", "soft").attr("x", left - 10).attr("y", band - 2).attr("text-anchor", "end")
          .text(`n = ${arm.steps}${over}`);
      } else {
        group.append("text").attr("x", left).attr("y", 12).text(`${fitted(arm.arm, 140)}, n = ${arm.steps}${over}`);
      }
      const bins = arm.counts.map((n, at) => ({ n, at })).filter((bin) => bin.n > 0);
      group.selectAll("rect").data(bins).enter().append("rect").attr("class", "bar")
        .attr("x", (bin) => x(edge(bin.at))).attr("width", (bin) => Math.max(1, x(edge(bin.at + 1)) - x(edge(bin.at)) - 1))
        .attr("y", (bin) => band - 6 - y(bin.n)).attr("height", (bin) => y(bin.n));
      group.append("line").attr("class", "median").attr("x1", x(arm.median)).attr("x2", x(arm.median)).attr("y1", 14).attr("y2", band - 6);
    });
    svg.append("g").attr("transform", `translate(0,${height - 24})`)
      .call(d3.axisBottom(x).ticks(Math.max(2, Math.floor((width - left) / 110))).tickFormat(time));
  };

  const signed = (seconds) => {
    if (seconds === null) return "?";
    if (seconds === 0) return "0";
    return (seconds < 0 ? "\u2212" : "+") + time(Math.abs(seconds));
  };
  const timeAxis = (x, width) => d3.axisBottom(x).ticks(Math.max(2, Math.floor(width / 110))).tickFormat((value) => {
    const text = value === 0 ? "0" : time(Math.abs(value));
    return value < 0 ? `\u2212${text}` : text;
  });
  const known = (value) => value !== null;

  // Bars of rows that each go from one time to another, with a whisker where there is an interval.
  const bars = (node, rows, label) => {
    const narrow = node.clientWidth < 640;
    const step = narrow ? 2 * rowHeight : rowHeight, top = 4, height = top + rows.length * step + 26;
    const { svg, width } = canvas(node, height, label);
    const left = narrow ? 10 : Math.round(width * 0.26), right = narrow ? 10 : 96;
    const ends = rows.flatMap((row) => [row.from, row.to, row.low, row.high]).filter(known);
    const x = d3.scaleLinear().domain(d3.extent(ends)).nice(5).range([left, width - right]);
    const row = svg.selectAll(".row").data(rows).enter().append("g").attr("class", "row")
      .attr("transform", (_, i) => `translate(0,${top + i * step})`);
    row.append("title").text((d) => `${d.name}: ${d.words}`);
    row.append("text").attr("x", narrow ? 6 : left - 10).attr("y", 16).attr("text-anchor", narrow ? "start" : "end")
      .text((d) => fitted(d.name, narrow ? width - 110 : left - 14));
    row.append("text").attr("class", "soft").attr("x", width - 4).attr("y", 16).attr("text-anchor", "end").text((d) => d.words);
    const middle = narrow ? rowHeight + 10 : 12;
    row.append("rect").attr("class", (d) => d.kind).attr("y", middle - 7).attr("height", 14)
      .attr("x", (d) => Math.min(x(d.from), x(d.to))).attr("width", (d) => Math.max(1.5, Math.abs(x(d.to) - x(d.from))));
    row.filter((d) => known(d.low) && known(d.high)).append("line").attr("class", "whisker").attr("x1", (d) => x(d.low))
      .attr("x2", (d) => x(d.high)).attr("y1", middle).attr("y2", middle);
    svg.append("g").attr("transform", `translate(0,${height - 24})`).call(timeAxis(x, width - left - right));
    return { svg, x, height };
  };
  const kind = (seconds) => (seconds > 0 ? "more" : "less");

  // Where the recorded step of an arm differs from fast's.
  const mechanisms = (node) => {
    const profile = data.causes[node.dataset.case].profiles[node.dataset.number];
    const rows = profile.mechanisms.filter((one) => known(one.delta)).map((one) => (
      { name: one.name, from: 0, to: one.delta, low: null, high: null, words: signed(one.delta), kind: kind(one.delta) }));
    const { svg, x, height } = bars(node, rows, `${profile.arm} less fast, by mechanism`);
    svg.append("line").attr("class", "zero").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 0).attr("y2", height - 24);
  };

  // From a fast step to one of the mode, knob by knob.
  const waterfall = (node) => {
    const matrix = data.causes[node.dataset.case].ablation;
    const whole = (name, to) => ({ name, to, low: null, high: null, words: time(to), kind: "bar" });
    const rows = [whole("fast", matrix.fast)];
    let at = matrix.fast;
    matrix.rows.slice(0, -1).filter((one) => known(one.seconds)).forEach((one) => {
      const shift = (value) => (known(value) ? at + value : null);
      rows.push({ name: one.knob, from: at, to: at + one.seconds, low: shift(one.low), high: shift(one.high),
        words: signed(one.seconds), kind: kind(one.seconds) });
      at += one.seconds;
    });
    rows.push(whole(matrix.arm, at));
    // Whole steps stand from the edge on: an axis from nothing would leave no room for what differs.
    const least = d3.min(rows.flatMap((row) => [row.from ?? null, row.to, row.low]).filter(known));
    const most = d3.max(rows.flatMap((row) => [row.to, row.high]).filter(known));
    rows.forEach((row) => { row.from ??= least - 0.08 * (most - least || least); });
    bars(node, rows, `from fast to ${matrix.arm}, knob by knob`);
  };

  // Knobs against mechanisms; the deeper, the more time.
  const heat = (node) => {
    const matrix = data.causes[node.dataset.case].ablation;
    const columns = matrix.mechanisms.concat(["recording", "step"]);
    const left = 110, cell = 92, top = 34, need = left + columns.length * cell + 4;
    const height = top + matrix.rows.length * (rowHeight + 2) + 4;
    const { svg, width } = canvas(node, height, "knobs against mechanisms");
    // Too many columns for a phone are scrolled within the page.
    const wide = Math.max(width, need);
    svg.attr("viewBox", `0 0 ${wide} ${height}`).style("width", `${wide}px`).style("height", `${height}px`);
    const across = (wide - left) / columns.length;
    const most = d3.max(matrix.rows.flatMap((row) => row.cells.concat([row.seconds])).filter(known), Math.abs) || 1;
    svg.selectAll(".column").data(columns).enter().append("text").attr("class", "soft").attr("text-anchor", "middle")
      .attr("x", (_, i) => left + (i + 0.5) * across).attr("y", top - 10).text((name) => fitted(name, across - 6))
      .append("title").text((name) => name);
    const row = svg.selectAll(".row").data(matrix.rows).enter().append("g").attr("class", "row")
      .attr("transform", (_, i) => `translate(0,${top + i * (rowHeight + 2)})`);
    row.append("text").attr("x", left - 8).attr("y", 16).attr("text-anchor", "end").text((d) => fitted(d.knob, left - 10));
    const one = row.selectAll(".cell").data((d) => d.cells.concat([d.recording, d.seconds])).enter().append("g").attr("class", "cell")
      .attr("transform", (_, i) => `translate(${left + i * across},0)`);
    one.append("rect").attr("class", (value) => kind(value || 0)).attr("width", across - 2).attr("height", rowHeight)
      .attr("fill-opacity", (value) => (value ? 0.04 + 0.5 * Math.min(1, Math.abs(value) / most) : 0.02));
    one.append("text").attr("x", across / 2).attr("y", 16).attr("text-anchor", "middle").text((value) => (value === 0 ? "" : signed(value)));
  };

  // Tax of each projection: its median, and P10 to P90.
  const projected = (node) => {
    const rows = data.outlook.projections;
    const narrow = node.clientWidth < 640;
    const step = narrow ? 2 * rowHeight : rowHeight, top = 4, height = top + rows.length * step + 26;
    const { svg, width } = canvas(node, height, "projected tax with its band");
    const left = narrow ? 14 : Math.round(width * 0.5), right = narrow ? 14 : 80;
    const ends = rows.flatMap((row) => [row.low, row.value, row.high]).concat([0]);
    const x = d3.scaleLinear().domain(d3.extent(ends)).nice(5).range([left, width - right]);
    const row = svg.selectAll(".row").data(rows).enter().append("g").attr("class", "row")
      .attr("transform", (_, i) => `translate(0,${top + i * step})`);
    row.append("title").text((d) => `${d.name}: ${d.words}`);
    row.append("text").attr("x", narrow ? 6 : left - 10).attr("y", 16).attr("text-anchor", narrow ? "start" : "end")
      .text((d) => fitted(d.name, narrow ? width - 90 : left - 14));
    row.append("text").attr("class", "soft").attr("x", width - 4).attr("y", 16).attr("text-anchor", "end").text((d) => d.words);
    const middle = narrow ? rowHeight + 10 : 12;
    row.append("line").attr("class", "interval expected").attr("x1", (d) => x(d.low)).attr("x2", (d) => x(d.high))
      .attr("y1", middle).attr("y2", middle);
    row.append("circle").attr("class", "expected").attr("cx", (d) => x(d.value)).attr("cy", middle).attr("r", 4.5);
    svg.append("line").attr("class", "zero").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 0).attr("y2", height - 24);
    svg.append("g").attr("transform", `translate(0,${height - 24})`)
      .call(d3.axisBottom(x).ticks(Math.max(2, Math.floor((width - left - right) / 90))).tickFormat((value) => percent(1 + value, 1)));
  };

  const money = (amount) => (amount < 0 ? "\u2212" : "") + "$" + d3.format(".3~s")(Math.abs(amount)).replace("G", "B");

  // Cost of each policy over the tax, with the tax that was taken and where the answer flips.
  const costs = (node) => {
    const chart = data.outlook.costs;
    const policies = ["never", "windows", "always"];
    const top = 40, height = 300;
    const { svg, width } = canvas(node, height, "cost of each policy over the tax");
    const left = 62, right = 66;
    const x = d3.scaleLinear().domain([0, d3.max(chart.points, (point) => point.tax)]).range([left, width - right]);
    const y = d3.scaleLinear().domain([0, d3.max(chart.points.flatMap((point) => policies.map((one) => point[one])))]).nice(5)
      .range([height - 26, top]);
    const inside = (value) => Math.min(x.domain()[1], value);
    const mark = (name, words, row) => {
      if (!chart[name] || !known(chart[name].value) || chart[name].value > x.domain()[1]) return;
      const { value, low, high } = chart[name];
      svg.append("rect").attr("class", `band ${name}`).attr("x", x(low)).attr("width", Math.max(1, x(inside(high)) - x(low)))
        .attr("y", top).attr("height", height - 26 - top);
      svg.append("line").attr("class", `mark ${name}`).attr("x1", x(value)).attr("x2", x(value)).attr("y1", top).attr("y2", height - 26);
      const anchor = x(value) > (left + width - right) / 2 ? "end" : "start";
      svg.append("text").attr("class", "soft").attr("x", x(value)).attr("y", 12 + 13 * row).attr("text-anchor", anchor)
        .text(`${words} ${(100 * value).toFixed(2)} %`);
    };
    mark("tax", "tax", 0);
    mark("break_even", "break-even", 1);
    mark("cheapest", "cheapest knobs", 2);
    policies.forEach((policy) => {
      const line = d3.line().x((point) => x(point.tax)).y((point) => y(point[policy]));
      svg.append("path").attr("class", `policy ${policy}`).attr("d", line(chart.points)).append("title").text(policy);
    });
    // Ends that meet would be written over each other.
    const last = chart.points[chart.points.length - 1];
    let at = height;
    policies.map((policy) => ({ policy, at: y(last[policy]) })).sort((a, b) => b.at - a.at).forEach((one) => {
      at = Math.min(one.at + 4, at - 14);
      svg.append("text").attr("class", `name ${one.policy}`).attr("x", width - right + 6).attr("y", at).text(one.policy);
    });
    svg.append("g").attr("transform", `translate(0,${height - 26})`)
      .call(d3.axisBottom(x).ticks(Math.max(2, Math.floor((width - left - right) / 90))).tickFormat((value) => `${d3.format(".3~f")(100 * value)} %`));
    svg.append("g").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(5).tickFormat(money));
  };

  // What always saves, as one input after the other goes through its band.
  const tornado = (node) => {
    const { saved, tornado: rows } = data.outlook;
    const narrow = node.clientWidth < 640;
    const step = narrow ? 2 * rowHeight : rowHeight, top = 4, height = top + rows.length * step + 26;
    const { svg, width } = canvas(node, height, "what always saves against never, by input");
    const left = narrow ? 24 : Math.round(width * 0.3), right = narrow ? 24 : 140;
    const x = d3.scaleLinear().domain(d3.extent(rows.flatMap((row) => [row.from, row.to]).concat([saved, 0]))).nice(5)
      .range([left, width - right]);
    const row = svg.selectAll(".row").data(rows).enter().append("g").attr("class", "row")
      .attr("transform", (_, i) => `translate(0,${top + i * step})`);
    row.append("title").text((d) => `${d.name} ${d.words}: ${money(d.from)} to ${money(d.to)}`);
    row.append("text").attr("x", narrow ? 6 : left - 10).attr("y", 16).attr("text-anchor", narrow ? "start" : "end")
      .text((d) => fitted(d.name, narrow ? width - 150 : left - 14));
    row.append("text").attr("class", "soft").attr("x", width - 4).attr("y", 16).attr("text-anchor", "end").text((d) => d.words);
    const middle = narrow ? rowHeight + 10 : 12;
    for (const [end, side] of [["from", "less"], ["to", "more"]]) {
      row.append("rect").attr("class", `side ${side}`).attr("y", middle - 7).attr("height", 14)
        .attr("x", (d) => Math.min(x(d[end]), x(saved))).attr("width", (d) => Math.abs(x(d[end]) - x(saved)));
    }
    for (const value of [0, saved]) {
      svg.append("line").attr("class", value === 0 ? "zero" : "median").attr("x1", x(value)).attr("x2", x(value)).attr("y1", 0).attr("y2", height - 24);
    }
    svg.append("g").attr("transform", `translate(0,${height - 24})`)
      .call(d3.axisBottom(x).ticks(Math.max(2, Math.floor((width - left - right) / 100))).tickFormat(money));
  };

  const charts = { forest, steps, mechanisms, waterfall, heat, projected, costs, tornado };
  const draw = (node) => {
    charts[node.dataset.chart](node);
    if (!node.dataset.drawn) drawn += 1;
    node.dataset.drawn = String(node.clientWidth);
    root.dataset.charts = String(drawn);
  };
  const visible = (node) => node.clientWidth > 0;
  const drawVisible = () => document.querySelectorAll(".chart").forEach((node) => {
    if (visible(node) && node.dataset.drawn !== String(node.clientWidth)) draw(node);
  });

  document.querySelectorAll("details").forEach((node) => node.addEventListener("toggle", drawVisible));
  window.addEventListener("resize", drawVisible);
  window.addEventListener("beforeprint", drawVisible);
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  // A link to a case opens it.
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  window.addEventListener("hashchange", openTarget);
  openTarget();
  root.dataset.charts = "0";
  drawVisible();
})();
