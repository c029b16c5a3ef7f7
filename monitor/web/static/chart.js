// Charts of pass rates: a crosshair with the values under the pointer; dragging selects a range.
"use strict";
(() => {
  const chart = (at) => at.target.closest && at.target.closest("svg.series");
  const number = (svg, name) => Number(svg.dataset[name]);
  let brush = null, cross = null;

  const epoch = (svg, x) => {
    const box = svg.getBoundingClientRect(), left = number(svg, "left");
    const at = (x - box.left) / box.width * svg.viewBox.baseVal.width;
    const share = Math.min(1, Math.max(0, (at - left) / (number(svg, "right") - left)));
    return number(svg, "from") + share * (number(svg, "to") - number(svg, "from"));
  };

  const place = (svg, at) => number(svg, "left") + (at - number(svg, "from")) /
    (number(svg, "to") - number(svg, "from")) * (number(svg, "right") - number(svg, "left"));

  const drawn = (svg, name, attributes) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => shape.setAttribute(key, value));
    svg.append(shape);
    return shape;
  };

  const tell = (svg, x) => {
    const step = number(svg, "step"), i = Math.floor((epoch(svg, x) - number(svg, "from")) / step);
    const begin = number(svg, "from") + i * step;
    const found = (svg.dataset.values || "").split(" ").map((v) => v.split(",")).find((v) => Number(v[0]) === i);
    if (cross) cross.remove();
    const across = place(svg, Math.min(number(svg, "to"), begin + step / 2));
    cross = drawn(svg, "line", { class: "cross", x1: across, x2: across, y1: 0, y2: svg.viewBox.baseVal.height });
    const readout = svg.parentElement.querySelector(".readout");
    if (!readout) return;
    const said = found ? `${found[1]} % (${found[2]}–${found[3]}), n ${found[4]}` : "nothing scored, n 0";
    readout.textContent = `${window.groundwatchTime(begin)}: ${said}`;
  };

  const text = (at) => new Date(Math.round(at) * 1000).toISOString().slice(0, 19);

  document.addEventListener("pointerdown", (at) => {
    const svg = chart(at);
    if (!svg || at.button !== 0 || at.pointerType === "touch" || !document.getElementById("wider")) return;
    at.preventDefault();
    const mark = drawn(svg, "rect", { class: "brush", height: svg.viewBox.baseVal.height });
    brush = { svg, mark, x: at.clientX, from: epoch(svg, at.clientX), to: null };
  });

  document.addEventListener("pointermove", (at) => {
    const svg = brush ? brush.svg : chart(at);
    if (!svg) { if (cross) cross.remove(); return; }
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

  document.addEventListener("dblclick", (at) => {
    const wider = document.getElementById("wider");
    if (chart(at) && wider) wider.click();
  });
})();
