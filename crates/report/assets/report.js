// Without this script everything can be read; it adds forwarding, the sidebar that follows, filters and values under the pointer.
const $ = (selector, of = document) => of.querySelector(selector);
const $$ = (selector, of = document) => [...of.querySelectorAll(selector)];

// Links from outside that name a claim, an analysis, a figure or a table lead to the page that has it now.
const forward = () => {
  const name = decodeURIComponent(location.hash.slice(1)).replace(/[^A-Za-z0-9-]/g, "-");
  if (!name || document.getElementById(name)) return;
  if (!Object.keys(PLACES).length) return;
  if (name === "ledger") return location.replace("ledger.html");
  if (name === "undefined") return location.replace("ledger.html#show=measured");
  const page = Object.keys(PLACES).find((page) => PLACES[page].split(" ").includes(name));
  if (page) location.replace(`${page}#${name}`);
};
forward();
addEventListener("hashchange", forward);

// The contents: beside the text where there is room, behind one word elsewhere.
const menu = $(".sidebar details");
const wide = matchMedia("(min-width: 72rem)");
const fold = () => (menu.open = wide.matches);
fold();
wide.addEventListener("change", fold);
$(".sidebar").addEventListener("click", (event) => {
  if (event.target.closest("a") && !wide.matches) menu.open = false;
});
// The section that is being read is marked, and kept in sight within the contents.
const stops = $$('.sidebar a[href^="#"]').map((link) => [link, document.getElementById(link.hash.slice(1))]);
let marked = null;
const follow = () => {
  const line = innerHeight * 0.3;
  const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
  const passed = stops.filter(([, section]) => section && (end ? section.getBoundingClientRect().top < innerHeight : section.getBoundingClientRect().top <= line));
  const link = scrollY < 40 ? null : passed.at(-1)?.[0] ?? null;
  if (link === marked) return;
  marked?.removeAttribute("aria-current");
  link?.setAttribute("aria-current", "true");
  marked = link;
  if (!link || !wide.matches) return;
  const { scroller, top, bottom } = { scroller: $(".sidebar"), ...link.getBoundingClientRect().toJSON() };
  if (top < 60 || bottom > innerHeight - 60) scroller.scrollTop += top - innerHeight / 2;
};
let due = false;
const soon = () => {
  if (due) return;
  due = true;
  requestAnimationFrame(() => ((due = false), follow()));
};
addEventListener("scroll", soon, { passive: true });
addEventListener("resize", soon);
follow();

// Filters of the page of all claims; their state is in the address, so that a link can name it.
const filters = $(".filters");
if (filters) {
  filters.hidden = false;
  const state = { verdict: "", kind: "" };
  const apply = () => {
    for (const button of $$("button", filters))
      button.setAttribute("aria-pressed", String(state[button.parentElement.dataset.field] === button.dataset.show));
    let count = 0;
    for (const group of $$("#ledger tbody")) {
      let shown = 0;
      for (const row of $$("tr[data-verdict]", group)) {
        row.hidden = Object.keys(state).some((field) => state[field] && state[field] !== row.dataset[field]);
        shown += !row.hidden;
      }
      group.hidden = !shown;
      count += shown;
    }
    $("output", filters).textContent = `${count} ${count === 1 ? "claim" : "claims"} shown`;
  };
  const read = () => {
    // What earlier reports called undefined is measured.
    const wanted = location.hash.match(/^#show=([\w,]+)$/)?.[1].replace("undefined", "measured").split(",") ?? [];
    for (const field in state)
      state[field] = wanted.find((word) => $(`[data-field="${field}"] [data-show="${word}"]`, filters)) ?? "";
    apply();
  };
  filters.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    state[button.parentElement.dataset.field] = button.dataset.show;
    apply();
    const words = Object.values(state).filter(Boolean).join(",");
    history.replaceState(null, "", words ? `#show=${words}` : location.pathname);
  });
  addEventListener("hashchange", read);
  read();
}

// A report that is still growing is read again every ten seconds, but never from under a reader who has scrolled.
if ($(".running"))
  setInterval(() => document.visibilityState === "visible" && scrollY < 200 && location.reload(), 10000);

// Only tables that scroll are stops of the keyboard.
const reach = () => {
  for (const box of $$(".scroll"))
    box.scrollWidth > box.clientWidth + 1 ? (box.tabIndex = 0) : box.removeAttribute("tabindex");
};
reach();
addEventListener("resize", reach);

// On paper nothing is folded away, and the words come last.
const words = $(".glossary");
const after = words.nextSibling;
let folded = [];
addEventListener("beforeprint", () => {
  folded = $$("main details:not([open])");
  for (const box of folded) box.open = true;
  $("main").append(words);
});
addEventListener("afterprint", () => {
  for (const box of folded) box.open = false;
  after.before(words);
});

// Values under the pointer, also by touch: a cell of a map, or the nearest point of a curve.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
const parsed = new WeakMap();
const points = (svg) => {
  if (!parsed.has(svg))
    parsed.set(svg, $$("[data-points]", svg).flatMap((of) =>
      of.dataset.points.split(" ").filter(Boolean).map((text) => {
        const [x, y, ...values] = text.split(",");
        return { x: Number(x), y: Number(y), values, of };
      })));
  return parsed.get(svg);
};
const near = (svg, event) => {
  const to = svg.getScreenCTM();
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(to.inverse());
  let best = null;
  let least = (14 / to.a) ** 2;
  for (const point of points(svg)) {
    const distance = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  if (!best) return "";
  const { series, x, y } = best.of.dataset;
  const [atX, atY, low, high] = best.values;
  return `${series ? `${series}\n` : ""}${x}: ${atX}\n${y}: ${atY}${low ? ` [${low}, ${high}]` : ""}`;
};
const cell = (map, event) => {
  const box = map.getBoundingClientRect();
  const [columns, rows] = [map.dataset.columns.split(" "), map.dataset.rows.split(" ")];
  const column = Math.min(columns.length - 1, Math.floor(((event.clientX - box.left) / box.width) * columns.length));
  const row = Math.min(rows.length - 1, Math.floor(((box.bottom - event.clientY) / box.height) * rows.length));
  const value = map.dataset.cells.split(" ")[row * columns.length + column];
  const best = map.dataset.best.split(" ")[column] === String(row) ? "\nbest match of this column" : "";
  return `${map.dataset.x}: ${columns[column]}\n${map.dataset.y}: ${rows[row]}\n${map.dataset.value}: ${value}${best}`;
};
addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.(".panel svg");
  const map = svg && event.target.closest("[data-cells]");
  const own = svg && $(":scope > title", event.target)?.textContent;
  const text = map ? cell(map, event) : own || (svg && near(svg, event));
  tip.hidden = !text;
  if (tip.hidden) return;
  tip.textContent = text;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const right = event.clientX + 14 + width < document.documentElement.clientWidth;
  const left = right ? event.clientX + 14 : Math.max(6, event.clientX - 14 - width);
  const above = event.clientY - height - 12;
  tip.style.transform = `translate(${left}px, ${above > 4 ? above : event.clientY + 18}px)`;
});
addEventListener("scroll", () => (tip.hidden = true), { passive: true });
