// The chart of a metric: shows what is under the pointer; dragging selects a time range.
"use strict";
(() => {
  const chart = (at) => at.target.closest && at.target.closest("svg.series");
  let brush = null;

  const epoch = (svg, x) => {
    const d = svg.dataset, box = svg.getBoundingClientRect();
    const at = (x - box.left) / box.width * svg.viewBox.baseVal.width;
    const share = Math.min(1, Math.max(0, (at - d.left) / (d.right - d.left)));
    return Number(d.from) + share * (d.to - d.from);
  };

  const place = (svg, at) => Number(svg.dataset.left) +
    (at - svg.dataset.from) / (svg.dataset.to - svg.dataset.from) * (svg.dataset.right - svg.dataset.left);

  const tell = (svg, x) => {
    const at = epoch(svg, x);
    const rows = [...document.querySelectorAll("#steps tr")];
    const row = rows.filter((r) => Number(r.dataset.at) <= at).pop();
    const step = Number(svg.dataset.step);
    const [when, rate, bounds, n] = row && at - row.dataset.at < step
      ? [...row.cells].map((c) => c.textContent)
      : [new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC", "nothing scored", "", "0"];
    document.getElementById("readout").textContent = `${when}: ${rate}${bounds && ` (${bounds})`}, n ${n}`;
  };

  const text = (at) => new Date(Math.round(at) * 1000).toISOString().slice(0, 19);

  document.addEventListener("pointerdown", (at) => {
    const svg = chart(at);
    if (!svg || at.button !== 0 || at.pointerType === "touch") return;
    at.preventDefault();
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.classList.add("brush");
    mark.setAttribute("height", svg.viewBox.baseVal.height);
    svg.append(mark);
    brush = { svg, mark, x: at.clientX, from: epoch(svg, at.clientX), to: null };
  });

  document.addEventListener("pointermove", (at) => {
    const svg = brush ? brush.svg : chart(at);
    if (!svg) return;
    tell(svg, at.clientX);
    if (!brush) return;
    brush.to = Math.abs(at.clientX - brush.x) < 6 ? null : epoch(svg, at.clientX);
    const [a, b] = [brush.from, brush.to ?? brush.from].sort((x, y) => x - y).map((t) => place(svg, t));
    brush.mark.setAttribute("x", a);
    brush.mark.setAttribute("width", b - a);
  });

  document.addEventListener("pointerup", () => {
    if (!brush) return;
    const { mark, from, to } = brush;
    brush = null;
    mark.remove();
    if (to === null) return;
    const [a, b] = [from, to].sort((x, y) => x - y).map(text);
    location.search = new URLSearchParams({ from: a, to: b });
  });

  document.addEventListener("keydown", (at) => {
    if (at.key !== "Escape" || !brush) return;
    brush.mark.remove();
    brush = null;
  });

  document.addEventListener("dblclick", (at) => { if (chart(at)) document.getElementById("wider").click(); });
})();
