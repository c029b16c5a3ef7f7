// Keeps the page fresh without losing the place, and says so when it no longer is.
"use strict";
(() => {
  const root = document.documentElement;
  const every = 1_000 * root.dataset.every;
  const banner = document.getElementById("stale");
  const made = document.getElementById("made");
  let tag = null;
  let madeAt = Date.parse(made.dateTime);

  const busy = () => {
    const at = document.activeElement;
    return document.hidden || String(getSelection()) !== "" ||
      (at && (at.tagName === "INPUT" || at.tagName === "BUTTON"));
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

  if (root.dataset.refresh === "yes") setInterval(refresh, every);
  setInterval(show, 1_000);
  show();
})();
