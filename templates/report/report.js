(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Theme: automatic, light, dark.
  const theme = $("#theme");
  const themes = ["automatic", "light", "dark"];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "automatic";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.textContent = `Theme: ${next}`;
  });

  // Copy the plan.
  const copy = $("#copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const text = $("#plan-text");
    try {
      await navigator.clipboard.writeText(text.textContent);
      copy.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(text);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      copy.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2500);
  });

  // The section that is read is marked in the navigation.
  const links = new Map(all("nav a").map((a) => [a.hash.slice(1), a]));
  if ("IntersectionObserver" in window) {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const a of links.values()) { a.classList.remove("here"); a.removeAttribute("aria-current"); }
        const a = links.get(entry.target.id);
        a.classList.add("here");
        a.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-15% 0px -75% 0px" });
    for (const section of all("main > section")) seen.observe(section);
  }

  // Details open for the printer.
  addEventListener("beforeprint", () => { for (const d of all("details")) d.open = true; });

  // The timeline.
  const data = JSON.parse($("#planner-slices").textContent);
  const { span, units } = data;
  const fine = units * 100;
  const column = (value, length) => (Array.isArray(value) ? value : Array(length).fill(value));
  const tracks = all(".tracks .track").map((svg, i) => {
    const slices = [];
    const bands = Math.max(0, ...(data.tracks[i] || []).map((row) => row.y)) + 1;
    for (const row of data.tracks[i] || []) {
      const n = row.s.length;
      const [busy, size, chunks] = [row.b, row.z, row.c].map((c) => column(c, n));
      let at = 0;
      row.s.forEach((step, k) => {
        at += step;
        slices.push({
          name: row.n, band: row.y, start: (at / fine) * span, end: ((at + row.l[k]) / fine) * span,
          busy: ((busy[k] || row.l[k]) / fine) * span, size: size[k], chunks: chunks[k],
        });
      });
    }
    slices.sort((a, b) => a.start - b.start);
    return { svg, slices, bands, kind: svg.classList.contains("measured") ? "measured" : "predicted", at: -1 };
  });
  const zoomed = all(".zoomed");
  const tip = $("#tip");
  let view = [0, span];

  const digits = (value, n = 4) => {
    const places = Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
    return value.toFixed(Math.min(places, 9));
  };
  const time = (s) => {
    if (!s) return "0 s";
    const [scale, unit] = Math.abs(s) >= 0.99995 ? [1, "s"] : Math.abs(s) >= 0.99995e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return `${digits(s / scale)} ${unit}`;
  };
  const scaled = (value, unit) => {
    for (const [scale, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (value >= scale) return `${digits(value / scale, 3)} ${prefix}${unit}`;
    }
    return `${Math.round(value)} ${unit}`;
  };
  const told = (track, slice) => {
    const lines = [`${slice.name} (${track.kind})`, `${time(slice.start)} – ${time(slice.end)}, ${time(slice.end - slice.start)}`];
    if (slice.size) lines.push(`${scaled(slice.size, "B")} at ${scaled(slice.size / (slice.busy || 1), "B/s")}`);
    const share = slice.end > slice.start ? slice.busy / (slice.end - slice.start) : 1;
    lines.push(`busy ${time(slice.busy)} (${Math.round(100 * Math.min(1, share))} %)${slice.chunks > 1 ? `, ${slice.chunks} chunks merged` : ""}`);
    return lines.join("\n");
  };

  const ticks = (from, to, most) => {
    const width = to - from;
    const power = 10 ** Math.floor(Math.log10(width / most));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s * most >= width) || width;
    const found = [];
    for (let t = Math.ceil(from / step) * step; t <= to * (1 + 1e-12); t += step) found.push(t);
    return found;
  };
  const SVG = "http://www.w3.org/2000/svg";
  const axis = $(".axis-row .axis");
  const drawAxis = () => {
    axis.replaceChildren();
    const most = Math.max(3, Math.floor(axis.clientWidth / 95));
    for (const t of ticks(view[0], view[1], most)) {
      const x = `${(100 * (t - view[0])) / (view[1] - view[0])}%`;
      const line = document.createElementNS(SVG, "line");
      for (const [k, v] of [["x1", x], ["x2", x], ["y1", 14], ["y2", 20]]) line.setAttribute(k, v);
      const text = document.createElementNS(SVG, "text");
      for (const [k, v] of [["x", x], ["y", 11], ["dx", 3]]) text.setAttribute(k, v);
      text.textContent = time(Math.abs(t) < span * 1e-12 ? 0 : t).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");
      if (parseFloat(x) < 96) axis.append(line, text); else axis.append(line);
    }
  };
  const show = (from, to) => {
    const least = span * 2e-4;
    const width = Math.min(span, Math.max(least, to - from));
    const start = Math.min(Math.max(0, (from + to - width) / 2), span - width);
    view = [start, start + width];
    const box = `${(start / span) * units} 0 ${(width / span) * units} 20`;
    for (const svg of zoomed) svg.setAttribute("viewBox", box);
    for (const { svg, slices } of tracks) {
      // Edges help where slices are wide, and would hide them where they are not.
      const seen = slices.filter((s) => s.end > view[0] && s.start < view[1]).length;
      svg.classList.toggle("close", seen * 8 < svg.clientWidth);
    }
    $("#window").textContent = width < span ? `${time(view[0])} – ${time(view[1])}` : "";
    drawAxis();
  };
  const zoom = (factor, centre = (view[0] + view[1]) / 2) => {
    show(centre - (centre - view[0]) / factor, centre + (view[1] - centre) / factor);
  };
  const pan = (share) => {
    const by = (view[1] - view[0]) * share;
    const width = view[1] - view[0];
    const start = Math.min(Math.max(0, view[0] + by), span - width);
    show(start, start + width);
  };

  const mark = (track, slice) => {
    for (const old of all(".track .mark")) old.remove();
    if (!slice) return;
    const box = document.createElementNS(SVG, "rect");
    const x = (slice.start / span) * units;
    const attributes = { class: "mark", x, y: 1, width: Math.max(((slice.end - slice.start) / span) * units, 1), height: 18 };
    for (const [k, v] of Object.entries(attributes)) box.setAttribute(k, v);
    track.svg.append(box);
  };
  const place = (x, y) => {
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
  };
  const hide = () => { tip.hidden = true; mark(); };
  const nearest = (track, t, y) => {
    const reach = ((view[1] - view[0]) / track.svg.clientWidth) * 4;
    let best = -1, far = reach;
    const box = track.svg.getBoundingClientRect();
    const band = Math.min(track.bands - 1, Math.max(0, Math.floor(((y - box.top) / box.height) * track.bands)));
    track.slices.forEach((slice, i) => {
      if (slice.band !== band) return;
      const off = t < slice.start ? slice.start - t : t > slice.end ? t - slice.end : 0;
      if (off < far || (off === 0 && best < 0)) { best = i; far = off; }
    });
    return best;
  };
  const explain = (track, i, x, y) => {
    const slice = track.slices[i];
    if (!slice) { hide(); return; }
    track.at = i;
    tip.textContent = told(track, slice);
    mark(track, slice);
    place(x, y);
  };
  const instant = (track, clientX) => {
    const box = track.svg.getBoundingClientRect();
    return view[0] + ((clientX - box.left) / box.width) * (view[1] - view[0]);
  };
  const step = (track, i) => {
    const at = Math.min(Math.max(0, i), track.slices.length - 1);
    const slice = track.slices[at];
    if (!slice) return;
    const width = view[1] - view[0];
    if (slice.start < view[0] || slice.end > view[1]) {
      const middle = (slice.start + slice.end) / 2;
      show(middle - width / 2, middle + width / 2);
    }
    const box = track.svg.getBoundingClientRect();
    const share = ((slice.start + slice.end) / 2 - view[0]) / (view[1] - view[0]);
    explain(track, at, box.left + Math.min(1, Math.max(0, share)) * box.width, box.bottom - 10);
  };

  tracks.forEach((track, number) => {
    const { svg } = track;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => {
      explain(track, nearest(track, instant(track, event.clientX), event.clientY), event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) step(track, Math.max(0, track.at)); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const lane = tracks.filter((t) => t.svg.parentNode === svg.parentNode);
      const other = lane[(lane.indexOf(track) + 1) % lane.length];
      const acts = {
        ArrowRight: () => step(track, track.at + 1), ArrowLeft: () => step(track, track.at - 1),
        Home: () => step(track, 0), End: () => step(track, Infinity),
        ArrowUp: () => other.svg.focus(), ArrowDown: () => other.svg.focus(),
        "+": () => { const s = track.slices[track.at]; zoom(2, s ? (s.start + s.end) / 2 : undefined); step(track, track.at); },
        "-": () => { zoom(0.5); step(track, track.at); }, "0": () => { show(0, span); step(track, track.at); }, Escape: hide,
      };
      acts["="] = acts["+"];
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : acts[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    svg.dataset.number = number;
  });
  const lanes = $(".lanes");
  lanes.addEventListener("wheel", (event) => {
    const track = tracks.find((t) => t.svg === event.target.closest(".track")) || tracks[0];
    if (!track || !event.target.closest(".tracks, .phases") || event.shiftKey) return;
    if (event.deltaY > 0 && view[1] - view[0] >= span) return; // nothing left to zoom out of: scroll
    event.preventDefault();
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (by) pan(Math.sign(event.deltaX) * 0.08);
    else zoom(event.deltaY < 0 ? 1.25 : 0.8, instant(track, event.clientX));
    hide();
  }, { passive: false });
  const acts = { in: () => zoom(2), out: () => zoom(0.5), left: () => pan(-0.4), right: () => pan(0.4), all: () => show(0, span) };
  for (const button of all("[data-zoom]")) button.addEventListener("click", () => acts[button.dataset.zoom]());
  $("#zoom").hidden = false;
  $("#lane-help").hidden = false;
  addEventListener("resize", drawAxis);
  show(0, span);
})();
