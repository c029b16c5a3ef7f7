// Keeps the page fresh without losing the place, shows times in the reader's zone, copies texts.
"use strict";
(() => {
  const root = document.documentElement;
  const every = 1_000 * root.dataset.every;
  const banner = document.getElementById("stale");
  const made = document.getElementById("made");
  const zone = document.getElementById("zone");
  let tag = null;
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  let madeAt = Date.parse(made.dateTime);
  let isLocal = true;
  try { isLocal = localStorage.getItem("groundwatch.zone") !== "UTC"; } catch { /* not allowed */ }

  // Times. The page says UTC; what it said is kept, so that both can be shown.
  const two = (n) => String(n).padStart(2, "0");
  const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const local = (at, seconds) => {
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? ":" + two(at.getSeconds()) : ""}`;
    return day(at) === day(new Date(madeAt)) ? clock : `${day(at)} ${clock}`;
  };
  const utc = /(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d)(:\d\d)? UTC/g;
  const translated = (said) => said.replace(utc, (_, date, clock, seconds) => {
    date = date || new Date(madeAt).toISOString().slice(0, 10);
    return local(new Date(`${date}T${clock}${seconds || ":00"}Z`), seconds);
  });
  window.groundwatchTime = (at) => {
    const said = `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    return isLocal ? translated(said) : said;
  };
  const texts = (from) => {
    const walker = document.createTreeWalker(from, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    return found;
  };
  const showTimes = () => {
    document.querySelectorAll("time.at, .utc, .readout").forEach((shown) => texts(shown).forEach((node) => {
      node.said ??= node.data;
      node.data = isLocal ? translated(node.said) : node.said;
    }));
    document.querySelectorAll("svg .tick[data-at]").forEach((tick) => {
      tick.said ??= tick.textContent;
      const at = new Date(tick.dataset.at * 1000), date = at.toLocaleDateString("en", { month: "short", day: "2-digit" });
      const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
      const parts = tick.said.split(":").length;
      tick.textContent = !isLocal ? tick.said : /[A-Z]/.test(tick.said) ? `${date} ${clock}`
        : parts > 2 ? `${clock}:${two(at.getSeconds())}` : clock;
    });
    document.querySelectorAll("input.moment").forEach((input) => {
      input.said ??= input.value;
      const at = new Date(`${input.said.replace(" ", "T")}Z`);
      input.value = isLocal && !isNaN(at) ? `${day(at)} ${two(at.getHours())}:${two(at.getMinutes())}` : input.said;
    });
    document.querySelectorAll(".zone-name").forEach((shown) => { shown.textContent = isLocal ? here : "UTC"; });
    zone.textContent = isLocal ? "Show UTC" : "Show local time";
  };
  zone.addEventListener("click", () => {
    isLocal = !isLocal;
    try { localStorage.setItem("groundwatch.zone", isLocal ? "local" : "UTC"); } catch { /* not allowed */ }
    showTimes();
  });
  document.addEventListener("submit", (sent) => sent.target.querySelectorAll("input.moment").forEach((input) => {
    const at = new Date(input.value.trim().replace(" ", "T"));
    if (isLocal && !isNaN(at)) input.value = at.toISOString().slice(0, 16);
  }));
  zone.hidden = /UTC$/.test(here);

  const busy = () => {
    const at = document.activeElement;
    return document.hidden || String(getSelection()) !== "" ||
      (at && ["INPUT", "BUTTON", "SELECT", "TEXTAREA"].includes(at.tagName));
  };

  const show = () => {
    const age = Math.max(0, Math.round((Date.now() - madeAt) / 1000));
    made.textContent = "updated " + (age < 120 ? age + " s" : Math.round(age / 60) + " min") + " ago";
    banner.hidden = age < 60;
  };

  const replace = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const open = [...document.querySelectorAll("details")].map((d) => d.open);
    document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
    document.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
    document.title = fresh.title;
    document.querySelector("link[rel=icon]").href = fresh.querySelector("link[rel=icon]").href;
    showTimes();
    offerCopies();
  };

  const refresh = async () => {
    if (busy()) return;
    const headers = tag ? { "If-None-Match": tag } : {};
    try {
      const answer = await fetch(location.href, { headers, cache: "no-store" });
      if (answer.status === 200) replace(await answer.text());
      else if (answer.status !== 304) return;
      tag = answer.headers.get("ETag");
      madeAt = Date.parse(answer.headers.get("X-Groundwatch-Made-At")) || madeAt;
    } catch { /* the banner says it */ }
    show();
  };

  const offerCopies = () => document.querySelectorAll("button.copy").forEach((button) => {
    button.hidden = !navigator.clipboard;
    button.onclick = async () => {
      const answer = await fetch(button.dataset.copy);
      await navigator.clipboard.writeText(await answer.text());
      button.textContent = "Copied";
    };
  });

  if (root.dataset.refresh === "yes") setInterval(refresh, every);
  setInterval(show, 1_000);
  show();
  showTimes();
  offerCopies();
})();
