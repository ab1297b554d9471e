// Filters of the ledger; without this script the whole ledger is shown.
const ledger = document.getElementById("ledger");
const filters = ledger.querySelector(".filters");
filters.hidden = false;
filters.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  ledger.dataset.filter = button.dataset.show;
  for (const other of filters.children) other.setAttribute("aria-pressed", String(other === button));
});
// A link to a row that a filter hides shows all rows again.
addEventListener("hashchange", () => {
  const row = document.getElementById(location.hash.slice(1));
  if (row && row.closest("#ledger") && !row.offsetParent) filters.children[0].click();
});
// A report that is still growing is read again every ten seconds, but never from under a reader who has scrolled.
if (document.querySelector(".running"))
  setInterval(() => document.visibilityState === "visible" && scrollY < 200 && location.reload(), 10000);
// Values under the pointer at once, also by touch; without this script the browser's own tooltips show them.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
addEventListener("pointerover", (event) => {
  const mark = event.target.closest?.(".panel svg *");
  const title = mark?.querySelector(":scope > title");
  if (title) {
    mark.dataset.tip = title.textContent;
    title.remove();
  }
});
addEventListener("pointermove", (event) => {
  const text = event.target.closest?.(".panel svg *")?.dataset.tip;
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
